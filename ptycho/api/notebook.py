"""What a notebook shows of a scan or a result: small pictures and a table, as HTML without scripts."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from ptycho.evaluation.shrinking import shrink
from ptycho.files.png import grey_png


def to_html(
    title: str,
    pictures: Mapping[str, np.ndarray],
    facts: Mapping[str, str],
    warnings: Sequence[str] = (),
    side: int = 192,
) -> str:
    """Return the title, the pictures in grey by their captions, and a table of the facts.

    Args:
        pictures: real ``(H, W)``; what is not finite is drawn as the smallest value.
        side: pixels of a side of a picture, at most.
    """
    figures = "".join(_figure(caption, image, side) for caption, image in pictures.items())
    rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(text)}</td></tr>" for key, text in facts.items())
    lines = "".join(f"<div>⚠ {escape(warning)}</div>" for warning in warnings)
    return f"<div><b>{escape(title)}</b><div>{figures}</div><table>{rows}</table>{lines}</div>"


def _figure(caption: str, image: np.ndarray, side: int) -> str:
    small = shrink(image.astype(float), side)[0]
    known = np.isfinite(small)
    small = np.where(known, small, small[known].min(initial=np.inf) if known.any() else 0)
    code = base64.b64encode(grey_png(small)).decode()
    size = "height:160px;image-rendering:pixelated"
    picture = f'<img src="data:image/png;base64,{code}" alt="{escape(caption)}" style="{size}">'
    style = "display:inline-block;margin:4px"
    return f'<figure style="{style}">{picture}<figcaption>{escape(caption)}</figcaption></figure>'
