"""Large scans in blocks: patterns of a block, joining of blocks, and independence of their order."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.likelihood import N, Scan, distance, illuminated_mask, likelihood_of

from ptycho.reconstruction import blocks
from ptycho.reconstruction.blocks import Blockwise, Task, cut, divide, fit_in_blocks, serial, solve_task
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.selection import ModelOptions
from ptycho.reconstruction.solver import OBJECT_ALONE, Fit, FitOptions, Objective, fit
from ptycho.run.folder import FileCache
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import ProbeSupport

MOST = 40  # patterns of a block's own


@pytest.fixture(scope="module")
def scan():
    """144 patterns at random positions in a rectangle."""
    scan = Scan.of(np.random.default_rng(1), 1e5, count=12, step=2.2)
    return replace(scan, positions=np.random.default_rng(5).permutation(scan.positions))


@pytest.fixture(scope="module")
def data(scan):
    return scan.dataset(np.random.default_rng(2))


@pytest.fixture(scope="module")
def objective(data):
    return Objective(likelihood_of(data), Prior("edge_preserving", 3.0))


@pytest.fixture(scope="module")
def found(scan, objective):
    f = objective.likelihood.normalisation
    return fit_in_blocks(objective, scan.rough(f), OBJECT_ALONE, 40, Blockwise(MOST))


def test_every_pattern_is_one_blocks_own_and_lies_in_its_window(scan):
    """A block has the patterns within the reach of the rectangle of its own, and no others."""
    estimate = scan.estimate(1.0)
    reach = blocks.energy_diameter(estimate.modes) / 2
    parts = divide(estimate, MOST)
    own = np.concatenate([part.patterns[part.own] for part in parts])
    np.testing.assert_array_equal(np.sort(own), np.arange(144))
    assert len(parts) == 4 and {int(part.own.sum()) for part in parts} == {36}
    for part in parts:
        assert len(part.patterns) > 36  # some around it
        own = estimate.positions[part.patterns[part.own]]
        low, high = own.min(axis=0) - reach, own.max(axis=0) + reach
        near = np.all((estimate.positions >= low) & (estimate.positions <= high), axis=1)
        np.testing.assert_array_equal(part.patterns, np.flatnonzero(near))
        inside = cut(estimate, part)
        assert inside.object.shape == part.shape
        assert inside.positions.min() >= 0
        assert np.all(np.ceil(inside.positions.max(axis=0)) + N <= part.shape)


def test_blocks_of_any_phase_and_scale_are_brought_together(scan):
    rng, estimate = np.random.default_rng(3), scan.estimate(1.0)
    parts = divide(estimate, 20)
    factors = rng.uniform(0.8, 1.25, len(parts)) * np.exp(1j * rng.uniform(-3, 3, len(parts)))
    alone_ = [cut(estimate, part) for part in parts]
    fits = []
    for z, one in zip(factors, alone_, strict=True):
        other = replace(one, object=(z * one.object).astype(np.complex64), flux=one.flux / abs(z))
        fits.append(Fit(other, [0.0], 1, True))
    scale = blocks._together(fits, parts, True)
    rest = scale * factors
    assert np.abs(rest / rest[0] - 1).max() < 1e-3
    joined = blocks._joined(estimate, fits, parts, scale)
    illuminated = illuminated_mask(scan, 0.01)
    assert distance(joined.object, scan.object, illuminated) < 1e-3
    np.testing.assert_allclose(joined.flux, joined.flux[0], rtol=2e-3)
    far = np.abs(joined.object * joined.flux[0])[illuminated]
    np.testing.assert_allclose(far, np.abs(scan.object)[illuminated], rtol=2e-3)
    np.testing.assert_allclose(joined.positions, estimate.positions, atol=1e-9)


def test_blocks_come_to_what_the_whole_comes_to(scan, objective, found):
    whole = fit(objective, scan.rough(objective.likelihood.normalisation), OBJECT_ALONE, 60).estimate
    illuminated = illuminated_mask(scan)
    at_once, in_blocks = (distance(one.object, scan.object, illuminated) for one in (whole, found.estimate))
    assert in_blocks < 1.05 * at_once + 1e-3
    assert distance(found.estimate.object, whole.object, illuminated) < 0.5 * at_once


def test_positions_of_a_blocks_own_are_found(scan, data):
    nominal = scan.positions + np.random.default_rng(7).normal(0, 0.4, scan.positions.shape)
    moved = data.under(replace(data.beam, positions=np.clip(nominal, 0, None).astype(np.float32)))
    likelihood = likelihood_of(moved)
    start = replace(scan.rough(likelihood.normalisation), positions=moved.positions.astype(float))
    refine = Refine(False, positions=True)
    objective = Objective(likelihood, Prior("edge_preserving", 3.0))
    found = fit_in_blocks(objective, start, refine, 60, Blockwise(MOST))
    errors = [r - scan.positions for r in (start.positions, found.estimate.positions)]
    before, after = (np.sqrt(np.mean((e - e.mean(axis=0)) ** 2)) for e in errors)
    assert after < 0.4 * before


def sent(value):
    return pickle.loads(pickle.dumps(value))


def backwards(tasks, advance):
    """Run the last block first, each sent as bytes, as an executor with other processes does."""
    done = [sent(solve_task(sent(make().in_memory()))) for make in tasks[::-1]]
    return iter(done[::-1])


def test_who_fits_the_blocks_does_not_matter(scan, objective, found):
    start = scan.rough(objective.likelihood.normalisation)
    again = fit_in_blocks(objective, start, OBJECT_ALONE, 40, Blockwise(MOST, backwards))
    np.testing.assert_array_equal(again.estimate.object, found.estimate.object)
    assert again.course == found.course


def test_a_stopped_fit_goes_on_to_the_same_bits(scan, objective, found, tmp_path):
    cache, solved = FileCache(tmp_path / "blocks"), []

    def stops(tasks, advance):
        for make in tasks:
            if len(solved) == 6:
                raise KeyboardInterrupt
            solved.append(1)
            yield solve_task(make())

    start = scan.rough(objective.likelihood.normalisation)
    with pytest.raises(KeyboardInterrupt):
        fit_in_blocks(objective, start, OBJECT_ALONE, 40, Blockwise(MOST, stops, cache))
    assert len(list((tmp_path / "blocks").glob("*.npz"))) == 6
    left = []

    def counts(tasks, advance):
        left.append(len(tasks))
        return serial(tasks, advance)

    again = fit_in_blocks(objective, start, OBJECT_ALONE, 40, Blockwise(MOST, counts, cache))
    assert left == [0, 2]
    np.testing.assert_array_equal(again.estimate.object, found.estimate.object)
    # another task does not take what is there
    other = replace(objective, prior=Prior("edge_preserving", 10.0))
    fit_in_blocks(other, start, OBJECT_ALONE, 40, Blockwise(MOST, counts, cache), blocks.FROM_NOTHING[:1])
    assert left[-1] == 4
    cache.remove()
    assert not (tmp_path / "blocks").exists()


def test_the_solver_takes_blocks_where_a_scan_is_large(scan, data):
    options = ModelOptions(
        prior="edge_preserving", strength=3.0, probe=True, positions=False, flux=False, background=False
    )
    used = []
    found = solve(data, options, 0, False, used.append, blockwise=Blockwise(MOST))
    assert len(found.fit.course) == 2 and sum(used) > 144
    assert distance(found.estimate.object, scan.object, illuminated_mask(scan)) < 0.05


def test_the_point_spread_of_a_scan_in_blocks_is_that_of_its_middle(scan):
    data = replace(scan, point_spread=(0.6, 0.6)).dataset(np.random.default_rng(5))
    known = dict.fromkeys(("probe", "positions", "flux", "background"), False)
    options = ModelOptions(prior="edge_preserving", strength=3.0, **known)
    found = solve(data, options, 0, False, blockwise=Blockwise(MOST))
    np.testing.assert_allclose(np.abs(found.estimate.point_spread), 0.6, atol=0.06)
    assert distance(found.estimate.object, scan.object, illuminated_mask(scan)) < 0.07


def in_a_file(path, seed):
    """Write the weights of a network into a file."""
    np.savez(path, weight=np.random.default_rng(seed).normal(size=3))
    return StoredNetwork(path)


def test_whatever_decides_a_fit_makes_it_another_task(scan, objective, tmp_path):
    """A count of one pixel, mask, support, distance of a near field, start, options, weights of a network."""
    likelihood, data = objective.likelihood, objective.likelihood.data
    task = Task(blocks.finish, objective, scan.rough(likelihood.normalisation), OBJECT_ALONE, 40)
    counts = np.array(data.amplitudes[:])
    counts[3, 5, 7] += 1
    good = np.ones((data.N, data.N), bool)
    good[2, 3] = False
    network = in_a_file(tmp_path / "weights.npz", 1)
    learned = replace(objective, learned=Learned(network, 2.0))

    def of(changed, fit=blocks.finish):
        return blocks.digest_of_task(replace(task, objective=changed, fit=fit))

    def of_data(**changes):
        return of(replace(objective, likelihood=replace(likelihood, data=replace(data, **changes))))

    digests = [
        of(objective),
        of_data(amplitudes=Patterns(counts)),
        of_data(good=good),
        of_data(fresnel=(0.5, 0.25)),
        of(replace(objective, support=ProbeSupport(good))),
        of(replace(objective, prior=Prior("edge_preserving", 3.5))),
        of(learned),
        of(objective, partial(blocks.begin, projected=True)),
        of(replace(objective, options=FitOptions(window=4))),
    ]
    in_a_file(tmp_path / "weights.npz", 2)  # other weights in the same place
    digests += [of(learned)]
    assert len(set(digests)) == len(digests)
    same = replace(likelihood, data=replace(data, amplitudes=Patterns(np.array(data.amplitudes[:]))))
    assert of(replace(objective, likelihood=same)) == digests[0]
