"""A scan that is reconstructed while it is measured.

``sources`` say what arrived; ``store`` keeps it on the disk, in a thread of its own (``collecting``);
``joining`` pairs frames and positions. ``beginning`` understands the first patterns, ``growing`` fits them,
``finishing`` all of it in the end; ``page`` shows it, ``watching`` is the loop. ``replay`` plays a scan as a
beamline would measure it.
"""
