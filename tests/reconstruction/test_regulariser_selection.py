"""Which weight of a regulariser is taken: the strongest that held-out patterns do not tell from the best."""

import numpy as np
import pytest

from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.regulariser_selection import Regularisation, best_weight
from ptycho.reconstruction.trial import Trial

SPREAD = np.array([-1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0])  # mean 0


def trial(level, kind="none", strength=0.0, kappa=None, spread=0.0):
    """Of ten patterns of log-deviances ``level`` ± ``spread``: the mean has an error of ``spread``/3."""
    learned = None if kappa is None else Learned(StoredNetwork(), kappa)
    held_out = np.exp(level + spread * SPREAD)
    return Trial(Regularisation(Prior(kind, strength), learned), None, np.zeros(0), held_out)


@pytest.mark.parametrize(
    "third, strongest",
    [(0.010, 30.0), (0.014, 10.0)],  # .3 and 1.1 standard errors behind the second
)
def test_the_strongest_weight_that_is_not_clearly_worse(third, strongest):
    none = trial(0.5)
    ladder = [
        trial(0.1, "second_order", 3.0),
        trial(0.0, "second_order", 10.0),
        trial(third, "second_order", 30.0, spread=0.033),
    ]
    assert best_weight(none, ladder).hypothesis.prior.strength == strongest


def test_a_stronger_weight_of_another_kind_is_another_thing():
    none = trial(0.5)
    edges = [trial(0.001, "edge_preserving", 30.0, spread=0.1)]
    planes = [trial(0.0, "second_order", 3.0)]
    learned = [trial(0.001, "second_order", 3.0, kappa, spread=0.1) for kappa in (0.5, 2.0)]
    assert best_weight(none, [*edges, *planes]) is planes[0]
    assert best_weight(none, [*planes, *learned]) is planes[0]
    best = trial(-0.1, "second_order", 3.0, 0.25)
    assert (
        best_weight(
            none, [*planes, best, trial(-0.09, "second_order", 3.0, 0.5, spread=0.1)]
        ).hypothesis.learned.strength
        == 0.5
    )


def test_none_is_kept_where_no_weight_is_clearly_better():
    none = trial(0.0)
    assert best_weight(none, [trial(-0.01, "second_order", 3.0, spread=0.1)]) is none
