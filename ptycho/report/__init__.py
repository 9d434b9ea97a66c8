"""Reports on runs: self-contained pages of one file each.

``gather`` and ``scans`` read a folder into frozen values, ``wording`` puts them into words, ``pictures`` and
``scan_charts`` draw them, ``views`` puts them together, ``page`` renders the templates; ``entries`` and
``compare`` compare runs. Nothing here imports TensorFlow.
"""
