"""Settings of short reconstructions, which select nothing by cross-validation."""

from ptycho.reconstruction.selection import ModelOptions

NOTHING_SELECTED = {
    "slices": 1,
    "probe_variation": 0,
    "positions": False,
    "flux": False,
    "background": False,
    "point_spread": False,
    "regulariser": "edge_preserving",
    "regularisation_weight": 1.0,
}


KNOWN = ModelOptions(
    probe=False, positions=False, flux=False, background=False, point_spread=False, prior="none"
)


def decided(solved):
    """What was decided, by name."""
    return {decision.what: decision.value for decision in solved.decisions}


def words_of(settings):
    """The settings of the solver as words of a command line."""
    return [f"solver.{key}={str(value).lower()}" for key, value in settings.items()]
