"""Simulated scans: objects, and the counting statistics of their diffraction patterns.

Imports ``ptycho.scan`` and what lies below it.
"""
