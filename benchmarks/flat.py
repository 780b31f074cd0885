"""Problems of which data do not say all: ridges, and parameters that nothing informs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import abctree
from abctree.answers.mode import find_mode, from_run

TEN, FIVE = (0.0, 10.0), (0.0, 5.0)
#: Priors, what the noise is added to, and its size; the observation is 6.
RIDGES: dict[str, tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray], float]] = {
    "b N": ({"b": TEN, "N": TEN}, lambda t: t[:, 0] * t[:, 1], 0.05),
    "4 a / b": ({"a": (0.1, 10.0), "b": (0.1, 10.0)}, lambda t: 4.0 * t[:, 0] / t[:, 1], 0.2),
    "circle": ({"a": TEN, "b": TEN}, lambda t: np.hypot(t[:, 0], t[:, 1]), 0.2),
    "a b c": ({"a": FIVE, "b": FIVE, "c": FIVE}, lambda t: t.prod(axis=1), 0.1),
    "a + b + c": ({"a": FIVE, "b": FIVE, "c": FIVE}, lambda t: t.sum(axis=1), 0.3),
    "b N, and one more": ({"b": TEN, "N": TEN, "n": (0.0, 1.0)},
                          lambda t: t[:, 0] * t[:, 1], 0.05),
}  # fmt: skip

#: The prior of the one parameter that is informed, and the size of the noise.
INFORMED: dict[str, tuple[Any, float]] = {
    "uniform": ((-5.0, 5.0), 1.0),
    "uniform, small noise": ((-5.0, 5.0), 0.1),
    "normal": (stats.norm(0.0, 3.0), 1.0),
    "exponential": (stats.expon(scale=3.0), 1.0),
    "on its border": ((1.0, 5.0), 1.0),
}


def ridge(name: str) -> abctree.Problem:
    """One number is seen of two or three parameters."""
    prior, mean, noise = RIDGES[name]
    return abctree.Problem(prior, partial(_noisy, mean, noise), 6.0, vectorized=True)


def uninformed(name: str, n_flat: int) -> abctree.Problem:
    """The first parameter is seen, the others are not."""
    prior, noise = INFORMED[name]
    flat = {f"n{j + 1}": (0.0, 1.0) for j in range(n_flat)}
    return abctree.Problem(
        {"a": prior, **flat}, partial(_noisy, lambda t: t[:, 0], noise), 1.0, vectorized=True
    )


def _noisy(
    mean: Callable[[np.ndarray], np.ndarray], noise: float, theta: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    return mean(theta) + noise * rng.normal(size=len(theta))


def rows_of(
    run: Callable[[], abctree.Result], tables: Path | None, *name: str | int
) -> dict[str, np.ndarray]:
    """What `find_mode` reads of a run: from the file of that name where there is one."""
    path = (tables or Path()) / (re.sub(r"[^\w+]+", "_", "-".join(map(str, name))) + ".npz")
    if tables is not None and path.exists():
        with np.load(path) as kept:
            return dict(kept)
    made = run()
    known = {k: v for k, v in from_run.known_of(made).items() if isinstance(v, np.ndarray)}
    rows = {"theta": made.table.theta, "distance": made.table.distance, **known}
    if tables is not None:
        tables.mkdir(parents=True, exist_ok=True)
        np.savez(path, **rows)
    return rows


def claims_an_error(name: str, n: int, seed: int, tables: Path | None = None) -> bool:
    """Whether a run on a ridge gives any parameter of it an error."""
    run = partial(abctree.abc_tree, ridge(name), n_simulations=n, rng=seed, proposal="boxes")
    mode = find_mode(**rows_of(run, tables, "ridges", name, n, seed))
    return bool(np.isfinite(mode.standard_error[: 3 if " c" in name else 2]).any())


def spreads(
    name: str, n_flat: int, n: int, seed: int, tables: Path | None = None
) -> dict[str, Any]:
    """The largest spread beside the prior's, and whether a parameter that is flat has an error."""
    run = partial(
        abctree.abc_tree, uninformed(name, n_flat), n_simulations=n, rng=seed, proposal="boxes"
    )
    mode = find_mode(**rows_of(run, tables, "flat", name, n_flat, n, seed))
    prior = np.sqrt([_variance(INFORMED[name][0]), *[1.0 / 12.0] * n_flat])
    spread = np.full(len(prior), np.nan) if mode.spread is None else np.sqrt(np.diag(mode.spread))
    return {
        "largest": float(np.nanmax(spread / prior)) if mode.spread is not None else None,
        "error of flat": bool(np.isfinite(mode.standard_error[1:]).any()),
        "named": "flat along" in " ".join(mode.notes),
        "error of the other": bool(np.isfinite(mode.standard_error[0])),
    }


def _variance(prior: Any) -> float:
    if isinstance(prior, tuple):
        return (prior[1] - prior[0]) ** 2 / 12.0
    return float(prior.var())
