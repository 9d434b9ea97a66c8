"""Settings of a scan's reconstruction chosen by its held-out patterns, with Optuna: see ``docs/tune.md``.

``space`` says which settings are tried, ``trials`` reconstructs with some of them, ``study`` chooses the next
ones and compares, and ``results`` writes what was found.
"""
