"""Query efficiency on problems with known truth.

    python -m benchmarks.yardsticks                      all yardsticks, 10 seeds, all methods
    python -m benchmarks.yardsticks --quick              a look, in a temporary folder
    python -m benchmarks.yardsticks --problems P1 --seeds 3  some of it, printed and not kept
    python -m benchmarks.yardsticks --reference PATH     Lotka-Volterra and Heston, too
    python -m benchmarks.yardsticks --sbibm PATH         four tasks of sbibm, too

The honest gain over rejection is ``h = 1 / E[1 / m(θ)]`` over *exact* draws of the ε-posterior,
with m the density of all the run's proposals relative to the prior.  Unlike the nominal gain,
ESS / (T · Z), it cannot be flattered by mass that the run has missed.  ``h@E`` is read at the ε
where T · Z · h = E.  Prints Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

import abctree
from abctree import metrics, problems
from abctree.data import running_ess
from abctree.problems import truth
from benchmarks.gains import Exact, Row, Yardstick, run
from benchmarks.narrow import Narrow, Oscillator, RareMode
from benchmarks.sbibm.tasks import Task
from experiments import command
from experiments.reference import load_reference
from experiments.ridge import Ridge
from experiments.scores import honest_gain

METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "boxes": {"proposal": "boxes"},
    "kernels": {"proposal": ["boxes", "kernels"], "schedule": "median"},
    "published": {"preset": "published"},
    "dyadic": {"proposal": "boxes", "partitioner": "dyadic"},
    "CART": {"proposal": "boxes", "partitioner": "cart"},
    # All budget but one simulation in the pilot: prior draws, the closest of which are kept.
    "rejection": {"proposal": "boxes", "n_pilot": 10**9},
}
#: Problems that need no references.
EXACT = ("P0", "P1", "P3", "Ex1", "R2", "R6", "R3", "Oscillator", "Rare")
REFERENCED = ("Lotka-Volterra", "Heston")
SBIBM = ("two_moons", "sir", "bernoulli_glm", "slcp")
#: Times as many seeds of small budgets, which are cheap and noisy, and of whether a mode is missed;
#: and of the default's evidence.
_OF_SMALL, _OF_EVIDENCE = 10, 3
FIRST_SEED = 1000
#: Of Lotka-Volterra below ε = 2.196, the closest 1 000 of 1e7 prior draws; and the ε of all that
#: the reference has.
EVIDENCE, SMALL = 1.00e-4, 0.8499
NAME = "yardsticks"


class P0(Yardstick):
    name, budgets = "P0", (1_000, 3_000, 10_000, 100_000)

    def __init__(self) -> None:
        self.problem = problems.gaussian_mixture(2)
        self.truth = truth.GaussianMixtureTruth(2)
        self.exact = Exact(self.truth, np.geomspace(0.15, 4.0, 14))

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(self.problem, n, seed, **method)
        ess, more = {
            1_000: (None, 200), 3_000: (None, 500), 10_000: (None, 1_000), 100_000: (3_000, 6_000)
        }[n]  # fmt: skip
        with command.quiet():
            draws = result.posterior(ess=ess)
            adjusted = result.posterior(ess=more).adjusted("linear")
        narrow = self.truth.in_narrow_mode(draws.theta)
        mass = float(draws.weights[narrow].sum())
        row = self.exact.report(result, [1000 if n >= 100_000 else 0.03 * n])
        return {
            "TV20": self.truth.tv20(draws.theta, draws.weights),
            "TV20 adj": self.truth.tv20(adjusted.theta, adjusted.weights),
            **row,
            "narrow mass err": mass - self.truth.mode_mass(draws.epsilon),
            "seconds": seconds,
        }


class High(Yardstick):
    """P1 and P3: five dimensions, honest gain, evidence, MMD to the true posterior."""

    budgets = (3_000, 10_000, 100_000)

    def __init__(self, name: str, problem: Any, known: Any, epsilons: np.ndarray) -> None:
        self.name, self.problem = name, problem
        self.exact = Exact(known, epsilons)
        self.target = known.draws(4000, 0.0, np.random.default_rng(1))
        scaled = (self.target - self.target.mean(axis=0)) / self.target.std(axis=0)
        self.bandwidth = 0.5 * float(np.median(pdist(scaled[:2000])))

    def mmd(self, draws: Any) -> float:
        """Root of MMD² at half the median bandwidth: sharper, and on the scale of a distance."""
        square = metrics.mmd(draws.theta, self.target, draws.weights, bandwidth=self.bandwidth)
        return float(np.sqrt(max(square, 0.0)))

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(self.problem, n, seed, **method)
        expected = {3_000: [90], 10_000: [300], 100_000: [300, 1000]}[n]
        ess = expected[-1]
        with command.quiet():
            draws = result.posterior(ess=ess)
            adjusted = draws.adjusted("linear")
        return {
            **self.exact.report(result, expected),
            "MMD": self.mmd(draws),
            "MMD adj": self.mmd(adjusted),
            "seconds": seconds,
        }


class Ex1(Yardstick):
    """Example 1: a hundred arms at a fixed tolerance."""

    name, budgets = "Ex1", (10_000, 100_000)

    def __init__(self) -> None:
        self.problem = problems.finite_normal()
        known = truth.FiniteNormalTruth()
        self.p, self.rates = known.masses(), known.rates()

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        grid = {"partitioner": abctree.Grid(100), "schedule": [1.0], "n_folds": 1}
        # One partition throughout: a round that ends early would only refit the same grid.
        settings = {**grid, "quota": n, "block": max(1, n // 1000), "n_pilot": 100, **method}
        result, seconds = run(self.problem, n, seed, **settings)
        accepted = result.table.distance < 1.0
        arm = result.table.theta[:, 0].astype(int) - 1
        weight = result.weights("mixture") * accepted
        weighted = np.bincount(arm, weights=weight, minlength=100) / weight.sum()
        mass = result.histogram().folds[0].mass
        return {
            "histogram TV": metrics.total_variation(mass, self.p),
            "weighted TV": metrics.total_variation(weighted, self.p),
            "acceptance": float(accepted.mean()),
            "ESS / n": abctree.data.effective_sample_size(weight[accepted]) / n,
            "seconds": seconds,
        }


def first_epsilon(result: abctree.Result, ess: float) -> float:
    """The smallest ε at which draws reach an ESS, whether or not they keep it at larger ones."""
    distance, weight = result.table.distance, result.weights()
    order = np.argsort(distance, kind="stable")
    return float(distance[order][np.argmax(running_ess(weight[order]) >= ess)])


class Referenced(Yardstick):
    """Lotka-Volterra and Heston, judged by the closest draws of very long rejection runs."""

    budgets = (10_000, 100_000)

    def __init__(self, name: str, problem: Any, path: Path) -> None:
        self.name, self.problem = name, problem
        self.reference = load_reference(path)
        self.target = self.reference.closest(1000)

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(self.problem, n, seed, **method)
        row: Row = {}
        with command.quiet():
            for ess in (300, 1000) if n >= 100_000 else (100, 300):
                draws = result.posterior(ess=ess)
                row[f"eps@{ess}"] = draws.epsilon
                row[f"first eps@{ess}"] = first_epsilon(result, ess)
                row[f"ESS@{ess}"] = draws.ess
                row[f"MMD²@{ess}"] = metrics.mmd(draws.theta, self.target, draws.weights)
        if self.name == "Lotka-Volterra":
            z = result.evidence(2.196).estimate
            row["Z err % at 2.196"] = 100.0 * (z / EVIDENCE - 1.0)
            if n >= 100_000:
                known = self.reference.evidence(SMALL)
                row[f"Z err % at {SMALL}"] = 100.0 * (result.evidence(SMALL).estimate / known - 1.0)
                row[f"h at {SMALL}"] = honest_gain(result, self.reference.theta)
        row["last eps"] = result.epsilon
        row["seconds"] = seconds
        return row


class FirstObservation(Yardstick):
    """A task of sbibm: the tolerance that is reached for its first observation."""

    budgets = (10_000,)

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.problem = name, Task.load(name, folder).problem(0)

    def measure(self, n: int, seed: int, method: dict[str, Any]) -> Row:
        result, seconds = run(self.problem, n, seed, **method)
        with command.quiet():
            return {"eps@300": result.posterior(ess=300).epsilon, "seconds": seconds}


@dataclass(frozen=True)
class Folders:
    """Of data that are not part of the package."""

    reference: Path | None = None
    sbibm: Path | None = None

    def names(self) -> list[str]:
        """Yardsticks that can be measured with them."""
        referenced = REFERENCED if self.reference is not None else ()
        return [*EXACT, *referenced, *(SBIBM if self.sbibm is not None else ())]


def yardstick(name: str, folders: Folders = Folders()) -> Yardstick:
    makers: dict[str, Callable[[], Yardstick]] = {
        "P0": P0,
        "P1": lambda: High(
            "P1",
            problems.gaussian_mixture(5),
            truth.GaussianMixtureTruth(5),
            np.geomspace(0.8, 4.0, 12),
        ),
        "P3": lambda: High(
            "P3", problems.banana(), truth.BananaTruth(), np.geomspace(0.35, 2.5, 12)
        ),
        "Ex1": Ex1,
        "R2": lambda: Narrow("R2", Ridge(2, 0.99)),
        "R6": lambda: Narrow("R6", Ridge(6, 0.95)),
        "R3": lambda: Narrow("R3", Ridge(3, None)),
        "Oscillator": Oscillator,
        "Rare": RareMode,
    }
    reference, sbibm = folders.reference, folders.sbibm
    if reference is not None:
        makers["Lotka-Volterra"] = lambda: Referenced(
            "Lotka-Volterra", problems.lotka_volterra(), reference / "lotka_volterra.npz"
        )
        makers["Heston"] = lambda: Referenced("Heston", problems.heston(), reference / "heston.npz")
    if sbibm is not None:
        makers |= {task: partial(FirstObservation, task, sbibm) for task in SBIBM}
    if name not in makers:
        raise SystemExit(f"no yardstick {name!r} here: choose from {', '.join(makers)}")
    return makers[name]()


def methods_of(name: str) -> dict[str, dict[str, Any]]:
    if name != "Ex1":
        return METHODS
    return {
        "default (ESS)": {"utility": "ess"},
        "ω¹": {"utility": "omega1"},
        "ω²": {"utility": "omega2"},
        "ω³": {"utility": "omega3"},
        "ω¹, Beta(1, 1)": {"utility": "omega1", "beliefs": abctree.Counts(1, 1)},
        "ESS, Beta(1, 1)": {"utility": "ess", "beliefs": abctree.Counts(1, 1)},
        "Thompson": {"policy": abctree.Thompson()},
        "rejection": {"utility": abctree.EffectiveSampleSize(0.0)},
    }


_stick: dict[str, Yardstick] = {}


def one_run(name: str, label: str, n: int, seed: int, folders: Folders) -> Row:
    """One run in a worker; the yardstick is made once a process."""
    if name not in _stick:
        _stick[name] = yardstick(name, folders)
    return _stick[name].measure(n, seed, methods_of(name)[label])


def measure(
    args: command.Options, names: Sequence[str], labels: Sequence[str] | None, folders: Folders
) -> list[dict[str, Any]]:
    cells = [
        (name, label, n)
        for name in names
        for label in methods_of(name)
        for n in yardstick_budgets(name)[: 1 if args.quick else None]
        if not labels or label in labels
    ]
    tasks = [
        (*cell, args.first_seed + i, folders)
        for cell in cells
        for i in range(args.seeds * (1 if args.quick else repeats(*cell)))
    ]
    rows: dict[tuple[Any, ...], list[Row]] = {}
    for (*cell, _, _), row in command.each(one_run, tasks, args, tell=lambda task: str(task[:4])):
        rows.setdefault(tuple(cell), []).append(row)
    return [
        {"problem": name, "method": label, "T": n, "rows": rows[name, label, n]}
        for name, label, n in cells
        if (name, label, n) in rows
    ]


def repeats(name: str, label: str, n: int) -> int:
    """Times as many seeds as are asked for."""
    if n <= 1_000 or name == RareMode.name:
        return _OF_SMALL
    return _OF_EVIDENCE if n >= 10_000 and label == "default" and name not in SBIBM else 1


def yardstick_budgets(name: str) -> tuple[int, ...]:
    kinds: dict[str, type[Yardstick]] = {
        "P0": P0, "P1": High, "P3": High, "Ex1": Ex1, "Oscillator": Oscillator,
        "Rare": RareMode, "Lotka-Volterra": Referenced, "Heston": Referenced,
        **dict.fromkeys(SBIBM, FirstObservation),
    }  # fmt: skip
    return kinds.get(name, Narrow).budgets


def table(lines: list[dict[str, Any]]) -> str:
    """Of one problem: mean ± standard error over seeds."""
    columns = list(dict.fromkeys(key for line in lines for key in line["rows"][0]))
    rows = [
        [line["method"], f"{line['T']:g}", *(_cell(line["rows"], key) for key in columns)]
        for line in lines
    ]
    return command.markdown(["method", "T", *columns], rows)


def _cell(rows: list[Row], key: str) -> str:
    values = [row[key] for row in rows if key in row]
    return command.cell(values) if values else ""


#: Columns of the short table: problem, measure, heading.
BRIEF = [
    ("P0", "h@1000", "two modes, d = 2: h"),
    ("P0", "Z err % @1000", "error of Z, %"),
    ("P1", "h@1000", "two modes, d = 5: h"),
    ("P1", "Z err % @1000", "error of Z, %"),
    ("P3", "h@1000", "banana, d = 5: h"),
    ("P3", "Z err % @1000", "error of Z, %"),
    ("Lotka-Volterra", "eps@300", "Lotka-Volterra, d = 4: ε at ESS 300"),
]


def brief(done: list[dict[str, Any]]) -> str:
    """One table of all problems at T = 1e5, for the README."""
    found = {(t["problem"], t["method"]): t["rows"] for t in done if t["T"] == 100_000}
    columns = [c for c in BRIEF if any(problem == c[0] for problem, _ in found)]
    rows = [
        [label, *(_cell(found.get((problem, label), []), key) for problem, key, _ in columns)]
        for label in METHODS
    ]
    return command.markdown(["method", *(heading for *_, heading in columns)], rows)


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """One for each problem, and one of all at T = 1e5."""
    done = numbers["tables"]
    names = list(dict.fromkeys(line["problem"] for line in done))
    found = {name: table([line for line in done if line["problem"] == name]) for name in names}
    large = {line["problem"] for line in done if line["T"] == 100_000}
    return found | ({"brief": brief(done)} if len(large) > 1 else {})


def titled(numbers: dict[str, Any]) -> dict[str, str]:
    return {name: f"### {name}\n\n{lines}" for name, lines in tables(numbers).items()}


def main() -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=10, folder="benchmarks")
    parser.add_argument("--problems", nargs="*", help="some of the yardsticks")
    parser.add_argument("--methods", nargs="*", help="some of the methods, by their labels")
    parser.add_argument("--reference", type=Path, help="folder with the reference .npz files")
    parser.add_argument("--sbibm", type=Path, help="folder with the observations of sbibm")
    given = parser.parse_args()
    args = command.chosen(given)
    args = replace(args, first_seed=FIRST_SEED + args.first_seed - 1)
    folders = Folders(args.reference, given.sbibm)
    names = given.problems or folders.names()

    def measured(args: command.Options) -> dict[str, Any]:
        return {"tables": measure(args, names, given.methods, folders)}

    some = given.problems or given.methods
    command.tabulate(NAME, args, measured, titled, keep=not some)


if __name__ == "__main__":
    main()
