"""Measured scans in the formats of beamlines and of other programs, told by their content.

A format is a module with ``detect(archive) → bool`` and ``read(archive, options) → RawScan``, and an entry in
:data:`FORMATS` (:mod:`~ptycho.readers.scans.table`). Patterns are read as they are needed. Imports
``ptycho.files`` and ``ptycho.config``; never TensorFlow.
"""
