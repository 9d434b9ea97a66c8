"""Settings of a scan's reconstruction chosen by the patterns that are kept out, with Optuna."""
