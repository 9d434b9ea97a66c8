"""The generators: objects that they can represent, and the physics around them, which is the measurement."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.gradients import gradients

from ptycho import physics
from ptycho.config import FileProbe, IdealDiskProbe, ZonePlateProbe
from ptycho.simulation.simulate import noise_free_amplitudes, simulate
from ptycho.training.fitting import batch_of

GROUPS = np.array([0, 5, 11])


def arguments(data, groups=GROUPS):
    batch = batch_of(data, groups)
    return batch["x"], batch["offsets"], tf.constant(data.model_probe)


@pytest.fixture(scope="module", params=["ideal_disk", "zone_plate", "npz"])
def clean(request, small_config, tmp_path_factory):
    row, col = np.mgrid[:47, :47] - 23
    wave = np.exp(-((row - 2) ** 2 + 1.5 * col**2) / 150 + 1j * (0.01 * row * col - 0.2 * row))
    path = tmp_path_factory.mktemp("probe") / "probe.npz"
    np.savez(path, probeGuess=wave)
    probes = {"ideal_disk": IdealDiskProbe(), "zone_plate": ZonePlateProbe(), "npz": FileProbe(str(path))}
    data = simulate(small_config(probe=probes[request.param]))[0]["train"]
    waves = noise_free_amplitudes(data.objects[0], data.beam)
    return replace(data, amplitudes=(data.photon_scale * waves).astype(np.float32))


def test_the_true_object_explains_the_data_through_unrolled(clean, build_network):
    model, data = build_network("unrolled", clean)
    x, offsets, probe = arguments(data)
    regions = reference.true_regions(data)[GROUPS]
    reach = model.generator.side
    outside = physics.pad_to(tf.ones((reach, reach)), data.region_size).numpy() == 0
    regions[:, outside] = 0.5  # the part that the generator leaves at its start
    predicted = model.predict_amplitudes(tf.constant(regions), offsets, probe)
    assert reference.relative(predicted, x) < 1e-6


@pytest.mark.parametrize("shift", [(9.0, -7.0), (-4.5, 2.25)])
def test_patterns_beyond_the_region_see_its_mean(clean, build_network, shift):
    """The expected neighbouring pattern, by loops on a region surrounded by its own mean."""
    model, data = build_network("unrolled", clean)
    region = reference.true_regions(data)[GROUPS[0]]
    margin = 12
    padded = np.full((len(region) + 2 * margin,) * 2, region.mean(), np.complex64)
    padded[margin:-margin, margin:-margin] = region
    position = np.array(shift) + (data.region_size - data.N) / 2 + margin
    expected = reference.diffraction(padded, [position], data.model_probe[0])
    offsets, probe = tf.constant([[shift]], tf.float32), tf.constant(data.model_probe)
    found = model.predict_amplitudes(tf.constant(region[None]), offsets, probe)
    np.testing.assert_allclose(found[0], expected, atol=2e-4 * expected.max())


def test_the_true_object_explains_its_neighbours(clean, build_network, within):
    """Offsets of neighbours have the same sign and order as those of the group."""
    model, data = build_network("unrolled", clean)
    more = data.with_neighbours(3, 7.0, seed=0)
    groups = np.flatnonzero(more.neighbours[:, 0] != data.groups[:, 0])  # others have none so near
    batch = batch_of(more, groups)
    assert len(groups) > 3 and np.ptp(batch["near_offsets"], axis=(0, 1)).min() > 3
    predicted = model.predict_amplitudes(
        tf.constant(reference.true_regions(data)[groups]),
        batch["near_offsets"],
        tf.constant(data.model_probe),
    )
    within("misfit of neighbours", reference.relative(predicted, batch["near_x"]), below=0.03)


@pytest.mark.parametrize("name", ["unrolled", "unet_big", "baseline"])
def test_eager_and_xla_agree_on_regions(build_network, name):
    model, data = build_network(name)
    compiled = tf.function(lambda *a: model(*a), jit_compile=True)
    eager = model(*arguments(data)).numpy()
    np.testing.assert_allclose(compiled(*arguments(data)), eager, atol=1e-4 * np.abs(eager).max())


def test_gradient_is_zero_outside_the_probe_and_finite_for_an_empty_object(build_network):
    model, data = build_network("unrolled")
    x, offsets, probe = arguments(data)

    def error(regions):
        return tf.reduce_mean(tf.abs(model.predict_amplitudes(regions, offsets, probe) - x))

    for start in (np.zeros((3, 36, 36)), reference.true_regions(data)[GROUPS]):
        gradient = gradients(error, start.astype(np.complex64))[1].numpy()
        assert np.isfinite(gradient).all()
        places = offsets[0].numpy() + 2.0
        illumination = sum(reference.place(np.abs(data.probe[0]), place, (36, 36)).real for place in places)
        assert np.all(gradient[0][illumination == 0] == 0) and (illumination == 0).any()
