"""All methods on one problem over simulations: what Heston, Lotka-Volterra and encoding share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import abctree
from experiments import command
from experiments.curves import curve, known_after
from experiments.methods import METHODS, Reading, play
from experiments.reference import load_reference
from experiments.scores import Judge

BUDGET, QUICK_BUDGET = 100_000, 3_000
TARGETS = (300.0, 1000.0)
#: Bins of the prior's range in the stored marginals.
MARGINAL_BINS = 40

#: Ends (p,), (p,) of the marginals that are shown.
Range = tuple[np.ndarray, np.ndarray]

#: What stands for a reading behind the name of its method.
READ_AS = {
    "closest": "",
    "draw": "",
    "mixture": ", all populations",
    "population": ", last population",
}
COLOURS = {
    "rejection": "#8c8c8c",
    "SMC-ABC, 2 cov, 0.9 ε, N = 1000, last population": "#c98b2b",
    "SMC-ABC, Silverman, median, N = 1000, last population": "#d95f5f",
    "SMC-ABC, Silverman, median, N = 1000, all populations": "#8f2d56",
    "ABC-Tree, published, ω¹": "#7fb069",
    "ABC-Tree, published, ω²": "#3e8e5a",
    "ABC-Tree, published, ω³": "#1f5f4a",
    "ABC-Tree, default": "#2458a6",
    "ABC-Tree, boxes": "#7f9fd1",
    "ABC-Tree, kernels": "#17a2b8",
}


@dataclass(frozen=True)
class Subject:
    """A problem, and how its answers are judged."""

    name: str  #: of the module and of its files
    title: str
    problem: Callable[[], Any]
    judge: Callable[[command.Options], Judge | str]  #: a judge, or why there is none
    range: Callable[[Judge], Range]


def judge_from_file(
    file: str, problem: Callable[[], Any], theta_true: np.ndarray
) -> Callable[[command.Options], Judge | str]:
    """The closest 1 000 of a very long rejection run; in a quick run of a short one."""

    def judge(args: command.Options) -> Judge | str:
        if args.reference is not None and (args.reference / file).exists():
            return Judge(load_reference(args.reference / file).closest(1000), theta_true)
        if not args.quick:
            return f"it needs {file}: give the folder that holds it by --reference"
        run = abctree.rejection(problem(), n_simulations=100_000, keep=200, rng=0)
        return Judge(np.array(run.table.theta), theta_true)

    return judge


# Measuring --------------------------------------------------------------------------------------


def label_of(method: str, reading: str) -> str:
    suffix = READ_AS[reading] if method.startswith("SMC") else ""
    return method + suffix


def checkpoints(n: int) -> list[int]:
    """Twelve numbers of simulations, evenly spaced in the logarithm, from n / 100 to n."""
    return [int(t) for t in np.unique(np.round(np.geomspace(n / 100, n, 12)))]


def one_run(
    problem: Callable[[], Any], judge: Judge, shown: Range, label: str, seed: int, n: int
) -> dict[str, Any]:
    """All readings of one run: curve, final row, and for the first seed the marginals."""
    method = METHODS[label]
    result = play(method, problem(), n, seed)
    answer: dict[str, Any] = {}
    for reading in method.readings:
        rows, final = curve(result, reading, checkpoints(n), judge.scores, TARGETS)
        entry: dict[str, Any] = {"curve": rows, "final": final}
        if seed == 1:
            entry["marginals"] = marginals(result, reading, shown)
        answer[label_of(label, reading)] = entry
    return {"readings": answer, "seconds": result.seconds, "rounds": len(result.rounds) - 1}


def marginals(result: Any, reading: Reading, shown: Range) -> list[np.ndarray]:
    (known,) = known_after(result, reading, [result.n_simulations])
    if known is None:
        return []
    draws = known.posterior()
    return histograms(draws.theta, draws.weights, *shown)


def histograms(
    theta: np.ndarray, weight: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[np.ndarray]:
    """Shares of the bins of each parameter; what lies outside counts in none."""
    share = weight / weight.sum()
    return [
        np.histogram(column, MARGINAL_BINS, (low[j], high[j]), weights=share)[0]
        for j, column in enumerate(theta.T)
    ]


def measure(subject: Subject, args: command.Options) -> dict[str, Any] | None:
    judge = subject.judge(args)
    if isinstance(judge, str):
        print(f"skipped {subject.name}: {judge}")
        return None
    n = QUICK_BUDGET if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    # All methods of a seed before the next seed: a run that is cut short still compares.
    shown = subject.range(judge)
    labels = [label for label in METHODS if args.only in (None, label)]
    tasks = [(subject.problem, judge, shown, label, seed, n) for seed in seeds for label in labels]
    done = command.each(one_run, tasks, args, tell=lambda task: f"{task[3]}, seed {task[4]}")
    low, high = shown
    return {
        "settings": {
            "problem": subject.title,
            "simulations": n,
            "checkpoints": checkpoints(n),
            "reference draws": len(judge.reference),
            "theta_true": judge.theta_true,
            "names": list(subject.problem().names),
        },
        "reference": {
            "scores": judge.of_itself,
            "low": low,
            "high": high,
            "marginals": histograms(judge.reference, np.ones(len(judge.reference)), low, high),
        },
        "methods": _stored(subject.name, args) | _by_method(done),
    }


def _stored(name: str, args: command.Options) -> dict[str, Any]:
    """The methods that are measured already, where only one is wanted."""
    if args.only is None:
        return {}
    return dict(command.read_json(args.json(name))["methods"])


def _by_method(done: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for (*_, seed, _), run in done:
        for label, entry in run["readings"].items():
            place = answer.setdefault(label, {"runs": []})
            if "marginals" in entry:
                place["marginals"] = entry["marginals"]
            curves: dict[str, list[Any]] = {}
            for key in ("made", "ε", "ESS", "MMD²", "TV", "NLP"):
                curves[key] = [row.get(key) for row in entry["curve"]]
            place["runs"].append(
                {
                    "seed": seed,
                    "seconds": run["seconds"],
                    "rounds": run["rounds"],
                    "final": entry["final"],
                    "curve": curves,
                }
            )
    return answer


# Showing ----------------------------------------------------------------------------------------


def tables(name: str, numbers: dict[str, Any]) -> dict[str, str]:
    """The final answers, and the scores on the way."""
    return {name: final_table(numbers), f"{name}-curve": curve_table(numbers)}


def final_table(numbers: dict[str, Any]) -> str:
    head = ["method", "rounds", "ε at ESS 300", "ε at ESS 1000", "ESS", "MMD² · 1000", "TV", "NLP"]
    rows = []
    for label, entry in numbers["methods"].items():
        finals = [run["final"] for run in entry["runs"]]
        own = "MMD²@own" in finals[0]
        at = "own" if own else "1000"

        def column(key: str, form: str = ".3g", scale: float = 1.0, of: Any = finals) -> str:
            values = [f.get(key) for f in of]
            return command.cell([None if v is None else scale * v for v in values], form)

        eps = [column("ε@own"), "its own"] if own else [column("ε@300"), column("ε@1000")]
        rows.append(
            [
                label,
                command.cell([run["rounds"] for run in entry["runs"]]),
                *eps,
                column(f"ESS@{at}", ".0f"),
                column(f"MMD²@{at}", ".3g", 1000.0),
                column(f"TV@{at}"),
                column(f"NLP@{at}"),
            ]
        )
    scores = numbers["reference"]["scores"]
    rows.append(
        [
            "the reference itself (one half against the other)", "", "", "", "",
            f"{1000 * scores['MMD²']:.3g}", f"{scores['TV']:.3g}", f"{scores['NLP']:.3g}",
        ]
    )  # fmt: skip
    return command.markdown(head, rows)


def curve_table(numbers: dict[str, Any], key: str = "MMD²", scale: float = 1000.0) -> str:
    points = numbers["settings"]["checkpoints"]
    shown = [i for i in range(len(points)) if (len(points) - 1 - i) % 3 == 0]
    head = [f"{key} · {scale:g} after", *(f"{points[i]:,}".replace(",", " ") for i in shown)]
    rows = []
    for label, entry in numbers["methods"].items():
        at = [[run["curve"][key][i] for run in entry["runs"]] for i in shown]
        rows.append([label, *(command.cell([_times(v, scale) for v in values]) for values in at)])
    return command.markdown(head, rows)


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else scale * value


def draw(numbers: dict[str, Any], keys: Sequence[str]) -> Figure:
    """Scores over simulations, each run pale and the mean bold; below, the marginals."""
    names = numbers["settings"]["names"]
    figure = Figure(figsize=(4.2 * len(keys), 7.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[2.1, 1.0])
    axes = np.atleast_1d(upper.subplots(1, len(keys)))
    for ax, key in zip(axes, keys, strict=True):
        draw_curves(ax, numbers, key)
    lines = axes[0].get_legend_handles_labels()
    upper.legend(*lines, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    panels = np.atleast_2d(lower.subplots(max(1, -(-len(names) // 5)), min(5, len(names)))).ravel()
    draw_marginals(panels, numbers)
    return figure


def draw_curves(ax: Any, numbers: dict[str, Any], key: str) -> None:
    points = np.array(numbers["settings"]["checkpoints"], dtype=float)
    for label, colour in COLOURS.items():
        runs = numbers["methods"].get(label, {"runs": []})["runs"]
        lines = [np.array(run["curve"][key], dtype=float) for run in runs]
        for line in lines:
            ax.plot(points, line, color=colour, alpha=0.18, lw=0.7)
        if lines and not all(np.isnan(line).all() for line in lines):
            ax.plot(points, _mean(lines), color=colour, lw=1.8, label=label)
    itself = numbers["reference"]["scores"].get(key)
    if itself is not None:
        ax.axhline(itself, color="black", ls=":", lw=1)
    ax.set(xscale="log", xlabel="simulations", ylabel=key)
    if key in ("MMD²", "ε"):
        ax.set_yscale("symlog" if key == "MMD²" else "log", **_linear_below(key))
    ax.spines[["top", "right"]].set_visible(False)


def _linear_below(key: str) -> dict[str, float]:
    return {"linthresh": 1e-3} if key == "MMD²" else {}


def _mean(lines: Sequence[np.ndarray]) -> np.ndarray:
    """Of the runs that know an answer, where at least half of them do."""
    stack = np.stack(lines)
    there = np.isfinite(stack)
    total = np.where(there, stack, 0.0).sum(axis=0)
    count = there.sum(axis=0)
    return np.where(2 * count >= len(lines), total / np.maximum(count, 1), np.nan)


def draw_marginals(panels: Any, numbers: dict[str, Any]) -> None:
    shown = {
        "ABC-Tree, default": "#2458a6",
        "SMC-ABC, Silverman, median, N = 1000, all populations": "#8f2d56",
    }
    names, reference = numbers["settings"]["names"], numbers["reference"]
    for j, ax in enumerate(panels):
        if j >= len(names):
            ax.set_axis_off()
            continue
        edges = np.linspace(reference["low"][j], reference["high"][j], MARGINAL_BINS + 1)
        ax.stairs(reference["marginals"][j], edges, fill=True, color="#d9dee2", label="reference")
        for label, colour in shown.items():
            mass = numbers["methods"].get(label, {}).get("marginals")
            if mass:
                ax.stairs(mass[j], edges, color=colour, label=label)
        ax.axvline(numbers["settings"]["theta_true"][j], color="black", lw=0.8)
        ax.set(yticks=[], xlabel=names[j])
        ax.spines[["top", "right", "left"]].set_visible(False)
    lines = panels[0].get_legend_handles_labels()
    panels[0].figure.legend(*lines, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
