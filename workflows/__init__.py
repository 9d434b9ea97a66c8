"""Orchestration: configuration from Hydra, and the workflows that use the library."""
