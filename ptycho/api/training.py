"""A network trained on a scan, without its truth. TensorFlow is imported once it is known to be possible."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ptycho.api.reconstruction import shows_bars, start_keras
from ptycho.api.scan import Scan, as_scan, plain
from ptycho.config import ConfigError, CustomModel, EpochsConfig, OwnProbe, ScanRunConfig, check
from ptycho.config.data import DataConfig
from ptycho.config.mapping import programs_in
from ptycho.config.messages import fields_of, name_arguments, show
from ptycho.config.own_code import allow, is_import_path
from ptycho.config.run_config import EPOCHS, FAST
from ptycho.config.sections import FourierModel, GeneratorConfig, UNetModel, UnrolledModel, XlaConfig
from ptycho.progress import OnEvent
from ptycho.run.scan_plan import check_own_code

if TYPE_CHECKING:
    from ptycho.run.loaded import LoadedModel

Model = Literal["unrolled", "unrolled_fast", "unet", "fno"]
MODELS: Mapping[str, GeneratorConfig] = {
    "unrolled": UnrolledModel(),
    "unrolled_fast": FAST,
    "unet": UNetModel(),
    "fno": FourierModel(),
}
"""Name to what it stands for, as in the group ``model`` of the command line."""
ARGUMENTS = {"nepochs": "epochs", "output_dir": "folder"}
ARGUMENTS |= {"probe.learn": "learn_probe", "xla.compile": "compile_xla"}
"""Keys of the configuration that have another name as arguments."""


@name_arguments(
    EpochsConfig, UnrolledModel, UNetModel, FourierModel, CustomModel, DataConfig, renamed=ARGUMENTS
)
def train(
    scan: Scan | str | Path,
    folder: str | Path,
    *,
    epochs: int = EPOCHS,
    model: Model | str = "unrolled_fast",
    group_size: int = 1,
    batch_size: int = 8,
    learn_probe: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = True,
    compile_xla: bool = True,
    loss: str | None = None,
    callbacks: Sequence[Any] = (),
    on_event: OnEvent | None = None,
    **settings: Any,
) -> LoadedModel:
    """Train a physics-informed network on the patterns of a scan alone.

        min over the weights of  Σ | |F(P · O_g[r_j])| − A_j |,   O_g = network(A_g, r_g, P)

    The network sees groups of ``C = group_size`` patterns; it sees the measurement alone. A true object
    that the scan knows is not used. Every twentieth group is held out, and chooses the epoch.

    Args:
        scan: what was measured, patterns ``(J, N, N)``, or the path of its file.
        folder: where it is stored: ``config.yaml``, ``pinn/`` and ``metrics.json``, as a run stores them, so
            that :func:`ptycho.load_model` reads it back.
        epochs: passes over the groups.
        model: ``unrolled``, ``unrolled_fast`` (three stages instead of eight) or ``unet``, whose weights are
            bound to N and C; or your own as ``my_module:build``.
        group_size: C, patterns that the network sees together: a position and those nearest to it.
        batch_size: groups in a step; more than there are make one batch of all.
        learn_probe: correct the probe, too; ``model.probe``, ``(N, N)``, is then the corrected one.
        seed: of all that is random; the same one gives the same weights.
        overwrite: replace the run in ``folder``, once there is a result.
        progress: a bar on a terminal or in a notebook.
        compile_xla: compile with XLA: slower to begin, faster in the long run.
        loss: your own as ``my_module:loss``, which is added to ``mae_weight`` times the error of the
            amplitudes.
        callbacks: of Keras; their methods for epochs are called.
        on_event: is called with a :class:`ptycho.Event` ``epoch`` after each; what it raises ends the
            training.
        **settings: further keys of the section ``train`` (``learning_rate``, ``patience`` in epochs,
            ``clip_norm``, …), ``model`` (``stages``, ``width``, ``neighbours``, …), or ``mae_weight`` and its
            like.

    Returns:
        The trained network. ``model.reconstruct(scan)`` gives objects ``(1, M, M)`` complex64 of this scan or
        of another; amplitude is against the mean transmission, phase is known up to a constant and a plane.

    Raises:
        ConfigError: a setting that is unknown or cannot be; a scan of too few patterns; a ``folder`` that
            holds a run or cannot be written.
        NonFiniteLossError: the loss became NaN or infinite; the last good weights are stored.
        WriteError: the disk is full.
    """
    if isinstance(scan, list | tuple):
        raise ConfigError(
            f"scan: is a {type(scan).__name__} of {len(scan)}; a network is trained on one scan: train it on "
            "one, and use model.reconstruct for the others, or ptycho.load_model('pretrained')"
        )
    scan = as_scan(scan)
    own_model = is_import_path(model)
    allowed = f"one of {', '.join(MODELS)}, or your own as my_module:build"
    check(model in MODELS or own_model, "model", model, allowed)
    base = CustomModel(target=model) if own_model else MODELS[model]
    weights = {name: settings.pop(name) for name in [*settings] if name.endswith("_weight")}
    values, keys = plain(settings), [*fields_of(EpochsConfig), *fields_of(type(base))]
    like = {name: difflib.get_close_matches(name, keys, n=1) for name in values}
    for name in (name for name, close in like.items() if not close):
        raise ConfigError(f"{name}={show(values[name])}: unknown key; known are {', '.join(keys)}")
    of_training = fields_of(EpochsConfig)
    of_epochs = {name: values.pop(name) for name, (close,) in like.items() if close in of_training}
    built = replace(base, **values)
    check(built.takes(scan.N), "model", model, f"unrolled for patterns of N={scan.N}")
    config = ScanRunConfig(
        models=("pinn",),
        nepochs=epochs,
        model=built,
        train=EpochsConfig(**of_epochs),
        group_size=group_size,
        batch_size=batch_size,
        probe=OwnProbe(learn=learn_probe),
        holdout_fraction=0.0,
        seed=seed,
        xla=XlaConfig(compile=compile_xla),
        output_dir=str(folder),
        overwrite=overwrite,
        loss=loss,
        **weights,
    )
    config = replace(config, data=scan.data)
    programs = programs_in(config)
    allow(programs.values())
    check_own_code(programs)
    start_keras()
    from ptycho.api.methods import train_on_scan
    from ptycho.training.callbacks import TellEvents

    followers = [*callbacks, *([] if on_event is None else [TellEvents(on_event)])]
    return train_on_scan(scan, config, progress and shows_bars(), followers)
