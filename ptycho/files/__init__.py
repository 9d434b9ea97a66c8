"""Files: untrusted NPZ archives, arrays that stay in a file, atomic writing, and locked folders.

Knows nothing of ptychography. Imports ``ptycho.config`` for its error alone.
"""
