"""Programs that read what runs have written, and change nothing in it."""
