"""Errors of posterior modes: MAP-Tree against what it replaces, its error ellipse, thin spikes.

    python -m benchmarks.map_modes --workers 4           100 repetitions, about 30 CPU minutes
    python -m benchmarks.map_modes --quick               a few, in seconds
    python -m benchmarks.map_modes --only coverage       one part, in the place of the stored one
    python -m benchmarks.map_modes --only published      one method, likewise
    python -m benchmarks.map_modes --from-json           print the tables again
    python -m benchmarks.map_modes --tables DIR          keep what a fit reads of runs, or read it

A run does not depend on how its mode is fitted: with ``--tables`` another fit costs no runs.

P0 is Example 2 of the paper, with the mode (−1, −1) and a rival at (2, 2).  Errors are squared
distances in θ.  The baselines are given the setting that serves them best in hindsight, beside the
paper's.  One JSON, ``experiments/results/map_modes.json``, holds the numbers of all repetitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

import abctree
from abctree import bandits, problems
from abctree.answers.mode import find_mode
from abctree.answers.mode.landscape import kernel_mode
from benchmarks import flat, skewed
from benchmarks.flat import rows_of
from experiments import command
from experiments.map_example2 import FIRST_SEED, squared_errors

NAME = "map_modes"
BUDGETS = (2_000, 5_000, 20_000)
FLOORS = {2_000: 0.009, 5_000: 0.003, 20_000: 0.001}

#: Estimates of one run, by name.
Estimates = dict[str, np.ndarray]


# Methods ----------------------------------------------------------------------------------------


def map_tree(n: int, seed: int, label: str = "map_tree", **settings: Any) -> Estimates:
    run = abctree.map_tree(problems.gaussian_mixture(2), n_simulations=n, rng=seed, **settings)
    mode = run.mode()
    return {f"{label}, {how}": value for how, value in mode.estimates.items()} | {label: mode.theta}


def published(n: int, seed: int) -> Estimates:
    """Algorithm 4 with dyadic boxes, and with CART; the two estimates of the paper.

    B is T/20: at T = 20 000 the 1 000 of the paper's Section 4.
    """
    how: dict[str, Any] = {"preset": "published", "quota": n // 20}
    dyadic = map_tree(n, seed, "published dyadic", **how)
    cart = map_tree(n, seed, "published CART", partitioner=abctree.Cart(), **how)
    both = dyadic | cart
    return {name: both[name] for name in both if name.endswith(("kernel", "box"))}


def rejection(n: int, seed: int) -> Estimates:
    result = abctree.rejection(problems.gaussian_mixture(2), n_simulations=n, rng=seed)
    order = np.argsort(result.table.distance)
    found = {
        f"rejection + KDE, closest {share:.0%}": kernel_mode(
            result.table.theta[order[: max(10, int(share * n))]], np.ones(max(10, int(share * n)))
        )
        for share in (0.01, 0.02, 0.05, 0.1)
    }
    return {**found, "rejection + local-quadratic": result.mode().theta}


def smc(n: int, seed: int) -> Estimates:
    settings: dict[str, dict[str, Any]] = {
        "N = 1000, 0.9 ε": {"n_particles": min(1000, n // 4), "schedule": 0.9},
        "N = T/20, median": {"n_particles": n // 20},
        "N = T/5, median": {"n_particles": n // 5},
    }
    found: Estimates = {}
    for name, how in settings.items():
        result = abctree.smc(problems.gaussian_mixture(2), n_simulations=n, rng=seed, **how)
        draws = result.posterior()
        found[f"SMC + KDE, {name}"] = kernel_mode(draws.theta, draws.weights)
    return found


#: HOO: the tolerance of its reward, ρ, ν₁.  The first is the paper's.
HOO = {"ε = 6, ρ = ν₁ = 1": (6.0, 1.0, 1.0), "ε = 1": (1.0, 0.7, 0.5), "ε = 2": (2.0, 0.7, 0.5)}


def hoo(n: int, seed: int) -> Estimates:
    found: Estimates = {}
    for name, (epsilon, rho, nu1) in HOO.items():
        rng = np.random.default_rng(seed)
        climb = bandits.hoo(partial(_accepted, epsilon=epsilon, rng=rng), 2, n, rho=rho, nu1=nu1)
        found[f"HOO, {name}"] = 10.0 * climb.most_played - 5.0
        found[f"HOO, {name}, last point"] = 10.0 * climb.last - 5.0
    return found


def _accepted(cube: np.ndarray, epsilon: float, rng: np.random.Generator) -> float:
    """One simulation of Example 2: θ ~ U(−5, 5)², x ~ .3 N(θ, I) + .7 N(θ + 3, I/4)."""
    x = 10.0 * cube - 5.0 + rng.normal(size=2) * (1.0 if (wide := rng.random() < 0.3) else 0.5)
    x = x if wide else x + 3.0
    return float(np.hypot(*(x - 2.0)) < epsilon)


METHODS: dict[str, Callable[[int, int], Estimates]] = {
    "map_tree": map_tree,
    "published": published,
    "rejection": rejection,
    "smc": smc,
    "hoo": hoo,
}


def errors(method: str, n: int, seed: int) -> dict[str, list[float]]:
    """Estimates of one repetition, as plain numbers."""
    with command.quiet():
        return {name: at.tolist() for name, at in METHODS[method](n, seed).items()}


# The ellipse ------------------------------------------------------------------------------------


def _normal(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return theta + rng.normal(size=theta.shape)


def _with_priors(priors: list[Any], observed: list[float]) -> abctree.Problem:
    """x ~ N(θ, I) with a prior for each coordinate."""
    prior = {f"t{j + 1}": one for j, one in enumerate(priors)}
    return abctree.Problem(prior, _normal, observed=np.array(observed), vectorized=True)


def _exact(priors: list[Any], observed: list[float], epsilon: float) -> np.ndarray:
    """Mode of the ε-posterior of `_with_priors`: |x − x_obs|² is non-central χ²."""
    at = np.array(observed)

    def loss(theta: np.ndarray) -> float:
        away = float(((theta - at) ** 2).sum())
        prior = sum(float(one.logpdf(t)) for one, t in zip(priors, theta, strict=True))
        return -float(stats.ncx2.logcdf(epsilon**2, len(at), away)) - prior

    best = optimize.minimize(
        loss, at, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12}
    )
    return np.asarray(best.x)


#: Problems of informative priors: x ~ N(θ, I), priors and observations.
PRIORS: dict[str, tuple[list[Any], list[float]]] = {
    "normal prior": ([stats.norm(0.0, 2.0)], [1.5]),
    "normal prior, far": ([stats.norm(0.0, 2.0)], [3.0]),
    "Cauchy prior": ([stats.cauchy()], [3.0]),
    "normal prior, 2-d": ([stats.norm(0.0, 2.0), stats.norm(0.0, 1.0)], [1.5, 1.0]),
}

#: Problems of a known mode: how they are made, and the mode of the ε-posterior.
KNOWN: dict[str, tuple[Callable[[], Any], Callable[[float], np.ndarray]]] = {
    "Gauss(2)": (partial(problems.gauss, 2), lambda _: np.zeros(2)),
    "Gauss(5)": (partial(problems.gauss, 5), lambda _: np.zeros(5)),
    "P0": (partial(problems.gaussian_mixture, 2), lambda _: np.full(2, -1.0)),
    "P1": (partial(problems.gaussian_mixture, 5), lambda _: np.full(5, -1.0)),
    **{name: (partial(_with_priors, *of), partial(_exact, *of)) for name, of in PRIORS.items()},
    **skewed.KNOWN,
}


def coverage(problem: str, n: int, seed: int, tables: Path | None = None) -> dict[str, Any]:
    """Whether the 90 % ellipse holds the mode of the ε-posterior; None where none is shown.

    ε is that of the answer, ``mode.epsilon``: under an informative prior the mode moves with it.
    """
    make, exact = KNOWN[problem]
    run = partial(abctree.map_tree, make(), n_simulations=n, rng=seed)
    mode = find_mode(**rows_of(run, tables, "coverage", problem, n, seed))
    truth = exact(mode.epsilon)
    wrong = bool(np.linalg.norm(mode.theta - truth) > 1.5)
    known = np.isfinite(mode.standard_error).all()
    return {
        "inside": mode.contains(truth, 0.9) if known else None,
        "wrong mode": wrong,
        "error": float(((mode.theta - truth) ** 2).sum()),
        "promised": float((mode.standard_error**2).sum()) if known else None,
    }


# Spikes -----------------------------------------------------------------------------------------

SPIKE, PLATEAU = (0.4137, 0.4147), (0.6, 0.9)


def _spiky(theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Distance 0 with probability 1 on the spike and .2 on the plateau, else 1."""
    at = theta[:, 0]
    rate = np.where((at >= SPIKE[0]) & (at < SPIKE[1]), 1.0, 0.0)
    rate = np.where((at >= PLATEAU[0]) & (at < PLATEAU[1]), 0.2, rate)
    return np.where(rng.random(len(at)) < rate, 0.0, 1.0)[:, None]


def spike(n: int, seed: int) -> bool:
    """Whether the mode is in the thin interval that always accepts."""
    problem = abctree.Problem({"t": (0.0, 1.0)}, _spiky, observed=np.zeros(1), vectorized=True)
    mode = abctree.map_tree(problem, n_simulations=n, rng=seed, schedule=[0.5]).mode()
    return bool(SPIKE[0] - 1e-3 < mode.theta[0] < SPIKE[1] + 1e-3)


# All --------------------------------------------------------------------------------------------


def work(tables: Path | None, what: str, name: str, n: int, seed: int) -> Any:
    if what == "errors":
        return errors(name, n, seed)
    if what == "ridges":
        return flat.claims_an_error(name, n, seed, tables)
    if what == "flat":
        informed, n_flat = name.rsplit(", ", 1)
        return flat.spreads(informed, int(n_flat), n, seed, tables)
    return coverage(name, n, seed, tables) if what == "coverage" else spike(n, seed)


def measure(args: command.Options, tables: Path | None = None) -> dict[str, Any]:
    budgets = BUDGETS[:1] if args.quick else BUDGETS
    largest = budgets[-1]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    # Long ones first, so that no process is left alone at the end.
    tasks = [("errors", m, n, s) for n in budgets[::-1] for m in METHODS for s in seeds]
    tasks += [
        ("coverage", p, n, s) for s in seeds for n in budgets[:0:-1] or budgets for p in KNOWN
    ]
    tasks += [("spike", "", largest, s) for s in seeds]
    half, few = seeds[: len(seeds) // 2], seeds[: len(seeds) // 10]
    tasks += [("ridges", r, largest, s) for r in flat.RIDGES for s in half or seeds]
    tasks += [("flat", f"{a}, {k}", 10_000, s) for a in flat.INFORMED for k in (1, 2, 4)
              for s in few or seeds[:1]]  # fmt: skip
    tasks = [task for task in tasks if args.only in (None, *task[:2])]
    estimates: dict[str, dict[str, list[list[float]]]] = {}
    inside: dict[str, dict[str, list[Any]]] = {}
    spikes = []
    others: dict[str, dict[str, list[Any]]] = {"ridges": {}, "flat": {}}
    for (what, name, n, _), answer in command.each(partial(work, tables), tasks, args):
        if what == "errors":
            for label, at in answer.items():
                estimates.setdefault(str(n), {}).setdefault(label, []).append(at)
        elif what == "coverage":
            inside.setdefault(name, {}).setdefault(str(n), []).append(answer)
        elif what == "spike":
            spikes.append(answer)
        else:
            others[what].setdefault(name, []).append(answer)
    parts = {"estimates": estimates, "coverage": inside, "spike": spikes, **others}
    return {**{name: part for name, part in parts.items() if part}, "T": largest}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Markdown, by name."""
    return {
        "errors": error_table(numbers["estimates"]),
        "coverage": coverage_table(numbers["coverage"]),
        "ridges": ridge_table(numbers.get("ridges", {})),
        "flat": flat_table(numbers.get("flat", {})),
        "spike": f"The spike is found in {sum(numbers['spike'])} of {len(numbers['spike'])} runs.",
    }


def error_table(estimates: dict[str, dict[str, Any]]) -> str:
    budgets = sorted(estimates, key=int)
    rows = []
    for label in estimates[budgets[-1]]:
        row = [label]
        for n in budgets:
            square = squared_errors(estimates[n][label])
            wrong = int((square > 1.5**2).sum())
            row += [command.cell([*square], ".2g"), str(wrong)]
        rows.append(row)
    head = ["estimate"]
    for n in budgets:
        head += [f"MSE at T = {int(n):,}".replace(",", " "), "wrong"]
    floor = ["floor"]
    for n in budgets:
        floor += [f"{FLOORS[int(n)]}", ""]
    return command.markdown(head, [*rows, floor])


def kind_of(problem: str) -> str:
    """Normal or skewed."""
    return f"skewed, {problem[-5:]}" if problem in skewed.KNOWN else "normal"


def coverage_table(coverages: dict[str, Any]) -> str:
    rows, head = [], ["problem"]
    budgets = sorted(next(iter(coverages.values())), key=int)
    pooled = {
        f"all {kind}": {n: [run for p in coverages if kind_of(p) == kind for run in coverages[p][n]]
                        for n in budgets}
        for kind in dict.fromkeys(map(kind_of, coverages))
    }  # fmt: skip
    for problem, found in {**coverages, **pooled}.items():
        row = [problem]
        for n in budgets:
            runs = found[n]
            shown = [run["inside"] for run in runs if run["inside"] is not None]
            ratio = [run["error"] / run["promised"] for run in runs if run["promised"]]
            row += [
                f"{len(shown)} of {len(runs)}",
                f"{100.0 * np.mean(shown):.1f}" if shown else "–",
                command.cell(ratio, ".2f"),
            ]
        rows.append(row)
    for n in budgets:
        head += [f"T = {int(n):,}: ellipses".replace(",", " "), "% hold the mode", "error²/promise"]
    return command.markdown(head, rows)


def ridge_table(ridges: dict[str, Any]) -> str:
    rows = [[name, f"{sum(runs)} of {len(runs)}"] for name, runs in ridges.items()]
    return command.markdown(["what is seen, with noise", "runs that claim an error"], rows)


def flat_table(found: dict[str, Any]) -> str:
    rows = []
    for name, runs in found.items():
        informed, n_flat = name.rsplit(", ", 1)
        largest = max((run["largest"] for run in runs if run["largest"] is not None), default=0.0)
        shares = [
            f"{sum(run[what] for run in runs)} of {len(runs)}"
            for what in ("error of flat", "named", "error of the other")
        ]
        rows.append([informed, n_flat, f"{largest:.2f}", *shares])
    head = ["prior of the other", "flat ones", "largest spread over the prior's",
            "runs that give a flat one an error", "that name them flat",
            "that give the other an error"]  # fmt: skip
    return command.markdown(head, rows)


def joined(stored: dict[str, Any], new: dict[str, Any], part: str) -> dict[str, Any]:
    """New numbers over the stored ones; of the estimates, those of a method over its own."""
    both = command.joined(stored, new, part)
    for n, found in stored["estimates"].items():
        both["estimates"][n] = {**found, **new.get("estimates", {}).get(n, {})}
    return both


def main() -> None:
    made = command.parser(__doc__ or "", NAME, seeds=100, quick_seeds=3)
    made.add_argument("--only", metavar="PART", help="join the runs of one part to the JSON")
    made.add_argument("--tables", type=Path, help="folder of the runs' tables: kept, and read")
    words = made.parse_args()
    args = command.chosen(words)
    args = replace(args, first_seed=FIRST_SEED + args.first_seed)
    command.tabulate(NAME, args, partial(measure, tables=words.tables), tables, joined)


if __name__ == "__main__":
    main()
