"""Two latent dimensions: 10 against 1 000 leaves, and the posterior mode of an ambiguous 7.

In two dimensions everything can be known.  The likelihood of a tolerance is that of a noncentral
χ²: P(‖G(θ) + σ₀ e − x‖ < ε) = F(ε²/σ₀²; q, m²/σ₀²) with m = ‖G(θ) − x‖.  It falls as m grows, so
that under the flat prior the mode of the posterior at *every* ε is the θ that drew x.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

import abctree
from examples.digits import digit_generator, digits
from experiments import command

D, LEAVES_DIGIT, MODE_DIGIT = 2, 1, 7
HALF, GRID = 12.0, 301
ROWS, NOISE_SD = slice(19, 28), 0.05  #: as in `digits`
BINS = 24  #: of each axis, for total variation
KEPT = 600  #: accepted draws kept for a picture


# What is known ----------------------------------------------------------------------------------


def lattice() -> np.ndarray:
    """Points (GRID², 2) of the prior's square."""
    x = ((np.arange(GRID) + 0.5) / GRID * 2.0 - 1.0) * HALF
    return np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)


@cache
def residual(digit: int) -> tuple[np.ndarray, int]:
    """m (GRID²,) on the lattice, and the number q of visible pixels."""
    generator = digit_generator(D)
    seen = generator.decode(generator.typical(digit)[None])[0][ROWS].ravel()
    points = lattice()
    parts = [
        generator.decode(part)[:, ROWS].reshape(len(part), -1)
        for part in np.array_split(points, 40)
    ]
    m = [np.sqrt(((part - seen) ** 2).sum(axis=1)) for part in parts]
    return np.concatenate(m), len(seen)


def exact(digit: int, epsilon: float) -> np.ndarray:
    """Masses (GRID²,) of the ε-posterior on the lattice."""
    m, q = residual(digit)
    scale = NOISE_SD**2
    likelihood = stats.ncx2.cdf(epsilon**2 / scale, q, m**2 / scale)
    return np.asarray(likelihood / likelihood.sum())


def cells(theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Masses of BINS × BINS cells."""
    ends = [[-HALF, HALF], [-HALF, HALF]]
    counts, _, _ = np.histogram2d(*theta.T, bins=BINS, range=ends, weights=weight)
    return counts / weight.sum()


# Leaves -----------------------------------------------------------------------------------------


def leaves_task(n_leaves: int, seed: int, n: int) -> dict[str, Any]:
    """A published run with so many leaves: its rounds, judged against the exact posterior."""
    problem = digits(LEAVES_DIGIT, d=D)
    with command.quiet():
        result = abctree.abc_tree(
            problem,
            n_simulations=n,
            rng=seed,
            preset="published",
            partitioner=abctree.Cart(max_leaves=n_leaves, min_leaf=10),
            quota=max(50, n // 100),
            block=max(10, n // 1000),
        )
    played = result.rounds[1:]
    posterior = result.posterior(ess=min(1000.0, n / 100))
    truth = cells(lattice(), exact(LEAVES_DIGIT, posterior.epsilon))
    found = cells(posterior.theta, posterior.weights)
    spread = [astray(result, r) for r in (played[-1],)]
    answer = {
        "seed": seed,
        "rounds": len(played),
        "boxes": len(played[-1].partitions[0]),
        "acceptance": played[-1].acceptance_rate,
        "last epsilon": played[-1].epsilon,
        "epsilon": posterior.epsilon,
        "TV": abctree.metrics.total_variation(found, truth),
        "astray": spread[0],
    }
    if seed == 1:
        answer["snapshots"] = snapshots(result, 5)
    return answer


def astray(result: Any, played: Any, mass: float = 0.99) -> float:
    """Share of a round's simulations outside the smallest region that holds 99 % at its ε."""
    p = exact(LEAVES_DIGIT, played.epsilon)
    order = np.argsort(-p)
    inside = np.zeros(len(p), dtype=bool)
    inside[order[: int(np.searchsorted(np.cumsum(p[order]), mass)) + 1]] = True
    rows = slice(played.first, played.last)
    at = np.clip(((result.table.cube[rows]) * GRID).astype(int), 0, GRID - 1)
    return float(1.0 - inside[at[:, 0] * GRID + at[:, 1]].mean())


def snapshots(result: Any, n: int) -> list[dict[str, Any]]:
    """Boxes in θ and accepted draws of a few rounds, for pictures."""
    played = [r for r in result.rounds[1:] if r.n_accepted]
    chosen = sorted({int(i) for i in np.linspace(0, len(played) - 1, n)})
    shots = []
    for r in (played[i] for i in chosen):
        boxes = r.partitions[0].boxes
        rows = np.arange(r.first, r.last)
        rows = rows[np.asarray(result.table.distance)[rows] < r.epsilon][:KEPT]
        shots.append(
            {
                "round": r.index,
                "epsilon": r.epsilon,
                "lower": (boxes.lower * 2.0 - 1.0) * HALF,
                "upper": (boxes.upper * 2.0 - 1.0) * HALF,
                "draws": result.table.theta[rows],
            }
        )
    return shots


def leaves(args: command.Options) -> dict[str, Any]:
    n = 5000 if args.quick else 50_000
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(k, seed, n) for seed in seeds for k in (10, 1000)]
    done = command.each(leaves_task, tasks, args, tell=lambda t: f"{t[0]} leaves, seed {t[1]}")
    runs: dict[str, list[Any]] = {}
    for (k, *_), run in done:
        runs.setdefault(str(k), []).append(run)
    settings = {"problem": f"digits({LEAVES_DIGIT}, d={D})", "simulations": n}
    return {"settings": settings, "leaves": runs}


# Modes ------------------------------------------------------------------------------------------


def kernel_mode(theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Where a Gaussian kernel density estimate is highest, Scott's bandwidth."""
    density = stats.gaussian_kde(theta.T, weights=weight)
    best = theta[np.argsort(-density(theta.T))[:3]]
    climbs = [
        minimize(lambda t: -density(t)[0], start, method="Nelder-Mead", options={"xatol": 1e-3})
        for start in best
    ]
    return np.asarray(min(climbs, key=lambda c: c.fun).x)


def rejection_modes(problem: Any, n: int, seed: int) -> dict[str, np.ndarray]:
    run = abctree.rejection(problem, n_simulations=n, keep=max(50, n // 100), rng=seed)
    draws = run.posterior()
    return {"rejection, kernel mode": kernel_mode(draws.theta, draws.weights)}


def smc_modes(problem: Any, n: int, seed: int) -> dict[str, np.ndarray]:
    found = {}
    for label, settings in {
        "SMC-ABC (0.9 ε), kernel mode": {"schedule": 0.9},
        "SMC-ABC (Silverman, median), kernel mode": {"kernel": "silverman"},
    }.items():
        particles = max(50, n // 100)
        run = abctree.smc(problem, n_simulations=n, n_particles=particles, rng=seed, **settings)
        draws = run.posterior()
        found[label] = kernel_mode(draws.theta, draws.weights)
    return found


def tree_modes(problem: Any, n: int, seed: int) -> dict[str, np.ndarray]:
    mode = abctree.map_tree(problem, n_simulations=n, rng=seed).mode()
    return {"MAP-Tree": mode.theta, "MAP-Tree, kernel mode": mode.estimates["kernel"]}


def published_modes(problem: Any, n: int, seed: int) -> dict[str, np.ndarray]:
    """With the boxes of the paper's Section 4 and those of its Figure 7; B = 1 000 at T = 1e5."""
    boxes = {"CART": abctree.Cart(max_leaves=1000, min_leaf=10), "dyadic": None}
    found = {}
    for name, partitioner in boxes.items():
        run = abctree.map_tree(
            problem,
            n_simulations=n,
            rng=seed,
            preset="published",
            partitioner=partitioner,
            quota=max(50, n // 100),
            block=max(10, n // 1000),
        )
        found[f"MAP-Tree, published, {name}, kernel mode"] = run.mode().estimates["kernel"]
    return found


KINDS = {
    "rejection": rejection_modes,
    "smc": smc_modes,
    "tree": tree_modes,
    "published": published_modes,
}


def modes_task(kind: str, seed: int, n: int) -> dict[str, Any]:
    """Estimates of the mode by every method of a kind, and the CPU seconds."""
    began = time.process_time()
    with command.quiet():
        found = KINDS[kind](digits(MODE_DIGIT, d=D), n, seed)
    return {"estimates": found, "seconds": time.process_time() - began}


def progression_task(n: int, seed: int) -> list[dict[str, Any]]:
    with command.quiet():
        found = abctree.map_tree(digits(MODE_DIGIT, d=D), n_simulations=n, rng=seed)
    return snapshots(found, 6)


def repeated(args: command.Options) -> command.Options:
    """A mode is cheap, and a rate needs many of them: ten times the seeds of the other parts."""
    return replace(args, seeds=4 if args.quick else 10 * args.seeds)


def modes(args: command.Options) -> dict[str, Any]:
    budgets = [2000] if args.quick else [2_000, 10_000, 100_000]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    kinds = [kind for kind in KINDS if args.only in (None, kind)]
    tasks = [(kind, seed, n) for n in budgets for seed in seeds for kind in kinds]
    # The long ones first, so that no worker is left with one at the end.
    tasks.sort(key=lambda task: -task[2])
    done = command.each(modes_task, tasks, args, tell=lambda t: f"{t[0]}, T = {t[2]}, seed {t[1]}")
    generator = digit_generator(D)
    truth = generator.typical(MODE_DIGIT)
    estimates: dict[str, Any] = {}
    seconds: dict[str, Any] = {}
    for (kind, _, n), run in done:
        seconds.setdefault(kind, {}).setdefault(str(n), []).append(run["seconds"])
        for label, theta in run["estimates"].items():
            estimates.setdefault(label, {}).setdefault(str(n), []).append(theta)
    summary = {
        label: {n: judged(np.array(found), truth) for n, found in by_n.items()}
        for label, by_n in estimates.items()
    }
    if args.only is not None:
        stored = command.read_json(args.json("digits_map"))
        estimates, summary = stored["estimates"] | estimates, stored["summary"] | summary
        seconds = stored["seconds"] | seconds
    shares = {}
    for epsilon in (1.0, 1.5, 2.0):
        p = exact(MODE_DIGIT, epsilon)
        shares[str(epsilon)] = generator.shares(lattice(), p)
    return {
        "settings": {
            "problem": f"digits({MODE_DIGIT}, d={D})",
            "repetitions": args.seeds,
            "budgets": budgets,
            "mode": truth,
        },
        "exact shares": shares,
        "summary": summary,
        "estimates": estimates,
        "seconds": seconds,
        "progression": progression_task(budgets[-1], 1),
    }


def judged(found: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """How often the right digit, and how far from the mode."""
    known = np.isfinite(found).all(axis=1)
    digit = digit_generator(D).classify(found[known])
    square = ((found[known] - truth) ** 2).sum(axis=1)
    return {
        "right digit": int((digit == MODE_DIGIT).sum()),
        "of": len(found),
        "mean squared error": float(square.mean()),
        "median squared error": float(np.median(square)),
    }
