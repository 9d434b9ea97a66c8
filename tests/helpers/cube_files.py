"""4D-STEM files of the programs that make them: by RosettaSciIO's writers, else byte by byte as documented.

Each writes ``cube (A, B, H, W)`` of uint16 into a folder with steps of .5 nm between rows and .25 nm between
columns where the format has them, and returns the path.
"""

import struct

import h5py
import numpy as np
import pytest

STEPS = (0.5, 0.25)


def signal(cube, unit="nm", steps=STEPS, detector="cm"):
    """What RosettaSciIO's writers take."""
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


def hspy_angstrom(folder, cube):
    pytest.importorskip("rsciio.hspy").file_writer(str(folder / "a.hspy"), signal(cube, "Å", (5.0, 2.5)))
    return folder / "a.hspy"


def hspy_micron(folder, cube):
    pytest.importorskip("rsciio.hspy").file_writer(str(folder / "a.hspy"), signal(cube, "µm", (5e-4, 2.5e-4)))
    return folder / "a.hspy"


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
