"""Parts of an image, in NumPy: windows at whole and at sub-pixel positions, and bands of its rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def cut_windows(image: np.ndarray, starts: np.ndarray, side: int) -> np.ndarray:
    """Cut whole-pixel windows of one image, zero beyond its edge: the integer part of a sub-pixel position.

    Args:
        image: ``(H, W)``.
        starts: ``(K, 2)`` integers (row, col), at least 0 and at most H, W.
        side: side of a window.

    Returns:
        ``(K, side, side)`` in the dtype of ``image``.
    """
    return inner_windows(np.pad(image, ((0, side), (0, side))), starts, side)


def inner_windows(image: np.ndarray, starts: np.ndarray, side: int) -> np.ndarray:
    """Return :func:`cut_windows`, of windows wholly inside the image, without a copy of it.

    Of slices ``(L, H, W)``, too: ``(K, L, side, side)``.
    """
    windows = np.lib.stride_tricks.sliding_window_view(image, (side, side), axis=(-2, -1))
    return np.moveaxis(windows[..., starts[:, 0], starts[:, 1], :, :], -3, 0)


def add_windows(windows: np.ndarray, starts: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Add windows placed at whole pixels: the adjoint of :func:`cut_windows`.

    Args:
        windows: ``(K, h, w)``.
        starts: ``(K, 2)`` integers (row, col), at least 0.
        shape: ``(H, W)`` of the result; what falls outside is dropped.
    """
    height, width = windows.shape[-2:]
    canvas = np.zeros((shape[0] + height, shape[1] + width), windows.dtype)
    add_windows_to(canvas, windows, starts)
    return canvas[: shape[0], : shape[1]]


def add_windows_to(canvas: np.ndarray, windows: np.ndarray, starts: np.ndarray) -> None:
    """Add ``windows (K, h, w)`` in place, each wholly inside ``canvas (H, W)`` at its whole-pixel start.

    To slices ``(L, H, W)``, too: ``windows (K, L, h, w)``.
    """
    height, width = windows.shape[-2:]
    for window, (row, col) in zip(windows, starts, strict=True):
        canvas[..., row : row + height, col : col + width] += window


def far_field_ramps(shifts: np.ndarray, n: int, N: int) -> np.ndarray:
    """Return ``exp(2πi d x/N)`` of rows and of columns, ``(K, 2, n)`` complex64: they shift a far field by d.

    ``shifts``: d, ``(K, 2)``, (row, col) in pixels of a far field of N × N.
    """
    phases = 2 * np.pi / N * (np.arange(n) - N // 2)
    return np.exp(1j * shifts[..., None] * phases).astype(np.complex64)


def placed_windows(image: np.ndarray, positions: np.ndarray, side: int) -> np.ndarray:
    """Return one image at several positions, summed; bilinear at fractions of a pixel, zero outside.

    Args:
        image: ``(N, N)`` real.
        positions: ``(G, C, 2)`` float32, (row, col) of its first sample.
        side: R, of the results.

    Returns:
        ``Σ_c Wyᵀ · image · Wx`` with ``W[i, m] = max(0, 1 − |r_c + i − m|)``, ``(G, R, R)`` in the dtype of
        ``image``.
    """
    points = positions[..., None] + np.arange(len(image), dtype=positions.dtype)  # (G, C, 2, N)
    weights = np.maximum(0, 1 - np.abs(points[..., None] - np.arange(side, dtype=positions.dtype)))
    wy, wx = np.moveaxis(weights.astype(image.dtype), 2, 0)  # (G, C, N, R) each
    return np.sum(np.swapaxes(wy, -1, -2) @ (image @ wx), axis=1)


def bands(shape: tuple[int, ...], halo: int = 0, pixels: int = 2**20) -> Iterator[slice]:
    """Yield slices of the rows of an array ``(H, …)``, of about so many ``pixels`` each, in order.

    ``halo``: rows that a slice has more on either side, of which none belongs to it. Each of the rows from
    ``halo`` to ``H − halo`` belongs to one slice.
    """
    height = max(1, pixels // max(1, int(np.prod(shape[1:]))))
    for row in range(halo, shape[0] - halo, height):
        yield slice(row - halo, min(row + height, shape[0] - halo) + halo)


def inner_product(first: np.ndarray, second: np.ndarray) -> complex:
    """Return ``Σ conj(a) b`` of arrays ``(H, …)``, summed in double precision."""
    parts = (
        np.vdot(first[rows].astype(complex, copy=False), second[rows].astype(complex, copy=False))
        for rows in bands(first.shape)
    )
    return complex(sum(parts))
