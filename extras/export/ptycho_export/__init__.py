"""Trained networks for consumers that have neither XLA nor TensorFlow; see ``docs/export.md``.

:mod:`~ptycho_export.network` alone imports TensorFlow; ``…_command`` are the commands. To add a format:
an entry in :data:`ptycho_export.formats.FORMATS`.
"""
