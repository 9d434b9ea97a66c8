"""A run's network for consumers without XLA and without TensorFlow; checked before TensorFlow is imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal, NoReturn

from ptycho.api.reconstruction import start_keras
from ptycho.command_line.jobs import run_program
from ptycho.config import MODELS, ConfigError, RunConfig, ScanRunConfig, check
from ptycho.config.messages import show
from ptycho.config.network_config import LARGEST_BATCH
from ptycho.config.own_code import allow
from ptycho.config.schema import Flag, Integer, Text, Texts, key, settings
from ptycho.run.network import StoredNetwork, is_stored, read_network
from ptycho.run.record import check_output
from ptycho.run.stored_run import read_config, run_folder
from ptycho_export.formats import FORMATS, Format
from ptycho_export.runtimes import Description


@settings()
class ExportModelConfig:
    """The keys of ``conf/lite/export_model.yaml``."""

    run: Text | None = key(None, "folder of the run")
    network: Literal["pinn", "baseline", "unrolled", "unet", "fno"] | None = key(
        None, "network to export; null: the first that the run trained"
    )
    output: Text | None = key(
        None,
        "file to write, .tflite or .onnx; null: outputs/exported/<run>_<network>.tflite",
        min_length=1,
        allowed="the path of a file .tflite or .onnx",
    )
    batch_size: Integer | None = key(
        None, "number of groups in a batch; null: as in the run", ge=1, le=LARGEST_BATCH
    )
    group_size: Integer | None = key(None, "number of patterns in a group; null: as in the run", ge=1, le=512)
    region_size: Integer | None = key(
        None, "side of the object region of a group; null: as in the run", ge=1, le=4096, unit="pixels"
    )
    support: Integer | None = key(
        None,
        "side of the central square outside which probes are zero; null: as the probes of the run need",
        ge=2,
        le=512,
        unit="pixels",
    )
    modes: Integer = key(
        0, "number of modes of the probe that the model takes; 0: a probe without modes", ge=0, le=64
    )
    exact: Flag | None = key(
        None, "shift the probe by fractions of a pixel; null: as in the run, true for a measured scan"
    )
    overwrite: Flag = key(False, "replace an existing output")
    trust: Texts = key((), "your own code that the run names, as my_module:name; nothing else is imported")

    def __post_init__(self) -> None:
        check(bool(self.run), "run", show(self.run), "the folder of a run")


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho export-model``."""
    run_program("lite/export_model", ExportModelConfig, export_model, help_text)


def export_model(config: ExportModelConfig) -> list[str]:
    """Write the exported network; what was done, a line each."""
    run = run_folder(str(config.run))
    allow(config.trust)
    name = config.network or _trained_network(run)
    output = Path(config.output or f"outputs/exported/{run.resolve().name}_{name}.tflite")
    form = format_of(output)
    stored = read_network(run, name)
    d = describe_network(config, stored)
    check_output(output, config.overwrite, [run / "config.yaml"])
    start_keras()
    from ptycho_export.network import portable

    form.write(portable(stored, d), d, output)
    size = output.stat().st_size / 1e6
    return [f"{output}: {d.name} ({d.kind}) of {d.run}, {size:.2f} MB", f"  {d.signature}"]


def _trained_network(run: Path) -> str:
    """Return the network that a run has trained; of several the PINN."""
    trained = [name for name in read_config(run).networks if is_stored(run, name)]
    if not trained:
        raise ConfigError(f"run={run}: holds no trained network; it must be the folder of a finished run")
    return next((name for name in MODELS if name in trained), trained[0])


def format_of(output: Path) -> Format:
    """The format that an output's name ends with."""
    form = FORMATS.get(output.suffix)
    if form is None:
        raise ConfigError(f"output={output}: must end with {' or '.join(FORMATS)}")
    if form.package is not None and importlib.util.find_spec(form.package) is None:
        raise ConfigError(
            f"output={output}: needs {form.package}, which is not installed: "
            "pip install -c constraints.txt -e 'extras/export[onnx]'"
        )
    return form


def describe_network(config: ExportModelConfig, stored: StoredNetwork) -> Description:
    """What will be exported; ConfigError: a size does not fit the network."""
    setup, settings = stored.setup, stored.config
    N, fixed = setup.N, settings.fixed_sizes(stored.name)
    group_size = config.group_size or setup.group_size
    if "group_size" in fixed or stored.name == "baseline":
        wanted = f"{setup.group_size}, or null: {stored.name} was trained for that"
        check(group_size == setup.group_size, "group_size", group_size, wanted)
    region_size = config.region_size or setup.region_size
    check(N <= region_size <= 4 * N, "region_size", region_size, f"from N={N} to 4·N={4 * N}")
    exact = isinstance(settings, ScanRunConfig) if config.exact is None else config.exact
    support = config.support or (N if exact else setup.support)
    check(support % 2 == 0 and support <= N, "support", support, f"even, and at most N={N}")
    check(not exact or support == N, "support", support, f"{N} with exact=true: a moved probe fills it")
    baseline = settings.baseline if isinstance(settings, RunConfig) and stored.name == "baseline" else None
    return Description(
        name=stored.name,
        kind=stored.name if stored.name == "baseline" else settings.model.kind,
        run=stored.run.resolve().name,
        N=N,
        group_size=group_size,
        region_size=region_size,
        batch_size=config.batch_size or settings.batch_size or 1,
        modes=config.modes,
        support=support,
        exact=exact,
        patterns_per_group=baseline.patterns_per_group if baseline else None,
        weights_sha256=stored.sha256,
    )
