"""What an exported network states about itself, as JSON inside its file; nothing here imports TensorFlow."""

from __future__ import annotations

import base64
import json
import typing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.text import parse_json, shown

VERSION = 2
ENTRY = "ptycho.json"  # of the archive that a LiteRT file ends with
KEY = "ptycho"  # of ONNX's metadata


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """Sizes and units of an exported network.

    Attributes:
        name, kind, run: ``pinn`` or ``baseline``, its generator, and the folder of its run.
        N, group_size, region_size: N, C, R.
        batch_size: B.
        modes: K of its probe; 0: the probe has no axis of modes.
        support: even side of the central square outside which the probe counts as zero.
        exact: fractions of a pixel move the probe rather than the object.
        patterns_per_group: where C is 1, the first so many of each of the data's groups are reconstructed;
            None: all.
        transmission: mean |O|² of the training data, which gives amplitudes without units their scale.
        probe: the training probe ``(N, N)`` complex64, for data that have none.
        weights_sha256: of the run's ``weights.npz``.
    """

    name: str
    kind: str
    run: str
    N: int
    group_size: int
    region_size: int
    batch_size: int
    modes: int
    support: int
    exact: bool
    patterns_per_group: int | None
    transmission: float
    probe: np.ndarray
    weights_sha256: str

    @property
    def probe_shape(self) -> tuple[int, ...]:
        """Shape of the input ``probe``: real and imaginary part first."""
        return (2, *([self.modes] if self.modes else []), self.N, self.N)

    @property
    def signature(self) -> str:
        """Inputs and output with their shapes."""
        groups, probe = (f"{self.batch_size} × {self.group_size}", " × ".join(map(str, self.probe_shape)))
        return (
            f"amplitudes {groups} × {self.N} × {self.N}, offsets {groups} × 2, probe {probe} → "
            f"regions {self.batch_size} × 2 × {self.region_size} × {self.region_size}"
        )

    def to_json(self) -> str:
        """Return one line, which :meth:`from_json` reads back."""
        probe = base64.b64encode(np.ascontiguousarray(self.probe, "<c8").tobytes()).decode()
        return json.dumps({"version": VERSION} | asdict(self) | {"probe": probe})

    @staticmethod
    def from_json(text: str | bytes, path: object) -> Description:
        """Return the description in the file ``path``.

        Raises:
            ConfigError: it is damaged, or of another version.
        """
        try:
            values: dict[str, Any] = parse_json(text)
            version = values.pop("version")
            if version != VERSION:
                raise ConfigError(
                    f"model={path}: was exported in version {shown(str(version))} of the format; this "
                    f"program reads version {VERSION}: export it again"
                )
            hints = typing.get_type_hints(Description)
            wrong = [key for key in hints if key != "probe" and not isinstance(values[key], hints[key])]
            if wrong or values.keys() != hints.keys():
                raise ValueError(f"wrong keys: {sorted(wrong or values.keys() ^ hints.keys())}")
            N = values["N"]
            probe = np.frombuffer(base64.b64decode(values["probe"]), "<c8").reshape(N, N)
            return Description(**(values | {"probe": probe}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"model={path}: its description is damaged ({shown(str(error))}); export it again"
            ) from error
