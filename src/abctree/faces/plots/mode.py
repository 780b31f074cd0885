"""The picture of a posterior mode: where it is, and how well it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from abctree.answers.mode import Mode
from abctree.answers.result import Result
from abctree.errors import ParameterError, warnings_kept
from abctree.faces.plots.canvas import (
    FAINT,
    INK,
    TRUTH,
    Grid,
    finished,
    grid_of_axes,
    legend_beside,
    number,
    widened,
)
from abctree.faces.plots.pair import draw_pairs, fit_pairs
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Points of an ellipse.
_POINTS = 121
#: Most accepted draws in a panel.
_DOTS = 3000


@checks_keywords
def mode(result: Result | Mode, level: float = 0.9, axes: object = None) -> Figure:
    """The mode and its error ellipse over the draws that the run accepted.

    The pair plot of the posterior at the tolerance of the answer, with all accepted draws as grey
    dots, and the mode as a red cross.  The solid ellipse has the two coordinates of the true mode
    of the ε-posterior with probability `level`, and the red bar on the diagonal one; the dashed
    ellipse has this share of the normal approximation of the posterior around the mode.  Hollow
    dots are the other candidates, the larger the denser.  Where no error is known there are no
    ellipses.

    Parameters
    ----------
    result : Result or Mode
        A run, or ``result.mode(epsilon)`` of one.
    level : float
        In (0, 1).
    axes : (p, p) array of matplotlib Axes, optional
        For p parameters.  Default: of a new figure.

    Raises
    ------
    ParameterError
        If `level` or `axes` does not fit.
    """
    check_rule("level", level, "in (0, 1)", "Try 0.9.")
    found = result.mode() if isinstance(result, Result) else result
    if not isinstance(found, Mode) or found.run is None:
        raise ParameterError(
            f"`result` must be a run, or a mode that has its run, but got {result!r}. Give "
            "result.mode() of a run."
        )
    p = len(found.names)
    grid = grid_of_axes(axes, (p, p))
    with warnings_kept():  # that nothing was accepted: it is seen
        epsilon = found.epsilon if np.isfinite(found.epsilon) else None
        draws = found.run.posterior(epsilon=epsilon)
    nowhere = np.full(p, np.nan)
    handles = draw_pairs(grid, {"posterior": draws}, range(p), nowhere)
    dots = draws.theta[-_DOTS:]
    for row in range(p):
        _draw_error(grid[row, row], found, row, level)
        for column in range(row):
            ax = grid[row, column]
            ax.scatter(dots[:, column], dots[:, row], s=3.0, c=FAINT, linewidths=0, zorder=0)
            _draw_pair(ax, found, [column, row], level)
    _include(grid, found, level)
    fit_pairs(grid)
    legend_beside(grid, [*handles, *_explained(found, level)], own=axes is None)
    return finished(grid[0, 0])


def _include(grid: Grid, found: Mode, level: float) -> None:
    """Limits with the mode and its whole ellipses, those of a parameter alike in all panels."""
    reach, radius = np.zeros(len(found.theta)), np.sqrt(special.chdtri(2, 1.0 - level))
    if found.covariance is not None:
        for covariance in (found.covariance, found.spread):
            if covariance is not None:
                reach = np.maximum(reach, radius * np.nan_to_num(np.sqrt(np.diag(covariance))))
    for j, value in enumerate(found.theta):
        limits, is_log = grid[j, j].get_xlim(), grid[j, j].get_xscale() == "log"
        for end in (float(value - reach[j]), float(value + reach[j])):
            if not is_log:
                limits = widened(limits, end)
            elif end > 0.0:
                limits = min(limits[0], end), max(limits[1], end)
        for ax in grid[j:, j]:
            ax.set_xlim(limits)
        for ax in grid[j, :j]:
            ax.set_ylim(limits)


def _explained(found: Mode, level: float) -> list[Artist]:
    """What the legend says of the mode."""
    from matplotlib.lines import Line2D

    def line(label: str, **style: Any) -> Artist:
        return Line2D([], [], color=TRUTH, label=label, **style)

    handles = [line("mode", marker="+", markersize=9.0, linestyle="none")]
    if len(found.candidates) > 1:
        handles.append(
            line("other candidates", marker="o", markerfacecolor="none", linestyle="none")
        )
    if found.covariance is not None:
        handles.append(line(f"error of the mode, {level:.0%}", linewidth=1.4))
        if found.spread is not None:
            handles.append(line(f"normal posterior, {level:.0%}", linestyle="--", linewidth=0.9))
    return handles


def _draw_error(ax: Axes, found: Mode, j: int, level: float) -> None:
    """The mode with its error as a title, and an interval."""
    value, error = float(found.theta[j]), float(found.standard_error[j])
    ax.axvline(value, color=TRUTH, linewidth=1.2)
    title = f"{found.names[j]}\n= {number(value, error)}"
    if error > 0.0:
        half = float(special.ndtri(0.5 + 0.5 * level)) * error
        ax.axvspan(value - half, value + half, color=TRUTH, alpha=0.3, linewidth=0)
        title += f" ± {error:.2g}"
    title = title if np.isfinite(value) else found.names[j]
    ax.set_title(title, fontsize="small", color=INK)


def _draw_pair(ax: Axes, found: Mode, columns: list[int], level: float) -> None:
    x, y = found.theta[columns]
    ax.plot(x, y, color=TRUTH, marker="+", markersize=9.0, linestyle="none", label="mode", zorder=6)
    rivals = found.candidates[1:]
    if rivals:
        x, y = np.array([other.theta[columns] for other in rivals]).T
        size = [30.0 * other.density for other in rivals]
        ax.scatter(x, y, s=size, facecolors="none", edgecolors=TRUTH, linewidths=1.0, zorder=4)
    if found.covariance is not None:
        x, y = _ellipse(found.theta[columns], found.covariance[np.ix_(columns, columns)], level)
        ax.plot(x, y, color=TRUTH, linewidth=1.4, label=f"mode, {level:.0%}", zorder=5)
    if found.spread is not None and found.covariance is not None:
        x, y = _ellipse(found.theta[columns], found.spread[np.ix_(columns, columns)], level)
        label = f"posterior, {level:.0%}"
        ax.plot(x, y, color=TRUTH, linewidth=0.9, linestyle="--", label=label, zorder=4)


def _ellipse(centre: FloatArray, covariance: FloatArray, level: float) -> FloatArray:
    """(2, m) The border of the ellipse that has this probability; a line if one error is 0."""
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0.0, sd, 1.0)
    value, vector = np.linalg.eigh(covariance / np.outer(scale, scale))
    angle = np.linspace(0.0, 2.0 * np.pi, _POINTS)
    n_known = int(np.count_nonzero(sd > 0.0)) or 1
    radius = np.sqrt(special.chdtri(n_known, 1.0 - level))
    circle = radius * np.stack([np.cos(angle), np.sin(angle)])
    spread = vector * np.sqrt(np.maximum(value, 0.0))
    return np.asarray(centre[:, None] + scale[:, None] * (spread @ circle))
