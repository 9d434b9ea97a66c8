"""The names of a run's files, relative to its folder."""

from __future__ import annotations

from ptycho.config import MODELS

CONFIG = "config.yaml"
RECORD = "files.json"
METRICS = "metrics.json"
CONVENTIONS = {"conventions": "docs/scores.md"}  # its entry that says where scores are defined
SCORES = "metrics.csv"  # image by image
MANIFEST = "manifest.json"
PRODUCT = "product.h5"
ASSESSMENT = "assessment.npz"  # what a scan's scores are the sums and means of
LOG = "run.log"
REPORT = "report.html"  # a page that is made of a run later, and is not in its files.json
DATASETS = "datasets"
RECONS = "recons"
VISUALS = "visuals"
WEIGHTS, SETUP, HISTORY, DESCRIPTION = "weights.npz", "setup.npz", "history.csv", "model.json"
PRIOR, EXAMPLES = "prior", "examples"  # of the denoiser of the solver
PROBE = "probe.npz"
CARD = "card.md"  # of a pretrained network
CHECKPOINTS = "checkpoints"
LIVE = "live"  # frames and positions of a live scan
BLOCKS = "blocks"  # of a large scan that is being fitted
TRUTH = f"{RECONS}/gt/truth.npz"  # of a test scan that is not as it says
REPLACED, DISCARDED = ".replaced", ".discarded"  # the run that is being replaced; one that was

PHASES = {  # of a run, as the log names them when they begin
    "reading": "reading the patterns",
    "initial_probe": "estimating the probe",
    "pattern_shift": "testing whether the patterns shift on the detector",
    "defocus": "testing the defocus of the probe",
    "several_scans": "placing the scans on one object",
    "frame_offset": "testing whether frames are late or early",
    "orientation": "testing the orientation of the detector",
    "geometry": "testing scale, rotation and shear of the positions",
    "near_field_positions": "comparing neighbouring near fields",
    "position_jumps": "detecting position jumps",
    "outliers": "testing patterns that stand out",
    "object_pixel": "testing finer object pixels",
    "solver": "maximum-likelihood solver",
    "error_map": "computing the error map",
    "half_scans": "reconstructing two halves of the scan for the FRC",
    "drawing": "drawing the figures",
    "writing": "writing the arrays",
    "scoring": "computing the scores",
}

OF_A_RUN = (
    *(CONFIG, RECORD, RECONS, VISUALS, METRICS, MANIFEST, PRODUCT, LOG, SCORES, ASSESSMENT),
    *(DATASETS, CARD, PRIOR, EXAMPLES, BLOCKS, *MODELS),
)
"""What stands at the top of a run's folder."""

UNFINISHED = (  # patterns of the files of a training that goes on
    *(f"{name}/{CHECKPOINTS}/epoch*-step*.npz" for name in (*MODELS, PRIOR)),
    *(f"{name}/*-*.npz" for name in (EXAMPLES, BLOCKS)),
)
RESULTS = ("recon.npz", METRICS)  # with the first file of such a name a run has a result


def dataset(N: int, gridsize: int, role: str) -> str:
    """Return the path of a dataset's NPZ in a run; ``role``: train, val or test."""
    return f"{DATASETS}/N{N}/gs{gridsize}/{role}.npz"


def recon(name: str) -> str:
    """Return the path of the NPZ of a reconstruction in a run."""
    return f"{RECONS}/{name}/recon.npz"


def figure(name: str) -> str:
    """Return the path of a PNG in a run."""
    return f"{VISUALS}/{name}.png"
