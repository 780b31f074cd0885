"""What `benchmarks.speed` times, for this version of abctree and for older ones.

A process of it answers lines of JSON, ``[case, n, seed]``, with the CPU seconds of the case and a
hash of what came out.  It is run as a file with the `src` of a version on PYTHONPATH, imports
nothing else of the repository, and says options by the names that the version knows.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import abctree
from abctree.kernels import simulators
from abctree.problems import gaussian_mixture

#: Simulations in one call of the bare simulator.
_CHUNK = 8192


def tree(d: int, n: int, seed: int, problem: Any = None, **given: Any) -> Any:
    """A run on two normals in d dimensions, of which ``proposal=`` is said in old words, too."""
    if "proposal" not in inspect.signature(abctree.abc_tree).parameters:
        given["kernels"] = given.pop("proposal", "boxes") != "boxes"
    given.setdefault("schedule", "median")
    problem = problem or gaussian_mixture(d)
    return abctree.abc_tree(problem, n_simulations=n, rng=seed, **given)


def boxes(d: int, n: int, seed: int, **given: Any) -> Any:
    return tree(d, n, seed, proposal="boxes", **given)


def adaptive(d: int, n: int, seed: int) -> Any:
    return abctree.abc_tree(gaussian_mixture(d), n_simulations=n, rng=seed, proposal="adaptive")


def scalar(n: int, seed: int) -> Any:
    """Two normals, one point at a time in plain Python."""

    def simulate(theta: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
        away, sd = (0.0, 1.0) if rng.random() < 0.3 else (3.0, 0.5)
        return theta[0] + away + sd * rng.normal(), theta[1] + away + sd * rng.normal()

    prior = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    return boxes(2, n, seed, problem=abctree.Problem(prior, simulate, [2.0, 2.0]))


def smc(n: int, seed: int) -> Any:
    return abctree.smc(gaussian_mixture(), n_simulations=n, rng=seed, weights="mixture")


def published(n: int, seed: int) -> Any:
    """Algorithm 2 as printed, on 32 x 32 cells."""
    return abctree.abc_tree(
        gaussian_mixture(), n_simulations=n, rng=seed, preset="published",
        partitioner=abctree.Grid(32),
    )  # fmt: skip


def rejection(n: int, seed: int) -> Any:
    return abctree.rejection(gaussian_mixture(), n_simulations=n, rng=seed, keep=1000)


def bare(n: int, seed: int) -> None:
    """The simulator of `rejection` alone, on points that are there.

    With seeds that are new each time: of those that come again a processor learns the branches.
    """
    theta = np.random.default_rng(seed).uniform(-5.0, 5.0, (_CHUNK, 2))
    seeds = np.arange(_CHUNK, dtype=np.uint64)
    for _ in range(-(-n // _CHUNK)):
        simulators.gaussian_mixture(theta, seeds)
        seeds += np.uint64(_CHUNK)


def cells(k: int, n: int, seed: int) -> Any:
    """Boxes that are k x k cells."""
    return boxes(2, n, seed, partitioner=abctree.Grid(k))


def several(run: Callable[[int, int], Any], times: int) -> Callable[[int, int], Any]:
    """So many short runs in place of one; n counts the simulations of all."""

    def runs(n: int, seed: int) -> Any:
        return [run(n // times, seed + i) for i in range(times)][-1]

    return runs


CASES: dict[str, Callable[[int, int], Any]] = {
    **{f"boxes, d = {d}": lambda n, seed, d=d: boxes(d, n, seed) for d in (2, 3, 5, 10, 20)},
    **{f"adaptive, d = {d}": lambda n, seed, d=d: adaptive(d, n, seed) for d in (2, 5)},
    **{f"{k * k} cells": lambda n, seed, k=k: cells(k, n, seed) for k in (10, 32, 100, 316)},
    "default": lambda n, seed: abctree.abc_tree(gaussian_mixture(), n_simulations=n, rng=seed),
    "short": several(lambda n, seed: boxes(2, n, seed), 20),
    "scalar": scalar,
    "kernels": lambda n, seed: tree(5, n, seed, proposal=["boxes", "kernels"]),
    "smc": smc,
    "published": published,
    "rejection": rejection,
    "bare": bare,
}


def digest(result: Any) -> str:
    """A hash of the table and of the weights."""
    if result is None:
        return ""
    found = hashlib.sha256()
    for name in ("cube", "distance", "proposal", "denominator"):
        found.update(np.ascontiguousarray(getattr(result.table, name)).tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    warnings.simplefilter("ignore")
    if hasattr(os, "sched_setaffinity"):  # one processor: no thread makes CPU seconds longer
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for line in sys.stdin:
        case, n, seed = json.loads(line)
        began = time.process_time()
        result = CASES[case](n, seed)
        seconds = time.process_time() - began
        print(json.dumps([seconds, digest(result)]), flush=True)


if __name__ == "__main__":
    main()
