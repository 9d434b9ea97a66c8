"""Trained networks read back: bit for bit in a fresh process, with nothing but the run's folder."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml
from conftest import small_run
from helpers_cli import fresh
from ptycho.run.saved import read_saved, regular_offsets, setup_of

import ptycho
from ptycho.config import ConfigError, UnrolledModel, XlaConfig, ZonePlateProbe
from ptycho.config.mapping import to_mapping
from ptycho.networks import build_baseline, build_pinn, get_weights, set_weights
from ptycho.reconstruction.inference import predict_regions
from ptycho.run.folder import RunFolder, weights_hash
from ptycho.run.loaded import VIEWS
from ptycho.scan.dataset import load_dataset, to_arrays
from ptycho.scan.probe import make_probe, probe_support

TEST = "datasets/N32/gs2/test.npz"
NEEDED = ("config.yaml", "pinn/weights.npz", "pinn/model.json", "pinn/setup.npz")


def copied(run, folder, names=("pinn", "baseline")):
    """Only what inference needs of a run."""
    for name in names:
        for file in NEEDED:
            target = folder / file.replace("pinn", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(run / file.replace("pinn", name), target)
    return folder


@pytest.fixture(scope="module")
def untrained_xla(tmp_path_factory, datasets):
    """A run under XLA whose PINN has random weights, and its own predictions on the test scan."""
    config = small_run(model=UnrolledModel(stages=1, width=4), xla=XlaConfig(), models=("pinn",))
    data, run = datasets["test"], RunFolder(tmp_path_factory.mktemp("xla"))
    model, rng = build_pinn(config, datasets["train"]), np.random.default_rng(1)
    weights = {k: v + rng.normal(0, 0.05, v.shape).astype(v.dtype) for k, v in get_weights(model).items()}
    set_weights(model, weights)
    run.text("config.yaml", yaml.safe_dump(to_mapping(config)))
    run.model("pinn", weights, {}, [])
    run.arrays("pinn/setup.npz", setup_of(config, datasets["train"], model.support).arrays())
    return run.path, predict_regions(model, data, config.batch_size, compile_xla=True)


def test_the_package_is_light(tmp_path):
    done = fresh(
        tmp_path, "-c", "import ptycho, sys; print([m for m in sys.modules if m in ('numpy', 'tensorflow')])"
    )
    assert done.stdout.strip() == "[]" and callable(ptycho.load_model)


RELOAD = """
import sys
import numpy as np
import ptycho
from ptycho.scan.dataset import load_dataset
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


def test_predict_under_xla_is_the_runs_own_prediction(untrained_xla, datasets):
    run, regions = untrained_xla
    data, model = datasets["test"], ptycho.load_model(run)
    patterns = data.amplitudes[data.groups]
    found = model.predict(patterns, data.offsets, data.probe, normalisation=data.normalisation)
    np.testing.assert_array_equal(found, regions)
    np.testing.assert_array_equal(found, model.predict(patterns, normalisation=data.normalisation))
    first = model.predict(patterns[:5], normalisation=data.normalisation)
    np.testing.assert_array_equal(first, regions[:5], err_msg="the padding of the last batch shows")
    assert model.predict(patterns[:1]).shape == (1, 36, 36)


def test_what_a_setup_holds(trained_run):
    config, train = (
        read_saved(trained_run, "pinn").config,
        load_dataset(trained_run / TEST.replace("test", "train")),
    )
    for name, side, size in (("pinn", 36, 4), ("baseline", 32, 1)):
        setup = read_saved(trained_run, name).setup
        assert (setup.region_size, setup.group_size, setup.N) == (side, size, 32)
        np.testing.assert_array_equal(setup.probe, train.probe)
        assert (setup.photon_scale, setup.normalisation) == (train.photon_scale, train.normalisation)
        mean = np.mean(np.sum(train.amplitudes.astype(float) ** 2, axis=(1, 2)))
        light = np.sum(np.abs(train.photon_scale * train.probe) ** 2)
        assert setup.transmission == pytest.approx(mean / light, rel=1e-5)
    np.testing.assert_array_equal(regular_offsets(config, 4), [[-2, -2], [-2, 2], [2, -2], [2, 2]])
    np.testing.assert_array_equal(regular_offsets(config, 4), train.offsets[0])
    np.testing.assert_array_equal(regular_offsets(config, 1), [[0, 0]])


def test_no_probe_file_is_needed(trained_run, tmp_path):
    moved = copied(trained_run, tmp_path)
    values = yaml.safe_load((moved / "config.yaml").read_text())
    gone = {"kind": "npz", "file": "/nowhere/probe.npz", "resize": "interpolate", "mask_diameter_px": None}
    (moved / "config.yaml").write_text(yaml.safe_dump(values | {"probe": gone, "test_probe": gone}))
    model = ptycho.load_model(moved)
    assert model.config.probe.file == "/nowhere/probe.npz" and model.probe.shape == (32, 32)
    ptycho.load_model(moved, "baseline")


@pytest.mark.parametrize("name, build", [("pinn", build_pinn), ("baseline", build_baseline)])
def test_a_broader_probe_has_a_network_of_its_own(trained_run, name, build):
    """The weights do not depend on the support: the same as in a network built for that probe."""
    model, data = ptycho.load_model(trained_run, name), load_dataset(trained_run / TEST)
    broad = make_probe(ZonePlateProbe(), 32)
    assert probe_support(broad) > model.setup.support or name == "baseline"
    data = replace(data, probe=broad)
    view = VIEWS[name](model.config, data)
    network = build(model.config, view)
    set_weights(network, read_saved(trained_run, name).weights)
    found = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
    model.predict_regions(view, found)
    np.testing.assert_array_equal(found, predict_regions(network, view, 4, compile_xla=False))


def test_single_patterns_may_come_without_their_axis(trained_run):
    model, data = ptycho.load_model(trained_run, "baseline"), load_dataset(trained_run / TEST)
    single = data.amplitudes[:6]
    np.testing.assert_array_equal(model.predict(single), model.predict(single[:, None]))


def test_a_dataset_file_can_be_named(trained_run):
    model = ptycho.load_model(trained_run)
    stitched = model.reconstruct(trained_run / TEST, "grid")
    assert stitched.objects.shape == (2, 96, 96) and 0.3 < stitched.mask.mean() < 0.6


P = np.ones((3, 4, 32, 32), np.float32)
WRONG = [
    (lambda m: m.predict(P[:, :3]), r"patterns has shape \(3, 3, 32, 32\); must be \(G, 4, 32, 32\)"),
    (lambda m: m.predict(P[:0]), r"patterns has shape \(0, 4, 32, 32\)"),
    (lambda m: m.predict(P * 1j), r"patterns has dtype complex64"),
    (lambda m: m.predict(-P), r"NaN, infinity or negative"),
    (lambda m: m.predict(0 * P), r"zero everywhere"),
    (lambda m: m.predict(P * np.nan), r"NaN"),
    (lambda m: m.predict(P, np.zeros((2, 4, 2))), r"offsets has shape \(2, 4, 2\); must be \(3, 4, 2\) or"),
    (
        lambda m: m.predict(P, np.full((4, 2), 3)),
        r"offsets reach 3 px from the centre; the regions hold 2 px",
    ),
    (lambda m: m.predict(P, probe=np.ones((16, 16))), r"probe has shape \(16, 16\)"),
    (lambda m: m.predict(P, probe=np.zeros((32, 32))), r"probe is zero"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[text for _, text in WRONG])
def test_what_cannot_be_predicted(trained_run, call, message):
    with pytest.raises(ConfigError, match=message):
        call(ptycho.load_model(trained_run))


def test_other_geometries_are_refused(trained_run, datasets, small_config):
    from ptycho.simulation.simulate import simulate

    model = ptycho.load_model(trained_run)
    other = simulate(small_config(gridsize=1, nimgs_train=1))["val"]
    with pytest.raises(
        ConfigError, match=r"have N=32, gridsize²=1, region_size=32; the network was trained for"
    ):
        model.reconstruct(other)


def spoilt(run, folder, change):
    """A copy whose weights were changed, with the checksum that goes with them."""
    moved = copied(run, folder, ("pinn",))
    weights = change(dict(read_saved(moved, "pinn").weights))
    np.savez(moved / "pinn" / "weights.npz", **weights)
    (moved / "pinn" / "model.json").write_text(f'{{"weights_sha256": "{weights_hash(weights)}"}}')
    return moved


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w: w | {"pinn/extra": np.ones(3, np.float32)}, r"1 names differ, first pinn/extra"),
        (
            lambda w: {k: v for k, v in w.items() if "level" not in k},
            r"1 names differ, first pinn/generator/level",
        ),
        (lambda w: {k: v[..., :1] if v.ndim == 4 else v for k, v in w.items()}, r"has shape .*; must be"),
    ],
)
def test_weights_of_another_network_are_refused(trained_run, tmp_path, change, message):
    moved = spoilt(trained_run, tmp_path, change)
    with pytest.raises(ConfigError, match=rf"{moved}/pinn: .*{message}"):
        ptycho.load_model(moved)


def test_no_class_is_taken_from_model_json(trained_run, tmp_path):
    moved = copied(trained_run, tmp_path, ("pinn",))
    digest = read_saved(moved, "pinn").sha256
    description = {"class": "os.system", "config": {"class_name": "Lambda"}, "weights_sha256": digest}
    (moved / "pinn" / "model.json").write_text(json.dumps(description))
    assert ptycho.load_model(moved).name == "pinn"


def test_unknown_names_are_refused(trained_run):
    with pytest.raises(ConfigError, match="name=gan: must be one of pinn, baseline"):
        ptycho.load_model(trained_run, "gan")
