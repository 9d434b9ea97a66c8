"""Doubts about the positions from before the fit: kept if the misfit of the product still shows them."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.align.geometry import Alternative
from ptycho.methods import pipeline
from ptycho.reconstruction.causes import CAUSES, Causes
from ptycho.scan.finding import Finding, warnings_of
from ptycho.scan.reconstruction import Reconstruction

DRIFT = Finding("affine position correction", "", "")
DOUBT = Alternative(np.eye(2), None, False, DRIFT, Finding.warning("another scale", "scale_doubtful"))
MADE = {"solver": Reconstruction(np.ones((1, 4, 4), np.complex64), np.ones((1, 4, 4), bool))}


def flags_of(gains, other=DOUBT, deviance=1.0, motion=0.1):
    """Return flags and warnings of the product for gains of some causes; None: the gains are unknown.

    ``deviance``: mean over the patterns of the product; ``motion``: half its variance, px².
    """
    causes = None
    if gains is not None:
        every, sizes = dict.fromkeys(CAUSES, 1.0) | gains, {"motion": np.array([motion, 0.0])}
        causes = Causes(every, sizes, 20_000.0, np.ones((4, 4)))
    fits = {"solver": SimpleNamespace(causes=causes, used=SimpleNamespace(mean_deviance=deviance))}
    made, flags = pipeline._confirmed(SimpleNamespace(alternative=other), MADE, fits, "solver")
    return flags, tuple(warnings_of(made["solver"].decisions))


@pytest.mark.parametrize("gains", [{"position_map": 5000.0}, {"position_map": 100.0}, None])
def test_a_doubt_that_the_fit_confirms_is_reported(gains):
    assert flags_of(gains) == (("scale_doubtful",), ("another scale",))
    assert flags_of(gains, None) == ((), ())


@pytest.mark.parametrize("gains", [{}, {"position_map": 390.0, "background": 1424.0}])
def test_a_doubt_that_the_beam_had_caused_is_not(gains):
    """The cause is a point spread of the detector: positions would explain less than a background."""
    assert flags_of(gains) == ((), ())


def test_a_doubt_is_reported_where_the_product_explains_less_than_a_short_fit_of_it():
    """A background would explain more of what is left, but other positions explained nearly all."""
    gains, other = {"position_map": 390.0, "background": 1424.0}, replace(DOUBT, deviance=1.2)
    assert flags_of(gains, other, deviance=5.2) == (("scale_doubtful",), ("another scale",))
    assert flags_of(gains, other, deviance=1.1) == ((), ())
    assert flags_of(gains, other, deviance=None) == ((), ())


@pytest.mark.parametrize(
    ("cause", "flag"), [("pattern_shift", "pattern_shift"), ("motion", "motion_blur"), ("background", None)]
)
def test_a_likely_cause_is_flagged_by_its_name(cause, flag):
    flags, warnings = flags_of({cause: 5000.0, "position_map": 2000.0})
    assert flags == (() if flag is None else (flag,)) and not warnings


def test_motion_of_a_pixel_is_not_flagged():
    """Half a variance of .046 px² was that of a sample with detail finer than its pixels."""
    assert flags_of({"motion": 5000.0}, None, motion=0.046) == ((), ())
    assert flags_of({"motion": 5000.0}, None, motion=0.08) == (("motion_blur",), ())


@dataclass(frozen=True)
class Decided:
    """Stands for a prepared scan."""

    decisions: tuple[Finding, ...]


@pytest.mark.parametrize(
    ("worst_tenth", "held_out", "certainty", "kept"),
    [
        (0.02, 0.01, 20.0, False),
        (0.06, 0.01, 20.0, True),
        (0.02, 0.08, 20.0, True),
        (0.02, None, 20.0, True),  # nothing was held out that could refute it
        (-0.01, -0.01, 1.0, True),  # patterns that differ by noise alone show nothing
    ],
)
def test_doubtful_positions_are_withdrawn_where_held_out_patterns_are_explained(
    worst_tenth, held_out, certainty, kept
):
    doubt, other = Finding.warning("jumps", "positions_doubtful", refutable=True), DOUBT.kept
    fit = SimpleNamespace(
        residuals=SimpleNamespace(share=0.001, worst_tenth=worst_tenth, certainty=certainty),
        residuals_held_out=None if held_out is None else SimpleNamespace(share=held_out, share_error=0.0),
        used=SimpleNamespace(r_factor=0.1, r_noise=0.1),
        held_out=None,
    )
    left = pipeline._without_refuted(Decided((doubt, other)), fit).decisions
    assert left == ((doubt, other) if kept else (other,))
