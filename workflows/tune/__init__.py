"""Settings of a scan's reconstruction chosen by the patterns that are held out, with Optuna."""
