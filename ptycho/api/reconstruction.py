"""Check the arguments of a reconstruction, and start it. TensorFlow is imported after the checks."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ptycho.api.scan import Scan, as_scan, plain
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.mapping import to_dataclass
from ptycho.config.messages import argument_words, fields_of, name_arguments
from ptycho.config.own_code import allow
from ptycho.config.run_config import PRETRAINED
from ptycho.config.solver_config import LsqmlConfig, SolverConfig
from ptycho.preparation.dataset import check_disk
from ptycho.progress import OnEvent, ignore, phases_for
from ptycho.quiet_start import require_tensorflow, start_tensorflow
from ptycho.reconstruction.lsqml import check_available
from ptycho.run.scan_plan import plan_scan

if TYPE_CHECKING:
    from ptycho.api.result import Result

Method = Literal["solver", "pinn", "lsqml"]
Regulariser = Literal["learned", "second_order", "edge_preserving", "quadratic", "none"]
SECTIONS = {"solver": "solver", "pinn": "solver", "lsqml": "iterative"}
"""Method to the section of the configuration that has its settings, or those of the solver before it."""
DEFAULT_REGULARISER = SolverConfig.regulariser
ARGUMENTS = {
    "probe.modes": "probe_modes",
    "probe.learn": "learn_probe",
    "iterative.modes": "probe_modes",
    "xla.compile": "compile_xla",
}
"""Keys of the configuration that have another name as arguments."""


SECTIONS_OF_ARGUMENTS = (SolverConfig, LsqmlConfig, DataConfig)
WORDS = argument_words(*SECTIONS_OF_ARGUMENTS, renamed=ARGUMENTS)
"""Names arguments of :func:`reconstruct` and :func:`ptycho.open_scan` in a text."""


@name_arguments(*SECTIONS_OF_ARGUMENTS, renamed=ARGUMENTS)
def reconstruct(
    scan: Scan | str | Path,
    method: Method = "solver",
    *,
    probe_modes: int | None = None,
    positions: bool | None = None,
    learn_probe: bool | None = None,
    regulariser: Regulariser | str = DEFAULT_REGULARISER,
    regularisation_weight: float | None = None,
    holdout_fraction: float = ScanRunConfig.holdout_fraction,
    seed: int = 0,
    progress: bool = True,
    half_scans: bool | None = None,
    run: str | Path | None = None,
    start: str | Path | None = None,
    compile_xla: bool = True,
    on_event: OnEvent = ignore,
    **settings: Any,
) -> Result:
    """Reconstruct the object of a scan and the beam that goes with it.

    Args:
        scan: what was measured; or the path of its file, as of :func:`ptycho.open_scan`.
        method: ``solver``, maximum likelihood; ``pinn``, a trained network under the beam that the solver
            found; ``lsqml``, that of pty-chi, if it is installed.
        probe_modes: number of modes of the probe; None: chosen on the held-out patterns (``lsqml``: one).
        positions: refine the positions; None: if that lowers the deviance of the held-out patterns
            (``lsqml``: yes).
        learn_probe: refine the probe; None: as for the positions. ``lsqml`` always refines it.
        regulariser: regularisation of the object, for the solver alone: ``learned``, ``quadratic``,
            ``edge_preserving``, ``second_order``, ``none``, or your own as ``my_module:NAME``
            (``__main__:NAME`` in a script or notebook); the default is that of the section ``solver``.
        regularisation_weight: weight λ or κ of the regulariser; None: chosen on the held-out patterns.
        holdout_fraction: fraction of the patterns that are held out of the fit, for ``r_free``.
        seed: seed of all random numbers.
        progress: show a progress bar on a terminal or in a notebook.
        half_scans: reconstruct two halves of the scan, too, as the command line does:
            ``scores["half_scan_frc"]`` is where they stop to agree, and flags depend on it. It takes about as
            long as the last fit. None: yes, but for ``lsqml``.
        run: folder of a run whose network is used; None: the one that comes with the program. For ``pinn``
            alone.
        start: folder of a run, or a product (:meth:`ptycho.Result.save`), whose object, probe and positions
            the solver begins with; the scan is not aligned again.
        compile_xla: compile with XLA: slower to begin, faster in the long run.
        on_event: is called with a :class:`ptycho.Event` after each phase, step, decision, and with the
            scores; what it raises ends the reconstruction.
        **settings: further keys of the section ``solver`` (``steps``, ``flux``, ``background``, ``noise``,
            ``position_model``) or, for ``lsqml``, ``iterative`` (``epochs``, …); where ``scan`` is a path,
            also those of :func:`ptycho.open_scan`.

    Returns:
        Object, beam and scores. ``scores["reference_comparison"]`` is there if the scan has a reference
        object; None if the scan covers too little of it to be scored.

    Raises:
        ConfigError: a setting that is unknown or cannot be; a scan of too few patterns; no pty-chi.
        LsqmlError: pty-chi failed.
    """
    if method not in SECTIONS:
        raise ConfigError(f"method={method}: must be one of {', '.join(SECTIONS)}")
    scan = as_scan(scan, {key: settings.pop(key) for key in [*settings] if key in fields_of(DataConfig)})
    own = {"positions": positions} | settings
    probe = {"kind": "from_file", "learn": learn_probe, "modes": probe_modes}
    if method != "lsqml":
        own |= {"regulariser": regulariser, "regularisation_weight": regularisation_weight}
    else:
        of_the_solver = {
            "learn_probe": (learn_probe, (None, True)),
            "regulariser": (regulariser, (DEFAULT_REGULARISER,)),
            "regularisation_weight": (regularisation_weight, (None,)),
            "half_scans": (half_scans, (None, False)),
        }
        for key, (value, possible) in of_the_solver.items():
            if value not in possible:
                raise ConfigError(f"{key}={value}: method={method} has no such argument; remove it")
        own = {key: value for key, value in (own | {"modes": probe_modes}).items() if value is not None}
    values = {
        SECTIONS[method]: own,
        "probe": probe,
        "holdout_fraction": holdout_fraction,
        "seed": seed,
        "start": None if start is None else str(start),
        "xla": {"compile": compile_xla},
    }
    if run is not None and method != "pinn":
        raise ConfigError(f"run={run}: method={method} needs no network; remove run=, or use method=pinn")
    if method == "pinn":
        values |= {"run": str(run or PRETRAINED), "models": ["pinn"]}
    allow([regulariser])
    config = to_dataclass(ScanRunConfig, plain({"data": {"file": scan.data.file}, **values}))
    config = plan_scan(replace(config, data=scan.data), scan.geometry)
    if method == "lsqml":
        check_available(config.iterative.python)
    scratch = Path(tempfile.gettempdir())
    check_disk(scan.geometry.raw, config.data, scratch, "TMPDIR")
    start_keras()
    from ptycho.align.aligned import RunContext
    from ptycho.align.cached import align
    from ptycho.api.methods import reconstruct_and_assess
    from ptycho.run.loaded import load_model

    context = RunContext(
        scratch, timed=phases_for(on_event), bar=progress and shows_bars(), on_event=on_event, words=WORDS
    )
    network = load_model(config.run) if config.run else None  # before the long work
    aligned = align(scan.geometry, config, context)
    return reconstruct_and_assess(method, scan, aligned, context, half_scans is not False, network)


def shows_bars() -> bool:
    """Return whether progress bars are shown: on a terminal and in a notebook, not in a log."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def start_keras() -> None:
    """Start TensorFlow as the backend of Keras."""
    require_tensorflow(os.environ)
    start_tensorflow()
