"""`from_table`: a result of simulations that were made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

import numpy as np

from abctree.answers.comparison import of_rows
from abctree.answers.result import Result
from abctree.errors import ParameterError, SimulatorError, warn, wrong
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.problem.form import Form, floats
from abctree.problem.labels import is_structured
from abctree.problem.measurement import finite_rows
from abctree.problem.priors.tabled import Tabled
from abctree.problem.ridge import varies
from abctree.protocols import Distance, Prior
from abctree.types import Data, FloatArray

#: How far the mean of weights may be from 1, beside five of its standard errors.
_FAR_FROM_ONE = 0.05


@checks_keywords
def from_table(
    theta: Mapping[str, Data] | Data,
    summary: Data,
    observed: Data,
    *,
    prior: Mapping[object, object] | Prior | None = None,
    distance: str | Callable[..., object] | Distance = "mad",
    weights: Data = None,
    missing: Literal["refuse", "ignore"] = "refuse",
) -> Result:
    """Read a table of simulations that were made elsewhere, as R's abc does.

    Every reading and check of a run works: `Result.posterior`, `answer`, `calibration`, `fit`,
    `evidence`, `mode`.

    Parameters
    ----------
    theta : (n, p) array_like, DataFrame or mapping of str to (n,) array_like
        Parameters, drawn from the prior, or else see `weights`.  Columns without names are called
        theta1, theta2, ...
    summary : (n, ...) array_like or DataFrame
        The summaries of their simulations; a row with nan is a failed simulation.  The columns of a
        DataFrame are put into the order of an `observed` with labels.
    observed : (...) array_like, Series or DataFrame of one row
        The observed summaries.
    prior : dict or Prior, optional
        As for `Problem`.  Default: what the columns of `theta` show, each on its own; adjusted
        draws then stay within their range.
    distance : str, callable or Distance
        As for `Problem`; what needs a scale takes it from the table.
    weights : (n,) array_like, optional
        Density of the prior over that of the proposal at each row.  Default: 1, prior draws.
    missing : {"refuse", "ignore"}
        What to do about nan, masked, NA or None in `observed`.  "ignore": these entries take no
        part in the distance.

    Returns
    -------
    Result
        As of `abctree.rejection` with all simulations kept.

    Raises
    ------
    ParameterError
        If lengths disagree, parameters or weights are not finite, no summary is, or no parameter
        varies.

    Warns
    -----
    AbctreeWarning
        If rows are copies of others, or the mean of `weights` is not 1: then the evidence is off.

    Examples
    --------
    >>> import numpy as np, abctree
    >>> rng = np.random.default_rng(1)
    >>> mu = rng.uniform(-5, 5, 1000)
    >>> result = abctree.from_table({"mu": mu}, rng.normal(mu)[:, None], [1.0])
    >>> result.posterior(ess=100).names
    ('mu',)
    """
    columns, names = _columns(theta)
    n = len(columns)
    if not varies(columns).any():
        raise wrong("theta", "have a column that varies", f"{n} rows of {columns[0].tolist()}")
    weight = np.ones(n) if weights is None else _weights(weights, n)
    _check_pairs(theta, "summary", summary)
    _check_pairs(theta, "weights", weights)
    own = Tabled(columns, names) if prior is None else prior
    if hasattr(observed, "iloc") and observed.ndim == 2 and len(observed) == 1:
        observed = observed.iloc[0]  # of a file that has a row for the data
    if missing not in ("refuse", "ignore"):
        raise wrong("missing", 'be "refuse" or "ignore"', repr(missing))
    problem = Problem(
        own, _no_simulator, observed, distance=distance, vectorized=True, missing=missing
    )
    if tuple(problem.names) != names and prior is not None:
        columns = _in_order(columns, names, problem.names)
    form = problem.model.form
    rows, shape = _rows(summary, form), problem.shape if form is None else form.shape
    if len(rows) != n:
        raise wrong("summary", f"have a row for each of the {n} rows of `theta`", len(rows))
    if rows.shape[1:] != shape:
        raise wrong("summary", f"have rows of shape {shape}, as the observation", rows.shape[1:])
    rows = rows if form is None else form.kept(rows, 1)
    _tell_copies(columns, rows)
    usable = finite_rows(rows)
    if not usable.any():
        raise ParameterError("`summary` must have a finite row, but all have nan or inf.")
    cube = problem.prior.to_cube(columns)
    if prior is not None:
        _check_support(problem.prior, columns, cube)
    problem = problem.fitted(rows[usable], cube[usable])
    far = np.full(n, np.inf)
    found = problem.measurement.checked_distances(rows[usable])
    far[usable] = np.where(np.isfinite(found), found, np.inf)
    return Result(
        **of_rows(problem, cube, columns, far, rows, weight, "the table has nan or inf"),
        stopped_because="a table made elsewhere",
        seconds=0.0,
        root=0,
    )


def _columns(theta: Mapping[str, Data] | Data) -> tuple[FloatArray, tuple[str, ...]]:
    """(n, p) and the names of the columns."""
    given: Any = theta
    held = tuple(given) if isinstance(given, Mapping) else getattr(given, "columns", None)
    held = given.dtype.names if is_structured(given) else getattr(given, "column_names", held)
    if held is not None:
        names = tuple(map(str, held))
        if len(set(names)) < len(names):
            raise wrong("theta", "have columns of different names", ", ".join(names))
        values = [_numbers("theta", given[name]) for name in held]
        if len({value.shape for value in values}) != 1 or not values or values[0].ndim != 1:
            raise ParameterError(
                "`theta` must have columns of one length, but got "
                f"{', '.join(str(value.shape) for value in values) or 'none'}."
            )
        columns = np.column_stack(values)
    else:
        columns = _numbers("theta", given)
        names = tuple(f"theta{j + 1}" for j in range(columns.shape[-1] if columns.ndim else 0))
    if columns.ndim != 2 or not columns.size:
        raise ParameterError(
            f"`theta` must have a row for each simulation and a column for each parameter, but "
            f"got shape {columns.shape}. For one parameter write np.reshape(theta, (-1, 1))."
        )
    if not np.isfinite(columns).all():
        raise ParameterError("`theta` must be finite, but has nan or inf. Leave these rows out.")
    return columns, names


def _numbers(name: str, given: Data) -> FloatArray:
    try:
        return floats(given, "it")
    except (TypeError, ValueError) as error:
        raise ParameterError(f"`{name}` must hold real numbers: {error}.") from None


def _weights(given: Data, n: int) -> FloatArray:
    """(n,) Positive weights; a warning where they are no ratios of two densities."""
    weight, rule = _numbers("weights", given), f"be {n} positive numbers"
    if weight.shape != (n,):
        raise wrong("weights", rule, f"shape {weight.shape}")
    bad = weight[~(np.isfinite(weight) & (weight > 0.0))]
    if len(bad):
        raise wrong("weights", rule, bad[0], "Leave out rows without weight.")
    mean = float(weight.mean())
    if abs(mean - 1.0) > _FAR_FROM_ONE + 5.0 * weight.std() / np.sqrt(n):
        warn(
            f"The mean of `weights` is {mean:.3g}, where that of densities of the prior over those "
            "of the proposal is 1: the evidence is off by as much, and nothing else, unless only a "
            "few rows of large weight, far from the data, are missing."
        )
    return weight


def _rows(summary: Data, form: Form | None) -> FloatArray:
    """(n, ...) The summaries, in the order of the observation's labels."""
    labels = None if form is None or form.summary is None else form.summary.axes[-1]
    if hasattr(summary, "iloc") and labels is not None:
        # Columns that are not observed are left out.
        summary = summary[[name for name in summary.columns if name in set(labels)]]
    try:
        return floats(summary, "it") if form is None else form.numbers(summary, "it", 1)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"`summary` must be like the observation: {error}") from None


def _check_pairs(theta: Data, name: str, value: Data) -> None:
    """Refuse two tables of pandas whose rows are labelled as those of other simulations."""
    one, other = (table.index if hasattr(table, "iloc") else None for table in (theta, value))
    if one is None or other is None or one.equals(other) or len(one) != len(other):
        return
    if set(one) != set(other):
        if _is_plain(one) or _is_plain(other):  # which may be no labels
            return
        strange = next(label for label in other if label not in set(one))
        raise ParameterError(
            f"`theta` and `{name}` must have the same rows, but {strange!r} is in the index of "
            f"`{name}` alone. Choose the same rows of both, or use .reset_index(drop=True)."
        )
    raise ParameterError(
        f"`theta` and `{name}` must have their rows in one order, but the index of one is that of "
        f"the other in another order. Use {name}.loc[theta.index]."
    )


def _is_plain(index: Any) -> bool:
    """Whether an index of pandas counts the rows from 0."""
    return list(index) == [*range(len(index))]


def _check_support(prior: Prior, columns: FloatArray, cube: FloatArray) -> None:
    """Refuse parameters that the prior cannot make."""
    back, size = prior.from_cube(cube), np.ptp(columns, axis=0) + np.abs(columns)
    row, j = np.unravel_index(np.argmax(np.abs(back - columns) - 1e-3 * size), columns.shape)
    if abs(back[row, j] - columns[row, j]) > 1e-3 * size[row, j]:
        raise ParameterError(
            f"`theta` must lie in the support of `prior`, but row {row} has {prior.names[j]} = "
            f"{columns[row, j]:.6g}, and the nearest there is {back[row, j]:.6g}. Give the prior "
            "that the table was drawn from."
        )


def _tell_copies(columns: FloatArray, rows: FloatArray) -> None:
    """Warn where rows are those of others, of parameters that are no whole numbers."""
    is_whole = (columns == np.round(columns)).all()
    if is_whole or len(np.unique(columns, axis=0)) == len(columns):
        return
    both = np.column_stack([columns, rows.reshape(len(rows), -1)])
    n = len(both) - len(np.unique(both, axis=0))
    if n:
        warn(
            f"{n} of the {len(both)} rows are copies of others, and count as if they were "
            "simulations of their own: all errors are too small. Drop the copies; of a sample that "
            "was drawn by weights give the rows once, and `weights`."
        )


def _in_order(columns: FloatArray, names: tuple[str, ...], wanted: tuple[str, ...]) -> FloatArray:
    if set(names) == set(wanted):
        return columns[:, [names.index(name) for name in wanted]]
    if names == tuple(f"theta{j + 1}" for j in range(len(wanted))):
        return columns
    raise wrong("theta", f"have the parameters of `prior`, {', '.join(wanted)}", ", ".join(names))


def _no_simulator(*_: object) -> NoReturn:
    """Stand for the simulations that are there already."""
    raise SimulatorError("A result made by abctree.from_table has no simulator to run again.")
