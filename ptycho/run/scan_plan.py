"""A run on a measured scan, seen through before it begins; nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ptycho.config import ITERATIVE, NETWORK, ConfigError, GeneralConfig, JobConfig, ScanRunConfig
from ptycho.config.data import LARGEST_N, SMALLEST_N, DataConfig
from ptycho.config.mapping import programs_in
from ptycho.config.memory import block_patterns
from ptycho.config.own_code import DOORS, load
from ptycho.config.run_config import FAST
from ptycho.config.sections import GeneratorConfig
from ptycho.preparation.dataset import (
    check_disk,
    check_enough,
    check_memory_for,
    choose_probe,
    number_held_out,
    space_between_slices,
)
from ptycho.preparation.geometry import isolated
from ptycho.preparation.prepare import ScanGeometry, interpret
from ptycho.preparation.start import read_start
from ptycho.quiet_start import start_tensorflow
from ptycho.readers.table import open_raw
from ptycho.reconstruction.lsqml import check_available
from ptycho.reconstruction.prior import kind_of
from ptycho.run.network import StoredNetwork, read_network
from ptycho.run.stored_run import check_prior_weights, run_folder


def interpret_scan(data: DataConfig, output_dir: str | None = None) -> ScanGeometry:
    """Return a scan, its patterns still in the file; a copy of them must fit in ``output_dir``."""
    raw = open_raw(data)
    if output_dir:
        check_disk(raw, data, Path(output_dir))
    return interpret(raw, data)


def plan(config: JobConfig) -> ScanRunConfig:
    """Return the configuration of the run: everything that is known before it is checked.

    A network that is trained on keeps the build that it was trained with. ConfigError: the scan cannot be
    read, or as of :func:`plan_scan`.
    """
    if not isinstance(config, ScanRunConfig):
        raise ConfigError("resume: is a run of the grid-lines workflow; resume it with its own script")
    scan = interpret_scan(config.data, config.output_dir)
    with closing(scan.raw.patterns):  # many scans may be planned before the first is read
        return plan_scan(config, scan)


def plan_scan(own: ScanRunConfig, scan: ScanGeometry) -> ScanRunConfig:
    """Return the configuration of a run on a scan, with what the network of ``run`` was trained with.

    ConfigError: the network of ``run`` cannot be read or does not fit, or the machine has too little memory.
    """
    stored = check_settings(own)
    usable = len(scan.frames) - len(isolated(scan.positions))  # as far as is known before they are read
    check_enough(usable, own.data.paths)
    fitted = usable - number_held_out(usable, own.holdout_fraction)
    if stored is not None:
        C, tiles = _groups_of(stored, own.group_size, own.tiles, trains=bool(own.nepochs))
        own = replace(own, model=stored.config.model, group_size=C, tiles=tiles)
        _fits(stored, str(own.run), {"N": scan.N, "group_size": own.patterns_in_group}, fitted)
    choose_probe(scan, own.probe, own.run)
    if scan.fresnel is not None and (varied := own.solver.probe_variation):
        constant = "the probe of a near field is constant; set solver.probe_variation=0 or null"
        raise ConfigError(f"solver.probe_variation={varied}: {constant}")
    count, most = len(scan.frames), own.solver.block or block_patterns(scan.N)
    thick = space_between_slices(scan, own.solver) is not None and own.solver.slice_thickness_m is not None
    if thick and count > most:
        raise ConfigError(
            f"solver.slices={own.solver.slices or 'null'}: {count} patterns are fitted in blocks of {most}, "
            f"whose object is thin; set solver.block={count}, which takes more memory, or use fewer "
            "(data.stride)"
        )
    if own.start is not None:
        read_start(own.start, scan)
    if NETWORK in own.models:
        _network_takes(own.model, scan.N)
    check_memory_for(scan, own.data.name, own.probe.modes, own.solver.block, NETWORK in own.models)
    return own


def check_settings(config: ScanRunConfig) -> StoredNetwork | None:
    """Check what a run needs besides its scans; the network of ``run``, if it takes one.

    ConfigError: weights, a network or code cannot be read, another model is specified, or pty-chi is missing.
    """
    check_own_code(programs_in(config))
    check_prior_weights(config.solver.denoiser_weights)
    if ITERATIVE in config.models:
        check_available(config.iterative.python)
    if config.run is None or not config.models:
        return None
    stored = read_network(run_folder(config.run), NETWORK)
    if config.model not in (stored.config.model, FAST):
        raise ConfigError(
            f"model={config.model.kind} and run={config.run}: the network of that run has other settings "
            f"({stored.config.model}); remove the keys of model"
        )
    return stored


def _network_takes(model: GeneratorConfig, N: int) -> None:
    """Refuse patterns of a side that the network cannot be built for."""
    if model.takes(N):
        return
    sides = range(SMALLEST_N, LARGEST_N + 1, 2)
    below = [side for side in sides if side < N and model.takes(side)][-1:]
    above = [side for side in sides if side > N and model.takes(side)][:1]
    fitting = " or ".join(f"data.N={side}" for side in below + above)
    raise ConfigError(
        f"model={model.kind}: cannot take patterns of {N} × {N} pixels; set {fitting}, or model=unrolled"
    )


def _groups_of(
    stored: StoredNetwork, group_size: int | None, tiles: bool | None, trains: bool, tuned: int = 12
) -> tuple[int | None, bool]:
    """Return ``group_size`` and ``tiles``, by default those of the network of ``run``.

    A pretrained network that is trained on has ``tuned`` patterns in a group: more leave few steps.
    """
    trained = stored.config
    general = isinstance(trained, GeneralConfig)
    if group_size is None:
        bound = "group_size" in trained.fixed_sizes(NETWORK)
        wished = stored.setup.group_size if bound else trained.group_size or 1
        group_size = tuned if general and trains else wished
    if tiles is None:
        tiles = general or bool(isinstance(trained, ScanRunConfig) and trained.tiles)
    return group_size, tiles


def _fits(stored: StoredNetwork, run: str, asked: dict[str, int], fitted: int) -> None:
    """Refuse a network whose weights are bound to other sizes, or to groups of more than are ``fitted``."""
    bound = {key: getattr(stored.setup, key) for key in stored.config.fixed_sizes(NETWORK)}
    for key, size in bound.items():
        name = "data.N" if key == "N" else key
        if asked[key] != size:
            raise ConfigError(f"run={run}: its network is bound to {key}={size}; set {name}={size}")
    if (C := bound.get("group_size", 1)) > fitted:
        raise ConfigError(
            f"run={run}: its network is bound to group_size={C}, and {fitted} patterns of the scan "
            "are fitted; take another network (run=pretrained), or lower holdout_fraction"
        )


REGULARISER = "solver.regulariser"
OF_TENSORFLOW = {"loss", "model.target", "train.callbacks"}


def check_own_code(programs: Mapping[str, str]) -> None:
    """Import the user's code among ``programs`` by key, and try what can be tried without data.

    ConfigError: it cannot be imported, or is not what its key wants.
    """
    named = {key: path for key, path in programs.items() if key in DOORS}
    if OF_TENSORFLOW & named.keys():
        start_tensorflow()  # before the user's module imports it, and it prints its messages
    for key, path in named.items():
        load(key, path)
    if REGULARISER in named:
        kind_of(named[REGULARISER])
