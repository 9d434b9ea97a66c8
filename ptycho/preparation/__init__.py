"""From the file of a measured scan to a dataset: centred, padded or cut, masked, in object pixels.

Every decision is a line in the report, with its reason, and a key of the section ``data`` overrides it.
Imports ``ptycho.readers``, ``ptycho.scan`` and what lies below them; never TensorFlow.
"""
