"""The answer against the tolerance: flat to the left is done."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.errors import AbctreeWarning, ParameterError
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    TRUTH,
    figure_of,
    fit_texts,
    grid_of_axes,
    legend_above,
    plain_ticks,
    quieten,
    short_ticks,
)
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Tolerances that are read, and the least effective sample size among them.
_READINGS, _FEWEST = 16, 30.0
_BAND = (0.05, 0.95)
#: Bands at tolerances beyond so many times that of the answer may leave the picture.
_NEAR = 2.0


@checks_keywords
def tolerance(result: Result, axes: object = None, n: int = _READINGS) -> Figure:
    """Mean and 90 % band of each parameter as the tolerance falls, from right to left.

    What the table says at n tolerances, from the largest effective sample size that it has to one
    of 30: the draws as they are, shaded; and, where summaries were kept, moved by a ridge
    regression, dashed.  The dot is `Result.answer`; if that is by other summaries, it stands at the
    tolerance of as large an effective sample size.  A mean that still moves on the left has not
    arrived; a band that frays there has too few draws.

    Parameters
    ----------
    result : Result
        A run.
    axes : array of matplotlib Axes, optional
        One for each parameter that is not fixed.  Default: of a new figure.
    n : int
        Tolerances, at least 2.

    Raises
    ------
    ParameterError
        If nothing was accepted, or `axes` or `n` does not fit.
    """
    check_is_run(result)
    check_rule("n", n, "at least 2", "Leave it out.")
    found = readings(result, n)
    if not found:
        raise ParameterError("`result` must have accepted simulations, but has none. Run more.")
    answer = result.answer()
    at = tolerance_of(result, answer)
    shown = free_columns(found[0])
    grid = grid_of_axes(axes, (len(shown), 1), (6.5, 0.9 + 1.5 * len(shown)))[:, 0]
    moved = [m for m in map(adjusted_or_none, found) if m is not None]
    for ax, j in zip(grid, shown, strict=True):
        _draw(ax, found, moved, j)
        low, high = answer.quantile(_BAND)[:, j]
        near = [p for p in (*found, *moved) if p.epsilon <= _NEAR * at]
        ends = np.concatenate([[low, high], *(p.quantile(_BAND)[:, j] for p in near)])
        room = 0.08 * np.ptp(ends) or 1.0
        ax.set_ylim(ends.min() - room, ends.max() + room)
        where = [at], [answer.mean()[j]]
        ax.vlines(at, low, high, color=TRUTH, linewidth=1.6)
        ax.plot(*where, "o", color=TRUTH, markersize=5.0, label="answer")
        unit = short_ticks(ax.yaxis, ax.get_ylim()).strip()
        ax.set_ylabel("\n".join(filter(None, (answer.names[j], unit))))
        ax.tick_params(labelbottom=ax is grid[-1])
    grid[-1].set_xlabel("tolerance ε")
    fit_texts([(ax, ax.yaxis.label) for ax in grid])
    figure = figure_of(grid[0])
    figure.align_ylabels(list(grid))
    legend_above(grid[0])
    return figure


def _draw(ax: Axes, found: list[Posterior], moved: list[Posterior], j: int) -> None:
    epsilon, mean, low, high = _series(found, j)
    ax.fill_between(epsilon, low, high, color=DRAWS, alpha=0.18, linewidth=0, label="90 %")
    ax.plot(epsilon, mean, color=DRAWS, marker="o", markersize=3.0, label="mean")
    if moved:
        epsilon, mean, low, high = _series(moved, j)
        ax.plot(epsilon, mean, "--", color=TRUTH, linewidth=1.0, label="adjusted")
        for end in (low, high):
            ax.plot(epsilon, end, ":", color=TRUTH, linewidth=0.9)
    if found[-1].epsilon > 0.0:
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
    ax.grid(axis="y", color=FAINT, alpha=0.3, linewidth=0.6)
    quieten(ax)


def _series(found: list[Posterior], j: int) -> FloatArray:
    """(4, n) Tolerances, means, and the ends of the band of one parameter."""
    rows = [[p.epsilon, p.mean()[j], *p.quantile(_BAND)[:, j]] for p in found]
    return np.transpose(rows)


def tolerance_of(result: Result, draws: Posterior) -> float:
    """That of some draws of a run, or by other summaries that of as good a posterior by its own."""
    if draws.summaries == "own":
        return draws.epsilon
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AbctreeWarning)  # the best there is will do
        return result.posterior(ess=draws.ess).epsilon


def readings(result: Result, n: int = _READINGS) -> list[Posterior]:
    """Posteriors at up to n falling tolerances, the widest first; none if nothing was accepted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AbctreeWarning)  # of what is out of reach: none of it is
        widest = result.posterior(ess=float(result.n_simulations))
        if len(widest) < 2:
            return []
        least = result.posterior(ess=min(_FEWEST, 0.5 * widest.ess)).epsilon
        between = np.linspace(1.0, 0.0, n)[1:]
        wanted = least + (widest.epsilon - least) * between
        if least > 0.0:
            wanted = least * (widest.epsilon / least) ** between
        found = [widest, *(result.posterior(epsilon=float(epsilon)) for epsilon in wanted)]
    return [draws for draws in found if len(draws) > 1]


def adjusted_or_none(draws: Posterior) -> Posterior | None:
    """The draws moved by a ridge regression; None where there is nothing to regress on."""
    if draws.summary is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AbctreeWarning)
        moved = draws.adjusted()
    return moved if moved.is_adjusted else None


def free_columns(draws: Posterior) -> list[int]:
    """Numbers of the parameters that vary; of the first if none does."""
    varies = np.ptp(draws.theta, axis=0) > 0.0
    return [int(j) for j in np.flatnonzero(varies)] or [0]
