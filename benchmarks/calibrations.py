"""What `calibration()` says of intervals, beside the reference mass in them.

    python -m benchmarks.calibrations --sbibm DIR    docs/explanation/readings.md
    python -m benchmarks.calibrations --quick        three tasks with exact posteriors, T = 2 000

The intervals are those of `answer()`.  Their exact coverage for one observation is the share of
reference draws inside; `calibration()` estimates it from rows that stand in for the observation,
without a reference.  Part of the difference is noise that is known: that of a share of so many
rows, and that of the ends of the intervals, which are quantiles of so many draws.

Of two tasks the exact posterior of any data can be drawn: there the exact coverage at each of the
rows that stand in is known, too, and its mean is what `calibration()` estimates.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import abctree
from abctree.answers.reading.choice import Cell
from abctree.answers.reading.rows import Reading, Rows
from abctree.answers.selection import default_ess
from abctree.types import FloatArray
from benchmarks.readings import cases
from benchmarks.sbibm.exact import SAMPLERS, Sampler
from experiments import command

NAME = "calibrations"
LEVELS = (0.5, 0.9)
#: Exact draws for each row that stands in, and rows.
DRAWS, N_ROWS = 1_000, 200


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
    if folder is not None and name in SAMPLERS:
        found |= at_rows(run, draws.reading.chosen, SAMPLERS[name](folder))
    return found


def at_rows(run: abctree.Result, cell: Cell, exact: Sampler) -> dict[str, list[list[float]]]:
    """The same for the rows that stand in, of which each has an exact coverage of its own."""
    rows, rng = Rows.of(run), np.random.default_rng(run.root)
    raw = min(default_ess(run.n_simulations), rows.largest_ess)
    picked, shares = rows.picked(N_ROWS, raw, rng)  # those of `calibration`
    share = shares.mean(axis=0)
    truth, mass = [], []
    for of, j in picked:
        reading = next(rows.at_row(j, (cell,), of))
        truth.append(below(reading, of.scores.theta[j][None])[0])
        drawn = exact(of.summary[j].ravel(), DRAWS, rng)
        mass.append(below(reading, drawn))
    found = {}
    for level in LEVELS:
        held, expected = (np.abs(np.array(rank) - 0.5) < level / 2.0 for rank in (truth, mass))
        expected = expected.mean(axis=1)
        # A row holds its parameters or not, with the probability that its posterior has inside.
        noise = np.square(share) @ (expected * (1.0 - expected))
        columns = share @ held, share @ expected, noise
        found[f"rows {level}"] = np.stack(columns, axis=1).tolist()
    return found


def below(reading: Reading, values: FloatArray) -> FloatArray:
    """(n, p) Which part of the draws is below some values (n, p)."""
    found = np.empty_like(values)
    for j, (draws, value) in enumerate(zip(reading.theta.T, values.T, strict=True)):
        order = np.argsort(draws)
        mass = np.concatenate([[0.0], np.cumsum(reading.weight[order])])
        found[:, j] = mass[np.searchsorted(draws[order], value)] / mass[-1]
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
    by_task = numbers["found"]
    every = [run for runs in by_task.values() for run in runs]
    at_one = [cells(name, runs, "{}") for name, runs in [*by_task.items(), ("all", every)]]
    known = {name: runs for name, runs in by_task.items() if "rows 0.9" in runs[0]}
    at_many = [cells(name, runs, "rows {}") for name, runs in known.items()]
    if known:
        rest = [run for name, runs in by_task.items() if name not in known for run in runs]
        moved = [
            {f"{x}": run[f"rows {x}"] for x in LEVELS} for one in known.values() for run in one
        ]
        at_many.append(cells("these, and the others at the observation", rest + moved, "{}"))
    return {"all": command.markdown(head, at_one), "rows": command.markdown(head, at_many)}


def cells(name: str, runs: list[dict[str, Any]], key: str) -> list[str]:
    """A line of a table."""
    line = [name]
    for level in LEVELS:
        found = np.array([one for run in runs for one in run[key.format(level)]])
        difference = float(np.sqrt(np.mean((found[:, 0] - found[:, 1]) ** 2)))
        noise = float(np.sqrt(found[:, 2].mean()))
        means = found[:, 1].mean(), found[:, 0].mean()
        line += [f"{number:.3f}" for number in (*means, difference, noise)]
    return line


def main() -> None:
    made = command.parser(__doc__ or "", NAME, seeds=4)
    made.add_argument("--sbibm", type=Path, help="folder of sbibm's observations and references")
    words = made.parse_args()
    command.tabulate(NAME, command.chosen(words), partial(measure, folder=words.sbibm), tables)


if __name__ == "__main__":
    main()
