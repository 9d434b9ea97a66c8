"""Weights of a learned prior, specified by a user."""

import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.run.pretrained import check_prior_weights


@pytest.mark.parametrize("content", [None, b"weights", {"kernel": np.zeros(3)}])
def test_other_files_are_refused_by_their_key(tmp_path, content):
    file = tmp_path / "weights.npz"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content:
        np.savez(file, **content)
    with pytest.raises(ConfigError, match=r"^solver.denoiser_weights=.*ptycho pretrain network=denoiser"):
        check_prior_weights(str(file))
