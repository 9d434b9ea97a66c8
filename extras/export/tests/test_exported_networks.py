"""Exported networks: results of each format against the network itself, and refused exports."""

import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers.cli import ROOT, fresh
from helpers.measurement import diffract
from helpers.scans import save_npz

from ptycho.config import ConfigError, FourierModel, UNetModel, UnrolledModel, XlaConfig
from ptycho.networks import build_baseline, build_pinn
from ptycho.networks.layers import Geometry
from ptycho.physics import Pair
from ptycho.run.loaded import load_model
from ptycho.run.network import read_network
from ptycho_export.export_model_command import ExportModelConfig, describe_network
from ptycho_export.formats import FORMATS, open_exported
from ptycho_export.network import portable, trained_generator

EXPORT, RUN = ROOT / "scripts/export_model.py", ROOT / "scripts/run_exported.py"
N, R, C, B = 32, 37, 2, 3


def with_random_weights(model):
    for k, variable in enumerate(model.variables):
        scale = 0.3 / np.sqrt(max(1, np.prod(variable.shape[:-1])))
        values = np.random.default_rng(k).normal(size=variable.shape)
        variable.assign(1.0 if not variable.shape else scale * values)
    return getattr(model, "generator", model)


def patterns(probe, offsets, region_size):
    """Return amplitudes ``(B, C, N, N)`` of an object, because rounding decides phases of dark pixels."""
    row, col = np.mgrid[:region_size, :region_size] / region_size
    smooth = (0.7 + 0.2 * np.sin(9 * row + 4 * col)) * np.exp(1j * np.cos(11 * col - 5 * row))
    objects = np.broadcast_to(smooth, (len(offsets), *smooth.shape))
    positions = offsets + (region_size - probe.shape[-1]) / 2
    modes = probe.reshape(-1, *probe.shape[-2:])
    waves = (objects, np.complex64), (positions, np.float32), (modes, np.complex64)
    return diffract(*(tf.constant(values.astype(kind)) for values, kind in waves)).numpy()


def inputs(rng, probe_shape=(1, N, N), masked=False, group_size=C):
    axis = np.arange(N) - N // 2
    disk = np.exp(-(axis[:, None] ** 2 + axis**2) / 30 + 0.02j * axis[:, None] * axis)
    probe = 8 * disk * np.exp(1j * rng.uniform(size=(*probe_shape[:-2], 1, 1)))
    offsets = rng.uniform(-2, 2, (B, group_size, 2))
    x = patterns(probe, offsets, R)
    x = np.where(rng.uniform(size=x.shape) < 0.05, -1, x) if masked else x
    return x.astype(np.float32), offsets.astype(np.float32), probe.astype(np.complex64)


CASES = {
    "unrolled": (UnrolledModel(stages=2, width=8), {}, {}),
    "coarse, masked": (UnrolledModel(stages=2, width=8, coarsening=3), {"support": 22}, {"masked": True}),
    "fine, moved probe": (UnrolledModel(stages=2, width=8, coarsening=1), {"exact": True}, {}),
    "two modes": (UnrolledModel(stages=2, width=8), {"exact": True}, {"probe_shape": (2, N, N)}),
    "with the misfit": (UnrolledModel(stages=2, width=8, misfit=True), {"exact": True}, {"masked": True}),
    "unet": (UNetModel(filters_scale=1), {}, {}),
    "unet, one patch a pattern": (UNetModel(filters_scale=1, object_big=True), {}, {"masked": True}),
    "fno": (FourierModel(width=8, modes=6, layers=2), {}, {"masked": True}),
    "baseline": (None, {"group_size": 1}, {"group_size": 1}),
}


def case_of(name, small_config):
    model, sizes, data = CASES[name]
    config, xla = small_config(), XlaConfig(compile=False)
    geometry = Geometry(**({"N": N, "region_size": R, "group_size": C, "support": N, "masked": True} | sizes))
    if model is None:
        network = build_baseline(config.baseline, geometry, xla, config.seed)
    else:
        network = build_pinn(model, geometry, xla, config.loss_weights, config.seed)
    return with_random_weights(network), inputs(np.random.default_rng(1), **data)


def worst(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("name", CASES)
def test_a_network_of_pairs_is_the_network(name, small_config):
    generator, (x, offsets, probe) = case_of(name, small_config)
    expected = generator.call(x, offsets, tf.constant(probe)).numpy()
    found = generator.call(x, offsets, Pair(tf.constant(probe.real), tf.constant(probe.imag)))
    assert worst(found.real.numpy() + 1j * found.imag.numpy(), expected) < 1e-5
    assert np.ptp(np.abs(expected)) > 0.01  # the networks do something


@pytest.fixture(scope="module")
def stored(trained_run):
    found = read_network(trained_run, "pinn")
    rng = np.random.default_rng(0)
    noise = {key: 0.02 * rng.normal(size=value.shape) for key, value in found.weights.items()}
    weights = {key: (value + noise[key]).astype(np.float32) for key, value in found.weights.items()}
    return replace(found, weights=weights)


def example(stored, d, count=B):
    axis = np.arange(d.N) - d.N // 2
    probe = stored.setup.probe * np.exp(0.02j * axis[:, None] * axis).astype(np.complex64)  # no real one
    probe = probe * (d.N / 2 / np.linalg.norm(probe))
    offsets = stored.setup.offsets[: d.group_size] + np.arange(count)[:, None, None] / np.float32(4)
    return patterns(probe, offsets, d.region_size), offsets.astype(np.float32), probe


@pytest.mark.parametrize("suffix", FORMATS)
def test_runtimes_give_what_the_network_gives(stored, suffix, tmp_path):
    d = describe_network(ExportModelConfig(run=str(stored.run), batch_size=B), stored)
    target, values = tmp_path / f"model{suffix}", example(stored, d)
    FORMATS[suffix].write(portable(stored, d), d, target)
    exported = open_exported(target, threads=1)
    x, offsets, probe = values
    found = exported(*values)
    expected = trained_generator(stored, d).call(x, offsets, tf.constant(probe[None])).numpy()
    assert worst(found, expected) < 1e-5 and found.dtype == np.complex64
    assert exported.description.to_json() == d.to_json()
    with pytest.raises(ConfigError, match=r"amplitudes has shape \(2, 4, 32, 32\); the model takes \(3, 4"):
        exported(values[0][:2], *values[1:])


@pytest.fixture(scope="module")
def exported(trained_run, tmp_path_factory, in_process_once):
    folder = tmp_path_factory.mktemp("exported")
    code, out, err = in_process_once(EXPORT, f"run={trained_run}", "output=model.tflite", cwd=folder)
    assert code == 0, err
    assert "pinn (unrolled)" in out and "regions 4 × 2 × 36 × 36" in out
    return folder / "model.tflite"


LITE = re.findall(r"(?m)^[\w-]+", (ROOT / "requirements-lite.txt").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
MODULES = {"scikit-image": "skimage", "pillow": "PIL"}
MISSING = sorted(MODULES.get(name, name) for name in PACKAGES - {*LITE, "annotated-types"})  # of pydantic


def test_the_scripts_reconstruct_in_the_small_environment(exported, trained_run, tmp_path):
    """Without TensorFlow, and without all else that requirements-lite.txt does not list."""
    data = next(trained_run.glob("datasets/*/*/test.npz"))
    assert {"tensorflow", "keras", "skimage", "matplotlib"} <= {*MISSING}
    code = (
        "import runpy, sys\n"
        f"sys.modules |= dict.fromkeys({MISSING})\n"
        f"sys.argv = ['run', 'model={exported}', 'data={data}', 'output_dir=out']\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"runpy.run_path({str(RUN)!r}, run_name='__main__')\n"
    )
    done = fresh(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    expected = load_model(trained_run).reconstruct(data, "probe")
    with np.load(tmp_path / "out/recon.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["mask"], expected.mask)
        assert worst(found["object"], expected.objects) < 1e-5


PLACES = np.stack(np.mgrid[:6, :6], -1).reshape(-1, 2) * 1.0
WIDE = {"ycoords": 9 * PLACES[:, 0], "xcoords": 9 * PLACES[:, 1]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"probeGuess": None}, "has no probe; reconstruct it by ptycho scan"),
        ({"probeGuess": np.ones((2, N, N), complex)}, "modes of its probe: 2"),
        (WIDE, "export it again with region_size="),
    ],
    ids=["as the model takes it", "no probe", "two modes", "wide groups"],
)
def test_a_measured_scan_is_reconstructed_or_refused(exported, tmp_path, in_process, change, message):
    axis = np.arange(N) - N // 2
    probe = (axis[:, None] ** 2 + axis**2 < 40).astype(complex)
    far = np.fft.fftshift(np.abs(np.fft.fft2(probe)) ** 2)
    frames = np.random.default_rng(0).poisson(1e4 * far / far.sum(), (len(PLACES), N, N))
    values = {"diff3d": frames, "probeGuess": probe, "ycoords": PLACES[:, 0], "xcoords": PLACES[:, 1]}
    values = {key: value for key, value in (values | change).items() if value is not None}
    save_npz(tmp_path / "scan.npz", **values)
    code, out, err = in_process(RUN, f"model={exported}", "data=scan.npz", "output_dir=out")
    if message is not None:
        assert code == 2 and message in err.splitlines()[-1], err
        return
    assert code == 0 and "patterns in 36 groups" in out, err
    with np.load(tmp_path / "out/recon.npz") as found:
        assert np.isfinite(found["object"]).all() and found["mask"].any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=gone.tflite", "data=x.npz"], "model=gone.tflite: no such file"),
        (["model=cut.tflite", "data=x.npz"], "model=cut.tflite: is cut short, or was not written by"),
        (["model=cut.onnx", "data=x.npz"], "model=cut.onnx: is damaged"),
    ],
)
def test_bad_input_of_run_exported_is_one_line(exported, tmp_path, in_process, words, message):
    (tmp_path / "cut.tflite").write_bytes(exported.read_bytes()[:-40])
    (tmp_path / "cut.onnx").write_bytes(b"\x08\x01 no model")
    code, _, err = in_process(RUN, *words)
    assert code == 2 and message in err and err.count("\n") == 1, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run=.", "output=a.onnx"], "holds no run; there is no config.yaml in it"),
        (["run=RUN", "output=mine_model"], "output=mine_model: must end with .tflite or .onnx"),
        (["run=RUN", "output=a.onnx", "region_size=20"], "region_size=20: must be from N=32 to 4·N=128"),
        (["run=RUN", "output=taken.onnx"], "output=taken.onnx: is there already"),
    ],
)
def test_bad_input_of_export_model_is_one_line(trained_run, tmp_path, in_process, words, message):
    (tmp_path / "taken.onnx").write_bytes(b"")
    code, _, err = in_process(EXPORT, *(word.replace("RUN", str(trained_run)) for word in words))
    assert code == 2 and message in err and err.count("\n") == 1, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.onnx"]
