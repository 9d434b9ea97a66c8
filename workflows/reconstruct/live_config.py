"""The keys of a live reconstruction."""

from __future__ import annotations

from ptycho.config import ProbeConfig, ScanRunConfig, XlaConfig
from ptycho.config.data import DataConfig
from ptycho.config.errors import ConfigError
from ptycho.config.own_code import is_import_path
from ptycho.config.schema import Flag, Integer, Number, Text, key, settings
from ptycho.config.sections import OwnProbe, RunProbe, SolverConfig


@settings(kw_only=True)
class LiveConfig:
    """The keys of ``conf/live.yaml``."""

    watch: Text | None = key(None, "an HDF5 file that grows, a folder (ends with /), or zmq://host:port")
    output_dir: Text | None = key(None, "the folder of the run; null: outputs/live/<name>")
    resume: Text | None = key(None, "folder of a live run that was stopped: go on with it, with its own keys")
    frames: Integer | None = key(None, "how many the scan will have; null: as the source says", ge=3)
    timeout_s: Number = key(60.0, "the scan has ended where nothing came for so long", gt=0, unit="s")
    wait_s: Number = key(86400.0, "for the first frame", gt=0, unit="s")
    first: Integer = key(50, "patterns with which the first picture is made", ge=10)
    refresh_s: Number = key(4.0, "between two pictures", ge=0.5, unit="s")
    finish_s: Number = key(45.0, "for all patterns together, once they are there", ge=0, unit="s")
    final: Flag = key(True, "go on to the run of scan_workflow.py, which judges the result")
    curve_keys: Text | None = key(
        None,
        "of a socket: file with keys of CurveZMQ (public, secret, theirs); null: none",
    )
    bind: Flag = key(
        True, "of a socket: wait at the address for who sends; false: connect to who waits there"
    )
    largest_message_mb: Number = key(256.0, "of a socket: larger ones are dropped", gt=0, le=4096, unit="MB")
    seed: Integer = key(0, "of the run that follows", ge=0)
    data: DataConfig = key(lambda: DataConfig(file=("-",)), "what the source does not say")
    probe: ProbeConfig = key(OwnProbe(), "what lights the sample", discriminator="kind")
    solver: SolverConfig = key(SolverConfig(), "of the run that follows; positions also while it grows")
    xla: XlaConfig = key(XlaConfig(), "what is compiled")

    def __post_init__(self) -> None:
        if self.resume is None and not self.watch:
            raise ConfigError(
                "watch=null: must be a file that grows, a folder (ends with /), or zmq://host:port"
            )
        if is_import_path(self.solver.prior):
            known = ", ".join(SolverConfig.PRIORS)
            raise ConfigError(
                f"solver.prior={self.solver.prior}: a live run takes no code; must be one of {known}"
            )
        if isinstance(self.probe, RunProbe):
            raise ConfigError("probe=run: is that of a run; name its file, probe=npz probe.file=…")

    def run(self, data: DataConfig, folder: str) -> ScanRunConfig:
        """The run that follows, on a scan that the section ``data`` names."""
        return ScanRunConfig(
            output_dir=folder, data=data, probe=self.probe, solver=self.solver, seed=self.seed, xla=self.xla
        )
