"""The blocks of large scans fitted by several processes at once, on one machine or many: MPI.

    mpirun -n 4 python scripts/scan_workflow.py data.file=…

Process 0 is the program. The others wait for tasks, and do nothing else: they read no file and write none.
Blocks are sent in rounds of as many as there are processes, and process 0 fits one of each round, too. The
result of a block does not depend on its process, so that the image is the same with any number of processes.
Nothing here imports TensorFlow before there is a task.
"""

from __future__ import annotations

import contextlib
import os
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

    The other processes fit blocks, and return zero. ConfigError: there are several, and mpi4py is missing.
    """
    if not any(name in os.environ for name in STARTERS):
        return program(None)
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ImportError as error:
        raise ConfigError(
            f"this is one of several processes of mpirun, and mpi4py cannot be used ({error}); "
            "pip install 'ptychopinn[mpi]', or start it without mpirun"
        ) from error
    size = MPI.COMM_WORLD.Get_size()
    if size == 1:
        return program(None)
    with MPICommExecutor(MPI.COMM_WORLD, root=0, initializer=_start) as pool:
        return 0 if pool is None else program(partial(_fit_on_all, pool, size))


def _fit_on_all(pool: Any, size: int, tasks: Sequence[Callable[[], Task]], advance: Advance) -> Iterator[Fit]:
    """Fit blocks on all of ``size`` processes: the first of each round on this one."""
    from ptycho.reconstruction.blocks import solve_task

    for begin in range(0, len(tasks), size):
        mine, *others = tasks[begin : begin + size]
        futures = [pool.submit(_solve, make().in_memory()) for make in others]
        yield solve_task(mine(), advance)
        for future in futures:
            answer = future.result()
            advance(answer.evaluations * len(answer.estimate.positions))
            yield answer


def _start() -> None:
    """Start TensorFlow before a task, which needs it, is received; what fails, :func:`_solve` raises."""
    with contextlib.suppress(Exception):
        from ptycho.quiet_start import start_tensorflow

        start_tensorflow(for_solver=True)


def _solve(task: Task) -> Fit:
    try:
        from ptycho.quiet_start import start_tensorflow

        start_tensorflow(for_solver=True)
        from ptycho.reconstruction.blocks import solve_task

        return solve_task(task)
    except Exception as error:  # itself it might be lost on the way
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
