"""The code of the user that a run will need, imported before the run begins."""

from __future__ import annotations

from ptycho.config import JobConfig, ScanRunConfig
from ptycho.config.mapping import programs_in
from ptycho.config.own_code import DOORS, is_import_path, load
from ptycho.quiet_start import start_tensorflow
from ptycho.reconstruction.prior import kind_of

OF_TENSORFLOW = {"loss", "model.target", "train.callbacks"}


def check_own_code(config: JobConfig) -> None:
    """Import the code that a configuration names, and try what can be tried without data.

    Raises:
        ConfigError: it cannot be imported, or is not what its key wants.
    """
    named = {key: path for key, path in programs_in(config).items() if key in DOORS}
    if OF_TENSORFLOW & named.keys():
        start_tensorflow()  # before the user's module imports it, and it prints its messages
    for key, path in named.items():
        load(key, path)
    if isinstance(config, ScanRunConfig) and is_import_path(config.solver.regulariser):
        kind_of(config.solver.regulariser)
