"""A scan of a file, played as a beamline would measure it: for tests, demonstrations, and training of staff.

``playing`` says what comes when, with faults if they are asked for; ``writers`` write it.
"""
