"""The measurement in the forms that tests compare with loops."""

from ptycho import physics


def diffract(objects, positions, probe, **settings):
    """Diffraction amplitudes ``(B, C, N, N)``, zero frequency at ``N//2``; arguments as of ``forward``."""
    return physics.detect(physics.forward(objects, positions, probe, **settings))


def exit_waves(objects, positions, probe, support=None, mover=physics.SEPARABLE):
    """Exit waves ``(B, C, K, N, N)``: those of the support, in zeros."""
    illuminated = physics.illuminated_waves(objects, positions, probe, support, mover)
    return physics.pad_to(illuminated, probe.shape[-1])
