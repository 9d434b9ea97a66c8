"""The sections of a configuration and the options of its groups.

To add an option to a group: a class with its ``kind`` here, in the group's union and table below, a YAML file
in ``conf/<group>/`` (then ``python scripts/write_conf.py``), and an entry in the table of what builds it:
``ptycho.networks.GENERATORS`` or ``ptycho.scan.probe.PROBES``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal, get_args

from ptycho.config.messages import ConfigError, check, fields_of, show
from ptycho.config.own_code import check_import_path
from ptycho.config.schema import Flag, Integer, Number, Text, key, settings


@settings("object")
class LinesObject:
    """Random line segments, blurred (the published "grid lines" object)."""

    n_lines: Integer = key(
        400, "number of random line segments, on a canvas of twice the object's side", ge=1, le=10_000_000
    )


@settings("probe", kw_only=True)
class LearnedProbe:
    """What every option of the group ``probe`` has: whether the data may correct it, and how."""

    learn: Flag | None = key(
        None,
        "refine the probe; null: for measured scans, if it lowers the held-out deviance",
        kw_only=True,
        level="sometimes",
    )
    modes: Integer | None = key(
        None,
        "number of incoherent modes; null: chosen on the held-out patterns by the solver; at least two "
        "where a network refines them",
        ge=1,
        le=8,
        kw_only=True,
        level="sometimes",
    )
    rate: Number = key(3.0, "learning rate of the probe, relative to that of the network", ge=0, kw_only=True)
    start_epoch: Integer = key(
        0, "epoch from which the probe is refined with the network", ge=0, le=1_000_000, kw_only=True
    )
    mask_diameter_px: Number | None = key(
        None, "diameter of the support of the probe; null: no limit", gt=0, unit="px", kw_only=True
    )

    def check_only_shape(self, section: str, *keys: str) -> None:
        """Refuse the keys of a learned probe where no probe is learned."""
        for name in keys:
            plain, value = fields_of(LearnedProbe)[name].default, getattr(self, name)
            check(value == plain, f"{section}.{name}", show(value), "removed: it has no effect there")


@settings("probe")
class OwnProbe(LearnedProbe):
    """The probe in the file of a measured scan; estimated from the mean pattern if there is none."""

    kind: Literal["from_file"] = key("from_file", "", kw_only=True)


@settings("probe")
class RunProbe(LearnedProbe):
    """The probe that the run ``run`` refined: that of an earlier scan on the same instrument."""

    kind: Literal["run"] = key("run", "", kw_only=True)


@settings("probe")
class AberratedProbe(LearnedProbe):
    """The aberrated probe of an electron microscope; see :mod:`ptycho.scan.optics`."""

    kind: Literal["aberrated"] = key("aberrated", "", kw_only=True)
    semi_angle_mrad: Number = key(20.0, "convergence semi-angle", gt=0, le=500, unit="mrad")
    defocus_nm: Number = key(0.0, "defocus; positive: overfocus, diverging beam", ge=-1e6, le=1e6, unit="nm")
    cs_mm: Number = key(0.0, "spherical aberration", ge=-100, le=100, unit="mm")
    astigmatism_nm: Number = key(
        0.0,
        "twofold astigmatism, added to the defocus along one axis and subtracted along the other",
        ge=-1e6,
        le=1e6,
        unit="nm",
    )
    astigmatism_deg: Number = key(
        0.0, "angle of the astigmatism axis, from rows to columns", ge=-360, le=360, unit="degrees"
    )


@settings("probe")
class IdealDiskProbe(LearnedProbe):
    """Gaussian-smoothed disk with a flat phase; lengths in pixels of a 64 × 64 window, scaled with N."""

    kind: Literal["ideal_disk"] = key("ideal_disk", "", kw_only=True)
    diameter_px64: Number = key(22.0, "diameter of the disk in pixels at N = 64; scales with N", gt=0, le=64)
    smoothing_px64: Number = key(
        1.0, "standard deviation of the Gaussian edge in pixels at N = 64; scales with N", ge=0
    )


@settings("probe")
class ZonePlateProbe(LearnedProbe):
    """Focus of a Fresnel zone plate with a central stop, propagated to the defocused sample plane."""

    kind: Literal["zone_plate"] = key("zone_plate", "", kw_only=True)
    energy_keV: Number = key(8.0, "photon energy", gt=0, unit="keV")
    pixel_size_nm: Number | None = key(None, "pixel size at the sample; null: 640 nm / N", gt=0, unit="nm")
    zone_plate_diameter_um: Number = key(180.0, "diameter of the zone plate", gt=0, unit="µm")
    outermost_zone_width_nm: Number = key(30.0, "width of the outermost zone", gt=0, unit="nm")
    central_stop_diameter_um: Number = key(
        60.0, "diameter of the central stop, smaller than the zone plate; 0: none", ge=0, unit="µm"
    )
    defocus_um: Number = key(45.0, "defocus; positive: the sample is downstream of the focus", unit="µm")

    def __post_init__(self) -> None:
        check(
            self.central_stop_diameter_um < self.zone_plate_diameter_um,
            "probe.central_stop_diameter_um",
            self.central_stop_diameter_um,
            f"smaller than probe.zone_plate_diameter_um={self.zone_plate_diameter_um}",
        )


Resize = Literal["interpolate", "pad", "pad_quadratic", "pad_extrapolate"]


@settings("probe")
class FileProbe(LearnedProbe):
    """A probe from an NPZ file, key ``probeGuess``, resized to N × N."""

    kind: Literal["npz"] = key("npz", "", kw_only=True)
    file: Text = key("", "NPZ file with a complex square array under the key probeGuess")
    resize: Resize = key(
        "interpolate",
        "method that brings the probe to N × N: interpolation, zero padding, or a fitted quadratic phase "
        "with zeros (pad_quadratic) or the edge amplitude (pad_extrapolate) around",
    )
    RESIZE: ClassVar[tuple[str, ...]] = get_args(Resize)

    def __post_init__(self) -> None:
        check(bool(self.file), "probe.file", repr(self.file), "the path of an .npz file with key probeGuess")


@settings("scan")
class ScanConfig:
    """Deviation of the scan from its grid."""

    jitter: Number = key(0.0, "maximum deviation of the positions from the grid", ge=0, le=16, unit="pixels")


NEIGHBOURS = "number of neighbouring patterns that each group must also explain in training"


@settings("model", kw_only=True)
class Generator:
    """What every option of the group ``model`` has."""

    neighbours: Integer = key(0, NEIGHBOURS, ge=0, le=10_000, kw_only=True)
    neighbour_distance_px64: Number = key(
        12.0, "maximum distance of these neighbours in pixels at N = 64; scales with N", gt=0, kw_only=True
    )


@settings("model")
class UnrolledModel(Generator):
    """Unrolled physics iteration with small residual CNNs; see :mod:`ptycho.networks.unrolled`."""

    kind: Literal["unrolled"] = key("unrolled", "", kw_only=True)
    FIXED: ClassVar[tuple[str, ...]] = ()  # sizes that the weights depend on
    SIZED_BY: ClassVar[str] = "model.stages, model.blocks or model.width"  # keys of the network's memory
    stages: Integer = key(8, "number of physics iterations, each followed by a small CNN", ge=1, le=1000)
    width: Integer = key(32, "number of channels of the CNNs", ge=1, le=4096)
    blocks: Integer = key(1, "number of residual blocks of each CNN", ge=0, le=1000)
    coarsening: Integer = key(2, "downsampling factor of the CNNs; 1 is finer and slower", ge=1, le=512)
    illumination_floor: Number = key(
        0.01, "regularisation of weakly illuminated pixels, as a fraction of the maximum illumination", gt=0
    )
    neighbours: Integer = key(3, NEIGHBOURS, ge=0, le=10_000, kw_only=True)
    misfit: Flag = key(False, "give each stage the misfit of its object to the patterns as an input")
    memory: Flag = key(False, "give each stage the hidden channels of the previous stage as an input")

    def takes(self, N: int) -> bool:
        """Return whether patterns of side N fit: every even one does."""
        return N % 2 == 0


@settings("model")
class UNetModel(Generator):
    """The published PtychoPINN encoder with two decoders; see :mod:`ptycho.networks.encoder_decoders`."""

    kind: Literal["unet"] = key("unet", "", kw_only=True)
    FIXED: ClassVar[tuple[str, ...]] = ("N", "group_size")
    SIZED_BY: ClassVar[str] = "model.filters_scale"
    filters_scale: Integer = key(2, "multiplier of the channels; 1: the published network", ge=1, le=64)
    object_big: Flag = key(False, "predict one patch per pattern, averaged where patches overlap")

    @staticmethod
    def halvings(N: int) -> int:
        """Return how often the encoder halves the side of a pattern: 3 times at N = 64, 4 times at 128."""
        return max(2, int(math.log2(N)) - 3)

    def takes(self, N: int) -> bool:
        """Return whether patterns of side N can be halved as often as the encoder does."""
        return N % 2 ** self.halvings(N) == 0


@settings("model")
class FourierModel(Generator):
    """A Fourier neural operator; see :mod:`ptycho.networks.fno`."""

    kind: Literal["fno"] = key("fno", "", kw_only=True)
    FIXED: ClassVar[tuple[str, ...]] = ("group_size",)
    SIZED_BY: ClassVar[str] = "model.width, model.modes or model.layers"
    width: Integer = key(32, "number of channels", ge=1, le=4096)
    modes: Integer = key(12, "number of spatial frequencies along an axis", ge=1, le=512)
    layers: Integer = key(4, "number of Fourier layers", ge=1, le=1000)

    def takes(self, N: int) -> bool:
        """Return whether a pattern of side N has so many frequencies."""
        return 2 * self.modes <= N


@settings("model")
class CustomModel(Generator):
    """A generator of your own; see ``examples/own_generator.py``."""

    kind: Literal["custom"] = key("custom", "", kw_only=True)
    FIXED: ClassVar[tuple[str, ...]] = ("N", "group_size")  # as far as is known here
    target: Text = key("", "my_module:build: your (geometry, seed) → Keras layer", program="import path")

    def __post_init__(self) -> None:
        check_import_path("model.target", self.target)

    def takes(self, N: int) -> bool:
        """Return True: the user's function refuses what it cannot take."""
        return True


@settings("baseline")
class BaselineConfig:
    """PtychoNN, supervised; one pattern of a group is the published choice."""

    FIXED: ClassVar[tuple[str, ...]] = ("N",)
    SIZED_BY: ClassVar[str] = "baseline.filters_scale"
    patterns_per_group: Integer | None = key(1, "number of patterns used of each group; null: all", ge=1)
    filters_scale: Integer = key(1, "multiplier of the number of channels", ge=1, le=256)
    learning_rate: Number = key(1e-3, "peak learning rate of Adam", gt=0)


@settings("train")
class AdamConfig:
    """Adam with a linear warm-up and a cosine decay, and how often it is saved."""

    learning_rate: Number = key(1e-3, "peak learning rate of Adam", gt=0, level="sometimes")
    final_learning_rate_fraction: Number = key(
        0.01, "final learning rate, as a fraction of the peak, reached by a cosine", ge=0, le=1
    )
    warmup_fraction: Number = key(0.05, "fraction of the steps with a linear warm-up", ge=0, le=1)
    clip_norm: Number = key(1.0, "upper limit of the norm of the gradient", gt=0)
    checkpoint_seconds: Number = key(
        30.0, "interval between two checkpoints; one more is written after every epoch", ge=0, unit="s"
    )


@settings("train")
class EpochsConfig(AdamConfig):
    """A training in epochs, with a validation loss after each."""

    patience: Integer | None = key(
        None, "epochs without a better validation loss after which the training ends; null: never", ge=1
    )
    callbacks: Text | None = key(
        None, "my_module:make: your own function () → Keras callback, or a list", program="import path"
    )

    def __post_init__(self) -> None:
        check_import_path("train.callbacks", self.callbacks)


@settings("train")
class TrainConfig(EpochsConfig):
    """A training with simulated validation groups."""

    val_groups: Integer = key(256, "number of validation groups, drawn at random", ge=1, le=1_000_000)


@settings("xla")
class XlaConfig:
    """XLA: compilation of the steps, and the separable translation."""

    compile: Flag = key(True, "compile training, validation and inference with XLA (USE_XLA_COMPILE)")
    translate: Flag = key(
        True, "separable translation; false: TensorFlow's, which needs compile=false (USE_XLA_TRANSLATE)"
    )

    def __post_init__(self) -> None:
        if self.compile and not self.translate:
            raise ConfigError(
                "xla.translate=false with xla.compile=true: TensorFlow's projective kernel has no XLA form; "
                "set xla.compile=false too, or xla.translate=true"
            )


Stitching = Literal["probe", "grid"]


@settings("stitch")
class StitchConfig:
    """Stitching of the patches into objects.

    ``probe``: illumination-weighted mean; ``grid``: tiles of the central squares (the published recipe).
    """

    method: Stitching = key("probe", "mean weighted by the illumination, or tiles of a grid")
    METHODS: ClassVar[tuple[str, ...]] = get_args(Stitching)


Shape = IdealDiskProbe | ZonePlateProbe | FileProbe
ProbeConfig = OwnProbe | RunProbe | AberratedProbe | IdealDiskProbe | ZonePlateProbe | FileProbe
GeneratorConfig = UnrolledModel | UNetModel | FourierModel | CustomModel
PROBES: dict[str, type] = {probe.kind: probe for probe in get_args(Shape)}
MEASURED_PROBES: dict[str, type] = {probe.kind: probe for probe in (OwnProbe, RunProbe, AberratedProbe)}
GENERATORS: dict[str, type] = {model.kind: model for model in get_args(GeneratorConfig)}
NETWORK = "pinn"
MODELS = (NETWORK, "baseline")  # networks
NAMED = {"unrolled": UnrolledModel, "unet": UNetModel, "fno": FourierModel}  # PINNs of these generators
ITERATIVE = "lsqml"  # beside them: needs no training
BEST = ("solver", "refined", "pinn", "lsqml", "baseline")  # where a run does not say


def product_of(metrics: Mapping[str, Any], held: Collection[str]) -> str:
    """Return the product among the reconstructions that are ``held``, by a scan's scores; empty: none."""
    named = metrics.get("product")
    return str(named) if named in held else next((name for name in BEST if name in held), "")
