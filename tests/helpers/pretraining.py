"""Small pretrainings for tests."""

import tensorflow as tf

from ptycho.config import UnrolledModel, XlaConfig
from ptycho_pretrain.config import BatchConfig, MaterialsConfig, MeasurementConfig, PretrainConfig
from ptycho_pretrain.examples import Examples

FORMS = {
    "group": {"N": 16, "C": 3, "batch": 2, "reach": 3},
    "single": {"N": 16, "C": 1, "batch": 2, "reach": 1},
    "modes": {"N": 16, "C": 2, "batch": 2, "reach": 2, "modes": 2},
}
CLEAN = MeasurementConfig(
    photons=(1e12, 1e12),
    background_share=0,
    bad_share=0,
    probe_error_share=0,
    position_error_share=0,
    start_share=0,
    solver_share=0,
)


def config_of(*forms, **changes):
    values = {
        "maps": 3,
        "map_side": 32,
        "steps": 12,
        "model": UnrolledModel(stages=2, width=8, misfit=True),
        "probes": {"zone_plate": {"diameter": [0.4, 0.6], "reach": [0.2, 0.4]}, "disk": None},
        "objects": {"polygons": {"size": [4, 10]}, "clouds": None},
        "materials": MaterialsConfig(phase_rad=(0.3, 1.0), absorption=(0.1, 0.5)),
        "measurement": CLEAN,
        "batches": {name: BatchConfig(**FORMS[name]) for name in forms or FORMS},
        "xla": XlaConfig(compile=False),
    }
    return PretrainConfig(**(values | changes))


def batch_of(name, step=0, **changes):
    """Form and batch, as tensors, of a pretraining with this form alone."""
    config = config_of(name, **changes)
    batch = Examples(config).batch(step)
    return config.forms[0], {key: tf.constant(value) for key, value in batch.items()}
