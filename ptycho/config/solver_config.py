"""The sections ``solver`` and ``iterative``: what reconstructs without training."""

from __future__ import annotations

from typing import ClassVar, Literal

from ptycho.config.messages import check
from ptycho.config.own_code import is_import_path
from ptycho.config.schema import Flag, Integer, Number, Text, key, settings


@settings("iterative")
class LsqmlConfig:
    """LSQ-ML of pty-chi; its probe is always refined."""

    epochs: Integer = key(100, "maximum number of passes over the patterns", ge=1, le=100_000)
    early: Flag = key(True, "stop early, as soon as R improves by less than 0.1 % in five epochs")
    modes: Integer = key(1, "number of modes of a partially coherent probe", ge=1, le=64)
    positions: Flag = key(True, "refine the positions")
    start_positions: Integer = key(10, "number of epochs before the positions are refined", ge=0, le=100_000)
    python: Text | None = key(
        None,
        "Python interpreter that has pty-chi (pip install ptychi); null: this one",
        min_length=1,
        allowed="the path of a Python that has pty-chi",
        program=True,
    )
    threads: Integer | None = key(None, "number of CPU threads; null: all", ge=1, le=4096)


@settings("solver")
class SolverConfig:
    """The solver of a measured scan: maximum likelihood of object, probe, positions, flux and background.

    ``positions``, ``flux``, ``background`` and ``point_spread`` null: refined if that lowers the deviance of
    the held-out patterns.
    """

    steps: Integer = key(400, "maximum steps of a fit; 0: no solver", ge=0, le=100_000, level="sometimes")
    positions: Flag | None = key(
        None, "refine the positions; null: if it lowers the held-out deviance", level="always"
    )
    position_model: Literal["independent", "affine", "affine_and_independent"] | None = key(
        None,
        "position corrections: independent, one affine map of all positions, or both; null: "
        "both in a near field; elsewhere independent, or both if that lowers the held-out deviance",
    )
    flux: Flag | None = key(
        None, "refine the flux of each pattern; null: if it lowers the held-out deviance", level="sometimes"
    )
    background: Flag | None = key(
        None,
        "refine a background that is the same in all patterns; null: if it lowers the held-out deviance",
        level="sometimes",
    )
    point_spread: Flag | None = key(
        None,
        "refine the width of the detector's Gaussian point spread; null: in far fields, if it lowers the "
        "held-out deviance",
    )
    probe_variation: Integer | None = key(
        None,
        "number of OPR modes by which the first probe mode varies along the scan; 0: none; null: as "
        "many as lower the held-out deviance, of thin objects in far fields",
        ge=0,
        le=16,
    )
    probe_variation_waves: Integer | None = key(
        None,
        "number of cosines over the order of the patterns, of which the weights of OPR modes consist, for a "
        "probe that varies slowly; null: each pattern has weights of its own, as always in blocks",
        ge=1,
        le=10_000,
    )
    pupil: Flag | None = key(
        None,
        "limit the far field of the probe to the pupil of the optic, where it is bright; null: if it "
        "lowers the held-out deviance",
    )
    regulariser: Text = key(
        "learned",
        "regularisation of the object. none | quadratic: λ Σ|∇O|² | edge_preserving: λ Σ√(|∇O|² + δ²) | "
        "second_order: λ Σ√(|∇²O|² + δ²) | learned: the better of the last two, and a plug-and-play denoiser "
        "of weight κ if it lowers the held-out deviance | my_module:NAME: your own, docs/own_code.md",
        program="import path",
        level="sometimes",
    )
    denoiser_weights: Text | None = key(None, "file of the learned denoiser's weights; null: those installed")
    regularisation_weight: Number | None = key(
        None, "weight λ or κ of the regulariser; null: chosen on the held-out patterns", ge=0
    )
    noise: Literal["auto", "poisson", "gaussian", "robust"] = key(
        "auto",
        "noise model; auto: poisson if the patterns are photon counts, else gaussian; robust: less "
        "sensitive to outliers",
        level="sometimes",
    )
    block: Integer | None = key(
        None, "patterns of a block; larger scans are fitted by blocks; null: 8192 of 64 × 64 pixels", ge=64
    )
    slices: Integer | None = key(
        None,
        "number of slices of a thick sample (multislice); the object is their product; null: as many as "
        "lower the held-out deviance, where the energy and the object's pixel are known",
        ge=1,
        le=64,
    )
    slice_thickness_m: Number | None = key(
        None, "distance of slices; needed if their number is specified; null: found with it", gt=0, unit="m"
    )
    error_map: Flag = key(True, "store standard deviations of the amplitude and the phase with the product")
    REGULARISERS: ClassVar = ("none", "quadratic", "edge_preserving", "second_order", "learned")

    def __post_init__(self) -> None:
        known = self.regulariser in self.REGULARISERS or is_import_path(self.regulariser)
        allowed = f"one of {', '.join(self.REGULARISERS)}, or your own as my_module:NAME"
        check(known, "solver.regulariser", self.regulariser, allowed)
        thick, thickness = (self.slices or 1) > 1, self.slice_thickness_m
        needed = f"the distance of neighbouring slices in metres with solver.slices={self.slices}"
        check(not thick or thickness is not None, "solver.slice_thickness_m", "null", needed)
        varied = self.probe_variation
        constant = f"0 or null with solver.slices={self.slices}, or set solver.slices=1"
        check(not thick or not varied, "solver.probe_variation", varied, constant)
        remedy = "null with solver.slices=1; set solver.slices=2 or more, or null"
        check(self.slices != 1 or thickness is None, "solver.slice_thickness_m", thickness, remedy)
