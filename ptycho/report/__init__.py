"""What a run's folder tells a reader: pages of one file each, that ask nothing of a network.

``gather`` and ``scans`` read a folder into frozen values, ``wording`` says them in plain words, ``pictures``
and ``charts`` draw them, ``views`` puts them together, ``page`` renders the templates; ``entries`` and
``compare`` set runs beside each other, ``site`` shows a folder of runs. Nothing here imports TensorFlow.
"""
