"""Configuration: frozen dataclasses that validate themselves, and their form as plain mappings.

:mod:`~ptycho.config.schema` defines a key, :mod:`~ptycho.config.sections` the options of each group, and
:mod:`~ptycho.config.run_config` a whole run; :mod:`~ptycho.config.mapping` converts from and to nested plain
values. Every error names the key as it is written on the command line, the value, and what is allowed.
Imports nothing of ``ptycho``, and neither Hydra nor TensorFlow, so that a mistake is answered before
anything heavy loads. What is imported here are the names that other rooms take from here.
"""

from ptycho.config.imperfections import Imperfections
from ptycho.config.messages import ConfigError, check
from ptycho.config.network_config import GeneralConfig, JobConfig, NetworkConfig, TrainedConfig
from ptycho.config.run_config import RunConfig, ScanRunConfig
from ptycho.config.sections import (
    GENERATORS,
    ITERATIVE,
    MEASURED_PROBES,
    MODELS,
    NETWORK,
    PROBES,
    AberratedProbe,
    AdamConfig,
    BaselineConfig,
    CustomModel,
    EpochsConfig,
    FileProbe,
    FourierModel,
    IdealDiskProbe,
    LinesObject,
    OwnProbe,
    ProbeConfig,
    RunProbe,
    ScanConfig,
    StitchConfig,
    TrainConfig,
    UNetModel,
    UnrolledModel,
    XlaConfig,
    ZonePlateProbe,
)
from ptycho.config.solver_config import LsqmlConfig
