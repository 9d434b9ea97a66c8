"""Settings of short reconstructions, which select nothing by cross-validation."""

NOTHING_SELECTED = {
    "slices": 1,
    "positions": False,
    "flux": False,
    "background": False,
    "regulariser": "edge_preserving",
    "regularisation_weight": 1.0,
}


def words_of(settings):
    """The settings of the solver as words of a command line."""
    return [f"solver.{key}={str(value).lower()}" for key, value in settings.items()]
