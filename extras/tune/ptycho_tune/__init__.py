"""Settings of a scan's reconstruction chosen by its held-out patterns, with Optuna: see ``docs/tune.md``.

``space`` says which settings are tried, ``trials`` reconstructs with some of them, ``study`` chooses the next
ones, compares, and writes what was found. ``tune_command`` is the command.
"""
