"""The blocks of large scans fitted by several processes at once, on one machine or many: MPI.

    mpirun -n 4 python scripts/scan_workflow.py data.file=…

Process 0 is the program. The others wait for tasks, and do nothing else: they read no file and write none.
Blocks are sent in rounds of as many as there are processes, and process 0 fits one of each round, too. The
result of a block does not depend on its process, so that the image is the same with any number of processes.
Nothing here imports TensorFlow before there is a task.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ptycho.config import ConfigError

if TYPE_CHECKING:
    from ptycho.progress import Advance
    from ptycho.reconstruction.blocks import Executor, Task
    from ptycho.reconstruction.solver import Fit

STARTERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")
"""Of these variables one is set where ``mpirun`` or ``srun`` has started the process."""


def run_on_all(program: Callable[[Executor | None], int]) -> int:
    """Run a program with the executor of its blocks, None for a single process; return its exit code.

    The other processes fit blocks, and return zero.

    Raises:
        ConfigError: there are several processes, and mpi4py is missing.
    """
    if not any(name in os.environ for name in STARTERS):
        return program(None)
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ConfigError(
            f"this is one of several processes of mpirun, and mpi4py cannot be used ({error}); "
            "pip install 'ptychopinn[mpi]', or start it without mpirun"
        ) from error
    world = MPI.COMM_WORLD
    if world.Get_size() == 1:
        return program(None)
    if world.Get_rank():
        _serve(world)
        return 0
    try:
        return program(partial(_fit_on_all, world))
    finally:
        for rank in range(1, world.Get_size()):
            world.send(None, dest=rank)


def _fit_on_all(world: Any, tasks: Sequence[Callable[[], Task]], advance: Advance) -> Iterator[Fit]:
    """Fit blocks on all processes of a communicator; to be called by process 0."""
    from ptycho.reconstruction.blocks import solve_task

    size, busy = world.Get_size(), list[int]()
    try:
        for begin in range(0, len(tasks), size):
            mine, *others = tasks[begin : begin + size]
            for rank, make in enumerate(others, start=1):
                world.send(make().in_memory(), dest=rank)
                busy.append(rank)
            yield solve_task(mine(), advance)
            while busy:
                answer = _receive(world, busy.pop(0))
                if isinstance(answer, Exception):
                    raise answer
                advance(answer.evaluations * len(answer.estimate.positions))
                yield answer
    finally:  # a sender waits until its answer is received, and the next task needs another answer
        for rank in busy:
            _receive(world, rank)


def _serve(world: Any) -> None:
    """Fit blocks until there are none any more; what fails, process 0 raises."""
    problem: Exception | None = None
    try:
        from ptycho.quiet_start import start_tensorflow

        start_tensorflow(for_solver=True)
        from ptycho.reconstruction.blocks import solve_task
    except Exception as error:
        problem = error
    while (task := _receive(world, 0)) is not None:
        try:
            if problem is not None:
                raise problem
            answer: Fit | Exception = solve_task(task)
        except Exception as error:
            answer = RuntimeError(f"{type(error).__name__}: {error}")  # itself it might be lost on the way
        world.send(answer, dest=0)


def _receive(world: Any, source: int, pause_s: float = 0.01) -> Any:
    """Receive a message; test for it after every pause, because MPI itself waits at full speed."""
    while not world.iprobe(source=source):
        time.sleep(pause_s)
    return world.recv(source=source)
