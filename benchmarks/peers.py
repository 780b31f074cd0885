"""ABC-Tree beside rejection and a tuned SMC-ABC, on the yardsticks with known truth.

    python -m benchmarks.peers --workers 16             P0, P1, P3 at 1e4 and 1e5 simulations
    python -m benchmarks.peers --quick                  a look, in a temporary folder
    python -m benchmarks.peers --go-on                  only what the stored JSON lacks
    python -m benchmarks.peers --from-json              the tables from the stored JSON

SMC-ABC is tuned for each problem and budget: every setting of `GRID` is run on the tuning seeds,
and the one that is best by the honest gain, the one that is best by the distance of the pooled
draws to the truth, and the one that is best by that of the last population are run again on the
test seeds, where nothing is chosen any more.  ABC-Tree runs with its defaults, untuned.

MMD² is unbiased: it sees whether a law is wrong, not that a sample is small.  A last population of
thirty effective draws at a tiny ε would win by it; only those whose effective sample size is at
least 300 (100 at 1e4) are candidates, unless there are none.

h is the honest gain over rejection, at the ε where T Z h is 1 000 at 1e5 simulations and 300 at
1e4; Z err the error of the evidence there; the distance is TV20 on P0 and the root of MMD² at half
the median bandwidth on P1 and P3, of pooled draws at the same effective sample sizes (3 000 on P0
at 1e5), as in docs/yardsticks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

import abctree
from benchmarks.yardsticks import P0, High, yardstick
from experiments import command

NAME = "peers"
PROBLEMS = ("P0", "P1", "P3")
BUDGETS, QUICK_BUDGETS = (10_000, 100_000), (2_000,)
FIRST_TUNING_SEED, FIRST_TEST_SEED = 2000, 3000
TUNING_SEEDS = {2_000: 1, 10_000: 4, 100_000: 2}
#: Exact draws at each ε for the honest gain.
EXACT = 1_500

GRID: list[tuple[str, str | float, int]] = [
    *product(("twice-covariance", "silverman"), ("median", 0.9), (100, 300, 1000)),
    *product(("local",), ("median",), (300, 1000)),
]
QUICK_GRID = [("silverman", "median", 100), ("twice-covariance", 0.9, 100)]
#: What a setting may be the best by; lower is better but for h.
AIMS = ("h", "distance", "distance, last population")
SIZE = "ESS, last population"
MEASURES = ("h", "ε", "Z err %", "distance")


def label_of(kernel: str, schedule: str | float, particles: int) -> str:
    return f"{kernel}, {schedule}, N = {particles}"


_sticks: dict[str, Any] = {}


def stick_of(name: str) -> Any:
    """Made once a process."""
    if name not in _sticks:
        stick = yardstick(name)
        stick.exact.draws = [draws[:EXACT] for draws in stick.exact.draws]
        _sticks[name] = stick
    return _sticks[name]


def one_run(name: str, n: int, method: str, setting: Any, seed: int) -> dict[str, float]:
    stick = stick_of(name)
    with command.quiet():
        result = _play(stick.problem, n, method, setting, seed)
        return _measured(stick, result, n)


def _play(problem: Any, n: int, method: str, setting: Any, seed: int) -> Any:
    if method == "rejection":
        return abctree.rejection(problem, n_simulations=n, rng=seed)
    if method.startswith("ABC-Tree"):
        boxes = {"proposal": "boxes"} if method.endswith("boxes") else {}
        return abctree.abc_tree(problem, n_simulations=n, rng=seed, **boxes)
    kernel, schedule, particles = setting
    return abctree.smc(
        problem, n_simulations=n, n_particles=particles, kernel=kernel, schedule=schedule,
        weights="mixture", rng=seed,
    )  # fmt: skip


def _measured(stick: Any, result: Any, n: int) -> dict[str, float]:
    expected = 1000 if n >= 100_000 else 0.03 * n
    found = stick.exact.report(result, [expected])
    target = 3000 if isinstance(stick, P0) and n >= 100_000 else expected
    row = {
        "h": found[f"h@{expected:g}"],
        "ε": found[f"eps@{expected:g}"],
        "Z err %": found[f"Z err % @{expected:g}"],
        "distance": distance(stick, result.posterior(ess=target)),
        "seconds": result.seconds,
    }
    if result.method == "smc":
        own = result.posterior(
            epsilon=result.rounds[result.population].epsilon, weights="population"
        )
        row["distance, last population"] = distance(stick, own)
        row[SIZE] = own.ess
    return row


def distance(stick: Any, draws: Any) -> float:
    """To the true posterior."""
    if isinstance(stick, High):
        return stick.mmd(draws)
    return float(stick.truth.tv20(draws.theta, draws.weights))


# Tuning and testing -----------------------------------------------------------------------------


def tune(
    args: command.Options, budgets: Sequence[int], grid: Sequence[Any], known: dict[str, Any]
) -> dict[str, Any]:
    """Mean measures of every setting on the tuning seeds, and the best of each problem."""
    cells = [cell for cell in product(PROBLEMS, budgets) if f"{cell[0]}, {cell[1]}" not in known]
    tasks = [
        (name, n, "SMC-ABC", setting, FIRST_TUNING_SEED + i)
        for name, n in cells
        for i in range(TUNING_SEEDS[n])
        for setting in grid
    ]
    done = command.each(one_run, tasks, args, tell=lambda t: f"tuning {t[0]} {t[1]} {t[3]}")
    answer = dict(known)
    for name, n in cells:
        settings = {}
        for setting in grid:
            runs = [r for (a, b, _, s, _), r in done if (a, b, s) == (name, n, setting)]
            if runs:
                settings[label_of(*setting)] = {
                    key: float(np.mean([run[key] for run in runs])) for key in (*AIMS, SIZE)
                }
        least = 300 if n >= 100_000 else 100
        answer[f"{name}, {n}"] = {"settings": settings, "best": best_of(settings, least)}
    return answer


def best_of(settings: dict[str, dict[str, float]], least: float = 0.0) -> dict[str, str]:
    """Label of the best setting by each aim; last populations must have `least` ESS, if any has."""
    large = [s for s in settings if settings[s][SIZE] >= least] or list(settings)
    return {
        "h": max(settings, key=lambda s: settings[s]["h"]),
        "distance": min(settings, key=lambda s: settings[s]["distance"]),
        "distance, last population": min(
            large, key=lambda s: settings[s]["distance, last population"]
        ),
    }


def test(
    args: command.Options,
    budgets: Sequence[int],
    grid: Sequence[Any],
    tuned: dict[str, Any],
    known: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """All methods on the test seeds."""
    old = {(line["problem"], line["T"], line["method"]): line["runs"] for line in known}
    by_label = {label_of(*setting): setting for setting in grid}
    cells = []
    for n, name in product(budgets, PROBLEMS):
        cells += [(name, n, m, None) for m in ("rejection", "ABC-Tree", "ABC-Tree, boxes")]
        chosen = sorted(set(tuned[f"{name}, {n}"]["best"].values()))
        cells += [(name, n, "SMC-ABC", by_label[label]) for label in chosen]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    there = {key: {run["seed"] for run in runs} for key, runs in old.items()}
    tasks = [
        (*cell, seed)
        for seed in seeds
        for cell in cells
        if seed not in there.get((*cell[:2], name_of(*cell[2:])), ())
    ]
    done = command.each(one_run, tasks, args, tell=lambda t: f"{t[0]} {t[1]} {t[2]} {t[4]}")
    rows = []
    for name, n, method, setting in cells:
        label = name_of(method, setting)
        runs = [*old.get((name, n, label), [])]
        runs += [{"seed": s, **r} for (*key, s), r in done if key == [name, n, method, setting]]
        runs.sort(key=lambda run: run["seed"])
        aims = [] if setting is None else _aims(tuned[f"{name}, {n}"]["best"], setting)
        rows.append({"problem": name, "T": n, "method": label, "best by": aims, "runs": runs})
    return rows


def name_of(method: str, setting: Any) -> str:
    return method if setting is None else f"{method}, {label_of(*setting)}"


def _aims(best: dict[str, str], setting: Any) -> list[str]:
    return [aim for aim, label in best.items() if label == label_of(*setting)]


# Tables -----------------------------------------------------------------------------------------


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """One for each problem."""
    head = ["T", "method", "h", "ε", "Z err, %", "distance", "last population", "its ESS", "s"]
    answer = {}
    for name in PROBLEMS:
        rows = []
        for line in numbers["tests"]:
            if line["problem"] != name or not line["runs"]:
                continue
            cells = [
                command.cell([run.get(key) for run in line["runs"]])
                for key in (*MEASURES, "distance, last population", SIZE, "seconds")
            ]
            aims = f" (best by {', '.join(line['best by'])})" if line["best by"] else ""
            rows.append([f"{line['T']:g}", line["method"] + aims, *cells])
        answer[f"{NAME}-{name}"] = command.markdown(head, rows)
    return answer


def measure(args: command.Options, budgets: Sequence[int], known: dict[str, Any]) -> dict[str, Any]:
    """Tuning and tests beside those that are known."""
    grid = QUICK_GRID if args.quick else GRID
    tuned = tune(args, budgets, grid, known["tuning"])
    tests = test(args, budgets, grid, tuned, known["tests"])
    return {"tuning": tuned, "tests": tests, "tuning seeds from": FIRST_TUNING_SEED}


def main(argv: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=10, folder="benchmarks")
    parser.add_argument("--budgets", type=int, nargs="*")
    parser.add_argument("--go-on", action="store_true", help="keep the runs of the JSON")
    given = parser.parse_args(argv)
    args = command.chosen(given)
    args = replace(args, first_seed=FIRST_TEST_SEED + args.first_seed - 1)
    budgets = given.budgets or (QUICK_BUDGETS if args.quick else BUDGETS)
    known = command.read_json(args.json(NAME)) if given.go_on else {"tuning": {}, "tests": []}
    command.tabulate(NAME, args, lambda args: measure(args, budgets, known), tables)


if __name__ == "__main__":
    main()
