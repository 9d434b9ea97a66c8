"""Studies: many runs of the workflow, one table. ``definition`` → ``plan`` → ``results`` → ``report``."""
