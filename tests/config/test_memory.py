"""Estimates of memory before a run: by hand, against the allocated arrays, and as a message."""

import tracemalloc

import pytest
from keras.src.backend.common import global_state

from conftest import small_run
from ptycho.config import ConfigError, FourierModel, LinesObject, UNetModel, UnrolledModel
from ptycho.config.memory import (
    run_memory,
    solver_parts,
)
from ptycho.networks import count_activations
from ptycho.networks.layers import Geometry
from ptycho.run.network_training import check_network_memory
from ptycho.training.competitors import COMPETITORS

GEOMETRY = Geometry(64, 70, 4, 64)


def test_what_the_layers_of_a_network_give():
    """By hand: a stage has 1 + 2 blocks convolutions of 5 channels and a last one, on 24² of 70² pixels."""
    config = small_run(N=64, model=UnrolledModel(stages=3, width=5, blocks=1, coarsening=3))
    assert count_activations(COMPETITORS["pinn"].build(config, GEOMETRY)) == 3 * (3 * 5 + 2 * 9) * 24**2
    config = small_run(N=64, model=FourierModel(width=16, layers=2))
    built = COMPETITORS["pinn"].build(config, GEOMETRY)
    assert count_activations(built) >= 4 * 16 * 64**2  # each layer: a spectral and a plain map


def test_a_large_network_is_refused_before_its_weights_are_made(monkeypatch):
    monkeypatch.setattr("ptycho.config.memory.physical_memory", lambda: 2**35)
    config = small_run(N=64, model=UNetModel(filters_scale=64))  # 4.5·10⁹ parameters
    with pytest.raises(ConfigError, match=r"the weights of the pinn .*: lower model.filters_scale"):
        check_network_memory("pinn", config, GEOMETRY)
    assert not global_state.get_global_attribute("uninitialized_variables")


def peak(make):
    """Return the largest number of bytes of NumPy's arrays while ``make`` runs."""
    tracemalloc.start()
    try:
        make()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "changes", [{}, {"gridsize": 3, "nimgs_test": 4}, {"gridsize": 1, "max_groups_train": None}]
)
def test_what_simulation_takes(changes):
    from ptycho.simulation.simulate import simulate

    config = small_run(**{"size": 160, "max_groups_train": 40, "object": LinesObject(60)} | changes)
    found = peak(lambda: simulate(config))
    assert sum(part.size for part in run_memory(config)["simulates"]) == pytest.approx(found, rel=0.5)


def test_a_solver_in_blocks_needs_no_more_for_more_patterns():
    """By hand: a block has 8192 patterns of 64²; beyond, only the object grows."""
    few, many = (solver_parts(count, 64, 1, 2000, None) for count in (50_000, 800_000))
    assert few[0].size == pytest.approx(1.3 * 4 * 64**2 * 50_000 / 7)
    assert many[0].size <= 1.3 * 4 * 8192 * 64**2 and many[0].name == "the patterns of a block"
    assert many[1].size == few[1].size == 2**28 and many[1].name == "the probes of the patterns"
    assert many[2].size <= 1.3 * 8 * 8192 * 64**2 and many[4].size == few[4].size  # exit waves of a block
    whole = solver_parts(8192, 64, 1, 2000, None)
    assert whole[2].size > few[2].size  # one block has the whole object
    assert solver_parts(8192, 64, 1, 2000, 1024)[2].size < whole[2].size
