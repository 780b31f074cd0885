"""Pictures of how a run went, and of what the posterior predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.answers.weighted import Weighted
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import (
    DRAWS,
    INK,
    TRUTH,
    check_parallel,
    figure_of,
    grid_of_axes,
    legend_above,
    one_axes,
    plain_ticks,
    quieten,
)
from abctree.keywords import checks_keywords
from abctree.problem.form import WrongTypeError, floats
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@checks_keywords
def progress(result: Result, axes: object = None) -> Figure:
    """Tolerance, acceptance rate, effective sample size, evidence and seconds of every round.

    Over the simulations made, on log axes.  The evidence is Z(ε), read from the whole table at the
    tolerance of the round, with two standard errors.  The pilot has no tolerance and is left out.
    A round that accepted nothing has no place on a log axis: it leaves a gap.

    Parameters
    ----------
    result : Result
        A run.
    axes : five matplotlib Axes, optional
        In this order.  Default: of a new figure.

    Raises
    ------
    ParameterError
        If `axes` are not five.
    """
    check_is_run(result)
    if axes is None:
        grid = grid_of_axes(None, (3, 2), (7.5, 6.4)).ravel()
        grid[5].set_axis_off()
    else:
        grid = grid_of_axes(axes, (1, 5)).ravel()
    played = result.rounds[1:]
    end = np.array([r.last for r in played], dtype=np.float64)
    found = [result.evidence(r.epsilon) for r in played]
    evidence = np.array([z.estimate for z in found])
    _over(grid[0], end, "tolerance ε", [r.epsilon for r in played])
    _over(grid[1], end, "acceptance rate", [r.acceptance_rate for r in played])
    _over(grid[2], end, "effective sample size", [r.ess for r in played])
    _over(grid[3], end, "evidence at ε", evidence)
    _over(grid[4], end, "seconds", result.seconds_by_round[1:])
    known = evidence > 0.0
    error = np.exp(2.0 * np.array([z.standard_error for z in found])[known] / evidence[known])
    band = evidence[known] / error, evidence[known] * error
    grid[3].fill_between(end[known], *band, color=DRAWS, alpha=0.2, linewidth=0)
    return figure_of(grid[0])


def _over(ax: Axes, end: FloatArray, label: str, values: Sequence[float] | FloatArray) -> None:
    """Values of rounds over the simulations at their ends; none where nobody knows them."""
    value = np.array(values, dtype=np.float64)
    value[~(value > 0.0)] = np.nan
    ax.plot(end[: len(value)], value, color=DRAWS, marker="o", markersize=3.5, linewidth=1.2)
    ax.set(ylabel=label, xlabel="simulations", xscale="log")
    plain_ticks(ax.xaxis)
    if np.isfinite(value).any():
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    quieten(ax)


@checks_keywords
def predictive(
    x: Result | FloatArray | Sequence[float],
    observed: FloatArray | Sequence[float] | None = None,
    draws: FloatArray | None = None,
    weights: FloatArray | None = None,
    ax: Axes | None = None,
) -> Figure:
    """An observed series over the median and the central 50 and 90 % of simulated ones.

    Bands hold at each x by itself, not for a whole path at once.

    Parameters
    ----------
    x : Result or (m,) array
        A run, whose `Result.predict` makes 200 new simulations, drawn as they are if all have the
        shape of the data, else as summaries.  Or where series were observed, such as years; then
        `observed` and `draws` are needed.
    observed : (m,) array, optional
        The observation.
    draws : (n, m) array, optional
        Simulated series; none leave the observation alone.
    weights : (n,) array, optional
        Of the simulated series, up to a constant.  Default: equal.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the shapes do not fit.
    """
    label = ("", "")
    if isinstance(x, Result):
        label, observed, draws = _predicted(x)
        x = np.arange(len(observed), dtype=np.float64)
    if observed is None or draws is None:
        raise ParameterError(
            "`observed` and `draws` must be given with `x`, but are None. Or give a run alone."
        )
    x, observed = np.asarray(x, dtype=np.float64), np.asarray(observed, dtype=np.float64)
    draws = np.asarray(draws, dtype=np.float64)
    check_parallel("observed", len(observed), len(x), "values, one for each x")
    if draws.ndim != 2 or draws.shape[1] != len(x):
        raise wrong("draws", f"be of shape (n, {len(x)})", draws.shape, "One series a row.")
    weights = np.ones(len(draws)) if weights is None else np.asarray(weights, dtype=np.float64)
    check_parallel("weights", len(weights), len(draws), "values, one for each series")
    ax = one_axes(ax, 7.0, 3.2)
    quieten(ax)
    if weights.sum() > 0.0:
        band = weighted_quantiles(draws, weights, (0.05, 0.25, 0.5, 0.75, 0.95))
        ax.fill_between(x, band[0], band[4], color=DRAWS, alpha=0.18, linewidth=0, label="90 %")
        ax.fill_between(x, band[1], band[3], color=DRAWS, alpha=0.30, linewidth=0, label="50 %")
        ax.plot(x, band[2], color=DRAWS, linewidth=1.4, label="median")
    ax.plot(
        x, observed, color=INK, linewidth=0.8, marker="o", markersize=4.0,
        markerfacecolor=TRUTH, markeredgecolor="white", markeredgewidth=0.6, label="observed",
    )  # fmt: skip
    ax.set(xlabel=label[0], ylabel=label[1])
    if label[0]:  # a number
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_above(ax)
    return figure_of(ax)


def _predicted(result: Result) -> tuple[tuple[str, str], FloatArray, FloatArray]:
    """Labels of the axes, the observation (m,) and simulations (n, m) of posterior draws."""
    found = result.predict()
    try:
        data, observed = found.array, floats(result.problem.observed, "observed")
    except (ParameterError, WrongTypeError):
        data, observed = found.summary, found.observed
    if data.shape[1:] != observed.shape:
        data, observed = found.summary, found.observed
    what = "summary" if data is found.summary else "datum"
    label = f"number of the {what}", "data" if what == "datum" else what
    return label, observed.ravel(), data.reshape(len(data), -1)


@checks_keywords
def weighted_quantiles(
    value: FloatArray, weight: FloatArray, levels: Sequence[float] | FloatArray
) -> FloatArray:
    """Quantiles of each column: the smallest value with P(column <= value) >= level.

    Parameters
    ----------
    value : (n, m) array
        Draws of m numbers; at least one row.
    weight : (n,) array
        >= 0, not all 0.
    levels : (k,) array_like
        In [0, 1].

    Returns
    -------
    (k, m) array

    Raises
    ------
    ParameterError
        If there is no weight.
    """
    if not (weight > 0.0).any():
        raise ParameterError("`weight` must have a positive entry, but has none.")
    wanted = np.asarray(levels, dtype=np.float64)
    columns = [Weighted.of(column, weight).quantile(wanted) for column in value.T]
    return np.reshape(columns, (-1, len(wanted))).T
