"""What a run's folder tells a reader: pages of one file each, that ask nothing of a network.

``gather`` and ``scans`` read a folder into frozen values, ``wording`` says them in plain words, ``pictures`` and
``charts`` draw them, ``page`` renders the templates. Nothing here imports TensorFlow.
"""
