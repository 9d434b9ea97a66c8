"""Command lines of the grid-lines workflow of the published program."""

import pytest

from ptycho.command_line.words import translate
from ptycho.config import ConfigError


@pytest.mark.parametrize(
    "typed, read",
    [
        ("--N 64 --gridsize 2 --output-dir X", "N=64 gridsize=2 output_dir=X"),
        ("--output-dir a=b,c", 'output_dir="a=b,c"'),
        ("--probe-npz p.npz --probe-source custom", "probe=npz probe.file=p.npz"),
        ("--probe-source ideal_disk --no-probe-mask", "probe=ideal_disk probe.mask_diameter_px=null"),
        ("--probe-scale-mode pad_preserve", "probe.resize=pad"),
        ("-m N=64 --cfg job --config-dir=x", "-m N=64 --cfg job --config-dir=x"),
    ],
)
def test_flags_are_read_as_keys(typed, read):
    assert translate(typed.split()) == read.split()


@pytest.mark.parametrize(
    "typed, message",
    [
        ("--epochs 3", r"^--epochs: unknown flag; did you mean nepochs=…\?"),
        ("--probe-mode interpolate", r"^--probe-mode: unknown flag; did you mean --probe-(npz|scale-mode)\?"),
        ("--N", "^--N: needs a value"),
        ("--probe-scale-mode pipeline", "must be one of interpolate, pad_preserve, pad_extrapolate"),
        ("--probe-smoothing-sigma 0.5", "has no counterpart here; leave it out, and smooth the probe"),
    ],
)
def test_what_cannot_be_read_is_named(typed, message):
    with pytest.raises(ConfigError, match=message):
        translate(typed.split())
