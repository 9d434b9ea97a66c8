"""Weights of a learned prior, specified by a user."""

import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.run.pretrained import check_prior_weights


@pytest.mark.parametrize("kind", ["missing", "text", "other", "array"])
def test_other_files_are_refused_by_their_key(tmp_path, kind):
    file = tmp_path / "weights.npz"
    if kind == "text":
        file.write_text("weights")
    elif kind == "other":
        np.savez(file, kernel=np.zeros(3))
    elif kind == "array":
        file = tmp_path / "weights.npy"
        np.save(file, np.zeros(3))
    with pytest.raises(
        ConfigError, match=r"^solver.denoiser_weights=.*ptycho pretrain network=denoiser made"
    ):
        check_prior_weights(str(file))
