"""Whether a simulator and a constraint keep their contracts."""

from __future__ import annotations

from typing import Literal

import numpy as np

from abctree.keywords import checks_keywords
from abctree.protocols import Constraint, Prior
from abctree.testing.rule import call, require
from abctree.types import FloatArray, SimulatorFunction


@checks_keywords
def check_simulator(
    simulator: SimulatorFunction,
    prior: Prior,
    *,
    vectorized: bool | Literal["seeds"] = False,
) -> None:
    """Check that a simulator can be used as `abctree.Problem` says.

    At draws of the prior it must return numbers of one shape, draw them from what it is given only
    (the same seed gives the same data), and leave its arguments as they were.  With
    ``vectorized="seeds"`` a row must be its own, whatever rows come with it.

    Parameters
    ----------
    simulator : callable
        ``simulator(theta, rng) -> data`` of numbers.
    prior : Prior
        Says where.
    vectorized : bool or "seeds"
        As for `Problem`.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.

    Examples
    --------
    >>> from abctree.problem.priors import Product
    >>> check_simulator(lambda theta, rng: theta + rng.normal(), Product({"a": (0.0, 1.0)}))
    """
    n, generator = 10, np.random.default_rng(0)
    theta = prior.from_cube(generator.random((n, prior.d)))
    seeds = generator.integers(2**63, size=n).astype(np.uint64)

    def run(rows: slice) -> FloatArray:
        """Data (m, ...) of some rows."""
        if vectorized == "seeds":
            return _data(simulator, theta[rows], seeds[rows])
        if vectorized:
            return _data(simulator, theta[rows], np.random.default_rng(seeds[rows][0]))
        pairs = zip(theta[rows], seeds[rows], strict=True)
        data = [_data(simulator, row, np.random.default_rng(seed)) for row, seed in pairs]
        shapes = {item.shape for item in data}
        require(len(shapes) == 1, f"data must have one shape, but have {sorted(shapes)}.")
        return np.stack(data)

    data = run(slice(None))
    shape = data.shape
    require(shape[:1] == (n,), f"data of {n} rows must have shape ({n}, ...), but have {shape}.")
    require(
        np.array_equal(run(slice(None)), data, equal_nan=True),
        "a simulator must draw from what it is given only, but the same seed gave other data.",
    )
    if vectorized is not True:
        require(
            np.array_equal(run(slice(n - 2, n)), data[n - 2 :], equal_nan=True),
            "a row must depend on its theta and its seed only, but is another among others.",
        )


def _data(simulator: SimulatorFunction, theta: FloatArray, source: object) -> FloatArray:
    data = np.asarray(call("simulator", "every draw of the prior", "", simulator, theta, source))
    require(
        data.dtype.kind in "fiub", f"a simulator must return real numbers, but gives {data.dtype}."
    )
    return data


@checks_keywords
def check_constraint(constraint: Constraint, prior: Prior) -> None:
    """Check that a constraint keeps the contract of `abctree.protocols.Constraint`.

    Of a dict of columns it must make one boolean for each row, each row on its own, also of no
    rows, and leave the columns as they were.

    Parameters
    ----------
    constraint : callable
        A predicate on a dict of columns.
    prior : Prior
        What it restricts.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.

    Examples
    --------
    >>> from abctree.problem.priors import Product
    >>> prior = Product({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    >>> check_constraint(lambda t: t["a"] < t["b"], prior)
    """
    theta = prior.from_cube(np.random.default_rng(0).random((100, prior.d)))

    def allowed(rows: FloatArray) -> FloatArray:
        columns = dict(zip(prior.names, rows.T.copy(), strict=True))
        answer = np.asarray(call("constraint", "whole columns", "", constraint, columns))
        require(
            answer.shape == (len(rows),) and answer.dtype == np.bool_,
            f"a constraint must return {len(rows)} booleans for {len(rows)} rows, but gives "
            f"{answer.dtype} of shape {answer.shape}.",
        )
        return answer

    together = allowed(theta)
    alone = np.concatenate([allowed(theta[i : i + 1]) for i in range(100)])
    require(
        np.array_equal(together, alone),
        "a constraint must treat each row on its own, but some rows are judged otherwise alone.",
    )
    allowed(theta[:0])
