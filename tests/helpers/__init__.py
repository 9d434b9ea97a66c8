"""Shared by several test modules: scans, command lines, damaged files, reference loops."""
