"""The Python interface: arrays or a file in, an object and its beam out; names are in ``ptycho/__init__.py``.

Thin over :mod:`ptycho.preparation` and :mod:`ptycho.methods`; the command line goes the same way.
"""
