"""PMACE of xptycho on one scan; run by a Python that has it: ``python pmace_process.py scan.npz found.npz``.

``scan.npz`` has ``counts (J, N, N)`` with the zero frequency at N//2, ``corners (J, 2)`` whole pixels,
``probe (N, N)`` in units of √photons, ``side`` of the object, ``known`` (the probe is not refined) and
``iterations``. The geometry is chosen so that an object pixel is one metre.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import xptycho


def main(source: str, target: str) -> None:
    with np.load(source, allow_pickle=False) as stored:
        counts, corners, probe = stored["counts"], stored["corners"], stored["probe"]
        side, known, iterations = int(stored["side"]), bool(stored["known"]), int(stored["iterations"])
    N = counts.shape[-1]
    scan = xptycho.Scan(counts, corners + N // 2, wavelength=1.0, det_distance=float(N), det_pixel_pitch=1.0)
    model = xptycho.PtychoModel.from_scan(scan)
    model.set_params(object_shape=(side, side), object_origin=(0.0, 0.0))
    model.configure_devices(devices=["cpu"])
    began = time.perf_counter()
    given = {"probe": probe} if known else {"init_probe": probe}
    found = model.recon(scan, iterations=iterations, verbose=0, **given)
    np.savez(target, object=np.asarray(found.object), seconds=time.perf_counter() - began)


if __name__ == "__main__":
    main(*sys.argv[1:])
