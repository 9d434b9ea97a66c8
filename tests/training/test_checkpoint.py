"""Checkpoints: exact round trip, and all errors of files and disks."""

import io
import logging

import numpy as np
import pytest
from helpers.cli import small_disk

from ptycho.config import ConfigError
from ptycho.training.checkpoint import Checkpoints, History, Snapshot

CONFIG = {"N": 64, "train": {"learning_rate": 1e-3}, "models": ["pinn"], "max_groups_train": None}


def snapshot(epoch=0, step=1, value=0.1, **changes):
    rows = [{"epoch": k + 1, "loss": 1 / (k + 3), "val_loss": 0.1, "seconds": 2.0} for k in range(epoch)]
    history = History(rows, [{"loss": 0.1 + 0.2}] * step, running_s=0.7, compile_s=1 / 3, checkpoint_s=0.1)
    values = {
        "weights": {"a/kernel": np.full((2, 3), value, np.float32), "a/bias": np.float32([value, -0.0])},
        "best": {"a/kernel": np.full((2, 3), 5, np.float32), "a/bias": np.float32([5e-39, 1e38])},
        "optimizer": {"adam/iteration": np.asarray(7, np.int64), "adam/velocity": np.float32([[1]])},
    }
    return Snapshot(**values | changes, history=history)


def equal(one, two):
    return one.history == two.history and all(
        a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() and a[k].shape == b[k].shape for k in a)
        for a, b in ((one.weights, two.weights), (one.best, two.best), (one.optimizer, two.optimizer))
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "pinn" / "checkpoints"


@pytest.fixture
def checkpoints(folder):
    return Checkpoints(folder, CONFIG, 30.0)


def restored(folder, config=CONFIG):
    got = []
    found = Checkpoints(folder, config, 30.0).restore(got.append)
    assert found == bool(got)
    return got[0] if got else None


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back_bit_by_bit(checkpoints, folder):
    checkpoints.save(snapshot(epoch=2, step=5))
    assert names(folder) == ["epoch00002-step0000005.npz"]
    assert equal(restored(folder), snapshot(epoch=2, step=5))


def test_the_last_two_are_kept_and_the_newest_is_taken(checkpoints, folder):
    for epoch, step in ((0, 1), (0, 2), (0, 10), (1, 0), (1, 2)):
        checkpoints.save(snapshot(epoch, step))
    assert names(folder) == ["epoch00001-step0000000.npz", "epoch00001-step0000002.npz"]
    assert equal(restored(folder), snapshot(1, 2))
    checkpoints.remove()
    assert not folder.exists()
    checkpoints.remove()


def other_kernel(change, name="weights/a/kernel"):
    """Return a function that changes a kernel, or its name, in an archive whose own checksums fit."""

    def damage(data):
        with np.load(io.BytesIO(data)) as archive:
            arrays = dict(archive)
        arrays[name] = change(arrays.pop("weights/a/kernel"))
        content = io.BytesIO()
        np.savez(content, **arrays)
        return content.getvalue()

    return damage


DAMAGE = {
    "other numbers": other_kernel(lambda kernel: 2 * kernel),
    "another name": other_kernel(lambda kernel: kernel, "weights/a/kernel2"),
    "half": lambda data: data[: len(data) // 2],
    "pickle": lambda data: b"\x80\x04K\x01.",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_falls_back_to_the_one_before(checkpoints, folder, damage, caplog):
    checkpoints.save(snapshot(0, 1))
    checkpoints.save(snapshot(0, 2))
    newest = folder / "epoch00000-step0000002.npz"
    newest.write_bytes(damage(newest.read_bytes()))
    assert equal(restored(folder), snapshot(0, 1))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and str(newest) in record.message
    assert "trying the checkpoint before it" in record.message


def test_no_flipped_bit_goes_unnoticed(checkpoints, folder):
    """If any byte of the file changes, the former checkpoint is restored, or exactly the saved one."""
    checkpoints.save(snapshot(0, 1))
    checkpoints.save(snapshot(0, 2))
    newest = folder / "epoch00000-step0000002.npz"
    data, noticed = newest.read_bytes(), 0
    for position in range(0, len(data), 31):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        newest.write_bytes(flipped)
        got = restored(folder)
        assert equal(got, snapshot(0, 1)) or equal(got, snapshot(0, 2)), position
        noticed += got.history.step == 1
    assert noticed > len(data) / 31 / 2


def test_a_damaged_file_goes_when_a_new_one_is_there_not_before(checkpoints, folder):
    checkpoints.save(snapshot(1, 0))
    checkpoints.save(snapshot(1, 9))
    (folder / "epoch00001-step0000009.npz").write_bytes(b"")
    again = Checkpoints(folder, CONFIG, 30.0)
    assert again.restore(lambda found: None)
    assert names(folder) == ["epoch00001-step0000000.npz", "epoch00001-step0000009.npz"]
    again.save(snapshot(1, 4))
    assert names(folder) == ["epoch00001-step0000000.npz", "epoch00001-step0000004.npz"]
    again.save(snapshot(1, 9))
    assert names(folder) == ["epoch00001-step0000004.npz", "epoch00001-step0000009.npz"]
    assert equal(restored(folder), snapshot(1, 9))


def test_a_checkpoint_of_another_configuration_is_refused_with_the_difference(checkpoints, folder):
    checkpoints.save(snapshot())
    before = names(folder)
    other = CONFIG | {"N": 128, "train": {"learning_rate": 2e-3}, "models": ["pinn"], "new": True}
    with pytest.raises(ConfigError, match=r"N: 64 -> 128; train.learning_rate: 0.001 -> 0.002; new") as e:
        restored(folder, other)
    assert str(folder) in str(e.value) and "\n" not in str(e.value) and names(folder) == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_snapshot_that_is_not_finite_is_not_written(checkpoints, folder, value, caplog):
    checkpoints.save(snapshot(0, 1))
    checkpoints.save(snapshot(0, 2, value=value))
    checkpoints.save(snapshot(0, 3, optimizer={"adam/velocity": np.float32([value])}))
    assert names(folder) == ["epoch00000-step0000001.npz"]
    assert "a weight is NaN or infinite" in caplog.text


def test_a_full_disk_is_a_warning_and_costs_nothing(checkpoints, folder, caplog):
    checkpoints.save(snapshot(0, 1))
    checkpoints.save(snapshot(0, 2))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with small_disk(1000):
        checkpoints.save(snapshot(0, 3))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{folder / 'epoch00000-step0000003.npz'}: cannot be written (File too large)" in record.message
    checkpoints.save(snapshot(0, 4))  # there is room again
    assert names(folder) == ["epoch00000-step0000002.npz", "epoch00000-step0000004.npz"]
