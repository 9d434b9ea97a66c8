"""Training of the networks that are installed with the program, on simulated scans.

``probe_kinds`` and ``object_kinds`` are tables of random probes and objects (``kinds``), from which
``distributions`` draw. ``examples`` are groups of patterns for the general network (``pretraining``);
``kind_scans`` are whole scans, of which ``denoiser_examples`` are made for the denoiser
(``denoiser_training``). ``pretrain_command`` is the command, and ``run`` does what it asks for.
"""
