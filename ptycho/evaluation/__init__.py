"""How good is a reconstruction: scores, Fourier ring correlation, and figures.

Works on arrays alone; of ``ptycho`` it imports nothing.
"""
