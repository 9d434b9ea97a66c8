"""Messages of a live scan are read back as they were sent, and wrong messages are refused."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.cli import ROOT

from ptycho_live import messages
from ptycho_live.arrivals import BY_TIME, Description, Frame, make_positions
from ptycho_live.messages import SIZES, BadMessage

DATA = np.random.default_rng(3).poisson(3, (33, 47)).astype(np.uint16)


@pytest.mark.parametrize("encoding", ["raw", "bslz4"])
@pytest.mark.parametrize("dtype", ["uint8", ">u2", "float32"])
def test_a_frame_is_read_back(encoding, dtype):
    data = DATA.astype(dtype)
    found = messages.read(messages.frame_message(Frame(7, data, 1.5), encoding))
    assert (found.number, found.time) == (7, 1.5)
    np.testing.assert_array_equal(found.data, data)


def test_packed_frames_are_what_hdf5_stores_in_a_chunk(tmp_path):
    """Detectors of Dectris send them so: the same bytes as filter 32008 writes."""
    h5py, hdf5plugin = pytest.importorskip("h5py"), pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "one.h5", "w") as file:
        made = file.create_dataset("a", data=DATA, chunks=DATA.shape, **hdf5plugin.Bitshuffle(cname="lz4"))
        assert messages.packed(DATA) == made.id.read_direct_chunk((0, 0))[1]
    assert SIZES.unpack(messages.packed(DATA)[:12])[0] == DATA.nbytes
    assert len(messages.packed(DATA)) < DATA.nbytes


def test_positions_are_read_back():
    for some in (make_positions([3, 4], [1.5, 0.0], [-2.0, 1e-6]), make_positions(BY_TIME, 1.0, 2.0, 3.0)):
        found = messages.read(messages.positions_message(some))
        assert [str(one) for one in found] == [str(one) for one in some]
    one = messages.read(messages.message("positions", index=2, row=1, col=0))
    assert one.tolist()[0][2:] == (1.0, 0.0)


def test_start_mask_and_probe_are_read_back():
    values = {"shape": (4, 6), "dtype": "uint32", "expected": 9}
    description = Description("m", "counts", "corner", 8000.0, 0.3, (1e-5, 2e-5), **values)
    found = messages.read(messages.start_message(description))
    assert vars(Description(**found)) == vars(description)
    good = np.eye(5, 4, dtype=bool)
    found = messages.read(messages.message("mask", (~good).astype(np.uint8)))
    np.testing.assert_array_equal(found["good"], good)
    probe = np.full((1, 3, 3), 1 + 2j, np.complex64)
    np.testing.assert_array_equal(messages.read(messages.message("probe", probe))["probe"], probe)


@pytest.mark.parametrize(
    "header", [b"\x00\xff", b"[1]", b'{"type": 3}', b"[" * 100_000, b'{"type": "' + b"x" * 2**22 + b'"}']
)
def test_no_header(header):
    with pytest.raises(BadMessage, match="header"):
        messages.read([header])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"shape": [33, 48]}, "as long as its shape"),
        ({"shape": [2**30, 2**30]}, "shape"),
        ({"dtype": "object"}, "dtype"),
    ],
)
def test_a_frame_whose_header_is_wrong(changes, match):
    header, content = messages.frame_message(Frame(1, DATA))
    with pytest.raises(BadMessage, match=match):
        messages.read([json.dumps(json.loads(header) | changes).encode(), content])


def test_blocks_that_claim_more_than_there_is_are_never_unpacked():
    """This runs in another process, because a signal would end it, as one message of 112 bytes did."""
    code = (
        "import sys; from ptycho_live.messages import BadMessage, unpacked\n"
        "for line in sys.stdin:\n"
        "    try: unpacked(bytes.fromhex(line), (33, 47), 'uint16')\n"
        "    except BadMessage: print('refused')\n"
    )
    packed = messages.packed(DATA)
    head = SIZES.pack(DATA.nbytes, 0)
    lies = [
        packed[:12] + (2**31 - 1).to_bytes(4, "big") + bytes(96),
        head + packed[12:],
        SIZES.pack(DATA.nbytes, 16) + bytes(100),
        packed[:12] + (2**32 - 1).to_bytes(4, "big") + packed[16:],
    ]
    description = "\n".join(lie.hex() for lie in lies)
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=description, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout.split()) == (0, ["refused"] * len(lies)), done.stderr
