"""The examples of own code, run on small data as their texts say, and own code that is refused."""

import sys

import keras
import numpy as np
import pytest
from helpers import reference
from helpers.cli import ROOT
from helpers.quick import NOTHING_SELECTED

import ptycho
from ptycho.config import ConfigError, CustomModel
from ptycho.config.own_code import allow
from ptycho.networks import build_custom
from ptycho.networks.layers import Geometry
from ptycho.reconstruction.prior import Differences, Kind, Prior, kind_of
from ptycho.run.network import read_history

N = 32
GEOMETRY = Geometry(N, N + 3, 2, N)
LENGTHS = {"energy_eV": 8000, "distance_m": 1.0, "detector_pixel_m": 75e-6}


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch, read_rightly):
    """The working directory is that of the examples; what they and these tests import is forgotten again."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "examples")])
    monkeypatch.chdir(ROOT / "examples")
    yield
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def scan():
    return ptycho.simulate(N, 40, nphotons=1e5, seed=3)


def test_a_reader(tmp_path):
    rng = np.random.default_rng(0)
    patterns, xy = rng.poisson(40, (36, 16, 16)), np.stack(np.mgrid[:6, :6], -1).reshape(-1, 2) * [0.5, 0.25]
    np.savetxt(tmp_path / "scan.txt", np.hstack([xy, patterns.reshape(36, -1)]))
    scan = ptycho.open_scan(tmp_path / "scan.txt", format="own_reader:read", **LENGTHS)
    raw = scan.geometry.raw
    assert (raw.format, raw.domain, raw.unit) == ("text", "counts", "um")
    np.testing.assert_array_equal(raw.patterns.read(np.s_[:]), patterns)
    np.testing.assert_array_equal(raw.positions, xy[:, ::-1])


def test_a_reader_that_fails_or_gives_something_else(tmp_path, monkeypatch):
    (tmp_path / "scan.txt").write_text("one two\n")
    with pytest.raises(ConfigError, match=r"scan\.txt: format=own_reader:read: fails \("):
        ptycho.open_scan(tmp_path / "scan.txt", format="own_reader:read")
    import own_reader

    monkeypatch.setattr(own_reader, "read", lambda path, options: np.ones(3))
    with pytest.raises(ConfigError, match=r"gives ndarray; must give a ptycho\.readers\.raw_scan\.RawScan"):
        ptycho.open_scan(tmp_path / "scan.txt", format="own_reader:read")


def test_a_regulariser(scan):
    quick = NOTHING_SELECTED | {"steps": 3, "half_scans": False, "progress": False, "error_map": False}
    quick |= {"learn_probe": False, "compile_xla": False, "regularisation_weight": 3.0}
    made = {
        prior: ptycho.reconstruct(scan, **quick | {"regulariser": prior})
        for prior in ("edge_preserving", "own_regulariser:CAUCHY")
    }
    assert np.abs(made["own_regulariser:CAUCHY"].object - made["edge_preserving"].object).max() > 1e-3
    rng = np.random.default_rng(0)
    image, move = (reference.random_complex(rng, (5, 7)) for _ in range(2))
    own, h = Prior("own_regulariser:CAUCHY", 2.0), 1e-5
    slope = (own(image + h * move)[0] - own(image - h * move)[0]) / (2 * h)
    assert slope == pytest.approx(np.vdot(own(image)[1], move).real, rel=1e-4)


@pytest.mark.parametrize(
    "kind, message",
    [
        (lambda square: square, "is function; must be a ptycho.reconstruction.prior.Kind"),
        (Kind(lambda image: (np.sum(np.abs(image) ** 2), image), 2.0, (1.0,)), "its gradient has the slope"),
        (Kind(Differences(lambda square: (square.sum(), 1.0)), 8.0, (1.0,)), "its gradient has the slope"),
        (Kind(lambda image: 1 / 0, 8.0, (1.0,)), "fails .ZeroDivisionError"),
    ],
    ids=["no kind", "half a gradient", "half a weight", "fails"],
)
def test_a_regulariser_that_cannot_be(monkeypatch, request, kind, message):
    import own_regulariser

    name = f"KIND_{abs(hash(request.node.name))}"
    monkeypatch.setattr(own_regulariser, name, kind, raising=False)
    allow([f"own_regulariser:{name}"])
    with pytest.raises(ConfigError, match=rf"^solver\.regulariser=own_regulariser:{name}: {message}"):
        kind_of(f"own_regulariser:{name}")


class Follow(keras.callbacks.Callback):
    """Notes its calls, and ends the training after two epochs."""

    def on_train_begin(self, logs=None):
        self.seen = ["begin"]

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append((epoch, sorted(logs)))
        self.model.stop_training = epoch == 1

    def on_train_end(self, logs=None):
        self.seen.append("end")


def test_a_loss_a_generator_and_callbacks(scan, tmp_path):
    follow, events = Follow(), []
    model = ptycho.train(
        scan,
        tmp_path,
        epochs=5,
        model="own_generator:build",
        loss="own_loss:logarithmic",
        mae_weight=0.0,
        group_size=2,
        callbacks=[follow],
        on_event=events.append,
        progress=False,
        compile_xla=False,
    )
    rows = read_history(tmp_path, "pinn")
    assert [row["own"] for row in rows] == [row["loss"] for row in rows]  # and no other loss
    assert "mae" not in rows[0] and len(rows) == 2
    columns = sorted([*rows[0]])
    assert follow.seen == ["begin", (0, columns), (1, columns), "end"]
    assert [(event.kind, event.values["epoch"]) for event in events] == [("epoch", 1), ("epoch", 2)]
    again = ptycho.load_model(tmp_path, trust="own_generator:build").reconstruct(scan)
    np.testing.assert_array_equal(again.objects, model.reconstruct(scan).objects)
    assert np.abs(np.abs(again.objects[again.mask]) - 1).max() < 0.2  # a generator of phases alone


@pytest.mark.parametrize(
    "made, message",
    [
        (3, "gives int; must give a Keras layer"),
        (lambda *given: 1 / 0, r"fails for x \(2, 2, 32, 32\), offsets .*: Z"),
        (lambda x, offsets, probe: x[:, 0], r"gives \(2, 32, 32\) float32; must be \(2, 35, 35\) complex64"),
    ],
    ids=["no layer", "fails", "another shape"],
)
def test_a_generator_that_cannot_be(monkeypatch, made, message):
    import own_generator

    class Layer(keras.layers.Layer):
        def call(self, x, offsets, probe):
            return made(x, offsets, probe)

    layer = Layer() if callable(made) else made
    monkeypatch.setattr(own_generator, "build", lambda geometry, seed: layer)
    allow(["own_generator:build"])
    with pytest.raises(ConfigError, match=rf"^model\.target=own_generator:build: {message}"):
        build_custom(settings=CustomModel(target="own_generator:build"), geometry=GEOMETRY, seed=0)
