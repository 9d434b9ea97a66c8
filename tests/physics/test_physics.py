"""The measurement against loops and defining sums: complex, non-square, odd-sized, at sub-pixel positions."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.gradients import gradients, slope_along
from helpers.measurement import diffract, exit_waves
from scipy.ndimage import gaussian_filter

from ptycho import physics
from ptycho.physics import PROJECTIVE, SEPARABLE
from ptycho.scan.windows import add_windows, cut_windows

SHAPE = (33, 41)
N = 13
INTEGER = np.array([[[0.0, 0.0], [20.0, 28.0]], [[3.0, 11.0], [19.0, 2.0]]])
SUBPIXEL = np.array([[[0.25, 7.5], [18.9, 3.0]], [[5.0, 27.99], [-2.3, 30.6]]])  # the last leaves the object


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def objects(rng):
    return reference.random_complex(rng, (2, *SHAPE))


@pytest.fixture
def probe(rng):
    return reference.random_complex(rng, (N, N))


def dot(a, b):
    """⟨a, b⟩ = Σ a·conj(b)."""
    return np.vdot(np.asarray(b), np.asarray(a))


# TensorFlow's own kernel computes in single precision alone: (mover, dtypes, tolerance).
MOVERS = [
    pytest.param(SEPARABLE, (tf.complex128, tf.float64), 1e-12, id="separable"),
    pytest.param(PROJECTIVE, (tf.complex64, tf.float32), 2e-5, id="projective"),
]


@pytest.mark.parametrize("positions", [INTEGER, SUBPIXEL], ids=["integer", "sub-pixel"])
@pytest.mark.parametrize("mover, dtypes, atol", MOVERS)
def test_extract_by_loops_and_place_is_its_adjoint(rng, objects, positions, mover, dtypes, atol):
    image = tf.constant(objects, dtypes[0])
    patches = tf.constant(reference.random_complex(rng, (2, 2, N, N)), dtypes[0])
    expected = [[reference.extract(o, r, N) for r in rs] for o, rs in zip(objects, positions, strict=True)]
    positions = tf.constant(positions, dtypes[1])
    forward, backward = mover.extract(image, positions, N), mover.place(patches, positions, SHAPE)
    assert forward.shape == (2, 2, N, N) and forward.dtype == dtypes[0]
    np.testing.assert_allclose(forward, expected, atol=atol)
    assert dot(forward, patches) == pytest.approx(dot(image, backward), rel=10 * atol)


@pytest.mark.parametrize("mover", [SEPARABLE, PROJECTIVE], ids=["separable", "projective"])
@pytest.mark.parametrize("images, sets", [(2, 3), (1, 2), (2, 1)])
def test_batches_of_different_length_are_an_error(mover, images, sets):
    positions = tf.zeros((sets, 1, 2))
    message = rf"has the batch size {images} and positions {sets}; must be equal"
    with pytest.raises(ValueError, match=f"objects {message}"):
        mover.extract(tf.zeros((images, *SHAPE), tf.complex64), positions, N)
    with pytest.raises(ValueError, match=f"patches {message}"):
        mover.place(tf.zeros((images, 1, N, N), tf.complex64), positions, SHAPE)


def test_windows_are_cut_with_zeros_outside_and_added_by_the_adjoint(rng, objects):
    starts = np.array([[0, 0], [3, 1], [25, 33], [33, 41], [4, 30], [25, 0]])
    windows = reference.random_complex(rng, (6, N, N))
    forward = cut_windows(objects[0], starts, N)
    np.testing.assert_array_equal(forward, [reference.cut(objects[0], start, N) for start in starts])
    backward = add_windows(windows, starts, SHAPE)
    assert backward.shape == SHAPE
    assert dot(forward, windows) == pytest.approx(dot(objects[0], backward), rel=1e-12)


@pytest.fixture
def small_probe(rng):
    """One mode, zero outside the central 8 of 14 samples."""
    probe = np.zeros((1, 14, 14), complex)
    probe[0, 3:11, 3:11] = reference.random_complex(rng, (8, 8))
    return probe


@pytest.mark.parametrize("support", [None, 8, 10, 14])
@pytest.mark.parametrize("mover, dtypes, atol", MOVERS)
def test_exit_waves_by_loops_and_their_adjoint(rng, objects, small_probe, support, mover, dtypes, atol):
    waves = tf.constant(reference.random_complex(rng, (2, 2, 1, 14, 14)), dtypes[0])
    image, probe = (tf.constant(a, dtypes[0]) for a in (objects, small_probe))
    positions = tf.constant(SUBPIXEL, dtypes[1])
    forward = exit_waves(image, positions, probe, support, mover)
    each = zip(objects, SUBPIXEL, strict=True)
    expected = [[small_probe * reference.extract(o, r, 14) for r in rs] for o, rs in each]
    np.testing.assert_allclose(forward, expected, atol=3 * atol)
    backward = physics.back_project(waves, positions, probe, SHAPE, support, mover)
    assert dot(forward, waves) == pytest.approx(dot(image, backward), rel=10 * atol)


@pytest.mark.parametrize("inner, side, before", [(4, 8, 2), (4, 9, 2), (5, 8, 1), (5, 9, 2), (7, 7, 0)])
def test_pad_to_centres_and_crop_to_is_its_adjoint(rng, inner, side, before):
    small = reference.random_complex(rng, (2, inner, inner))
    padded = physics.pad_to(tf.constant(small), side).numpy()
    expected = np.zeros((2, side, side), complex)
    expected[:, before : before + inner, before : before + inner] = small
    np.testing.assert_array_equal(padded, expected)
    np.testing.assert_array_equal(physics.crop_to(tf.constant(padded), inner), small)


@pytest.mark.parametrize("shape", [(12, 12), (13, 13), (9, 14)])
def test_far_field_is_the_unitary_transform(rng, shape):
    wave = reference.random_complex(rng, shape)
    far = physics.far_field(tf.constant(wave))
    np.testing.assert_allclose(physics.centre(far), reference.far_field(wave), atol=1e-12)
    assert np.sum(np.abs(far) ** 2) == pytest.approx(np.sum(np.abs(wave) ** 2), rel=1e-12)
    np.testing.assert_allclose(physics.from_far_field(far), wave, atol=1e-12)
    np.testing.assert_array_equal(physics.uncentre(physics.centre(far)), far)


def test_modulus_change_takes_measured_amplitudes_and_keeps_phases(rng):
    wave = reference.random_complex(rng, (2, 9, 14))
    measured = rng.uniform(1, 2, (2, 9, 14))
    change = physics.modulus_change(tf.constant(wave)[:, None], tf.constant(measured)).numpy()[:, 0]
    far, before = np.fft.fft2(wave + change, norm="ortho"), np.fft.fft2(wave, norm="ortho")
    weight = np.abs(before) / np.sqrt(np.abs(before) ** 2 + 1e-6)
    np.testing.assert_allclose(far, measured * weight * np.exp(1j * np.angle(before)), rtol=1e-10)
    dark = physics.modulus_change(tf.zeros((1, 4, 4), tf.complex64), tf.ones((4, 4)))
    np.testing.assert_array_equal(dark, 0)


@pytest.mark.parametrize("positions", [INTEGER, SUBPIXEL], ids=["integer", "sub-pixel"])
@pytest.mark.parametrize("side", [12, 13])
def test_diffract_by_defining_sums(rng, objects, positions, side):
    probe = reference.random_complex(rng, (side, side))
    found = diffract(*(tf.constant(a) for a in (objects, positions, probe[None])))
    expected = [reference.diffraction(o, r, probe) for o, r in zip(objects, positions, strict=True)]
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_eager_graph_and_xla_agree_with_each_other_and_the_projective_kernel(objects, probe):
    image, modes = (tf.constant(wave, tf.complex64) for wave in (objects, probe[None]))
    arguments = image, tf.constant(SUBPIXEL, tf.float32), modes
    eager = diffract(*arguments)
    assert eager.dtype == tf.float32
    others = {
        "graph": tf.function(diffract)(*arguments),
        "xla": tf.function(diffract, jit_compile=True)(*arguments),
        "projective": diffract(*arguments, mover=PROJECTIVE),
    }
    for name, other in others.items():
        np.testing.assert_allclose(other, eager, atol=2e-5 * np.max(eager), err_msg=name)


@pytest.mark.parametrize("compile_xla", [False, True])
def test_gradient_of_the_amplitude_is_zero_at_zero(compile_xla):
    @tf.function(jit_compile=compile_xla)
    def gradient(wave):
        intensity = lambda wave: physics.total_intensity(wave[:, None, None, None])  # noqa: E731
        return gradients(lambda wave: tf.reduce_sum(physics.root(intensity(wave))), wave)[1]

    values = np.array([0, 3 + 4j, 1e-30j, 0], np.complex64)
    found = gradient(tf.constant(values)).numpy()
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[[0, 1, 3]], [0, 0.6 + 0.8j, 0], atol=1e-6)


@pytest.mark.parametrize("compile_xla", [False, True])
def test_point_spread_of_odd_non_square_intensities(rng, compile_xla):
    """Against SciPy's Gaussian that wraps around, and one wave along columns in closed form."""
    sigma, images = (1.3, 0.0), rng.uniform(1, 9, (2, 15, 22)).astype(np.float32)
    spread = tf.function(physics.spread, jit_compile=compile_xla)
    found = spread(tf.constant(images), tf.constant(sigma, tf.float32))
    expected = gaussian_filter(images, (0, *sigma), mode="wrap", truncate=5)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    wave = 1 + np.cos(2 * np.pi * 3 * np.arange(22) / 22 + 0.4) * np.ones((15, 1))
    found = spread(tf.constant(wave[None], tf.float32), tf.constant([0.7, 0.5]))[0]
    beside = np.exp(-(np.arange(1, 6) ** 2) / (2 * 0.5**2))
    factor = (1 + 2 * np.sum(beside * np.cos(2 * np.pi * 3 / 22 * np.arange(1, 6)))) / (1 + 2 * beside.sum())
    damped = 1 + factor * (wave - 1)
    np.testing.assert_allclose(found, damped, atol=1e-5)


@pytest.mark.parametrize("sigma", [0.2, 0.4, 0.8])
def test_a_point_spread_puts_no_ripples_beside_a_sharp_disk(sigma):
    q = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(32, 1 / 32)], indexing="ij"))
    disk = 1e4 * (q < 9).astype(np.float32)
    found = physics.spread(tf.constant(disk), tf.constant([sigma, sigma], tf.float32)).numpy()
    assert found.min() >= 0 and found.max() < 1e4 * (1 + 1e-5)
    assert found.sum() == pytest.approx(disk.sum(), rel=1e-5)
    assert found[q > 14].max() < 1, "a pixel's width and more from the edge"


def test_a_background_is_not_spread_but_every_mode_is(objects):
    modes = reference.random_complex(np.random.default_rng(2), (2, N, N)).astype(np.complex64)
    places, sigma = tf.constant(INTEGER, tf.float32), tf.constant([0.6, 1.1])
    given = tf.constant(objects, tf.complex64), places, tf.constant(modes)
    background = np.zeros((N, N), np.float32)
    background[4, 5] = 50
    found = physics.forward(*given, background=tf.constant(background), point_spread=sigma)
    expected = physics.spread(physics.forward(*given), sigma) + background
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("which", ["objects", "positions", "probe"])
def test_gradient_of_diffract_by_finite_differences(rng, objects, probe, which):
    values = {"objects": objects, "positions": SUBPIXEL + 0.013, "probe": probe[None]}
    weights = tf.constant(rng.normal(size=(2, 2, N, N)))

    def loss(value):
        arguments = {k: tf.convert_to_tensor(v) for k, v in (values | {which: value}).items()}
        return tf.reduce_sum(weights * diffract(**arguments))

    value, (_, gradient) = values[which], gradients(loss, values[which])
    for seed in range(3):
        other = np.random.default_rng(seed)
        way = reference.random_complex(other, value.shape)
        way = way if np.iscomplexobj(value) else way.real
        assert slope_along(loss, value, way, 1e-6) == pytest.approx(np.vdot(gradient, way).real, rel=1e-6)
