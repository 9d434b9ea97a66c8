"""The door for Python: arrays or a file in, an object and its beam out; ``ptycho/__init__.py`` has the names.

Thin over :mod:`ptycho.preparation` and :mod:`ptycho.methods`; the command line goes the same way.
"""
