"""Measured scans in the formats of beamlines and of other programs, recognised by their content.

A format is a module with ``NAME``, ``detect(archive) → bool`` and ``read(path, options) → RawScan``, and an
entry in ``table``; ``read`` raises :class:`~ptycho.config.ConfigError`, one line with all that is missing or
does not fit. Its words are in ``archive`` (what a file holds), ``values`` (numbers, probe, object, mask),
``positions``, and ``places`` (positions in a second file). Patterns are read as they are needed. Imports
``ptycho.files`` and ``ptycho.config``; never TensorFlow.
"""
