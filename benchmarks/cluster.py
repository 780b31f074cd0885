"""How busy a run keeps W workers, and what the blocks that keep them busy cost.

    python -m benchmarks.cluster                   five seeds of each; some ten minutes
    python -m benchmarks.cluster --quick           a look, in a temporary folder

No cluster is needed.  Runs on P1 of `benchmarks.yardsticks` say what a block and a lookahead cost
in the honest gain h, by beliefs that are old and by rounds that go on past their quota, and how
many simulations each round had.  A discrete-event simulation then plays the same rounds on W
workers that take tasks of one simulation in their order.  Simulations take 1 second on average: all
the same, lognormal (σ = 1), or five times as long near the posterior as far from it.  "Busy" is the
share of the workers' time in which they simulate.  "Wait" is for an effective sample size, in units
of what W workers need that are always busy, with the gain of the first row.  Prints Markdown.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import abctree
from abctree.problems import gaussian_mixture
from benchmarks import yardsticks
from experiments import command
from experiments.command import cell, markdown

NAME = "cluster"
D, SIGMA = 5, 1.0
WORKERS = (1, 10, 32, 100, 1000, 10_000)
#: T/block and lookahead; the default's first.
CUTS = ((50, 0), (50, 1), (100, 3), (200, 9), (50, 4))
#: Also at this budget, and how many seeds.
LARGE, LARGE_CUTS, LARGE_SEEDS = 1_000_000, ((50, 0), (50, 1)), 1


def constant(theta: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return np.ones(len(theta))


def lognormal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.exp(SIGMA * rng.normal(size=len(theta)) - 0.5 * SIGMA**2)


def near(theta: np.ndarray, _: np.random.Generator) -> np.ndarray:
    """Five times as long in the middle, where the posterior is, as far from it."""
    seconds = 1.0 + 4.0 * np.exp(-0.5 * (theta**2).mean(axis=1))
    return np.asarray(seconds / seconds.mean())


TIMES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "constant": constant, "lognormal": lognormal, "near": near
}  # fmt: skip


def wall(
    times: np.ndarray, rounds: Sequence[int], workers: int, block: int, lookahead: int
) -> float:
    """Seconds of a run: the pilot, all at once, and then rounds as `tree.inner_loop` plays them."""
    free = [0.0] * workers  # when each worker has done what it has: a heap
    now, begun = 0.0, 0
    for s, size in enumerate(rounds):
        end, pending = begun + size, deque[float]()
        n, ahead = (size, 0) if s == 0 else (block, lookahead)
        while begun < end or pending:
            while begun < end and len(pending) <= ahead:
                last = min(begun + n, end)
                done = now
                for seconds in times[begun:last].tolist():
                    ended = max(now, free[0]) + seconds
                    heapq.heapreplace(free, ended)
                    done = max(done, ended)
                pending.append(done)
                begun = last
            now = max(now, pending.popleft())
    return now


@cache
def exact() -> yardsticks.Exact:
    yardstick = yardsticks.yardstick("P1")
    assert isinstance(yardstick, yardsticks.High)
    return yardstick.exact


def one(budget: int, parts: int, lookahead: int, seed: int) -> dict[str, Any]:
    """A run: its gain at an ESS of 1 % of T, its rounds, and how busy it keeps W workers."""
    block = max(20, budget // parts)
    settings: dict[str, Any] = {"proposal": "boxes", "block": block, "lookahead": lookahead}
    with command.quiet():
        result = abctree.abc_tree(gaussian_mixture(D), n_simulations=budget, rng=seed, **settings)
        _, h = exact().gain_at(result, 0.01 * budget)
    rounds = [r.last - r.first for r in result.rounds]
    busy = {}
    for kind, times_of in TIMES.items():
        times = times_of(result.table.theta, np.random.default_rng(seed))
        ideal = times.sum()
        busy[kind] = {str(w): ideal / w / wall(times, rounds, w, **settings) for w in WORKERS}
    return {"h": h, "rounds": len(rounds), "busy": busy}


def measure(args: command.Options) -> dict[str, Any]:
    budget = 10_000 if args.quick else 100_000
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(budget, *cut, seed) for cut in CUTS for seed in seeds]
    if not args.quick:
        tasks += [(LARGE, *cut, seed) for cut in LARGE_CUTS for seed in seeds[:LARGE_SEEDS]]
    runs = command.each(one, tasks, args)
    return {"runs": [{"task": list(task), **found} for task, found in runs]}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """One row for each budget, block and lookahead."""
    by_cut: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for run in numbers["runs"]:
        budget, parts, lookahead, _ = run["task"]
        by_cut.setdefault((budget, parts, lookahead), []).append(run)
    head = ["T", "`block`", "`lookahead`", "rounds", "h"]
    head += [f"busy, W = {w}" for w in WORKERS[1:]]
    head += ["constant, 100", "near, 100", "wait, 100"]
    rows, first = [], {}
    for (budget, parts, lookahead), runs in by_cut.items():
        gain = float(np.mean([r["h"] for r in runs]))
        h = first.setdefault(budget, gain)

        def busy(kind: str, w: int, runs: list[dict[str, Any]] = runs) -> float:
            return float(np.mean([r["busy"][kind][str(w)] for r in runs]))

        rows.append([
            f"{budget:g}", f"T/{parts}", str(lookahead),
            f"{np.mean([r['rounds'] for r in runs]):.2g}", cell([r["h"] for r in runs]),
            *(f"{busy('lognormal', w):.2f}" for w in WORKERS[1:]),
            f"{busy('constant', 100):.2f}", f"{busy('near', 100):.2f}",
            f"{h / gain / busy('lognormal', 100):.2f}",
        ])  # fmt: skip
    return {NAME: markdown(head, rows)}


def main(argv: Sequence[str] | None = None) -> None:
    made = command.parser(__doc__ or "", NAME, seeds=5, quick_seeds=1, folder="benchmarks")
    args = command.chosen(made.parse_args(argv))
    command.tabulate(NAME, args, measure, tables)


if __name__ == "__main__":
    main()
