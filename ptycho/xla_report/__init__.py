"""Whether XLA works on a machine, and what compiles there: the parts of ``scripts/xla_report.py``.

``health`` finds the step that fails where nothing compiles, ``cases`` and ``network_cases`` are the tables of
what is tried, ``compile_report`` tries it, and ``saved_model`` looks through an exported model. May import
``ptycho.xla``; ``network_cases`` alone also the networks and what builds them. Nothing else in ``ptycho``
imports this folder.
"""
