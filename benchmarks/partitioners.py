"""Partitioners compared: what they gain in a run, and what a partition costs.

    python -m benchmarks.partitioners                  both tables, 10 seeds
    python -m benchmarks.partitioners --parts cost     seconds of a partition in n and d
    python -m benchmarks.partitioners --seeds 3 --labels dyadic CART

A part, or some of the partitioners, are printed and not kept.

All runs have the same budget and settings; only the partitioner differs.  ESS is that of the draws
below ε = 1 (P0, Example 2) and ε = 2 (P1, the same in five dimensions); h is the honest gain there
(see `benchmarks.yardsticks`); Z err the error of the evidence; TV20 the total variation of the
run's default draws to the true posterior on 20 x 20 cells, in five dimensions the mean over
neighbouring pairs of coordinates.  Seconds are CPU seconds of a run, and those of cutting in it.
Prints Markdown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import abctree
from abctree import problems
from abctree.problems import truth
from benchmarks.yardsticks import FIRST_SEED, Row, run
from experiments import command
from experiments.scores import honest_gain
from experiments.watching import Timed

METHODS: dict[str, Any] = {
    "soft (default)": abctree.SoftTree(),
    "CART": abctree.Cart(),
    "CART, pruned": abctree.Cart(prune=True),
    "dyadic": abctree.Dyadic(),
    "BART": abctree.Bart(),
    "BART, warm start": abctree.Bart(n_warm_start=10, n_burn_in=100),
    "dynamic tree": abctree.DynamicTree(n_trees=1),
    "5 dynamic trees": abctree.DynamicTree(),
    "grid": None,  # as many cells as are affordable: 20² or 4⁵
}
NAME = "partitioners"
EPSILON = {2: 1.0, 5: 2.0}


class Yardstick:
    """The two normals in d dimensions, with what is known of them."""

    def __init__(self, d: int) -> None:
        self.d, self.epsilon = d, EPSILON[d]
        self.problem = problems.gaussian_mixture(d)
        known = truth.GaussianMixtureTruth(d)
        self.draws = known.draws(4000, self.epsilon, rng=0)
        self.evidence = known.evidence(self.epsilon)
        # Each pair of coordinates has the posterior of the problem in two dimensions.
        self.pair = truth.GaussianMixtureTruth(2)

    def tv20(self, posterior: Any) -> float:
        pairs = [posterior.theta[:, j : j + 2] for j in range(self.d - 1)]
        return float(np.mean([self.pair.tv20(pair, posterior.weights) for pair in pairs]))

    def measure(self, n: int, seed: int, partitioner: Any) -> Row:
        settings: dict[str, Any] = {}
        if partitioner is None:
            partitioner = abctree.Grid(20 if self.d == 2 else 4)
            settings["beliefs"] = abctree.GlobalRate()
        timed = Timed(partitioner)
        result, seconds = run(self.problem, n, seed, partitioner=timed, **settings)
        with command.quiet():
            below, default = result.posterior(epsilon=self.epsilon), result.posterior()
        return {
            "boxes": float(np.mean([len(p) for p in result.partitions])),
            "ESS": below.ess,
            "h": honest_gain(result, self.draws),
            "Z err %": 100.0 * (result.evidence(self.epsilon).estimate / self.evidence - 1.0),
            "TV20": self.tv20(default),
            "seconds": seconds,
            "cutting": timed.seconds,
        }


def gains(d: int, args: command.Options, n: int, labels: Sequence[str]) -> list[dict[str, Any]]:
    stick = Yardstick(d)
    stick.measure(500, 0, abctree.DynamicTree())  # compiles
    lines = []
    for label in labels:
        seeds = range(FIRST_SEED, FIRST_SEED + args.seeds)
        rows = [stick.measure(n, seed, METHODS[label]) for seed in seeds]
        lines.append({"method": label, "T": n, "rows": rows})
    cart = np.mean([row["h"] for line in lines if line["method"] == "CART" for row in line["rows"]])
    for line in lines:
        for row in line["rows"]:
            row["h / CART's"] = row["h"] / float(cart)
    return lines


def gain_table(lines: list[dict[str, Any]]) -> str:
    """Mean ± standard error over seeds; seconds without."""
    columns = ["boxes", "ESS", "h", "h / CART's", "Z err %", "TV20"]
    seconds = ["seconds", "cutting"]
    rows = []
    for line in lines:
        cells = [command.cell([row[c] for row in line["rows"]]) for c in columns]
        cells += [f"{np.mean([row[c] for row in line['rows']]):.2g}" for c in seconds]
        rows.append([line["method"], *cells])
    return command.markdown(["partitioner", *columns, *seconds], rows)


# The cost of a partition --------------------------------------------------------------------------


def table_of_rows(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows as a run has them, crowded around two places, and their distances."""
    rng = np.random.default_rng(seed)
    near = 0.3 + 0.4 * (rng.random((n, 1)) < 0.5) + 0.12 * rng.standard_normal((n, d))
    cube = np.where(rng.random((n, 1)) < 0.7, np.clip(near, 0.001, 0.999), rng.random((n, d)))
    apart = np.minimum(((cube - 0.3) ** 2).sum(axis=1), 4.0 * ((cube - 0.7) ** 2).sum(axis=1))
    return cube, np.sqrt(apart + 0.02 * d * rng.random(n))


def cost(label: str, n: int, d: int) -> Row:
    """CPU seconds of one partition at a tolerance that accepts a tenth of the rows."""
    cube, distance = table_of_rows(n, d, 0)
    epsilon = float(np.quantile(distance, 0.1))
    partitioner = METHODS[label]
    rng = np.random.default_rng(0)
    partitioner.partition(cube[:100], distance[:100], epsilon, None, rng)  # compiles, imports
    began = time.process_time()
    boxes = partitioner.partition(cube, distance, epsilon, None, rng)
    seconds = time.process_time() - began
    boxes.locate(cube[:10])
    began = time.process_time()
    boxes.locate(cube)
    locate = time.process_time() - began
    return {"seconds": seconds, "boxes": float(len(boxes)), "ns to find a box": 1e9 * locate / n}


def costs(sizes: Sequence[tuple[int, int]], labels: Sequence[str]) -> dict[str, dict[str, Row]]:
    return {
        label: {f"n = {n:g}, d = {d}": cost(label, n, d) for n, d in sizes}
        for label in labels
        if METHODS[label] is not None
    }


def cost_table(costs: dict[str, dict[str, Row]]) -> str:
    """Seconds, boxes, and the time to find the box of a point."""
    rows = [
        [
            label,
            *(
                f"{c['seconds']:.2g} s, {c['boxes']:.0f}, {c['ns to find a box']:.0f} ns"
                for c in row.values()
            ),
        ]
        for label, row in costs.items()
    ]
    return command.markdown(["partitioner", *next(iter(costs.values()))], rows)


SIZES = [(10**3, 2), (10**4, 2), (10**4, 5), (10**4, 10), (10**5, 5)]


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    return {
        name: cost_table(part) if name == "cost" else gain_table(part)
        for name, part in numbers.items()
        if name != "about"
    }


def main() -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=10, folder="benchmarks")
    parser.add_argument("--parts", choices=["P0", "P1", "cost"], nargs="*")
    parser.add_argument("--labels", nargs="*", choices=list(METHODS))
    parser.add_argument("--budget", type=int, default=10_000)
    given = parser.parse_args()
    wanted, labels = given.parts or ["cost", "P0", "P1"], given.labels or list(METHODS)

    def measure(args: command.Options) -> dict[str, Any]:
        n = 1_000 if args.quick else given.budget
        done: dict[str, Any] = {}
        if "cost" in wanted:
            done["cost"] = costs(SIZES[: 2 if args.quick else None], labels)
        for name, d in (("P0", 2), ("P1", 5)):
            if name in wanted:
                done[name] = gains(d, args, n, labels)
        return done

    some = given.parts or given.labels
    command.tabulate(NAME, command.chosen(given), measure, tables, keep=not some)


if __name__ == "__main__":
    main()
