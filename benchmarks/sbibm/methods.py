"""What is compared: nine ways to 10 000 draws, from five runs of equal budgets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import abctree
from abctree.answers.posterior import Posterior
from abctree.proposals.perturbations import TwiceCovariance
from benchmarks.sbibm.smoothing import published_kde, smooth_draws, unbound
from benchmarks.sbibm.tasks import TASKS, Task

N_DRAWS = 10_000
#: Summaries are learned where there are so many for each parameter.
_MANY = 10
FIRST_SEED = 4000
BUDGETS = (1_000, 10_000, 100_000)

REJ = "REJ-ABC, published protocol"
SMC = "SMC-ABC, published protocol"
TREE = "tree"
TREE_SMOOTH = "tree, smoothed"
TREE_ADJUSTED = "tree, adjusted and smoothed"
REJ_ADJUSTED = "rejection, adjusted and smoothed"
SMC_ADJUSTED = "SMC, adjusted and smoothed"
ANSWER = "answer, smoothed"
LEARNED = "learned summaries, adjusted and smoothed"
ROWS = (REJ, SMC, ANSWER, LEARNED, TREE, TREE_SMOOTH, TREE_ADJUSTED, REJ_ADJUSTED, SMC_ADJUSTED)


@dataclass
class Found:
    """Draws of one row, or why there are none."""

    row: str
    draws: np.ndarray | None  #: (n, p) float32
    about: dict[str, Any] = field(default_factory=dict)


def adjusted_ess(p: int, budget: int) -> float:
    """Effective sample size that a regression is given.

    500 draws for each parameter, or a tenth of all simulations if that is less: the regression
    removes most of what a larger ε adds, and its slopes want many draws.
    """
    return float(min(500 * p, budget // 10))


def measure(
    name: str,
    observation: int,
    budget: int,
    folder: Path,
    n: int = N_DRAWS,
    *,
    only_answer: bool = False,
) -> list[Found]:
    """All rows of one task, observation (0 to 9) and number of simulations, or that of the answer.

    Those of the answer have a generator of their own.
    """
    problem = Task.load(name, folder).problem(observation)
    key = [FIRST_SEED, list(TASKS).index(name), observation, budget]
    found = _guarded(_answer_row, problem, budget, n, np.random.default_rng([*key, 1]))
    if only_answer:
        return found
    rng = np.random.default_rng(key)
    for make in (_rejection_rows, _published_smc, _smc_row, _tree_rows):
        found += _guarded(make, problem, budget, n, rng)
    return found


Row = Callable[[], tuple[np.ndarray, dict[str, Any]]]
Maker = Callable[[abctree.Problem, int, int, np.random.Generator], Iterator[tuple[str, Row]]]


def _guarded(
    make: Maker, problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> list[Found]:
    """What a run gives; an error is a record and no end."""
    found: list[Found] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for label, row in make(problem, budget, n, rng):
                found.append(_row(label, row))
        except Exception as error:  # noqa: BLE001  recorded, and the other rows go on
            about = {"error": f"{make.__name__}: {type(error).__name__}: {error}"}
            found.append(Found(make.__name__, None, about))
    return found


def _row(label: str, row: Row) -> Found:
    try:
        draws, about = row()
    except Exception as error:  # noqa: BLE001
        return Found(label, None, {"error": f"{type(error).__name__}: {error}"})
    small = draws.astype(np.float32)
    if not np.isfinite(small).all():
        return Found(label, None, {"error": "draws that are not finite"})
    return Found(label, small, about)


def _rejection_rows(
    problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Row]]:
    run = abctree.rejection(problem, n_simulations=budget, rng=_seed(rng), keep_summaries=True)

    def published() -> tuple[np.ndarray, dict[str, Any]]:
        closest = run.posterior(ess=100)
        # Of equal distances at the border the first.
        order = np.argsort(closest.distance, kind="stable")[:100]
        return published_kde(closest.theta[order], n, rng), _about(run, closest)

    yield REJ, published
    yield REJ_ADJUSTED, lambda: _adjusted(run, budget, n, rng)


def _published_smc(
    problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Row]]:
    """The benchmark's SMC-ABC: half the covariance, the 20 % quantile, particles without weights.

    The first population are the closest N of 5 N prior draws; one that the end of the budget cuts
    short is filled up from the one before.
    """
    particles = _particles(budget)
    run = abctree.smc(
        problem,
        n_simulations=budget,
        n_particles=particles,
        n_pilot=min(5 * particles, budget // 2),
        kernel=TwiceCovariance(0.5),
        schedule=abctree.Quantile(0.2, start=0.2),
        rng=_seed(rng),
    )

    def published() -> tuple[np.ndarray, dict[str, Any]]:
        about = {
            "seconds": round(run.seconds, 3),
            "epsilon": run.rounds[-1].epsilon,
            "populations": len(run.rounds) - 1,
        }
        return published_kde(_last_particles(run, particles), n, rng), about

    yield SMC, published


def _particles(budget: int) -> int:
    """The benchmark's number of particles."""
    return 1000 if budget > 10_000 else 100


def _last_particles(run: abctree.Result, n: int) -> np.ndarray:
    """(n, p) Of the last population, and for those that it lacks of the one before."""
    table = run.table
    theta = np.empty((0, table.theta.shape[1]))
    for played in reversed(run.rounds[1:]):
        own = table.round <= 1 if played.index == 1 else table.round == played.index
        accepted = np.flatnonzero(own & (table.distance < played.epsilon))
        theta = np.concatenate([theta, table.theta[accepted[: n - len(theta)]]])
        if len(theta) >= n:
            break
    return theta


def _smc_row(
    problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Row]]:
    """Ours with all its populations: it may be read at any ε, as the tree."""
    run = abctree.smc(
        problem,
        n_simulations=budget,
        n_particles=_particles(budget),
        weights="mixture",
        keep_summaries=True,
        rng=_seed(rng),
    )
    yield SMC_ADJUSTED, lambda: _adjusted(run, budget, n, rng)


def _tree_rows(
    problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Row]]:
    run = abctree.abc_tree(
        problem, n_simulations=budget, proposal="boxes", keep_summaries=True, rng=_seed(rng)
    )

    def smoothed() -> tuple[np.ndarray, dict[str, Any]]:
        draws, h = smooth_draws(run.posterior(), n, rng)
        return draws, {**_about(run, run.posterior()), "bandwidth": h}

    yield TREE, lambda: (run.posterior().sample(n, rng), _about(run, run.posterior()))
    yield TREE_SMOOTH, smoothed
    yield TREE_ADJUSTED, lambda: _adjusted(run, budget, n, rng)


def _answer_row(
    problem: abctree.Problem, budget: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, Row]]:
    """What a user is shown of a default run."""
    run = abctree.abc_tree(problem, n_simulations=budget, keep_summaries=True, rng=_seed(rng))

    def smoothed() -> tuple[np.ndarray, dict[str, Any]]:
        answer = run.answer()
        draws, h = smooth_draws(answer, n, rng)
        return draws, {**_about(run, answer), "bandwidth": h, "reading": str(answer.reading)}

    def learned() -> tuple[np.ndarray, dict[str, Any]]:
        posterior = run.posterior(summaries="learned").adjusted()
        draws, h = smooth_draws(posterior, n, rng)
        return draws, {**_about(run, posterior), "bandwidth": h}

    yield ANSWER, smoothed
    if np.size(problem.observed_summary) >= _MANY * problem.d:
        yield LEARNED, learned


def _adjusted(
    run: abctree.Result, budget: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, dict[str, Any]]:
    ess = adjusted_ess(run.table.theta.shape[1], budget)
    extra: dict[str, Any] = {}
    try:
        raw = run.posterior(ess=ess)
    except abctree.ParameterError:
        # A particle so far out that the mixture of SMC's proposals overflows there.
        raw = run.posterior(weights="population")
        extra = {"weights": "population"}
    posterior = raw.adjusted("linear")
    if not posterior.is_adjusted or is_noise(raw, posterior):
        posterior = raw if extra else run.posterior()
    draws, h = smooth_draws(posterior, n, rng)
    return draws, {**_about(run, posterior), "bandwidth": h, **extra}


def is_noise(raw: Posterior, adjusted: Posterior) -> bool:
    """Whether the regression explains no parameter more than chance would, by an F test at 1 %.

    Where modes lie far apart, slopes are learned with the error that this distance makes, and
    moving the draws by them blurs what ε had left sharp.
    """
    before = unbound(raw.theta, raw.bounds)
    after = unbound(adjusted.theta, raw.bounds)
    weight = adjusted.weights
    spread = weight @ (before - weight @ before) ** 2
    left = weight @ (after - weight @ after) ** 2
    q = int(np.size(raw.observed))
    room = max(adjusted.ess - q - 1.0, 1.0)
    f = (spread - left) / np.maximum(left, 1e-300) * room / q
    return bool(stats.f.sf(np.max(f), q, room) * len(f) > 0.01)


def _about(run: abctree.Result, posterior: Any) -> dict[str, Any]:
    return {
        "seconds": round(run.seconds, 3),
        "epsilon": float(posterior.epsilon),
        "ess": round(float(posterior.ess), 1),
        "n": len(posterior),
        "adjusted": bool(posterior.is_adjusted),
    }


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))
