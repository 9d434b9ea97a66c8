"""Pages about runs: a report on one, an index, a comparison; each is one file. See ``docs/tune.md``.

:mod:`ptycho.report` reads a run and puts it into words. ``pictures`` and ``scan_charts`` draw it, ``compare``
sets runs side by side, ``page`` puts all together and renders the templates; ``report_command`` and
``compare_command`` are the commands. Nothing here imports TensorFlow.
"""
