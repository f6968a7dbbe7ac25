"""One rank of ``weft launch``, or of another launcher by ``weft run script.py ...``: begins MPI, then runs the script.

MPI begins before the script, so a script that fails in an import ends the job: with MPICH the others would wait in MPI's start.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

from weft.dist.failures import FAILED, describe_error
from weft.dist.mpi import launched_rank
from weft.dist.mpiexec import cores_of_process
from weft.dist.report import FAILURE, Report
from weft.dist.world import world
from weft.errors import is_own_file

CORES_VARIABLE = "WEFT_JOB_CORES"
_LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")


def main(argv: list[str]) -> None:
    """Run ``argv[0]`` with the rest as its arguments, as ``python`` would."""
    try:
        job = world()
        _share_cores()
    except BaseException as error:
        place = launched_rank() or 0
        why = describe_error(place, int(os.environ.get("PMI_SIZE", 1)), error)
        sys.stderr.write(f"weft: {why}: the job ends\n")
        Report(place).write(f"{FAILURE}{FAILED}")  # the launcher ends the others, which may wait in MPI's start
        os._exit(FAILED)
    for stream in (sys.stdout, sys.stderr):  # whole lines: the launcher puts the rank before each piece
        stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
    script, sys.argv = argv[0], argv
    if is_own_file(script):  # the command ``weft train``, whose folder has files with names of Python's modules
        del sys.path[0]
    else:
        sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr)
        if code and job.engine is not None:
            job.end(f"{job} left with exit code {code}", code)
        sys.exit(code)
    except BaseException as error:
        sys.excepthook(type(error), error.with_traceback(_skip_start(error.__traceback__)), error.__traceback__)
        if job.engine is not None:
            job.end_by(error)  # where the script has replaced the hook
        sys.exit(FAILED)


def _skip_start(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script on, without the files that started it."""
    while trace is not None and (
        is_own_file(name := trace.tb_frame.f_code.co_filename) or name.startswith("<frozen") or name == runpy.__file__
    ):
        trace = trace.tb_next
    return trace


def count_local_ranks() -> int:
    """Return the number of ranks of this job on this host, 1 if the launcher does not say it."""
    return next((int(os.environ[name]) for name in _LOCAL_SIZES if name in os.environ), 1)


def _share_cores() -> None:
    """Divide a host's cores among its ranks, unless the launcher has bound each rank to some."""
    local = count_local_ranks()
    cores = cores_of_process()
    if local > 1 and os.environ.get(CORES_VARIABLE, "") and cores in (int(os.environ[CORES_VARIABLE]), os.cpu_count()):
        share = max(1, cores // local)
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # read by NumPy's LAPACK and by libraries of the script
            os.environ.setdefault(name, str(share))
        from weft.devices import set_num_threads

        set_num_threads(share)


if __name__ == "__main__":
    main(sys.argv[1:])
