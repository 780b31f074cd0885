"""Pictures and tables of the digit experiments, from their numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure

import abctree
from examples.digits import digit_generator, digits
from experiments import command

COLOURS = {
    "reference": "black",
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
UTILITIES = ("ABC-Tree, published, ω¹", "ABC-Tree, published, ω²", "ABC-Tree, published, ω³")
#: (n, d) -> (n, 2).
Plane: TypeAlias = Callable[[np.ndarray], np.ndarray]
READ_AS = {"mixture": ", all populations", "population": ", last population"}
VISIBLE = slice(19, 28)


def named(method: str, reading: str) -> str:
    """A method and how its draws are read."""
    return method + (READ_AS.get(reading, "") if method.startswith("SMC") else "")


def own_run(name: str) -> str:
    """The run that a reading belongs to."""
    for suffix in READ_AS.values():
        name = name.removesuffix(suffix)
    return name


def short(name: str) -> str:
    return name.replace(", N = 1000", "").replace(" population", " pop.").replace("2 cov, ", "")


# The tutorial -----------------------------------------------------------------------------------


def tutorial() -> Figure:
    """The run of docs/tutorials/digits.md: what is seen, codes and pictures, boxes and draws."""
    generator = digit_generator(2)
    result = abctree.abc_tree(digits(7, d=2), n_simulations=20_000, rng=1, proposal="boxes")
    figure = Figure(figsize=(12.5, 4.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    observed(left, generator.typical(7))
    side = np.linspace(-11.0, 11.0, 12)
    theta = np.stack(np.meshgrid(side, side[::-1]), axis=-1).reshape(-1, 2)
    block = generator.decode(theta).reshape(12, 12, 28, 28).swapaxes(1, 2).reshape(336, 336)
    middle.imshow(block, cmap="gray_r", extent=(-12, 12, -12, 12))
    middle.set(xlabel="theta1", ylabel="theta2", title="what the generator draws")
    codes(right)
    boxes = result.partition.boxes
    draws = result.posterior()
    shot = {
        "epsilon": draws.epsilon,
        "lower": 24.0 * boxes.lower - 12.0,
        "upper": 24.0 * boxes.upper - 12.0,
        "draws": draws.sample(400, rng=0),
    }
    partition(right, shot)
    right.set(xlabel="theta1", title="codes of MNIST, boxes, accepted draws")
    return figure


# The posterior ----------------------------------------------------------------------------------


def posterior(
    numbers: dict[str, Any], draws: dict[str, np.ndarray], *, umap: bool = False
) -> dict[str, Figure]:
    to_plane = plane(draws["reference"], umap=umap)
    return {
        "digits-posterior": overview(numbers, draws, to_plane),
        "digits-samples": samples(draws),
        "digits-maps": maps(draws, to_plane),
        "digits-utilities": utilities(numbers),
    }


def overview(numbers: dict[str, Any], draws: dict[str, np.ndarray], to_plane: Plane) -> Figure:
    figure = Figure(figsize=(13, 8), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    theta = np.array(numbers["settings"]["theta_true"])
    observed(figure.add_subplot(grid[0, 0]), theta)
    ax = figure.add_subplot(grid[0, 1])
    tiles(ax, draws["ABC-Tree, default"][:48], 8)
    ax.set_title("pictures of 48 draws of ABC-Tree", fontsize="medium")
    ax = figure.add_subplot(grid[0, 2])
    map_of(ax, draws["ABC-Tree, default"], to_plane)
    ax.set_title("draws of ABC-Tree over the codes of MNIST", fontsize="medium")
    over_simulations(figure.add_subplot(grid[1, 0]), numbers, "TV", numbers["methods"])
    acceptance(figure.add_subplot(grid[1, 1]), numbers, numbers["runs"])
    bars(figure.add_subplot(grid[1, 2]), numbers)
    return figure


def observed(ax: Any, theta: np.ndarray) -> None:
    picture = digit_generator(len(theta)).decode(theta[None])[0]
    masked = np.full_like(picture, 0.25)
    masked[VISIBLE] = picture[VISIBLE]
    ax.imshow(np.hstack([picture, np.zeros((28, 2)), masked]), cmap="gray_r", vmin=0, vmax=1)
    ax.set_title("the picture, and what is seen of it", fontsize="medium")
    ax.set_axis_off()


def tiles(ax: Any, theta: np.ndarray, columns: int) -> None:
    """Pictures of codes, side by side."""
    pictures = digit_generator(theta.shape[1]).decode(theta)
    rows = len(pictures) // columns
    block = pictures[: rows * columns].reshape(rows, columns, 28, 28).swapaxes(1, 2)
    ax.imshow(block.reshape(rows * 28, columns * 28), cmap="gray_r", vmin=0, vmax=1)
    ax.set_axis_off()


def plane(theta: np.ndarray, *, umap: bool) -> Plane:
    """A map to two dimensions: the main axes of draws, or UMAP of codes (extra ``umap``)."""
    if umap:
        from umap import UMAP

        codes = digit_generator(theta.shape[1]).codes[:8000]
        return UMAP(random_state=0, n_jobs=1).fit(codes).transform
    mean = theta.mean(axis=0)
    axes = np.linalg.svd(theta - mean, full_matrices=False)[2][:2]
    return lambda points: (points - mean) @ axes.T


def map_of(ax: Any, theta: np.ndarray, to_plane: Plane) -> None:
    """Draws in a plane, coloured by their digits, over the codes of training images."""
    generator = digit_generator(theta.shape[1])
    ax.scatter(*to_plane(generator.codes[:4000]).T, s=1, color="#e3e3e3")
    place, digit = to_plane(theta), generator.classify(theta)
    for c in np.unique(digit):
        own = place[digit == c]
        ax.scatter(*own.T, s=4, color=f"C{c}", label=f"{c}: {len(own) / len(theta):.0%}")
    ax.legend(frameon=False, fontsize=7, markerscale=2)
    ax.set(xticks=[], yticks=[])


def samples(draws: dict[str, np.ndarray]) -> Figure:
    figure = Figure(figsize=(4.2 * len(draws), 8.4), layout="constrained")
    for ax, (name, theta) in zip(figure.subplots(1, len(draws)), draws.items(), strict=True):
        tiles(ax, theta[:300], 12)
        ax.set_title(short(name), fontsize="medium")
    return figure


def maps(draws: dict[str, np.ndarray], to_plane: Plane) -> Figure:
    figure = Figure(figsize=(3.6 * len(draws), 3.8), layout="constrained")
    axes = figure.subplots(1, len(draws), sharex=True, sharey=True)
    for ax, (name, theta) in zip(axes, draws.items(), strict=True):
        map_of(ax, theta, to_plane)
        ax.set_title(short(name), fontsize="small")
    return figure


def over_simulations(ax: Any, numbers: dict[str, Any], key: str, names: Any) -> None:
    points = np.array(numbers["settings"]["checkpoints"], dtype=float)
    for name, colour in COLOURS.items():
        if name not in names or name not in numbers["methods"]:
            continue
        lines = [np.array(run["curve"][key], dtype=float) for run in numbers["methods"][name]]
        for line in lines:
            ax.plot(points, line, color=colour, alpha=0.15, lw=0.7)
        ax.plot(points, mean_of(lines), color=colour, lw=1.8, label=short(name))
    ax.axhline(numbers["reference"]["TV of its halves"], color="black", ls=":", lw=1)
    what = {"TV": "", "TV there": " at its ε"}[key]
    ax.set(xscale="log", xlabel="simulations", ylabel=f"TV of the digits to the reference{what}")
    ax.legend(frameon=False, fontsize=6)
    ax.spines[["top", "right"]].set_visible(False)


def mean_of(lines: Sequence[np.ndarray]) -> np.ndarray:
    """Where at least half of the runs know an answer."""
    stack = np.stack(lines)
    there = np.isfinite(stack)
    total, count = np.where(there, stack, 0.0).sum(axis=0), there.sum(axis=0)
    return np.where(2 * count >= len(lines), total / np.maximum(count, 1), np.nan)


def acceptance(ax: Any, numbers: dict[str, Any], labels: Any, level: int = 0) -> None:
    n = numbers["settings"]["simulations"]
    for name, colour in COLOURS.items():
        label = own_run(name)
        if label not in labels or label not in numbers["runs"] or "all pop" in name:
            continue
        rates = np.mean([run["acceptance"][level] for run in numbers["runs"][label]], axis=0)
        middle = (np.arange(len(rates)) + 0.5) * n / len(rates)
        ax.plot(middle, np.maximum(rates, 1e-5), color=colour, lw=1.8, label=short(label))
    epsilon = numbers["settings"]["levels"][level]
    ax.set(yscale="log", xlabel="simulations", ylabel=f"acceptance at ε = {epsilon:.3g}")
    ax.legend(frameon=False, fontsize=6)
    ax.spines[["top", "right"]].set_visible(False)


def bars(ax: Any, numbers: dict[str, Any]) -> None:
    """The distribution over the digits, means over runs."""
    wanted = {"reference": np.array(numbers["reference"]["shares"])}
    for name in COLOURS:
        runs = [run["shares"] for run in numbers["methods"].get(name, []) if "shares" in run]
        if runs and name not in UTILITIES[1:]:
            wanted[name] = np.mean(runs, axis=0)
    width = 0.85 / len(wanted)
    for i, (name, shares) in enumerate(wanted.items()):
        at = np.arange(10) + (i - len(wanted) / 2) * width
        ax.bar(at, shares, width, color=COLOURS[name], label=short(name))
    ax.set(xticks=range(10), xlabel="digit", ylabel="share of the draws")
    ax.legend(frameon=False, fontsize=6)
    ax.spines[["top", "right"]].set_visible(False)


def utilities(numbers: dict[str, Any]) -> Figure:
    chosen = (*UTILITIES, "ABC-Tree, default")
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    over_simulations(left, numbers, "TV there", chosen)
    acceptance(right, numbers, chosen)
    return figure


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Those of one part, told by what its numbers hold."""
    if "leaves" in numbers:
        return {"digits_leaves": leaves_table(numbers)}
    if "estimates" in numbers:
        return {"digits_map": modes_table(numbers)}
    answers, costs = posterior_tables(numbers)
    return {"digits_posterior": answers, "digits_posterior-cost": costs}


def posterior_tables(numbers: dict[str, Any]) -> list[str]:
    head = ["method", "rounds", "ε at ESS 1000, or own", "ε of the answer", "ESS of the answer"]
    head += [
        "TV of the digits",
        "ESS at the reference's ε",
        "TV there",
        "error of the evidence there",
    ]
    rows = []
    for name, runs in numbers["methods"].items():
        finals = [run["final"] for run in runs]
        keys = ("ε at ESS", "ε", "ESS", "TV", "ESS there", "TV there")
        rows.append(
            [
                name,
                command.cell([run["rounds"] for run in numbers["runs"][own_run(name)]]),
                *(command.cell([f.get(key) for f in finals]) for key in keys),
                command.cell([run.get("evidence") for run in runs]),
            ]
        )
    known = numbers["reference"]
    itself = f"{known['TV of its halves']:.3g} (halves)"
    epsilon = f"{known['epsilon']:.4g}"
    made = f"reference, {known['simulations']:.0e} simulations"
    size = str(known["draws"])
    rows.append([made, "", epsilon, epsilon, size, itself, size, itself, ""])
    answers = command.markdown(head, rows)
    n = numbers["settings"]["simulations"]
    costs = []
    for label, runs in numbers["runs"].items():
        total = [run["seconds"] for run in runs]
        inside = [run["simulator seconds"] for run in runs]
        rest = [1.0 - b / a for a, b in zip(total, inside, strict=True)]
        costs.append(
            [
                label,
                command.cell(total),
                command.cell([n / b for b in inside], ".0f"),
                command.cell([1e6 * (a - b) / n for a, b in zip(total, inside, strict=True)]),
                command.cell([100.0 * r for r in rest], ".0f") + " %",
                bandit_share(runs) if label.startswith("ABC-Tree") else "–",
            ]
        )
    head = ["method", "CPU s", "simulations a CPU s", "µs beside each simulation", "share of it"]
    head += ["share of Algorithm 1"]
    return [answers, command.markdown(head, costs)]


def bandit_share(runs: Sequence[dict[str, Any]]) -> str:
    """Of the whole time."""
    shares = [100.0 * run["bandit seconds"] / run["seconds"] for run in runs]
    return command.cell(shares, ".1f") + " %"


# Leaves and modes -------------------------------------------------------------------------------


def partition(ax: Any, shot: dict[str, Any]) -> None:
    """Boxes and accepted draws."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    lower, upper = np.array(shot["lower"]), np.array(shot["upper"])
    patches = [Rectangle(tuple(a), *(b - a)) for a, b in zip(lower, upper, strict=True)]
    ax.add_collection(PatchCollection(patches, facecolor="none", edgecolor="#5b6b7a", lw=0.4))
    draws = np.array(shot["draws"]).reshape(-1, 2)
    ax.scatter(*draws.T, s=2, color="#c0392b", zorder=3)
    ax.set(xlim=(-12, 12), ylim=(-12, 12), aspect="equal", xticks=[], yticks=[])
    ax.set_title(f"ε = {shot['epsilon']:.3g}, {len(lower)} boxes", fontsize="small")


def codes(ax: Any) -> None:
    generator = digit_generator(2)
    for c in range(10):
        own = generator.codes[generator.labels == c][:150]
        ax.scatter(*own.T, s=1, color=f"C{c}", alpha=0.35)
        ax.text(*own.mean(axis=0), str(c), color=f"C{c}", ha="center", va="center", weight="bold")


def leaves(numbers: dict[str, Any]) -> Figure:
    by_leaves = numbers["leaves"]
    shots = {k: runs[0].get("snapshots", []) for k, runs in by_leaves.items()}
    columns = max(len(s) for s in shots.values())
    figure = Figure(figsize=(2.7 * columns, 2.9 * len(shots)), layout="constrained")
    axes = figure.subplots(len(shots), columns, squeeze=False)
    for row, (k, found) in zip(axes, shots.items(), strict=True):
        for ax, shot in zip(row, found, strict=False):
            codes(ax)
            partition(ax, shot)
        for ax in row[len(found) :]:
            ax.set_axis_off()
        row[0].set_ylabel(f"at most {k} leaves")
    return figure


def leaves_table(numbers: dict[str, Any]) -> str:
    keys = ("rounds", "boxes", "last epsilon", "acceptance", "astray", "epsilon", "TV")
    head = [
        "leaves", "rounds", "boxes at the end", "last ε", "acceptance in the last round",
        "of it outside the 99 % region", "ε at ESS 1000 or T / 100", "TV to the exact posterior",
    ]  # fmt: skip
    rows = [
        [k, *(command.cell([run[key] for run in runs]) for key in keys)]
        for k, runs in numbers["leaves"].items()
    ]
    return command.markdown(head, rows)


MODE_COLOURS = {
    "rejection, kernel mode": "#8c8c8c",
    "SMC-ABC (0.9 ε), kernel mode": "#c98b2b",
    "SMC-ABC (Silverman, median), kernel mode": "#d95f5f",
    "MAP-Tree, published, dyadic, kernel mode": "#7fb069",
    "MAP-Tree, published, CART, kernel mode": "#4f8f6f",
    "MAP-Tree": "#2458a6",
}


def modes(numbers: dict[str, Any]) -> dict[str, Figure]:
    """Final partition, estimates of all repetitions, rates of the right digit; the progression."""
    budgets = [str(n) for n in numbers["settings"]["budgets"]]
    figure = Figure(figsize=(5.0 + 3.6 * (1 + len(budgets)), 4.2), layout="constrained")
    first, *middle, last = figure.subplots(1, 2 + len(budgets))
    codes(first)
    partition(first, numbers["progression"][-1])
    for ax, n in zip(middle, budgets, strict=True):
        codes(ax)
        for label, colour in MODE_COLOURS.items():
            found = np.array(numbers["estimates"][label][n], dtype=float)
            ax.scatter(*found.T, s=9, color=colour, label=label)
        ax.scatter(*numbers["settings"]["mode"], marker="+", s=90, color="black", zorder=5)
        ax.set(xlim=(-12, 12), ylim=(-12, 12), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"estimates, T = {n}", fontsize="small")
    middle[0].legend(frameon=False, fontsize=5, loc="upper right")
    width = 0.85 / len(MODE_COLOURS)
    for i, (label, colour) in enumerate(MODE_COLOURS.items()):
        summary = numbers["summary"][label]
        rates = [summary[n]["right digit"] / summary[n]["of"] for n in budgets]
        last.bar(
            np.arange(len(budgets)) + (i - 2.5) * width, rates, width, color=colour, label=label
        )
    last.set(xticks=range(len(budgets)), ylim=(0, 1), ylabel="rate of the right digit, 7")
    last.set_xticklabels([f"T = {n}" for n in budgets])
    last.spines[["top", "right"]].set_visible(False)
    shots = numbers["progression"]
    progress = Figure(figsize=(2.8 * len(shots), 3.0), layout="constrained")
    for ax, shot in zip(progress.subplots(1, len(shots), squeeze=False)[0], shots, strict=True):
        codes(ax)
        partition(ax, shot)
    return {"digits-map": figure, "digits-map-progression": progress}


def modes_table(numbers: dict[str, Any]) -> str:
    budgets = [str(n) for n in numbers["settings"]["budgets"]]
    head = ["method"]
    for n in budgets:
        head += [f"right digit, T = {n}", "mean squared error"]
    rows = []
    for label, by_n in numbers["summary"].items():
        row = [label]
        for n in budgets:
            s = by_n[n]
            row += [f"{s['right digit']} of {s['of']}", f"{s['mean squared error']:.3g}"]
        rows.append(row)
    return command.markdown(head, rows)
