"""A scan that is reconstructed while it is measured.

``sources`` say what arrived; ``store`` joins frames with positions and keeps them in one file
(``scan_file``), in a thread of its own (``collecting``). ``context`` interprets the first patterns,
``update`` fits new ones on an object that grows (``state``), ``final_fit`` all of them in the end; ``page``
shows it, ``run`` is the loop. ``replay`` plays a scan as a beamline would measure it.
"""
