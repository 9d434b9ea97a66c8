"""Reports on runs: self-contained pages of one file each.

``gather`` reads a folder into frozen values, ``wording`` puts them into words, ``pictures`` and
``scan_charts`` draw them, ``page`` puts them together and renders the templates; ``entries`` and
``compare`` compare runs. Nothing here imports TensorFlow.
"""
