"""MPI as an engine. Only this file imports mpi4py, which runs on any MPI: the wheel ``mpich``, or a cluster's own."""

from __future__ import annotations

import os

import numpy as np

from weft.dist.engine import Request
from weft.errors import DeviceError
from weft.process.distribution import install_command

RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")  # set by launchers; SLURM sets others in every shell, too
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def launched_rank() -> int | None:
    """Return this process's rank as a launcher of MPI has set it, or None if none started the process."""
    return next((int(os.environ[name]) for name in RANK_VARIABLES if name in os.environ), None)


def slurm_tasks() -> int:
    """Return how many processes srun started together with this one, 1 without srun."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))


def refuse_lost_ranks() -> None:
    """Raise DeviceError if srun started several processes without a way to find each other: each would be a job of one rank."""
    if launched_rank() is None and slurm_tasks() > 1:
        raise DeviceError(
            f"wf.dist: srun started {slurm_tasks()} tasks without PMI, so each would work alone, and all would write the same "
            "files. Give srun --mpi=pmi2 or --mpi=pmix (`srun --mpi=list` shows which it has); for tasks that are to work alone "
            "remove SLURM_STEP_NUM_TASKS from their environment"
        )


class MPI:
    """The ranks of ``COMM_WORLD``. Messages use a communicator of their own, apart from those of the program."""

    def __init__(self) -> None:
        try:
            import mpi4py

            mpi4py.rc.finalize = False  # a forked process that leaves would end MPI for its parent
            from mpi4py import MPI as mpi
        except ImportError as error:
            raise DeviceError(f"wf.dist: mpi4py cannot be loaded ({error}): {install_command('dist')}") from None
        started = next((int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ), slurm_tasks())
        world = mpi.COMM_WORLD
        if started > world.size:  # every rank would work alone, and all would write the same files
            library = " ".join(mpi.Get_library_version().split("\n")[0].split()).strip(" ,")
            raise DeviceError(
                f"wf.dist: the launcher started {started} ranks, but {library}, which mpi4py uses, sees {world.size}: they "
                "belong to two kinds of MPI. Use the mpiexec of mpi4py's own MPI, as `weft launch` does"
            )
        self._comm, self._bytes, self._finalize = world.Dup(), mpi.BYTE, mpi.Finalize
        self.rank, self.size = world.rank, world.size
        self.takes_threads = mpi.Query_thread() == mpi.THREAD_MULTIPLE

    def isend(self, data: np.ndarray, to: int, tag: int) -> Request:
        return self._comm.Isend([data, self._bytes], to, tag)

    def irecv(self, data: np.ndarray, source: int, tag: int) -> Request:
        return self._comm.Irecv([data, self._bytes], source, tag)

    def finish(self) -> None:
        self._finalize()

    def abort(self, code: int) -> None:
        self._comm.Abort(code)
