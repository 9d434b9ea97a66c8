"""Live sources: a folder that is written, and a socket that any program may use."""

import json
import socket as plain
import time

import numpy as np
import pytest
import tifffile

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho_live import messages
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.sources import open_source
from ptycho_live.sources.growing_folder import GrowingFolder

DATA = np.random.default_rng(0).poisson(9, (6, 16, 18)).astype(np.uint16)


DATA_SECTION = DataConfig(file=("-",))


def has(number):
    return False


def open_one(watch, **changes):
    return open_source(watch, DATA_SECTION, has, **changes)


def rows_of(came):
    return [(index, row, col) for index, _, row, col in came.positions.tolist()]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "frames"
    made.mkdir()
    return made


def test_files_are_taken_by_the_number_in_their_name_when_they_are_whole(tmp_path, folder):
    source = open_one(f"{folder}/")
    tifffile.imwrite(folder / "run7_0010.tif", DATA[0])
    np.save(folder / "run7_2.npy", DATA[1])
    whole = (folder / "run7_0010.tif").read_bytes()
    (folder / "run7_0011.tif").write_bytes(whole[: len(whole) // 2])
    (folder / "notes.tif").write_bytes(b"")
    came = source.poll()
    assert {frame.number for frame in came.frames} == {2, 10} and came.faults == {"file without a number": 1}
    np.testing.assert_array_equal(next(f.data for f in came.frames if f.number == 10), DATA[0])
    assert not source.poll().frames
    (folder / "run7_0011.tif").write_bytes(whole)
    assert [frame.number for frame in source.poll().frames] == [11]
    (folder / "END").touch()
    assert source.poll().ended


def test_a_file_that_stays_cut_short_is_given_up(tmp_path, folder):
    source = GrowingFolder(folder, DATA_SECTION, has, patience_s=0.0)
    (folder / "f_1.tif").write_bytes(b"II*\0 no more")
    (folder / "END").touch()
    assert not source.poll().ended
    assert source.poll().faults == {"frame cut short": 1}
    assert source.poll().ended


def test_a_table_of_positions_that_grows(tmp_path, folder):
    source = open_one(f"{folder}/")
    table = folder / "positions.csv"
    table.write_text("frame,x_um,y_um\n4,1.5,2.5\n0,3,")
    assert rows_of(source.poll()) == [(4, 2.5, 1.5)]
    with table.open("a") as file:
        file.write("4\n7,nonsense,1\nnan,1,2\ninf,1,2\n8\n8,5,6\n")
    came = source.poll()
    assert rows_of(came) == [(0, 4.0, 3.0), (8, 6.0, 5.0)]
    assert came.faults == {"line of the table dropped": 4} and source.description.unit == "um"


@pytest.mark.parametrize("watch", ["tcp://127.0.0.1:1", "zmq://nowhere", "zmq://127.0.0.1:99999", "zmq://:5"])
def test_what_cannot_be_watched(tmp_path, watch):
    with pytest.raises(ConfigError, match="must be"):
        open_one(watch)


zmq = pytest.importorskip("zmq")


def free_port():
    with plain.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def context():
    """A context that ends with its test, also if this fails; one that is left would wait for ever."""
    one = zmq.Context()
    yield one
    one.destroy(linger=0)


@pytest.fixture
def wire(tmp_path, context):
    port = free_port()
    source = open_one(f"zmq://127.0.0.1:{port}", largest=10_000)
    sender = context.socket(zmq.PUSH)
    sender.connect(f"tcp://127.0.0.1:{port}")
    yield source, sender.send_multipart, port
    source.close()


def gather(source, count, seconds=60.0):
    frames, places, faults, until = [], [], {}, time.monotonic() + seconds
    while len(frames) + len(places) < count and time.monotonic() < until:
        came = source.poll()
        frames += came.frames
        places += rows_of(came)
        for what, times in came.faults.items():
            faults[what] = faults.get(what, 0) + times
    return frames, places, faults


def test_messages_between_garbage_arrive(wire):
    source, send, _ = wire
    send(messages.start_message(Description(unit="um", shape=(16, 18), dtype="uint16", expected=6)))
    send(messages.message("mask", np.zeros((16, 18), np.uint8)))
    send([b"\x00garbage"])
    send([b"a", b"b", b"c"])
    send([json.dumps({"type": "dance"}).encode()])
    send([*messages.frame_message(Frame(1, DATA[1]))[:1], b"short"])
    send(messages.frame_message(Frame(0, DATA[0]), "bslz4"))
    send(messages.positions_message(make_positions(0, 1.0, 2.0)))
    frames, places, faults = gather(source, 2)
    np.testing.assert_array_equal(frames[0].data, DATA[0])
    assert places == [(0, 1.0, 2.0)] and sum(faults.values()) == 4
    assert source.description.expected == 6 and source.description.good.all()
    send(messages.message("end"))
    until = time.monotonic() + 60
    while not source.poll().ended:
        assert time.monotonic() < until


def test_a_message_that_is_too_large_is_not_taken_and_others_still_are(wire, context):
    source, send, port = wire
    other = context.socket(zmq.PUSH)
    disconnected = other.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    other.connect(f"tcp://127.0.0.1:{port}")
    other.send_multipart(messages.frame_message(Frame(4, np.zeros((300, 300), np.uint16))))
    assert disconnected.poll(60_000)
    send(messages.frame_message(Frame(3, DATA[3])))
    frames, _, _ = gather(source, 1)
    assert [frame.number for frame in frames] == [3]


def test_with_keys_only_one_other_may_send(tmp_path, context):
    recv_monitor_message = pytest.importorskip("zmq.utils.monitor").recv_monitor_message
    if not zmq.has("curve"):
        pytest.skip("ZeroMQ without CURVE")
    ours, theirs, stranger = (zmq.curve_keypair() for _ in range(3))

    def keys(name, own, other):
        path = tmp_path / f"{name}.json"
        values = {"public": own[0], "secret": own[1], "theirs": other[0]}
        path.write_text(json.dumps({key: value.decode() for key, value in values.items()}))
        return str(path)

    port = free_port()
    source = open_one(f"zmq://127.0.0.1:{port}", keys=keys("live", ours, theirs))
    ends = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED
    outcomes = []
    for number, (public, secret) in enumerate([stranger, theirs]):
        sender = context.socket(zmq.PUSH)
        sender.curve_publickey, sender.curve_secretkey, sender.curve_serverkey = public, secret, ours[0]
        sender.linger = 0
        watched = sender.get_monitor_socket(ends)
        sender.connect(f"tcp://127.0.0.1:{port}")
        sender.send_multipart(messages.frame_message(Frame(number, DATA[0])))
        assert watched.poll(60_000)
        outcomes.append(recv_monitor_message(watched)["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED)
    frames, _, _ = gather(source, 1)
    assert outcomes == [False, True] and [frame.number for frame in frames] == [1]
    source.close()
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"curve_keys=.*must be JSON"):
        open_one(f"zmq://127.0.0.1:{free_port()}", keys=str(tmp_path / "bad.json"))
