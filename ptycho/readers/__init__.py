"""Measured scans in the formats of beamlines and of other programs, recognised by their content.

A format is a :class:`~ptycho.readers.layout.Layout`, a table of its keys, units and conventions, and an entry
in ``table``; ``places`` reads by it and raises :class:`~ptycho.config.ConfigError`, one line with all that is
missing or does not fit. Its words are in ``archive`` (what a file holds), ``values`` (numbers, probe, object,
mask) and ``positions``. Patterns are read as they are needed. Imports ``ptycho.files`` and ``ptycho.config``;
never TensorFlow.
"""
