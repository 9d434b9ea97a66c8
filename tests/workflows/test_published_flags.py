"""Command lines of the grid-lines workflow of the published program."""

import pytest
from helpers.cli import ROOT

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


def test_the_command_as_typed(in_process):
    """The command has the path of the published program; ``--cfg job`` shows the keys and runs nothing."""
    script = ROOT / "scripts" / "studies" / "grid_lines_workflow.py"
    typed = "--N 64 --gridsize 2 --output-dir X --nimgs-train 2 --nimgs-test 2 --nepochs 2 --cfg job"
    code, out, err = in_process(script, *typed.split())
    assert code == 0 and "\nnepochs: 2\n" in out
    assert err == "read as N=64 gridsize=2 output_dir=X nimgs_train=2 nimgs_test=2 nepochs=2 --cfg job\n"
