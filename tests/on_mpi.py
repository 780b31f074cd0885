"""A run on the pool of MPI, of `mpirun -n 3 python -m mpi4py.futures tests/on_mpi.py FOLDER ...`.

In FOLDER it makes, or goes on with, the run folder of a simulator as in `tests.test_engines`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import abctree
from tests.test_engines import SETTINGS, Dies, problem


def main(folder, at, mark, how):
    from mpi4py.futures import MPIPoolExecutor

    p = problem(Dies(float(at), mark, how))
    with MPIPoolExecutor() as pool:
        if Path(folder).exists():
            abctree.resume(folder, p, executor=pool)
        else:
            abctree.abc_tree(p, executor=pool, store=folder, **SETTINGS)
        assert pool.submit(divmod, 7, 2).result() == (3, 1)  # left open


if __name__ == "__main__":
    main(*sys.argv[1:])
