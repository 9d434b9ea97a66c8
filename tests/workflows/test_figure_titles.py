"""The figures of a run on several images say which one they show: the log has the means over all."""

from contextlib import nullcontext

import numpy as np
import pytest

from ptycho.evaluation.metrics import Region, score_images
from ptycho.scan.reconstruction import Reconstruction
from workflows.reconstruct.assess import draw_comparison


class Figures:
    """A folder of a run that keeps the titles of its figures."""

    def __init__(self):
        self.titles = {}

    def timed(self, _):
        return nullcontext()

    def figure(self, name, figure):
        self.titles[name.split("/")[-1]] = figure.get_suptitle()


@pytest.mark.parametrize(
    ("count", "more"), [(1, ""), (2, "; scores of this image (the log has the means over all)")]
)
def test_figures_say_which_image_they_show(count, more):
    rng = np.random.default_rng(0)
    objects = 1 + 0.1 * rng.normal(size=(count, 40, 48)) * np.exp(0.2j)
    made = Reconstruction(objects.astype(np.complex64), np.ones(objects.shape, bool))
    region, folder = Region(4, 6, 30, 34), Figures()
    scores = {"pinn": score_images(made.objects, objects, made.mask, region)}
    draw_comparison(objects, region, np.ones((1, 8, 8), complex), {"pinn": made}, {}, scores, folder)
    names = ("compare_amp_phase", "amp_phase_pinn", "amp_phase_error_pinn", "frc_curves")
    assert folder.titles == {f"{name}.png": f"image 1 of {count}{more}" for name in names}
