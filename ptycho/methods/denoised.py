"""A reconstruction without the noise of photons, by non-local means."""

from __future__ import annotations

import time
from dataclasses import replace

from ptycho.methods.prepared import Prepared
from ptycho.reconstruction.denoising import denoise, photon_noise
from ptycho.scan.reconstruction import Reconstruction

DENOISED = "denoised"


def reconstruct(prepared: Prepared, made: Reconstruction) -> Reconstruction:
    """The object without noise, with the same beam; the errors of the other are not its own."""
    began = time.perf_counter()
    data = prepared.fitted(prepared.beam_under(made))
    objects = denoise(made.objects, made.mask, photon_noise(data))
    seconds = time.perf_counter() - began
    return replace(made, objects=objects, errors=None, fit=None, denoised=True, seconds=seconds)
