"""4D-STEM files of several programs: by the writers of RosettaSciIO, or byte by byte as documented.

Each function writes ``cube (A, B, H, W)``, uint16, into a folder and returns the path. Steps are .5 nm
between rows and .25 nm between columns, if the format has them.
"""

import json
import struct

import h5py
import numpy as np
import pytest

STEPS = (0.5, 0.25)


def signal(cube, unit="nm", steps=STEPS, detector="cm"):
    """Return the input of the writers of RosettaSciIO."""
    values = zip("yxkj", cube.shape, (*steps, 0.01, 0.01), (unit, unit, detector, detector), strict=True)
    axes = [
        {"name": name, "size": size, "scale": scale, "offset": 0.0, "units": units, "navigate": number < 2}
        | {"_type": "UniformDataAxis", "index_in_array": number}
        for number, (name, size, scale, units) in enumerate(values)
    ]
    general = {"General": {"title": ""}, "Signal": {"signal_type": ""}}
    empty = {key: {} for key in ("original_metadata", "tmp_parameters", "learning_results", "models")}
    about = {"attributes": {"_lazy": False}, "package_info": {"package": "", "package_version": ""}}
    return {"data": cube, "axes": axes, "metadata": general, **empty, **about}


def hspy(folder, cube):
    pytest.importorskip("rsciio.hspy").file_writer(str(folder / "a.hspy"), signal(cube))
    return folder / "a.hspy"


def blo(folder, cube):
    pytest.importorskip("rsciio.blockfile").file_writer(str(folder / "a.blo"), signal(cube.astype(np.uint8)))
    return folder / "a.blo"


def emd(folder, cube):
    """EMD 0.2, of Berkeley: the axes' places and their units in brackets."""
    with h5py.File(folder / "a.emd", "w") as file:
        group = file.create_group("data/cube")
        group.attrs["emd_group_type"] = 1
        group["data"] = cube
        for number, (size, step) in enumerate(zip(cube.shape, (*STEPS, 0.1, 0.1), strict=True), 1):
            group[f"dim{number}"] = step * np.arange(size)
            group[f"dim{number}"].attrs["units"] = "[n_m]" if number < 3 else "[n_m^-1]"
    return folder / "a.emd"


def emdfile(folder, cube):
    """emdfile, of py4DSTEM: the first two places of an even axis, in ångström."""
    with h5py.File(folder / "a.h5", "w") as file:
        file["root/datacube/data"] = cube
        for number, step in enumerate((5.0, 2.5, 0.1, 0.1)):
            file[f"root/datacube/dim{number}"] = [0.0, step]
            file[f"root/datacube/dim{number}"].attrs["units"] = "A" if number < 2 else "A^-1"
    return folder / "a.h5"


def zarr(folder, cube):
    """A store of version 2 as HyperSpy lays it out, a line of the raster in a chunk, not packed."""
    pytest.importorskip("zarr")
    group = folder / "a.zspy" / "Experiments" / "__unnamed__"
    for path in (group / "data", group / "axis-0", group / "axis-1"):
        path.mkdir(parents=True)
    for path in (folder / "a.zspy", group.parent, group, group / "axis-0", group / "axis-1"):
        (path / ".zgroup").write_text('{"zarr_format": 2}')
    for number, step in enumerate(STEPS):
        (group / f"axis-{number}" / ".zattrs").write_text(json.dumps({"scale": step, "units": "nm"}))
    layout = {"zarr_format": 2, "shape": cube.shape, "chunks": (1, *cube.shape[1:]), "dtype": "<u2"}
    layout |= {"compressor": None, "fill_value": 0, "order": "C", "filters": None}
    (group / "data" / ".zarray").write_text(json.dumps(layout))
    for row, line in enumerate(cube):
        (group / "data" / f"{row}.0.0.0").write_bytes(line.astype("<u2").tobytes())
    return folder / "a.zspy"


def merlin(folder, cube, head=384):
    """One chip; the frames of a row are those of a trigger, and the last frame of the file is cut."""
    *_, rows, columns = cube.shape
    with (folder / "a.mib").open("wb") as file:
        for number, frame in enumerate(cube.reshape(-1, rows, columns), 1):
            words = f"MQ1,{number:06d},{head:05d},01,{columns:04d},{rows:04d},U16,   1x1,01,"
            file.write(words.encode().ljust(head))
            file.write(frame[::-1].astype(">u2").tobytes())
        file.write(b"MQ1,")
    (folder / "a.hdr").write_text(f"HDR,\t\nFrames per Trigger (Number):\t{cube.shape[1]}\nEnd\t\n")
    return folder / "a.mib"


def merlin_quad(folder, cube):
    return merlin(folder, cube, 768)


def mrc(folder, cube, order="<"):
    """MRC2014 of mode 6, with an extended header."""
    *_, rows, columns = cube.shape
    header = bytearray(1024)
    struct.pack_into(f"{order}4i", header, 0, columns, rows, cube.shape[0] * cube.shape[1], 6)
    struct.pack_into(f"{order}i", header, 92, 80)
    header[208:214] = b"MAP " + (b"\x44\x44" if order == "<" else b"\x11\x11")
    (folder / "a.mrc").write_bytes(bytes(header) + bytes(80) + cube.astype(f"{order}u2").tobytes())
    return folder / "a.mrc"


def mrc_big_endian(folder, cube):
    return mrc(folder, cube, ">")


def gatan(folder, cube, version, detector_first):
    """DigitalMicrograph: ``[id, name, (size,) body]`` of groups and data, the fastest axis first."""
    pytest.importorskip("rsciio")

    def numbers(*values):
        return struct.pack(f">{len(values)}{'q' if version == 4 else 'i'}", *values)

    def tag(kind, name, body):
        size = numbers(len(body)) if version == 4 else b""
        return struct.pack(">bh", kind, len(name)) + name.encode() + size + body

    def data(name, kind, content):
        return tag(21, name, b"%%%%" + numbers(len(kind), *kind) + content)

    def group(name, *tags):
        return tag(20, name, b"\1\0" + numbers(len(tags)) + b"".join(tags))

    def scaled(name, scale, unit):
        text = data("Units", (20, 4, len(unit)), unit.encode("utf-16-le"))
        pairs = (("Origin", 0), ("Scale", scale))
        parts = (data(key, (6,), struct.pack("<f", value)) for key, value in pairs)
        return group(name, *parts, text)

    def long(name, value):
        return data(name, (3,), struct.pack("<i", value))

    axes = [(STEPS[0], "nm"), (STEPS[1], "nm"), (0.3, "mrad"), (0.3, "mrad")]
    meta = group("Meta Data", data("Data Order Swapped", (8,), b"\1"))
    if detector_first:  # of older versions, which have no such tag
        cube, axes, meta = cube.transpose(2, 3, 0, 1), axes[2:] + axes[:2], group("Meta Data")
    image = group(
        "ImageData",
        group(
            "Calibrations",
            scaled("Brightness", 1, ""),
            group("Dimension", *(scaled("", *axis) for axis in axes[::-1])),
        ),
        data("Data", (20, 4, cube.size), cube.astype("<u2").tobytes()),
        long("DataType", 10),
        group("Dimensions", *(long("", size) for size in cube.shape[::-1])),
    )
    root = b"\1\0" + numbers(1) + group("ImageList", group("", image, group("ImageTags", meta)))
    path = folder / f"a.dm{version}"
    path.write_bytes(struct.pack(">i", version) + numbers(len(root)) + struct.pack(">i", 1) + root + bytes(8))
    return path


def dm3(folder, cube):
    return gatan(folder, cube, 3, False)


def dm4(folder, cube):
    return gatan(folder, cube, 4, False)


def dm4_detector_first(folder, cube):
    return gatan(folder, cube, 4, True)
