"""How good is a reconstruction: scores, Fourier ring correlation, and figures.

Works on arrays: it knows no run and no file.
"""
