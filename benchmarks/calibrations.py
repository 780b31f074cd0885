"""What `calibration()` says of intervals, beside the reference mass in them.

    python -m benchmarks.calibrations --sbibm DIR    docs/explanation/readings.md
    python -m benchmarks.calibrations --quick        three tasks with exact posteriors, T = 2 000

The intervals are those of `answer()`.  Their exact coverage for one observation is the share of
reference draws inside; `calibration()` estimates it from rows that stand in for the observation,
without a reference.  Part of the difference is noise that is known: that of a share of so many
rows, and that of the ends of the intervals, which are quantiles of so many draws.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import abctree
from benchmarks.readings import cases
from experiments import command

NAME = "calibrations"
LEVELS = (0.5, 0.9)


def one(folder: Path | None, n: int, name: str, seed: int) -> dict[str, list[list[float]]]:
    """Level -> (said, exact, variance of their difference by noise alone) of each parameter."""
    problem, reference = cases(folder)[name](seed)
    run = abctree.abc_tree(problem, n_simulations=n, rng=1_000 + seed, keep_summaries=True)
    draws, said = run.answer(), run.calibration()
    found = {}
    for level in LEVELS:
        tail = (1.0 - level) / 2.0
        low, high = draws.quantile([tail, 1.0 - tail])
        exact = ((reference > low) & (reference < high)).mean(axis=0)
        share = said.coverage[level]
        weight = np.square(said.share).sum()
        noise = share * (1.0 - share) * weight / (1.0 - weight) + level * (1.0 - level) / draws.ess
        found[str(level)] = np.stack([share, exact, noise], axis=1).tolist()
    return found


def measure(args: command.Options, folder: Path | None = None) -> dict[str, Any]:
    n = 2_000 if args.quick else 10_000
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(name, s) for s in seeds for name in cases(folder)]
    found: dict[str, list[dict[str, Any]]] = {}
    for (name, _), numbers in command.each(partial(one, folder, n), tasks, args):
        found.setdefault(name, []).append(numbers)
    return {"budget": n, "found": found}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    head = ["", *(f"{what} at {float(level):.0%}" for level in LEVELS
                  for what in ("exact", "said", "rms of the difference", "noise"))]  # fmt: skip
    rows, all_runs = [], [run for runs in numbers["found"].values() for run in runs]
    for name, runs in [*numbers["found"].items(), ("all", all_runs)]:
        cells = [name]
        for level in LEVELS:
            found = np.array([one for run in runs for one in run[str(level)]])
            difference = float(np.sqrt(np.mean((found[:, 0] - found[:, 1]) ** 2)))
            noise = float(np.sqrt(found[:, 2].mean()))
            means = found[:, 1].mean(), found[:, 0].mean()
            cells += [f"{number:.3f}" for number in (*means, difference, noise)]
        rows.append(cells)
    return {"all": command.markdown(head, rows)}


def main() -> None:
    made = command.parser(__doc__ or "", NAME, seeds=4)
    made.add_argument("--sbibm", type=Path, help="folder of sbibm's observations and references")
    words = made.parse_args()
    command.tabulate(NAME, command.chosen(words), partial(measure, folder=words.sbibm), tables)


if __name__ == "__main__":
    main()
