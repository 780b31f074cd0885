"""The largest memory of long runs into a folder: ``python -m benchmarks.memory [--simulations N]``.

Each is made in a process of its own, on the Gaussian mixture in five dimensions, and summaries stay
in the folder.  Asked of 1e7: at most 1.3 GB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import abctree
from abctree.problems import gaussian_mixture

D = 5


def peak(n: int, proposal: str, seed: int) -> float:
    """Bytes of this process, all that a run leaves of imports and compiled code among them."""
    with tempfile.TemporaryDirectory() as folder:
        abctree.abc_tree(
            gaussian_mixture(D), n_simulations=n, rng=seed, proposal=proposal,
            store=f"{folder}/run", keep_summaries="store",
        )  # fmt: skip
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    for proposal in ("boxes", "adaptive"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as own:
            bytes_ = own.submit(peak, o.simulations, proposal, o.seed).result()
        print(
            f"{proposal:<10}{bytes_ / 1e9:8.3f} GB, {bytes_ / o.simulations:.0f} bytes a simulation"
        )


if __name__ == "__main__":
    main()
