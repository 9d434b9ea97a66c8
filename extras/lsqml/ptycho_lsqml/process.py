"""LSQ-ML of pty-chi for one scan: a program of its own, which needs NumPy and ptychi alone.

    python process.py in.npz out.npz
    python process.py --check              only: can ptychi be imported?

=============== ============ =============================================================================
in.npz
``patterns``    (J, N, N)    counts n, zero frequency at N//2; pixels that were not measured hold anything
``positions``   (J, 2)       (row, col) of the patch's top-left sample in object pixels, of any origin
``probe``       (K, N, N)    √counts of a unitary transform; modes are added up to ``modes``
``good``        (N, N)       bool, pixels that were measured
``settings``    text         JSON: ``epochs``, ``modes``, ``refine_positions``, ``start_positions``,
                             ``early``, ``threads``, ``seed``, ``device`` (CPU or GPU; CPU)
out.npz
``object``      (H, W)       complex64
``origin``      (2,)         whole numbers: the sample of ``object`` at position (0, 0)
``probe``       (K, N, N)    as above
``positions``   (J, 2)       as above
``r_factors``   (E,)         R = Σ| √I − √n | / Σ√n over good pixels after each epoch, I by pty-chi's model
``seconds``     ()           of pty-chi alone: without imports and without the computation of ``r_factors``
``version``     text         of pty-chi
=============== ============ =============================================================================

After each epoch the standard output gets a line ``{"epoch": 3, "r_factor": 0.21}``. With ``early`` it ends
once R has improved by less than 0.1 % in five epochs. It ends at once if its standard input is closed.

The settings are those of pty-chi's examples: random batches of a tenth of the patterns, steps of one with the
length of the joint least-squares problem, the noise model of amplitudes, a probe that is scaled to the
patterns, constant in the first epoch, its modes kept orthogonal; positions by the object's gradient. In
pty-chi patches lie at whole pixels, and only the first mode is shifted by the remaining fractions.

Method: Odstrčil, Menzel & Guizar-Sicairos, Opt. Express 26, 3108 (2018).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import IO, Any

import numpy as np


def import_ptychi() -> None:
    """Import pty-chi, if need be without torchvision.

    It wants a blur of it for random objects, which are not used here, and by pip it comes with gigabytes.
    """
    if find_spec("torchvision") is None:
        stand_in = ModuleType("torchvision.transforms")
        stand_in.GaussianBlur = None  # type: ignore[attr-defined]
        sys.modules["torchvision"] = ModuleType("torchvision")
        sys.modules["torchvision.transforms"] = stand_in
    import_module("ptychi.api")


def reconstruct(scan: dict[str, np.ndarray], settings: dict[str, Any], on_epoch: Any) -> dict[str, Any]:
    """Return the arrays ``(…)`` of ``out.npz``; ``on_epoch(epoch, r_factor)`` follows each epoch."""
    import torch
    from ptychi.api.task import PtychographyTask

    if settings["threads"] is not None:
        torch.set_num_threads(settings["threads"])
    began = time.perf_counter()
    middle = np.rint((scan["positions"].max(axis=0) + scan["positions"].min(axis=0)) / 2)
    arrays = starting_arrays(scan, scan["positions"] - middle, settings["modes"])
    task = PtychographyTask(options_of(settings, len(scan["patterns"])), **arrays)
    seconds = time.perf_counter() - began
    r_factors: list[float] = []
    # R before positions are refined does not show what their refinement will gain
    first = max(1, settings["start_positions"] if settings["refine_positions"] else 0)
    while len(r_factors) < settings["epochs"] and not (settings["early"] and converged(r_factors[first:])):
        began = time.perf_counter()
        task.run(1)
        seconds += time.perf_counter() - began
        r_factors.append(r_factor(task))
        if not np.isfinite(r_factors[-1]):
            raise FloatingPointError(f"R is {r_factors[-1]} after {len(r_factors)} epochs")
        on_epoch(len(r_factors), r_factors[-1])
    return ending_arrays(task, middle) | {"r_factors": np.array(r_factors), "seconds": seconds}


def converged(r_factors: list[float], window: int = 5, least: float = 1e-3) -> bool:
    """Return whether R has improved by less than the ``least`` share in the last ``window`` epochs."""
    if len(r_factors) <= window:
        return False
    before, now = r_factors[-1 - window], r_factors[-1]
    return before - now < least * before


def starting_arrays(scan: dict[str, np.ndarray], centred: np.ndarray, modes: int) -> dict[str, Any]:
    """Return the start of pty-chi: an object of ones, as in its examples 100 pixels wider than the scan.

    ``centred (J, 2)``: positions around the middle of the object.
    """
    import torch

    good = scan["good"].astype(bool)
    side = scan["probe"].shape[-1]
    shape = (np.ceil(np.ptp(centred, axis=0)) + side + 100).astype(int)
    return {
        "diffraction_data": np.where(good, scan["patterns"], 0).astype(np.float32),
        "valid_pixel_mask": good,
        "object_data": torch.ones([1, *shape.tolist()], dtype=torch.complex64),
        "probe_data": starting_probe(scan["probe"], modes),
        "probe_position_y_px": centred[:, 0],
        "probe_position_x_px": centred[:, 1],
    }


def starting_probe(given: np.ndarray, modes: int) -> Any:
    """Return the probe ``(1, modes, N, N)`` in the units of pty-chi, whose transform is not unitary.

    Where modes are missing, all but the first are made: Hermite polynomials times it.
    """
    import torch
    from ptychi.utils import orthogonalize_initial_probe

    probe = np.zeros((1, modes, *given.shape[-2:]), np.complex64)
    probe[0, : min(modes, len(given))] = given[:modes] / given.shape[-1]
    start = torch.as_tensor(probe)
    return orthogonalize_initial_probe(start) if modes > len(given) else start


def options_of(settings: dict[str, Any], count: int) -> Any:
    """Return the options of pty-chi for a scan of ``count`` patterns."""
    import ptychi.api as api

    options = api.LSQMLOptions()
    for part in (options.object_options, options.probe_options, options.probe_position_options):
        part.optimizer, part.step_size = api.Optimizers.SGD, 1
    options.probe_options.optimizable = True
    options.probe_options.optimization_plan.start = 1
    options.probe_options.orthogonalize_incoherent_modes.method = api.OrthogonalizationMethods.SVD
    positions = options.probe_position_options
    positions.optimizable = settings["refine_positions"]
    positions.optimization_plan.start = settings["start_positions"]
    positions.correction_options.correction_type = api.PositionCorrectionTypes.GRADIENT
    positions.correction_options.differentiation_method = api.ImageGradientMethods.GAUSSIAN
    solver = options.reconstructor_options
    solver.batching_mode = api.BatchingModes.RANDOM
    solver.batch_size = max(1, count // 10)
    solver.noise_model = api.NoiseModels.GAUSSIAN
    solver.num_epochs, solver.random_seed = settings["epochs"], settings["seed"]
    solver.default_device = api.Devices[settings.get("device", "CPU")]
    options.data_options.save_data_on_device = False
    return options


def r_factor(task: Any, at_once: int = 100) -> float:
    """Return ``Σ| √I − √n | / Σ√n`` over the good pixels of all patterns."""
    import torch

    good = task.dataset.valid_pixel_mask
    away = whole = 0.0
    with torch.no_grad():
        for indices in torch.arange(len(task.dataset), device="cpu").split(at_once):  # patterns stay there
            predicted = task.reconstructor.forward_model(indices).sqrt()[:, good]
            roots = task.dataset.patterns[indices].to(predicted.device).sqrt()[:, good]
            away += float((predicted - roots).abs().sum(dtype=torch.float64))
            whole += float(roots.sum(dtype=torch.float64))
    return away / whole


def ending_arrays(task: Any, middle: np.ndarray) -> dict[str, Any]:
    """Return object ``(H, W)``, probe ``(K, N, N)`` and positions ``(J, 2)``, as ``out.npz`` has them."""
    probe = task.get_data_to_cpu("probe", as_numpy=True)[0]
    corner = task.object.pos_origin_coords.cpu().numpy() - (np.array(probe.shape[-2:]) - 1) / 2
    return {
        "object": task.get_data_to_cpu("object", as_numpy=True)[0],
        "origin": np.rint(corner - middle).astype(int),
        "probe": probe * probe.shape[-1],
        "positions": task.get_data_to_cpu("probe_positions", as_numpy=True) + middle,
        "version": version("ptychi"),
    }


def end_with_input() -> None:
    """End this process when its standard input is closed, because the process that started it has ended.

    Not by ``sys.stdin``, whose lock a thread would hold when Python ends.
    """
    while os.read(0, 1024):
        pass
    os._exit(1)


def main(arguments: list[str]) -> None:
    """Run LSQ-ML from the NPZ to the NPZ that ``arguments`` name; a line of JSON on stdout for each epoch."""
    channel: IO[str] = sys.stdout
    sys.stdout = sys.stderr  # what pty-chi prints does not come between
    import_ptychi()
    if arguments == ["--check"]:
        return
    threading.Thread(target=end_with_input, daemon=True).start()
    source, target = arguments

    def on_epoch(epoch: int, r: float) -> None:
        channel.write(json.dumps({"epoch": epoch, "r_factor": r}) + "\n")
        channel.flush()

    with np.load(source) as file:
        scan = {key: file[key] for key in file.files}
    settings = json.loads(str(scan.pop("settings")))
    np.savez(target, **reconstruct(scan, settings, on_epoch))


if __name__ == "__main__":
    main(sys.argv[1:])
