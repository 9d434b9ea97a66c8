"""Shared by several test modules: a small configuration, its data sets, and hand-made data sets."""

import contextlib
import fcntl
import gc
import io
import logging
import os
import runpy
import sys
from functools import partial

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Always, so that a test gives the same numbers alone and in the suite: the order of sums depends on the
# number of threads. And with one process per core, more threads would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

from ptycho.config import (
    FourierModel,
    LinesObject,
    RunConfig,
    TrainConfig,
    UNetModel,
    UnrolledModel,
    XlaConfig,
)

# Tracing makes many objects that live; to look through them again and again takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)

SMALL = {
    "N": 32,
    "size": 96,
    "gridsize": 2,
    "nimgs_train": 1,
    "nimgs_test": 1,
    "nphotons": 1e6,
    "nepochs": 1,
    "batch_size": 4,
    "outer_offset_train": 16,
    "outer_offset_test": 16,
    "max_groups_train": 12,
    "set_phi": True,
    "object": LinesObject(n_lines=60),
    "train": TrainConfig(val_groups=3),
}

NETWORKS = {
    "unrolled": UnrolledModel(stages=2, width=8, blocks=1),
    "unet": UNetModel(filters_scale=1),
    "fno": FourierModel(width=8, modes=6, layers=2),
    "unet_big": UNetModel(filters_scale=1, object_big=True),
}


# The files that take longest, longest first: begun last, one would keep all other test processes waiting.
# "pretraining" before them: in a process that has run others it takes eight times as long.
LONGEST = ("pretraining", "maximum_likelihood", "resume", "workflow", "scan_workflow", "api", "training")
LONGEST += (
    "denoiser_training",
    "many_scans",
    "learning",
    "exported_networks",
    "tutorial",
    "xla_crop",
)
LONGEST += ("xla_warp", "xla_translate", "position_jumps", "loaded", "solver")
LONGEST += ("command_line_and_python", "resume_files", "exports", "zero_shot", "seams", "train", "replacing")
LONGEST += ("mpi", "cli", "blocks", "interrupt", "quiet_start", "small_scans", "affine_map")


def pytest_collection_modifyitems(items):
    place = {f"test_{name}.py": k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
    gc.collect()
    gc.freeze()  # what is imported by now: Keras collects at every start of a run, for a third of a second


def small_run(**changes):
    """A :class:`RunConfig` that simulates in well under a second; 8 × 8 groups on the test image."""
    return RunConfig(**(SMALL | changes))


@pytest.fixture
def within(record_property):
    """``within(name, score, above=…, below=…)`` asserts it, and records it for benchmarks/score_limits.py."""

    def check(name, score, above=None, below=None):
        record_property(name, [float(score), above, below])
        assert above is None or score > above, f"{name}: {score} is not above {above}"
        assert below is None or score < below, f"{name}: {score} is not below {below}"

    return check


@pytest.fixture(scope="session")
def small_config():
    return small_run


@pytest.fixture(scope="session")
def datasets():
    """Training, validation and test data of the small configuration; not to be changed."""
    from ptycho.simulation.simulate import simulate

    return simulate(small_run())[0]


@pytest.fixture(scope="session")
def build_network(datasets):
    """``build_network(name, data, …)``: a network for some training data, and the data as its inputs.

    Names are those of :data:`NETWORKS`, and ``baseline``; further arguments change the small configuration.
    """
    from ptycho.training.competitors import COMPETITORS, geometry_of

    def build(name, data=None, **changes):
        config = small_run(model=NETWORKS.get(name, UnrolledModel()), **changes)
        entry = COMPETITORS["baseline" if name == "baseline" else "pinn"]
        view = entry.view(config, datasets["train"] if data is None else data)
        return entry.build(config, geometry_of(view)), view

    return build


def without_pictures(patch):
    """Write empty files in place of pictures, because layout and drawing of a figure take half a second."""
    from ptycho.run.folder import RunFolder

    def empty(folder, name, figure):
        return folder.write(name, lambda file: None)

    patch.setattr(RunFolder, "figure", empty)


def try_no_other_reading(patch):
    """Try no other orientation, affine map or position jumps, because each takes short fits."""
    from ptycho.align import align_scan
    from ptycho.methods import pipeline

    patch.setattr(align_scan, "STEPS", align_scan.STEPS[:1])  # the probe is estimated where there is none
    patch.setattr(pipeline, "doubt_orientation", lambda *_: None)


@pytest.fixture
def eagerly():
    """Run TensorFlow functions without tracing, which takes most of the time of a few steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def read_rightly(monkeypatch):
    try_no_other_reading(monkeypatch)


@pytest.fixture(scope="module")
def read_rightly_once():
    """:func:`read_rightly` for fixtures that a module shares."""
    with pytest.MonkeyPatch.context() as patch:
        try_no_other_reading(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def small_chunks():
    """Make chunks of the likelihood smaller; yield the number of patterns in the program, and here.

    A chunk is computed as a whole even if a scan does not fill it: 1024 patterns of 16 × 16 for 40 of a test.
    """
    from ptycho.reconstruction.scan_likelihood import ScanLikelihood

    usual = ScanLikelihood.chunk.func
    small = property(lambda likelihood: min(64, usual(likelihood)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScanLikelihood, "chunk", small)
        yield property(usual), small


@pytest.fixture(scope="module")
def usual_chunks(small_chunks):
    """Chunks of the program, for a module that compares bits with separate processes."""
    from ptycho.reconstruction.scan_likelihood import ScanLikelihood

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScanLikelihood, "chunk", small_chunks[0])
        yield


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory, small_chunks):
    """Folder of a small run with both networks and two test images; tests must not change it.

    The first test process that needs it makes it.
    """
    from ptycho.run.folder import RunFolder
    from workflows.reconstruct.grid_lines import run

    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    config = small_run(
        nimgs_test=2, model=UnrolledModel(stages=2, width=8), xla=XlaConfig(compile=False), overwrite=True
    )
    with (shared / "trained.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = shared / "trained" / "run"
        if not (path / "config.yaml").exists():  # which is written last
            without_pictures(patch)
            patch.setattr("ptycho.reconstruction.scan_likelihood.ScanLikelihood.chunk", small_chunks[1])
            folder = RunFolder(path, overwrite=True)
            run(config, folder)
            folder.config(config)
        return path


def run_script(patch, script, overrides, cwd, blocked=(), pictures=False, **environment):
    """Run a script in this process as in a separate one; return its exit code. ``patch`` undoes all changes.

    Modules named in ``blocked`` cannot be imported. Unless ``pictures`` is set, pictures are empty files, and
    a run writes no page.
    """
    patch.chdir(cwd)
    patch.setattr(sys, "argv", [str(script), *map(str, overrides)])
    for name in blocked:
        patch.setitem(sys.modules, name, None)
    if not pictures:
        without_pictures(patch)
        patch.setattr("ptycho.command_line.training_jobs.write_page", lambda run: None)
    # Hydra composes all to read a mode that no configuration here has, and then composes it again.
    patch.setattr("hydra._internal.hydra.Hydra.get_mode", lambda *_, **__: None)
    patch.setattr(logging.getLogger(), "handlers", [])
    for name in ("HYDRA_FULL_ERROR", "USE_XLA_COMPILE", "USE_XLA_TRANSLATE"):
        patch.setenv(name, environment.get(name, ""))
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    return stop.value.code


@pytest.fixture(scope="session")
def in_process_once():
    """``in_process_once(script, *overrides, cwd=…)``: :func:`run_script`, as exit code, stdout and stderr."""
    root = logging.getLogger()

    def run(script, *overrides, cwd, **settings):
        out, err, level = io.StringIO(), io.StringIO(), root.level
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = run_script(patch, script, overrides, cwd, **settings)
        root.setLevel(level)
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def in_process(in_process_once, tmp_path):
    """:func:`in_process_once` in the folder of the test."""
    return partial(in_process_once, cwd=tmp_path)


@pytest.fixture(scope="session")
def dataset_of():
    """``dataset_of(positions, groups, …)``: a hand-made dataset of random patterns."""
    from ptycho.scan.beam import Beam
    from ptycho.scan.dataset import Dataset

    def build(positions, groups, N=16, object_size=64, region_size=16, image=None, probe=None, **changes):
        positions = np.asarray(positions, np.float32)
        rng = np.random.default_rng(7)
        axis = np.arange(N) - N // 2
        disk = (np.hypot(axis[:, None], axis) <= N / 3).astype(np.complex64)
        values = {
            "amplitudes": rng.poisson(5, (len(positions), N, N)).astype(np.float32),
            "positions": positions,
            "image": np.zeros(len(positions), np.int32) if image is None else np.asarray(image, np.int32),
            "groups": np.asarray(groups, np.int32),
            "probe": disk if probe is None else probe.astype(np.complex64),
            "photon_scale": 3.0,
            "object_size": object_size,
            "region_size": region_size,
        }
        values |= changes
        beam = Beam(*(values.pop(key, None) for key in ("probe", "positions", "flux", "background")))
        return Dataset(beam=beam, **values)

    return build
