"""A scan that is reconstructed while it is measured.

``sources`` say what arrived; ``store`` keeps it on the disk; ``joining`` pairs frames and positions; ``collecting``
does these in a thread of its own. ``beginning`` understands the first patterns, ``growing`` fits what there is,
``page`` shows it, ``watching`` is the loop. ``replay`` plays a scan as a beamline would measure it.
"""
