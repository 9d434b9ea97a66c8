"""A run's network for consumers without XLA and without TensorFlow; checked before TensorFlow is imported."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ptycho.config import MODELS, ConfigError, RunConfig, ScanRunConfig, check
from ptycho.config.backend import require_tensorflow
from ptycho.config.messages import show
from ptycho.config.network_config import LARGEST_BATCH
from ptycho.config.own_code import allow
from ptycho.config.schema import Flag, Integer, Text, Texts, key, settings
from ptycho.exports.table import check_output
from ptycho.portable.description import ENTRY, Description, PriorDescription
from ptycho.portable.formats import FORMATS, Format
from ptycho.quiet_start import start_tensorflow
from ptycho.run.names import PRIOR, WEIGHTS
from ptycho.run.network import StoredNetwork, is_stored, read_network
from ptycho.run.pretrained import run_folder
from ptycho.run.record import check_no_file_of_a_run, sha256
from ptycho.run.stored_config import read_config

if TYPE_CHECKING:
    from ptycho.portable.network import Portable

PRIOR_SIDE = 256  # pixels
SAVED_MODEL = re.compile(rf"\w+\.pb|variables/variables\..+|assets\.extra/{re.escape(ENTRY)}")


@settings()
class ExportModelConfig:
    """The keys of ``conf/lite/export_model.yaml``."""

    run: Text | None = key(None, "folder of the run")
    network: Literal["pinn", "baseline", "unrolled", "unet", "fno", "prior"] | None = key(
        None,
        "network to export; null: the first that the run trained; prior: the denoiser of "
        "solver.regulariser=learned",
    )
    format: Literal["saved_model", "litert", "onnx", "stablehlo"] | None = key(
        None, "format of the exported network; null: by the ending of the output (.tflite, .onnx, .mlir)"
    )
    output: Text | None = key(
        None,
        "file to write, or folder of a SavedModel; null: outputs/exported/<run>_<network>",
        min_length=1,
        allowed="a path",
    )
    batch_size: Integer | None = key(
        None,
        "number of groups in a batch; null: as in the run, and any number in a SavedModel",
        ge=1,
        le=LARGEST_BATCH,
    )
    precision: Literal["float32", "float16"] = key(
        "float32", "precision of the stored weights; other than float32 for litert and onnx only"
    )
    group_size: Integer | None = key(None, "number of patterns in a group; null: as in the run", ge=1, le=512)
    region_size: Integer | None = key(
        None,
        "side of the object region of a group; null: as in the run, or 256 for a denoiser",
        ge=1,
        le=4096,
        unit="pixels",
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


def export_model(config: ExportModelConfig) -> list[str]:
    """Write the exported network; what was done, a line each."""
    run = run_folder(str(config.run))
    if not run.is_dir():
        raise ConfigError(f"run={run}: no such folder; it must be the folder of a run")
    form = format_of(config)
    description, make = (of_prior if config.network == PRIOR else of_network)(config, run, form)
    output = Path(config.output or f"outputs/exported/{run.resolve().name}_{description.name}{form.suffix}")
    if form.suffix:
        check_output(output, config.overwrite, [run / "config.yaml"])
        check_no_file_of_a_run("output", output)
    elif output.exists():
        _check_saved_model(output, config.overwrite)
    require_tensorflow(os.environ)
    start_tensorflow()
    output.parent.mkdir(parents=True, exist_ok=True)
    form.write(make(), output)
    files = [output] if output.is_file() else [path for path in output.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    d = description
    return [
        f"{output}: {d.name} ({d.kind}) of {d.run}, weights {d.precision}, {size:.2f} MB",
        f"  {d.signature}",
    ]


def of_network(
    config: ExportModelConfig, run: Path, form: Format
) -> tuple[Description, Callable[[], Portable]]:
    """Describe a trained network of a run, and how it becomes portable."""
    allow(config.trust)
    read_config(run)  # refuses a folder without a run
    trained = next((name for name in MODELS if is_stored(run, name)), None)
    if not (name := config.network or trained):
        raise ConfigError(f"run={run}: holds no trained network; it must be the folder of a finished run")
    stored = read_network(run, name)
    description = describe_network(config, stored, form)

    def make() -> Portable:
        from ptycho.portable.network import portable

        return portable(stored, description)

    return description, make


def of_prior(
    config: ExportModelConfig, run: Path, _: Format
) -> tuple[PriorDescription, Callable[[], Portable]]:
    """As :func:`of_network`, of the network of a learned prior."""
    weights, side = run / PRIOR / WEIGHTS, config.region_size or PRIOR_SIDE
    check(weights.is_file(), "network", PRIOR, f"pinn or baseline: there is no {weights}")
    check(side % 4 == 0, "region_size", side, "a multiple of 4")
    description = PriorDescription(
        run=run.resolve().name, side=side, precision=config.precision, weights_sha256=sha256(weights)
    )

    def make() -> Portable:
        from ptycho.portable.network import portable_prior

        return portable_prior(weights, description)

    return description, make


def format_of(config: ExportModelConfig) -> Format:
    """The format that is asked for, or else the one that the output's name ends with."""
    suffix = Path(config.output or "").suffix
    ending = next((name for name, form in FORMATS.items() if form.suffix and form.suffix == suffix), None)
    if (name := config.format or ending) is None:
        raise ConfigError(
            f"output={show(config.output)}: has no known ending; add format={' or '.join(FORMATS)}"
        )
    form = FORMATS[name]
    if config.precision not in form.precisions:
        others = [key for key, other in FORMATS.items() if config.precision in other.precisions]
        raise ConfigError(
            f"precision={config.precision}: {name} holds {' or '.join(form.precisions)}; "
            f"{' and '.join(others)} hold it"
        )
    if form.package is not None and importlib.util.find_spec(form.package) is None:
        raise ConfigError(
            f"format={name}: needs {form.package}, which is not installed; it is in the extra: "
            "pip install -c constraints.txt -e '.[export]'"
        )
    return form


def _check_saved_model(output: Path, overwrite: bool) -> None:
    """Refuse to replace a folder that is not to be, or that holds more than a SavedModel of this program."""
    ours = (output / "assets.extra" / ENTRY).is_file()
    if not (ours and overwrite):
        advice = "overwrite=true" if ours else "a path where nothing is yet"
        raise ConfigError(f"output={output}: is there already; choose another path, or {advice}")
    found = (path.relative_to(output).as_posix() for path in output.rglob("*") if not path.is_dir())
    if foreign := [name for name in found if not SAVED_MODEL.fullmatch(name)]:
        raise ConfigError(
            f"output={output}: holds {foreign[0]}, which is none of a SavedModel's files; move it away, or "
            "choose another path"
        )


def describe_network(config: ExportModelConfig, stored: StoredNetwork, form: Format) -> Description:
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
        batch_size=config.batch_size or (None if form.any_batch else settings.batch_size),
        modes=config.modes,
        support=support,
        exact=exact,
        precision=config.precision,
        patterns_per_group=baseline.patterns_per_group if baseline else None,
        transmission=setup.transmission,
        probe=setup.probe,
        weights_sha256=stored.sha256,
    )
