"""The keys of a live reconstruction."""

from __future__ import annotations

from ptycho.config import ConfigError, ScanRunConfig, XlaConfig, check
from ptycho.config.data import DataConfig
from ptycho.config.own_code import is_import_path
from ptycho.config.schema import Flag, Integer, Number, Text, key, settings
from ptycho.config.sections import AberratedProbe, OwnProbe, Shape
from ptycho.config.solver_config import SolverConfig


@settings(kw_only=True)
class LiveConfig:
    """The keys of ``conf/live.yaml``."""

    watch: Text | None = key(None, "HDF5 file being written, folder (ends with /), or zmq://host:port")
    output_dir: Text | None = key(None, "folder of the run; null: outputs/live/<name>")
    resume: Text | None = key(None, "folder of a live run that was stopped, to resume with its own keys")
    frames: Integer | None = key(None, "number of frames of the scan; null: as the source states", ge=3)
    timeout_s: Number = key(60.0, "time without a new frame after which the scan has ended", gt=0, unit="s")
    wait_s: Number = key(86400.0, "maximum waiting time for the first frame", gt=0, unit="s")
    first: Integer = key(50, "number of patterns from which the first image is reconstructed", ge=10)
    refresh_s: Number = key(4.0, "interval between two images", ge=0.5, unit="s")
    finish_s: Number = key(45.0, "time for the fit of all patterns, after the last frame", ge=0, unit="s")
    final: Flag = key(True, "continue with the run of scan_workflow.py, which assesses the result")
    curve_keys: Text | None = key(None, "file of a socket's CurveZMQ keys (public, secret, theirs)")
    bind: Flag = key(True, "bind the socket and wait for a sender; false: connect to a sender that waits")
    largest_message_mb: Number = key(
        256.0, "largest message of a socket; larger ones are dropped", gt=0, le=4096, unit="MB"
    )
    seed: Integer = key(0, "seed of the run that follows", ge=0)
    data: DataConfig = key(lambda: DataConfig(file=("-",)), "metadata that the source does not state")
    probe: OwnProbe | AberratedProbe | Shape = key(OwnProbe(), "initial probe", discriminator="kind")
    solver: SolverConfig = key(SolverConfig(), "settings of the run that follows; positions: also live")
    xla: XlaConfig = key(XlaConfig(), "settings of XLA")

    def __post_init__(self) -> None:
        watched, solver = self.resume is not None or bool(self.watch), self.solver
        check(watched, "watch", "null", "a file that grows, a folder (ends with /), or zmq://host:port")
        beyond = {
            "slices": (solver.slices or 1) > 1,
            "probe_variation": bool(solver.probe_variation),
            "regulariser": is_import_path(solver.regulariser),
        }
        for name in (name for name, specified in beyond.items() if specified):
            raise ConfigError(
                f"solver.{name}={getattr(solver, name)}: a live run has a thin object, a constant probe and "
                "no code of your own; remove it, and use it in a run on its file afterwards (ptycho scan)"
            )

    def run(self, data: DataConfig, folder: str) -> ScanRunConfig:
        """The run that follows, on a scan that the section ``data`` names."""
        return ScanRunConfig(
            output_dir=folder, data=data, probe=self.probe, solver=self.solver, seed=self.seed, xla=self.xla
        )
