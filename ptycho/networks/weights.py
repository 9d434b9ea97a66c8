"""Weights of a network, and variables of an optimizer, as arrays by path."""

from __future__ import annotations

from collections.abc import Iterable

import keras
import numpy as np

Arrays = dict[str, np.ndarray]


def read(variables: Iterable[keras.Variable]) -> Arrays:
    """Read the values of all ``variables`` by their path."""
    return {variable.path: variable.numpy() for variable in variables}


def check(variables: Iterable[keras.Variable], values: Arrays, what: str) -> None:
    """Raise ValueError unless ``values`` has exactly the names and shapes of ``variables``."""
    shapes = {variable.path: tuple(variable.shape) for variable in variables}
    if shapes.keys() != values.keys():
        odd = sorted(shapes.keys() ^ values.keys())
        raise ValueError(f"{what} do not belong to this network: {len(odd)} names differ, first {odd[0]}")
    for path, shape in shapes.items():
        if values[path].shape != shape:
            raise ValueError(f"{what}: {path} has shape {values[path].shape}; must be {shape}")


def assign(variables: Iterable[keras.Variable], values: Arrays, what: str) -> None:
    """Assign by path, after :func:`check`: either all variables change or none."""
    variables = list(variables)
    check(variables, values, what)
    for variable in variables:
        variable.assign(values[variable.path])


def get_weights(model: keras.Model) -> Arrays:
    """Return all variables by their path inside the model."""
    return read(model.variables)


def set_weights(model: keras.Model, weights: Arrays) -> None:
    """Assign weights by path; the sets of names and every shape must agree, or none is assigned."""
    assign(model.variables, weights, "weights")
