"""Finished and unfinished runs, read from their folders into frozen values, and put into words.

``gather`` reads a folder, ``wording`` says in words how its scan stands, ``entries`` finds runs and makes the
cells of a table. What draws pages of these is an optional part, ``extras/report``. Nothing here imports
TensorFlow.
"""
