"""Pictures of what failed in a run: when, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import FAINT, TRUTH, figure_of, one_axes, quieten
from abctree.keywords import checks_keywords
from abctree.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Simulations that a cell should hold on average, and least and most cells along a parameter.
_IN_A_CELL, _FEWEST, _MOST = 20, 4, 30
#: Share of the simulations that the picture shows along a parameter: tails may be endless.
_SHOWN = 0.99


@checks_keywords
def failures(result: Result, ax: Axes | None = None) -> Figure:
    """Share of the simulations of each round that failed; the pilot is round 0.

    Where none failed the picture says so.

    Parameters
    ----------
    result : Result
        A run whose table has all its simulations.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the table has the closest simulations only.
    """
    _failed(result)
    ax = one_axes(ax, 5.0, 2.6)

    from matplotlib.ticker import MaxNLocator

    share = result.failures.by_round
    ax.bar(np.arange(len(share)), share, color=TRUTH, width=0.8)
    if not result.failures.count:
        said = f"none of {result.n_simulations} simulations failed"
        ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center", va="center", color=FAINT)
    ax.set_xlabel("round")
    ax.set_ylabel("share that failed")
    ax.set_ylim(0.0, max(1.05 * float(share.max(initial=0.0)), 0.01))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    quieten(ax)
    return figure_of(ax)


@checks_keywords
def failure_map(
    result: Result, parameters: Sequence[str] | None = None, ax: Axes | None = None
) -> Figure:
    """Share of the simulations that failed, over one parameter or two.

    All simulations of the run count, wherever they were drawn from.  A cell without any is empty.
    The outermost simulations, 1 % along each parameter, are left out.

    Parameters
    ----------
    result : Result
        A run whose table has all its simulations.
    parameters : sequence of str, optional
        Names of one or two.  Default: those two along which the share varies most.
    ax : matplotlib Axes, optional
        Default: of a new figure.

    Raises
    ------
    ParameterError
        If the table has the closest simulations only, or a name is wrong.
    """
    failed, theta = _failed(result), result.table.theta
    columns = _columns(result.problem.names, theta, failed, parameters)
    n_cells = int((len(theta) / _IN_A_CELL) ** (1.0 / len(columns)))
    edges = [_edges(theta[:, j], int(np.clip(n_cells, _FEWEST, _MOST))) for j in columns]
    share = _share(theta[:, columns], failed, edges)
    ax = one_axes(ax, 4.6, 3.6)
    names = [result.problem.names[j] for j in columns]
    ax.set_xlabel(names[0])
    if len(columns) == 1:
        ax.stairs(share, edges[0], baseline=None, color=TRUTH, linewidth=1.6)
        ax.set_ylabel("share that failed")
        ax.set_ylim(-0.02, 1.02)
    else:
        cells = ax.pcolormesh(*edges, share.T, cmap="Reds", vmin=0.0, vmax=1.0)
        ax.set_facecolor(FAINT)
        ax.set_ylabel(names[1])
        figure_of(ax).colorbar(cells, ax=ax, label="share that failed")
    quieten(ax)
    return figure_of(ax)


def _failed(result: Result) -> BoolArray:
    check_is_run(result)
    failed = ~np.isfinite(result.table.distance)
    if np.count_nonzero(failed) < result.failures.count:
        raise ParameterError(
            f"`result` must hold all its simulations, but its table has the closest "
            f"{len(result.table)} of {result.n_simulations} only, and not those that failed."
        )
    return np.asarray(failed)


def _columns(
    names: tuple[str, ...], theta: FloatArray, failed: BoolArray, wanted: Sequence[str] | None
) -> list[int]:
    if wanted is None:
        free = [j for j in range(len(names)) if theta[:, j].min() < theta[:, j].max()]
        if not free:
            raise wrong("result", "hold simulations at different parameters", f"{len(theta)}")
        varies = {j: _variation(theta[:, j], failed) for j in free}
        return sorted(sorted(free, key=lambda j: -varies[j])[:2])
    if not 1 <= len(wanted) <= 2 or not set(wanted) <= set(names):
        raise wrong("parameters", f"be one or two of {list(names)}", list(wanted))
    return [names.index(name) for name in wanted]


def _variation(column: FloatArray, failed: BoolArray) -> float:
    """How much of the variance of failing or not a parameter explains."""
    cell = _cell(column, _edges(column, _FEWEST))
    made = np.bincount(cell, minlength=_FEWEST)
    share = np.bincount(cell, weights=failed, minlength=_FEWEST) / np.maximum(made, 1)
    return float(made @ (share - failed.mean()) ** 2)


def _edges(column: FloatArray, n: int) -> FloatArray:
    tail = 0.5 * (1.0 - _SHOWN)
    low, high = np.quantile(column, [tail, 1.0 - tail])
    if low == high:  # nearly all are at one value
        low, high = column.min(), column.max()
    return np.linspace(low, high, n + 1)


def _cell(column: FloatArray, edges: FloatArray) -> IntArray:
    return np.clip(np.searchsorted(edges, column, side="right") - 1, 0, len(edges) - 2)


def _share(theta: FloatArray, failed: BoolArray, edges: list[FloatArray]) -> FloatArray:
    made, _ = np.histogramdd(theta, edges)
    lost, _ = np.histogramdd(theta[failed], edges)
    return np.where(made > 0, lost / np.maximum(made, 1), np.nan)
