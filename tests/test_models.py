"""The networks: what they can represent, their gradients, their weights, and their files."""

import inspect
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

from ptycho import physics
from ptycho.config import (
    BaselineConfig,
    FileProbe,
    IdealDiskProbe,
    ScanConfig,
    UNetModel,
    UnrolledModel,
    XlaConfig,
    ZonePlateProbe,
)
from ptycho.networks import (
    build_baseline,
    build_pinn,
    get_weights,
    parameter_count,
    set_weights,
)
from ptycho.networks.baseline import PtychoNN
from ptycho.networks.layers import ConvStack, Decoder, Encoder, MaxPool2x2
from ptycho.networks.pinn import PtychoPINN
from ptycho.networks.unet import UNet, encoder_filters
from ptycho.networks.unrolled import ResidualCNN, Unrolled
from ptycho.scan.probe import probe_support
from ptycho.simulation.simulate import noise_free_amplitudes, simulate

MODELS = {
    "unrolled": UnrolledModel(stages=2, width=8, blocks=1),
    "unet": UNetModel(filters_scale=1),
    "unet_big": UNetModel(filters_scale=1, object_big=True),
}
ALL = (*MODELS, "baseline")
GROUPS = np.array([0, 5, 11])


@pytest.fixture(scope="module")
def build(small_config, datasets):
    """``build(name, seed)``: a network for the small training data, and the data in the form it takes."""

    def make(name, data=None, **changes):
        data = datasets["train"] if data is None else data
        if name == "baseline":
            single = data.single_patterns(1)
            return build_baseline(small_config(baseline=BaselineConfig(), **changes), single), single
        return build_pinn(small_config(model=MODELS[name], **changes), data), data

    return make


@pytest.fixture(scope="module")
def built(build):
    return {name: build(name, mae_weight=1.0, nll_weight=1e-3, realspace_weight=0.1) for name in ALL}


def arguments(data, groups=GROUPS):
    batch = data.batch(groups)
    return batch["x"], batch["offsets"], tf.constant(data.model_probe)


def noise_free(data):
    """The dataset with its amplitudes replaced by their means."""
    waves = noise_free_amplitudes(data.objects[0], data.probe, data.positions)
    return data.with_amplitudes((data.photon_scale * waves).astype(np.float32), data.photon_scale)


def true_regions(data, groups):
    N, R = data.N, data.region_size
    corners = [reference.region_origin(data.positions[data.groups[g]], R, N) for g in groups]
    return np.array([reference.cut(data.objects[0], [int(v) for v in c], R) for c in corners], np.complex64)


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# ---- layers


@pytest.mark.parametrize("shape", [(2, 8, 8, 3), (1, 7, 9, 2), (3, 2, 5, 1)])
@pytest.mark.parametrize("ties", [False, True])
def test_max_pooling_is_that_of_keras(shape, ties):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, shape) if ties else rng.normal(size=shape)
    inputs = tf.constant(values, tf.float32)
    pools = MaxPool2x2(), keras.layers.MaxPooling2D(2)
    weights, results = None, []
    for pool in pools:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            out = pool(inputs)
            weights = tf.constant(rng.normal(size=out.shape), tf.float32) if weights is None else weights
            total = tf.reduce_sum(weights * out)
        results.append((out.numpy(), tape.gradient(total, inputs).numpy()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("N, scale, filters", [(32, 1, [32, 64]), (64, 2, [64, 128, 256])])
def test_encoder_filters_of_the_published_network(N, scale, filters):
    assert encoder_filters(N, scale) == filters
    assert encoder_filters(2 * N, scale) == [*filters, 2 * filters[-1]]


@pytest.mark.parametrize("coarsening", [1, 2, 3])
def test_untrained_residual_cnn_is_zero_and_takes_odd_sides(coarsening):
    features = tf.random.stateless_normal((2, 13, 13, 5), seed=(1, 2))
    correction = ResidualCNN(width=4, blocks=1, coarsening=coarsening, seed=0)(features)
    np.testing.assert_array_equal(correction, np.zeros((2, 13, 13, 2)))


@pytest.mark.parametrize("coarsening", [1, 2, 3])
def test_residual_cnn_keeps_every_pixel_in_its_place(coarsening):
    """With kernels that hand channels on, the output is the first two features, whatever the grid."""
    features = tf.random.stateless_uniform((2, 13, 11, 5), seed=(1, 2))
    cells = coarsening**2
    cnn = ResidualCNN(width=5 * cells, blocks=0, coarsening=coarsening, seed=0)
    cnn.build(features.shape)
    head, tail = np.zeros(cnn.head.kernel.shape), np.zeros(cnn.tail.kernel.shape)
    head[1, 1] = np.eye(5 * cells)
    for cell in range(cells):
        tail[1, 1, 5 * cell, 2 * cell] = tail[1, 1, 5 * cell + 1, 2 * cell + 1] = 1
    cnn.head.kernel.assign(head)
    cnn.tail.kernel.assign(tail)
    np.testing.assert_allclose(cnn(features), features[..., :2], rtol=1e-6)


@pytest.mark.parametrize(
    "probe, support",
    [
        (np.ones((32, 32)), 32),
        (np.pad(np.ones((8, 8)), 12), 8),
        (np.pad(np.ones((1, 1)), ((16, 15), (16, 15))), 2),
        (np.pad(np.ones((1, 1)), ((10, 21), (16, 15))), 12),
        (np.pad(np.ones((1, 1)), ((16, 15), (20, 11))), 10),
    ],
)
def test_probe_support_holds_every_lit_sample(probe, support):
    assert probe_support(probe) == support
    start = (32 - support) // 2
    assert probe[start : start + support, start : start + support].sum() == probe.sum()


# ---- what the generators can represent


@pytest.fixture(scope="module", params=["ideal_disk", "zone_plate", "npz"])
def clean(request, small_config, tmp_path_factory):
    """Noise-free training data with each probe."""
    row, col = np.mgrid[:47, :47] - 23
    wave = np.exp(-((row - 2) ** 2 + 1.5 * col**2) / 150 + 1j * (0.01 * row * col - 0.2 * row))
    path = tmp_path_factory.mktemp("probe") / "probe.npz"
    np.savez(path, probeGuess=wave)
    probes = {
        "ideal_disk": IdealDiskProbe(),
        "zone_plate": ZonePlateProbe(),
        "npz": FileProbe(str(path)),
    }
    return noise_free(simulate(small_config(probe=probes[request.param]))["train"])


def test_the_true_object_explains_the_data_through_unrolled(clean, build):
    model, data = build("unrolled", clean)
    x, offsets, probe = arguments(data)
    regions = true_regions(data, GROUPS)
    reach = model.generator.side
    outside = physics.pad_to(tf.ones((reach, reach)), data.region_size).numpy() == 0
    regions[:, outside] = 0.5  # the part that the generator leaves at its start
    predicted = model.predict_amplitudes(tf.constant(regions), offsets, probe)
    assert relative(predicted, x) < 1e-4


@pytest.mark.parametrize("name", ["unet", "unet_big"])
def test_the_true_object_explains_most_of_the_data_through_unet(clean, build, record_property, name):
    model, data = build(name, clean)
    x, offsets, probe = arguments(data)
    half = data.N // 2
    square = physics.pad_to(tf.ones((half, half)), data.N)
    support = physics.pad_to(square, data.region_size).numpy() > 0
    if name == "unet_big":
        positions = offsets + (data.region_size - data.N) / 2
        squares = tf.broadcast_to(square, (*positions.shape[:2], data.N, data.N))
        support = physics.place_patches(squares, positions, (data.region_size,) * 2).numpy() > 0
    regions = true_regions(data, GROUPS) * support
    error = relative(model.predict_amplitudes(tf.constant(regions), offsets, probe), x)
    record_property(f"relative_error_of_{name}_truncation", round(float(error), 4))
    assert error < 0.5


@pytest.mark.parametrize("shift", [(9.0, -7.0), (-4.5, 2.25)])
def test_patterns_beyond_the_region_see_its_mean(clean, build, shift):
    """What a neighbouring pattern should look like, by loops on a region set into its own mean."""
    model, data = build("unrolled", clean)
    region = true_regions(data, GROUPS[:1])[0]
    margin = 12
    padded = np.full((len(region) + 2 * margin,) * 2, region.mean(), np.complex64)
    padded[margin:-margin, margin:-margin] = region
    position = np.array(shift) + (data.region_size - data.N) / 2 + margin
    expected = reference.diffraction(padded, [position], data.model_probe)
    found = model.predict_amplitudes(
        tf.constant(region[None]), tf.constant([[shift]], tf.float32), tf.constant(data.model_probe)
    )
    np.testing.assert_allclose(found[0], expected, atol=2e-4 * expected.max())


def test_neighbours_count_in_the_loss_as_patterns_do(built):
    """The mean over own and neighbouring patterns; the object comes from its own patterns alone."""
    model, data = built["unrolled"]
    probe, f = tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
    more = data.with_neighbours(2, 10.0, seed=0)
    batch = more.batch(GROUPS)
    patterns, positions = data.amplitudes[more.neighbours[GROUPS]], data.positions[more.neighbours[GROUPS]]
    np.testing.assert_allclose(batch["near_x"], data.normalisation * patterns, rtol=1e-6)
    np.testing.assert_array_equal(batch["near_offsets"], positions - data.centres[GROUPS][:, None])
    regions = model(batch["x"], batch["offsets"], probe)
    own = np.abs(model.predict_amplitudes(regions, batch["offsets"], probe) - batch["x"]).mean()
    near = np.abs(model.predict_amplitudes(regions, batch["near_offsets"], probe) - batch["near_x"]).mean()
    losses = model.losses_of(batch, probe, f)
    C = data.group_size
    assert float(losses["mae"]) == pytest.approx((C * own + 2 * near) / (C + 2), rel=1e-4)
    assert float(model.losses_of(data.batch(GROUPS), probe, f)["mae"]) == pytest.approx(own, rel=1e-4)


def test_the_true_object_explains_its_neighbours(clean, build):
    """Offsets of neighbours have the sign and the order of the group's own."""
    model, data = build("unrolled", clean)
    more = data.with_neighbours(3, 7.0, seed=0)
    groups = np.flatnonzero(more.neighbours[:, 0] != data.groups[:, 0])  # others have none so near
    batch = more.batch(groups)
    assert len(groups) > 3 and np.ptp(batch["near_offsets"], axis=(0, 1)).min() > 3
    predicted = model.predict_amplitudes(
        tf.constant(true_regions(data, groups)), batch["near_offsets"], tf.constant(data.model_probe)
    )
    assert relative(predicted, batch["near_x"]) < 0.03


def test_the_truth_is_a_fixed_point_of_the_untrained_iteration(clean, build):
    model, data = build("unrolled", clean)
    x, offsets, probe = arguments(data)
    generator = model.generator
    margin = (data.region_size - generator.side) // 2
    inner = slice(margin, margin + generator.side)
    truth = true_regions(data, GROUPS)[:, inner, inner]
    positions = offsets + (generator.side - data.N) / 2
    light = generator._illumination(positions, probe)
    g = generator._update(tf.constant(truth), physics.uncentre(x), positions, probe, light).numpy()
    lit = light > 0.05 * np.max(light)
    assert np.abs(g[lit]).max() < 5e-3


def test_the_untrained_iteration_reduces_the_residual(clean, build):
    model, data = build("unrolled", clean)
    x, offsets, probe = arguments(data)
    level = np.sqrt(np.sum(x**2, axis=(1, 2, 3)) / 4 / np.sum(np.abs(probe) ** 2))
    start = np.broadcast_to(level[:, None, None], (3, 36, 36)).astype(np.complex64)
    before, after = (
        relative(model.predict_amplitudes(tf.convert_to_tensor(regions), offsets, probe), x)
        for regions in (start, model(x, offsets, probe))
    )
    assert after < 0.6 * before


def test_unrolled_leaves_what_the_probe_cannot_reach_at_the_start(built):
    model, data = built["unrolled"]
    regions = model(*arguments(data)).numpy()
    reach = model.generator.side
    outside = physics.pad_to(tf.ones((reach, reach)), data.region_size).numpy() == 0
    assert reach < data.region_size and outside.any()
    np.testing.assert_allclose(regions[:, outside], np.broadcast_to(regions[:, :1, 0], (3, outside.sum())))
    assert np.all(regions[:, 0, 0].real > 0)


@pytest.mark.parametrize("name", ["unrolled", "unet_big"])
def test_projective_translation_gives_the_same_regions(build, small_config, name):
    data = simulate(small_config(scan=ScanConfig(0.8)))["train"]
    plain, projective = (
        build(name, data, scan=ScanConfig(0.8), xla=XlaConfig(compile=False, translate=translate))[0]
        for translate in (True, False)
    )
    np.testing.assert_allclose(plain(*arguments(data)), projective(*arguments(data)), atol=2e-4)


def test_object_big_averages_the_patches_where_they_overlap(built):
    model, data = built["unet_big"]
    patches = tf.complex(tf.ones((3, 4, 32, 32)), tf.fill((3, 4, 32, 32), 2.0))
    square = physics.pad_to(tf.ones((16, 16)), 32)
    _, offsets, _ = arguments(data)
    mean = model.generator._assemble(physics.scaled(patches, square), offsets).numpy()
    lit = np.zeros((36, 36), bool)
    lit[8:28, 8:28] = True  # squares of 16 at 8 and at 12
    np.testing.assert_allclose(mean[:, lit], 1 + 2j, rtol=1e-6)
    assert np.all(mean[:, ~lit] == 0)


def test_object_small_is_one_padded_image(built):
    model, data = built["unet"]
    regions = model(*arguments(data)).numpy()
    lit = np.zeros((36, 36), bool)
    lit[10:26, 10:26] = True
    assert np.all(regions[:, ~lit] == 0)
    assert np.abs(regions[:, lit]).min() > 0 and np.abs(regions).max() <= 1


@pytest.mark.parametrize("name", ALL)
def test_regions_have_the_promised_shape(built, name):
    model, data = built[name]
    regions = model(*arguments(data))
    assert regions.shape == (3, data.region_size, data.region_size) and regions.dtype == tf.complex64
    assert np.isfinite(regions).all()


# ---- losses and gradients


def test_losses_are_the_weighted_parts(built):
    model, data = built["unrolled"]
    x, offsets, probe = arguments(data)
    losses = model.losses_of(data.batch(GROUPS), probe, tf.constant(data.normalisation, tf.float32))
    predicted = model.predict_amplitudes(model(x, offsets, probe), offsets, probe).numpy().astype(float)
    counts = (np.asarray(x, float) / data.normalisation) ** 2
    deviance = reference.poisson_deviance((predicted / data.normalisation) ** 2 + 1e-6, counts)
    variation = np.mean([reference.total_variation(o) for o in model(x, offsets, probe).numpy()])
    assert set(losses) == {"loss", "mae", "nll", "tv"}
    assert float(losses["mae"]) == pytest.approx(np.mean(np.abs(predicted - x)), rel=1e-4)
    assert float(losses["nll"]) == pytest.approx(deviance, rel=1e-3)
    assert float(losses["tv"]) == pytest.approx(variation, rel=1e-4)
    total = losses["mae"] + 1e-3 * losses["nll"] + 0.1 * losses["tv"]
    assert float(losses["loss"]) == pytest.approx(float(total), rel=1e-6)


def test_parts_of_zero_weight_are_left_out(build):
    model, data = build("unrolled", mae_weight=0.0, nll_weight=1.0)
    losses = model.losses_of(data.batch(GROUPS), tf.constant(data.model_probe), data.normalisation)
    assert set(losses) == {"loss", "nll"}


def test_baseline_losses_by_numpy(built):
    model, data = built["baseline"]
    batch, probe = data.batch(GROUPS, truth=True), tf.constant(data.model_probe)
    losses = model.losses_of(batch, probe, tf.constant(data.normalisation, tf.float32))
    patches, target = model(batch["x"], batch["offsets"], probe).numpy(), batch["target"].numpy()[:, 0]
    weight = np.abs(data.probe) ** 2 / np.mean(np.abs(data.probe) ** 2)
    amplitude, phase = (part.numpy()[:, 0] for part in model._amplitude_and_phase(batch["x"]))
    np.testing.assert_allclose(patches, amplitude * np.exp(1j * phase), atol=1e-5)
    expected = {
        "amplitude_mae": np.mean(weight * np.abs(amplitude - np.abs(target))),
        "phase_mae": np.mean(weight * np.abs(phase - np.angle(target))),
    }
    for name, value in expected.items():
        assert float(losses[name]) == pytest.approx(value, rel=1e-4)
    assert float(losses["loss"]) == pytest.approx(sum(expected.values()), rel=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_finite_for_all_dark_frames(built, name):
    model, data = built[name]
    batch = data.batch(GROUPS, truth=name == "baseline")
    dark_group = np.ones((3, 1, 1, 1), np.float32)
    dark_group[1] = 0
    dark_frame = np.ones((3, data.group_size, 1, 1), np.float32)
    dark_frame[2, 0] = 0
    batch["x"] = batch["x"] * dark_group * dark_frame
    with tf.GradientTape() as tape:
        losses = model.losses_of(
            batch, tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32)
        )
    gradients = tape.gradient(losses["loss"], model.trainable_variables)
    assert np.isfinite(losses["loss"])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None and np.isfinite(gradient).all(), variable.path
    assert sum(float(tf.reduce_sum(tf.abs(g))) for g in gradients) > 0


def test_gradient_is_zero_outside_the_probe_and_finite_for_an_empty_object(built):
    model, data = built["unrolled"]
    x, offsets, probe = arguments(data)
    for start in (np.zeros((3, 36, 36)), true_regions(data, GROUPS)):
        regions = tf.constant(start, tf.complex64)
        with tf.GradientTape() as tape:
            tape.watch(regions)
            loss = tf.reduce_mean(tf.abs(model.predict_amplitudes(regions, offsets, probe) - x))
        gradient = tape.gradient(loss, regions).numpy()
        assert np.isfinite(gradient).all()
        light = sum(reference.place(np.abs(data.probe), r + 2.0, (36, 36)).real for r in offsets[0].numpy())
        assert np.all(gradient[0][light == 0] == 0) and (light == 0).any()


# ---- weights


def conv_parameters(inputs, outputs):
    return 9 * inputs * outputs + outputs


def test_size_of_unrolled(built):
    model, _ = built["unrolled"]
    w, stages, blocks = 8, 2, 1
    stage = conv_parameters(20, w) + 2 * blocks * conv_parameters(w, w) + conv_parameters(w, 8)
    assert parameter_count(model) == 1 + stages * stage
    assert len(model.trainable_variables) == 1 + stages * 2 * (2 + 2 * blocks)


@pytest.mark.parametrize("name, inputs, outputs", [("unet", 4, 1), ("unet_big", 4, 4)])
def test_size_of_unet(built, name, inputs, outputs):
    model, _ = built[name]
    encoder = conv_parameters(inputs, 32) + conv_parameters(32, 32)
    encoder += conv_parameters(32, 64) + conv_parameters(64, 64)
    decoder = 2 * conv_parameters(64, 64) + conv_parameters(64, outputs)
    assert parameter_count(model) == encoder + 2 * decoder
    assert len(model.trainable_variables) == 2 * 4 + 2 * (4 + 2)


def test_size_of_the_baseline(built):
    model, _ = built["baseline"]
    levels = [(1, 32), (32, 64), (64, 128)], [(128, 128), (128, 64), (64, 32)]
    encoder, decoder = (
        sum(conv_parameters(i, o) + conv_parameters(o, o) for i, o in part) for part in levels
    )
    assert parameter_count(model) == encoder + 2 * (decoder + conv_parameters(32, 1))
    assert len(model.trainable_variables) == 3 * 4 + 2 * (3 * 4 + 2)


@pytest.mark.parametrize("name", ALL)
def test_seed_decides_the_initial_weights(built, build, name):
    first, again, other = (get_weights(build(name, seed=seed)[0]) for seed in (0, 0, 1))
    assert first.keys() == again.keys() == other.keys()
    for path in first:
        np.testing.assert_array_equal(first[path], again[path])
    kernels = [p for p in first if p.endswith("kernel") and "tail" not in p]
    assert kernels and all(np.abs(first[p] - other[p]).max() > 1e-3 for p in kernels)


@pytest.mark.parametrize("name", ALL)
def test_no_two_layers_of_a_network_start_alike(built, name):
    model, _ = built[name]
    kernels = [v.numpy() for v in model.trainable_variables if v.path.endswith("kernel")]
    kernels = [k for k in kernels if np.any(k)]
    for i, a in enumerate(kernels):
        for b in kernels[:i]:
            assert a.shape != b.shape or not np.array_equal(a, b)


def test_set_weights_restores_the_outputs(build):
    (model, data), (other, _) = (build("unet", seed=seed) for seed in (0, 1))
    wanted = model(*arguments(data)).numpy()
    assert np.abs(other(*arguments(data)) - wanted).max() > 1e-4
    set_weights(other, get_weights(model))
    np.testing.assert_array_equal(other(*arguments(data)), wanted)


def test_set_weights_refuses_weights_of_another_network(build):
    model, _ = build("unrolled")
    before = get_weights(model)
    with pytest.raises(ValueError, match=r"do not belong to this network: \d+ names differ"):
        set_weights(model, get_weights(build("unet")[0]))
    with pytest.raises(ValueError, match=r"1 names differ, first .*level"):
        set_weights(model, {p: v for p, v in before.items() if "level" not in p})
    path = next(p for p in before if p.endswith("kernel"))
    with pytest.raises(ValueError, match=r"has shape \(3, 3\); must be \(3, 3, 20, 8\)"):
        set_weights(model, before | {path: np.zeros((3, 3))})


# ---- configuration and files


def layer_examples(built):
    """One of each registered class."""
    examples = [model for model, _ in built.values()] + [built[n][0].generator for n in MODELS]
    examples += [
        MaxPool2x2(name="pool"),
        ConvStack(3, 5, name="stack"),
        Encoder([2, 4], 7, name="encoder"),
        Decoder([4, 2], 3, 9, name="decoder"),
        ResidualCNN(6, 2, 3, 11, name="cnn"),
    ]
    return examples


def test_every_registered_class_returns_every_argument_in_its_configuration(built):
    examples = layer_examples(built)
    registered = {
        cls
        for name, cls in keras.saving.get_custom_objects().items()
        if name.startswith("ptycho>") and cls.__module__.startswith("ptycho.networks.")
    }
    assert registered == {type(e) for e in examples}
    assert {Unrolled, UNet, PtychoPINN, PtychoNN} <= registered
    for example in examples:
        config = example.get_config()
        wanted = set(inspect.signature(type(example).__init__).parameters) - {"self", "args", "kwargs"}
        assert wanted <= config.keys(), type(example)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            form = keras.saving.serialize_keras_object(example)
            again = keras.saving.deserialize_keras_object(form, safe_mode=True)
        assert type(again) is type(example) and again.get_config() == config


def test_support_of_unrolled_is_checked():
    for support in (0, 7, 34):
        with pytest.raises(ValueError, match=rf"support={support}: must be even and at most N=32"):
            Unrolled(32, 36, 1, 4, 0, 2, 1e-3, support, 0)


LOAD = """
import sys, keras, numpy as np, tensorflow as tf
import ptycho.networks
folder = sys.argv[1]
for name in sys.argv[2:]:
    model = keras.models.load_model(f"{folder}/{name}.keras", safe_mode=True)
    with np.load(f"{folder}/{name}.npz") as data:
        regions = model(*(tf.constant(data[k]) for k in ("x", "offsets", "probe")))
        assert np.array_equal(regions, data["regions"]), (name, np.abs(regions - data["regions"]).max())
print("all equal")
"""


def test_saved_models_load_in_a_fresh_process_with_equal_outputs(built, build, tmp_path):
    for name in ALL:
        model, data = build(name, seed=3)
        rng = np.random.default_rng(0)
        for variable in model.trainable_variables:  # also those that start at zero
            variable.assign_add(1e-2 * rng.normal(size=variable.shape))
        x, offsets, probe = arguments(data)
        regions = model(x, offsets, probe)
        np.savez(tmp_path / f"{name}.npz", x=x, offsets=offsets, probe=probe, regions=regions)
        model.save(tmp_path / f"{name}.keras")
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", LOAD, str(tmp_path), *ALL],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all equal" in done.stdout


@pytest.mark.parametrize("name", ["unrolled", "unet_big"])
def test_eager_and_xla_agree_on_regions(built, name):
    model, data = built[name]
    compiled = tf.function(lambda *a: model(*a), jit_compile=True)
    eager = model(*arguments(data)).numpy()
    np.testing.assert_allclose(compiled(*arguments(data)), eager, atol=2e-3 * np.abs(eager).max())
