"""A scan that is reconstructed while it is measured.

``sources`` deliver ``arrivals``; ``store`` joins them and keeps them in one file (``scan_file``), in a thread
of its own (``collecting``). ``state`` interprets the first patterns and grows with the scan, ``fitting`` fits
new ones, and all of them in the end. ``page`` shows the object, ``run`` is the loop. Modules ``…_command``
are the commands; that of ``replay`` plays a scan as a beamline would.
"""
