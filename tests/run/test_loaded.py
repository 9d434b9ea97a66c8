"""A trained network, loaded and used: the same bits, scans of other sizes, hostile input."""

import shutil

import numpy as np
import pytest
from helpers.cli import fresh

import ptycho
from conftest import small_run
from ptycho.config import ConfigError, UNetModel, UnrolledModel, XlaConfig
from ptycho.networks.layers import get_weights, set_weights
from ptycho.run.folder import RunFolder
from ptycho.run.network import read_network, regular_offsets, setup_of, write_network
from ptycho.scan.dataset_file import to_arrays
from ptycho.simulation.simulate import simulate
from ptycho.training.competitors import COMPETITORS, geometry_of
from workflows.reconstruct.grid_lines import predict_regions

TEST = "datasets/N32/gs2/test.npz"
NEEDED = ("config.yaml", "pinn/weights.npz", "pinn/model.json", "pinn/setup.npz")


def copied(run, folder, names=("pinn", "baseline")):
    for name in names:
        for file in NEEDED:
            target = folder / file.replace("pinn", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(run / file.replace("pinn", name), target)
    return folder


def untrained(folder, data, rng=None, name="pinn", **changes):
    """Write a run with one network, initial or random, as it would be stored after training on ``data``."""
    config, run = small_run(models=(name,), **changes), RunFolder(folder)
    view = COMPETITORS[name].view(config, data)
    geometry = geometry_of(view)
    network = COMPETITORS[name].build(config, geometry)
    if rng is not None:
        noise = {k: rng.normal(0, 0.05, v.shape).astype(v.dtype) for k, v in get_weights(network).items()}
        set_weights(network, {k: v + noise[k] for k, v in get_weights(network).items()})
    run.config(config)
    write_network(run, name, get_weights(network), {}, [])
    offsets = regular_offsets(config.offset, view.group_size)
    run.arrays(f"{name}/setup.npz", setup_of(view, offsets, geometry.support).arrays())
    return run.path, network


@pytest.fixture(scope="module")
def untrained_xla(tmp_path_factory, datasets):
    """A run under XLA whose PINN has random weights, and its own predictions on the test scan."""
    run, network = untrained(
        tmp_path_factory.mktemp("xla"),
        datasets["train"],
        np.random.default_rng(1),
        model=UnrolledModel(stages=1, width=4),
        xla=XlaConfig(),
    )
    return run, predict_regions(network, datasets["test"], 4, compile_xla=True)


@pytest.fixture(scope="module")
def loaded(trained_run):
    return {name: ptycho.load_model(trained_run, name) for name in ("pinn", "baseline")}


# ---- the same bits


RELOAD = """
import sys
import numpy as np
import ptycho
from ptycho.scan.dataset_file import load_dataset
run, scan, xla_run, xla_scan, target = sys.argv[1:]
out = {name: ptycho.load_model(run, name).reconstruct(scan).objects for name in ("pinn", "baseline")}
data = load_dataset(xla_scan)
patterns = data.amplitudes[data.groups]
out["xla"] = ptycho.load_model(xla_run).predict(patterns, normalisation=data.normalisation)
np.savez(target, **out)
"""


def test_a_fresh_process_predicts_the_same_bits(trained_run, untrained_xla, datasets, tmp_path):
    moved = copied(trained_run, tmp_path / "moved")
    (xla, regions), out = untrained_xla, tmp_path / "out.npz"
    np.savez(tmp_path / "scan.npz", **to_arrays(datasets["test"]))
    done = fresh(tmp_path, "-c", RELOAD, moved, trained_run / TEST, xla, tmp_path / "scan.npz", out)
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        for name in ("pinn", "baseline"):
            with np.load(trained_run / "recons" / name / "recon.npz") as recon:
                assert recon["object"].shape == (2, 96, 96) and recon["object"].std() > 0
                np.testing.assert_array_equal(found[name], recon["object"], err_msg=name)
        np.testing.assert_array_equal(found["xla"], regions)


# ---- scans of other sizes


OTHER_SIZES = [{"gridsize": 3, "offset": 5}, {"gridsize": 1, "N": 64, "size": 128}]


@pytest.mark.parametrize("changes", OTHER_SIZES, ids=str)
def test_weights_that_fit_any_scan(trained_run, loaded, changes):
    """An unrolled network trained on N = 32 and groups of four, on another N and on other groups."""
    scan, model = simulate(small_run(**changes))[0]["val"], loaded["pinn"]
    assert model.fixed == {}
    network = COMPETITORS["pinn"].build(model.config, geometry_of(scan))
    set_weights(network, read_network(trained_run, "pinn").weights)
    regions = np.empty((scan.n_groups, scan.region_size, scan.region_size), np.complex64)
    model.predict_regions(model.view(scan), regions)
    np.testing.assert_array_equal(regions, predict_regions(network, scan, 4, compile_xla=False))
    found = model.predict(
        scan.amplitudes[scan.groups],
        scan.offsets,
        scan.probe[0],
        photon_scale=scan.photon_scale,
        normalisation=scan.normalisation,
    )
    assert found.shape[1] == max(scan.region_size, scan.N + 4)  # the run's regions are 4 pixels wider than N
    if found.shape == regions.shape:
        np.testing.assert_array_equal(found, regions)


@pytest.mark.parametrize(
    "name, changes, fixed", [("pinn", {"model": UNetModel(1)}, ("N", "group_size")), ("baseline", {}, ("N",))]
)
def test_weights_that_are_bound_to_sizes(tmp_path, datasets, name, changes, fixed):
    run, _ = untrained(tmp_path, datasets["train"], name=name, xla=XlaConfig(compile=False), **changes)
    model = ptycho.load_model(run, name)
    assert tuple(model.fixed) == fixed
    own = ", ".join(f"{key}={value}" for key, value in model.fixed.items())
    with pytest.raises(ConfigError, match=rf"the data have N=64.*; {name} was trained for {own}$"):
        model.reconstruct(simulate(small_run(N=64, size=128))[0]["val"])
    C = model.setup.group_size
    with pytest.raises(ConfigError, match=r"patterns has shape .*; must be \(G, .*, 32, 32\)"):
        model.predict(np.ones((2, C, 64, 64), np.float32))
    if "group_size" in fixed:
        with pytest.raises(ConfigError, match=r"the data have N=32, group_size=1; pinn was trained for"):
            model.reconstruct(simulate(small_run(gridsize=1))[0]["val"])
        with pytest.raises(ConfigError, match=r"must be \(G, 4, 32, 32\)"):
            model.predict(np.ones((2, 3, 32, 32), np.float32))


# ---- inputs that are refused

P = np.ones((3, 4, 32, 32), np.float32)
WRONG = [
    (lambda m: m.predict(P, batch_size=0), r"batch_size=0: must be an integer >= 1"),
    (lambda m: m.predict(P, np.zeros((3, 2))), r"offsets has shape \(3, 2\); must be \(3, 4, 2\) or"),
    (lambda m: m.predict(P * 1j), r"patterns has dtype complex64; must be real amplitudes"),
    (lambda m: m.predict(0 * P), r"patterns=0 to 0: must be .* not all zero"),
    (lambda m: m.predict(1e30 * P), r"patterns=1e\+30 to 1e\+30: must be .* at most 1e\+18"),
    (lambda m: m.predict(P, np.full((4, 2), 1e30)), r"offsets=up to 1e\+30 px: must be at most N/2 = 16 px"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[text for _, text in WRONG])
def test_what_cannot_be_predicted(loaded, call, message):
    with pytest.raises(ConfigError, match=message):
        call(loaded["pinn"])


# ---- files that do not belong together


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w: {k: v for k, v in w.items() if "level" not in k}, "1 names differ, first pinn/gen"),
        (lambda w: {k: v[..., :1] if v.ndim == 4 else v for k, v in w.items()}, r"has shape .*; must be"),
    ],
)
def test_weights_of_another_network_are_refused(trained_run, tmp_path, change, message):
    moved = copied(trained_run, tmp_path, ("pinn",))
    weights = change(dict(read_network(moved, "pinn").weights))
    np.savez(moved / "pinn" / "weights.npz", **weights)
    with pytest.raises(ConfigError, match=rf"{moved}/pinn: .*{message}"):
        ptycho.load_model(moved)
