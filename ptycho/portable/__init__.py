"""Trained networks for consumers that have neither XLA nor TensorFlow; see ``docs/export.md``.

:mod:`~ptycho.portable.description`, :mod:`~ptycho.portable.table` and :mod:`~ptycho.portable.runtimes` import
no TensorFlow; the rest writes and audits it. To add a format: an entry in
:data:`ptycho.portable.table.FORMATS`, a function in :data:`ptycho.portable.formats.WRITERS`, and where it can
be run here, one in :data:`ptycho.portable.runtimes.RUNTIMES`.
"""
