"""Configuration: every check of the dataclasses, strict conversion, the switches, and the YAML defaults."""

import dataclasses
import re
import sys
from typing import Annotated

import pytest
from helpers.cli import ROOT, fresh
from helpers.configuration import composed
from helpers.keys import sections
from omegaconf import OmegaConf

from ptycho import config as cfg
from ptycho.command_line.config import run_config
from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import from_mapping
from ptycho.config.messages import fields_of
from ptycho.config.schema import Range, Within, settings
from ptycho.config.schema import key as setting
from ptycho.evaluation.trust import FLAGS
from workflows.write_conf import documentation, file_text, files, programs, with_flags

NAN = float("nan")


def converted(*overrides, **environment):
    return run_config(composed(*overrides), list(overrides), environment)


@pytest.fixture(scope="module")
def defaults():
    return OmegaConf.to_container(composed(), resolve=False)


def convert(defaults, **changes):
    """Convert the default configuration with some values replaced by what YAML could hold."""
    values = dict(defaults) | {"output_dir": "x"}
    for name, value in changes.items():
        section, _, key = name.rpartition("__")
        if section:
            values[section] = dict(values[section]) | {key: value}
        else:
            values[key] = value
    return run_config(OmegaConf.create(values), [], {})


# ---- values that dataclasses refuse

REFUSED = [
    (RunConfig, {"models": ("pinn", "x")}, r"models=\[pinn, x\]: must be a non-empty list drawn from \[pinn"),
    (RunConfig, {"probe": cfg.OwnProbe()}, "probe.kind=from_file: must be one of ideal_disk, zone_plate"),
    (cfg.XlaConfig, {"compile": True, "translate": False}, "xla.translate=false with xla.compile=true"),
    (RunConfig, {"outer_offset_train": 7}, "outer_offset_train=7: must be an even integer >= 2"),
    (RunConfig, {"mae_weight": 0.0, "realspace_weight": 1.0}, "at least one of mae_weight and nll_weight"),
    (RunConfig, {"batch_size": 2049}, "batch_size=2049: must be at most the number of training groups, 2048"),
]


@pytest.mark.parametrize("cls, values, message", REFUSED, ids=lambda value: str(value)[:40])
def test_dataclass_refuses(cls, values, message):
    with pytest.raises(ConfigError, match=message):
        cls(**values)


def bounded(schemas):
    """Every key with a bound: its section, its name, the bound, and a value just beyond it."""
    for cls in {section for schema in schemas for section in sections(schema)}:
        for name, field in fields_of(cls).items():
            for note in field.metadata:
                sign = type(note).__name__.lower()
                if sign in ("ge", "gt", "le", "lt"):
                    bound = getattr(note, sign)
                    beyond = bound + {"ge": -1, "le": 1, "gt": 0, "lt": 0}[sign]
                    yield cls, name, beyond


def described(entry):
    return f"{entry[0].__name__}.{entry[1]}={entry[2]}"


BOUNDED = sorted(bounded(cls for _, cls in programs().values()), key=described)


@pytest.mark.parametrize("cls, name, beyond", BOUNDED, ids=map(described, BOUNDED))
def test_what_is_beyond_a_bound_is_refused(cls, name, beyond):
    key = ".".join(filter(None, [cls.SECTION, name]))
    shown = float(beyond) if "float" in str(fields_of(cls)[name].annotation) else beyond
    required = {other: 16 for other, field in fields_of(cls).items() if field.is_required()}
    with pytest.raises(ConfigError, match=rf"^{key}={re.escape(str(shown))}: must be \S+ \S+"):
        cls(**{**required, name: shown})


@settings("drawn")
class Drawn:
    share: Annotated[Range, Within(0, 1)] = setting((0.1, 0.2), "of the examples")


@pytest.mark.parametrize("value", [(-0.01, 0.5), (0.5, 0.4), (0.5, 1.01), (0.5,), 0.5, (0, NAN)])
def test_a_range_beyond_them_or_reversed_is_refused(value):
    with pytest.raises(ConfigError, match=r"^drawn\.share=.*: must be \[low, high\] within \[0, 1\]"):
        Drawn(share=value)


# ---- strict conversion

WRONG = [
    ({"nn": 3}, "nn=3: unknown key; known are N, bad_pixels, baseline"),
    ({"nepoch": 3}, r"nepoch=3: unknown key; did you mean nepochs\?"),
    ({"probe__diameter_px": 3}, r"probe.diameter_px=3: unknown key; did you mean probe.diameter_px64\?"),
    ({"model__object_big": True}, "model.object_big=true: unknown key; only model=unet has it"),
    ({"gridsize": 2.5}, "gridsize=2.5: must be an integer"),
    ({"probe": "zone_plate"}, "probe.kind=zone_plate: must be one of ideal_disk, zone_plate, npz"),
    ({"train__clip_norm": [1]}, r"train.clip_norm=\[1\]: must be a finite number"),
]


@pytest.mark.parametrize("changes, message", WRONG, ids=str)
def test_conversion_refuses(defaults, changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        convert(defaults, **changes)
    assert "\n" not in str(caught.value)


def test_conversion_accepts_what_means_the_same(defaults):
    config = convert(defaults, gridsize=2.0, nphotons=10**9, models="pinn", max_groups_train=None)
    assert (config.gridsize, config.nphotons, config.models) == (2, 1e9, ("pinn",))
    assert isinstance(config.gridsize, int) and isinstance(config.nphotons, float)
    assert config.max_groups_train is None


def test_missing_and_unresolvable_values_are_config_errors(defaults):
    for value in ("???", "${nothing}"):
        with pytest.raises(ConfigError, match=r"\bN\b|nothing"):
            convert(defaults, N=value)


# ---- switches from the environment


@pytest.mark.parametrize("text, wanted", [("1", True), (" YES ", True), ("0", False), ("False", False)])
def test_compile_switch(text, wanted):
    assert converted(USE_XLA_COMPILE=text).xla.compile is wanted
    with pytest.raises(ConfigError, match="USE_XLA_TRANSLATE=on: must be one of 1, true, yes, 0, false, no"):
        converted(USE_XLA_TRANSLATE="on")


def test_a_contradicting_override_is_an_error():
    with pytest.raises(ConfigError, match=r"USE_XLA_COMPILE=0 contradicts xla.compile=true"):
        converted("++xla.compile=true", USE_XLA_COMPILE="0")
    with pytest.raises(ConfigError, match=r"USE_XLA_TRANSLATE=yes contradicts xla.translate=false"):
        converted("xla.translate=false", "xla.compile=false", USE_XLA_TRANSLATE="yes")


# ---- YAML and dataclasses agree


def without_folder(config):
    return dataclasses.replace(config, output_dir=None)


def test_yaml_defaults_equal_the_dataclass_defaults():
    assert without_folder(converted()) == RunConfig()
    scan = run_config(composed("data.file='-'", name="scan"), [], {})
    assert without_folder(scan) == cfg.ScanRunConfig()  # model=unrolled_fast, too


EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_what_it_is_and_composes(name):
    text = (ROOT / "conf" / "experiment" / f"{name}.yaml").read_text()
    assert text.startswith("# @package _global_\n# ")
    assert converted(f"experiment={name}", "seed=7").seed == 7


@pytest.mark.parametrize("name", files())
def test_a_file_of_conf_is_as_the_schema_says(name):
    path = ROOT / "conf" / f"{name}.yaml"
    assert path.read_text() == file_text(path, files()[name]), "run python scripts/write_conf.py"


def test_the_page_of_all_keys_is_as_the_schema_says():
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == documentation(), "run python scripts/write_conf.py"


def test_the_page_of_scores_has_every_flag_with_its_remedy():
    page = (ROOT / "docs" / "scores.md").read_text()
    assert page == with_flags(page), "run python scripts/write_conf.py"
    assert all(flag.remedy in page for flag in FLAGS.values())


# ---- keys of another program

SCAN = {"data": {"file": "-"}}


@pytest.mark.parametrize(
    "values, message",
    [
        (SCAN | {"train": {"val_groups": 5}}, "train.val_groups=5: unknown key"),
        (SCAN | {"models": ["x"]}, r"models=\[x\]: must be drawn from \[pinn, lsqml\]"),
        (
            SCAN | {"models": [], "solver": {"steps": 0}},
            r"solver.steps=0, models=\[\]: nothing would reconstr",
        ),
        (SCAN | {"iterative": {"python": ""}}, "iterative.python='': must be the path of a Python"),
        ({"network": "group", "batches": {"many": {"reech": 1}}}, "did you mean batches.many.reach"),
        ({"network": "group", "batches": {"many": {"N": 64}}}, "batches.many.C=null: must be an integer"),
    ],
    ids=str,
)
def test_a_program_takes_its_own_keys_and_models_alone(values, message):
    with pytest.raises(ConfigError, match=message):
        from_mapping(values)


# ---- nothing heavy


def test_the_package_imports_no_hydra_and_the_command_line_no_tensorflow(tmp_path):
    code = "import sys, ptycho.config; early = 'hydra' in sys.modules; import ptycho.command_line.config; "
    code += "sys.exit(early or 'tensorflow' in sys.modules)"
    assert fresh(tmp_path, "-c", code).returncode == 0
    assert sys.modules["ptycho.command_line.config"].__file__.startswith(str(ROOT))
