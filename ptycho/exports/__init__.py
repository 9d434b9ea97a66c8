"""Scans written for other programs: one value, :class:`ExportedScan`, and a module for each format.

To add a format: a module with ``write(path, scan)`` and an entry in :data:`ptycho.exports.table.FORMATS`.
What is written is read back by ``ptycho.readers``. Imports ``ptycho.scan``, ``ptycho.files`` and
``ptycho.config``; never TensorFlow.
"""
