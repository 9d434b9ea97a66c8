"""Finished and unfinished runs, read from their folders into frozen values, and put into words.

``gather`` reads a folder, ``wording`` says in words how its scan stands, ``entries`` makes the table of many
scans. What draws pages of these is an optional part, ``extras/report``. Nothing here imports
TensorFlow.
"""
