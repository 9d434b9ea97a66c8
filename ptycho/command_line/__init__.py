"""What every command shares: Hydra's words to a configuration, jobs of a sweep, exit codes, the device."""
