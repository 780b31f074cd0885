"""The pair plot of a weighted posterior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    INK,
    TRUTH,
    figure_of,
    grid_of_axes,
    is_whole,
    number,
    quieten,
    widened,
)
from abctree.faces.plots.series import weighted_quantiles
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From this effective sample size on a smooth two-dimensional density is drawn.
_ESS_DENSITY = 100.0
#: Cells a side of that density.
_CELLS = 64
#: Masses inside its contours.
_MASSES = np.array([0.95, 0.9, 0.75, 0.5, 0.25])
#: Most points of a scatter.
_POINTS = 3000
#: A spread below this share of the value is rounding: the parameter is constant.
_CONSTANT = 1e-12


@checks_keywords
def pair(
    posterior: Posterior,
    truth: Mapping[str, float] | Sequence[float] | FloatArray | None = None,
    names: Sequence[str] | None = None,
    bins: int | None = None,
    axes: object = None,
) -> Figure:
    """Weighted marginals of each parameter, and of each pair of them.

    On the diagonal a weighted histogram, the mean (line) and the shortest interval with 90 % of
    the posterior (bar); below it the weighted density of two parameters, darker where the 25, 50,
    75, 90 and 95 % of highest density lie, or, with few draws or a discrete parameter, the draws,
    the heavier the darker.  A discrete parameter gets a bar for each value, a constant one a
    single bar.  The outermost 0.1 % of the posterior on either side may lie beyond the limits.

    Parameters
    ----------
    posterior : Posterior
        Any number of draws, none included.
    truth : dict or (p,) array, optional
        Values to mark, by name or one for each parameter; nan for none.  The limits include them.
    names : sequence of str, optional
        Parameters to show, in this order.  Default: all.
    bins : int, optional
        Of the histograms.  Default: by the effective sample size, 5 to 40.
    axes : (k, k) array of matplotlib Axes, optional
        For k parameters.  Default: of a new figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ParameterError
        If a name is unknown, or `truth`, `bins` or `axes` do not fit.
    MissingDependencyError
        If matplotlib is not installed.
    """
    if not isinstance(posterior, Posterior):
        raise ParameterError(
            f"`posterior` must be a Posterior, but got a {type(posterior).__name__}. "
            "Give result.posterior()."
        )
    shown = _columns(posterior, names)
    values = _truth(posterior, truth)
    check_rule("bins", bins, "at least 1 or None", "Leave it out.")
    margins = [_margin(posterior, j, values[j]) for j in shown]
    k = len(margins)
    grid = grid_of_axes(axes, (k, k))
    # Bins grow with the cube root of the draws (Freedman and Diaconis).
    n_bins = bins or int(np.clip(round(2.5 * posterior.ess ** (1.0 / 3.0)), 5, 40))
    for row in range(k):
        for column in range(k):
            ax = grid[row, column]
            if column > row:
                ax.set_axis_off()
                continue
            if column == row:
                _draw_margin(ax, margins[row], n_bins)
            else:
                _draw_pair(ax, margins[column], margins[row], posterior.ess)
                ax.set_ylim(margins[row].limits)
                ax.tick_params(labelleft=column == 0)
                if column == 0:
                    ax.set_ylabel(margins[row].name)
            ax.set_xlim(margins[column].limits)
            ax.tick_params(labelbottom=row == k - 1)
            if row == k - 1:
                ax.set_xlabel(margins[column].name)
    figure = figure_of(grid[0, 0])
    figure.align_ylabels(list(grid[:, 0]))
    return figure


# What is known of one parameter -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Margin:
    """One parameter of the draws that have weight."""

    name: str
    value: FloatArray  #: (m,)
    weight: FloatArray  #: (m,) sums to one, if there are any
    kind: Literal["continuous", "discrete", "constant", "empty"]
    limits: tuple[float, float]
    mean: float
    interval: tuple[float, float]
    truth: float  #: nan for none


def _columns(posterior: Posterior, names: Sequence[str] | None) -> list[int]:
    chosen = posterior.names if names is None else tuple(names)
    unknown = [name for name in chosen if name not in posterior.names]
    if unknown or not chosen:
        raise wrong("names", f"be some of {', '.join(posterior.names)}", list(chosen))
    return [posterior.names.index(name) for name in chosen]


def _truth(posterior: Posterior, truth: object) -> FloatArray:
    p = len(posterior.names)
    if truth is None:
        return np.full(p, np.nan)
    if isinstance(truth, Mapping):
        unknown = [name for name in truth if name not in posterior.names]
        if unknown:
            raise wrong("truth", f"name some of {', '.join(posterior.names)}", unknown)
        return np.array([float(truth.get(name, np.nan)) for name in posterior.names])
    values = np.asarray(truth, dtype=np.float64)
    if values.shape != (p,):
        raise ParameterError(
            f"`truth` must be one number for each of {', '.join(posterior.names)}, but got shape "
            f"{values.shape}. A dict by name may leave some out."
        )
    return values


def _margin(posterior: Posterior, j: int, truth: float) -> _Margin:
    kept = posterior.weights > 0.0
    value, weight = posterior.theta[kept, j], posterior.weights[kept]
    kind = _kind(posterior, j, value)
    low, high = posterior.hdi(0.9)[j]
    return _Margin(
        name=posterior.names[j],
        value=value,
        weight=weight,
        kind=kind,
        limits=widened(_limits(posterior, j, kind, value, weight), truth),
        mean=float(posterior.mean()[j]),
        interval=(float(low), float(high)),
        truth=truth,
    )


def _kind(
    posterior: Posterior, j: int, value: FloatArray
) -> Literal["continuous", "discrete", "constant", "empty"]:
    if len(value) == 0:
        return "empty"
    if np.ptp(value) <= _CONSTANT * np.abs(value).max():
        return "constant"
    if posterior.continuous is not None:
        return "continuous" if posterior.continuous[j] else "discrete"
    return "discrete" if is_whole(value).all() else "continuous"


def _limits(
    posterior: Posterior, j: int, kind: str, value: FloatArray, weight: FloatArray
) -> tuple[float, float]:
    bounds = posterior.bounds
    lowest, highest = (-np.inf, np.inf) if bounds is None else bounds[j].tolist()
    if kind == "empty":
        bounded = np.isfinite([lowest, highest]).all() and lowest < highest
        return (lowest, highest) if bounded else (0.0, 1.0)
    low, high = weighted_quantiles(value[:, None], weight, (0.001, 0.999))[:, 0]
    if kind == "discrete":
        room = _gap(value) / 2.0
        return float(low - room), float(high + room)
    if kind == "constant" or low == high:
        room = 0.5 * abs(low) or 0.5
        return float(low - room), float(high + room)
    room = 0.08 * (high - low)
    return float(max(low - room, min(low, lowest))), float(min(high + room, max(high, highest)))


def _gap(value: FloatArray) -> float:
    """The smallest distance of two values of a discrete parameter."""
    distinct = np.unique(value)
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0


# The diagonal -----------------------------------------------------------------------------------


def _draw_margin(ax: Axes, margin: _Margin, bins: int) -> None:
    quieten(ax)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    if margin.kind == "empty":
        ax.text(0.5, 0.5, "no draws", transform=ax.transAxes, ha="center", va="center", color=FAINT)
    elif margin.kind == "continuous":
        _histogram(ax, margin, bins)
    else:
        _bars(ax, margin)
    if margin.kind in ("continuous", "discrete"):
        ax.axvline(margin.mean, color=INK, linewidth=1.2, label="mean")
        ax.plot(
            margin.interval, (0.0, 0.0), color=INK, linewidth=4.0, solid_capstyle="butt",
            label="90 %", clip_on=False, zorder=3,
        )  # fmt: skip
    ax.set_ylim(bottom=0.0)
    if np.isfinite(margin.truth):
        ax.axvline(margin.truth, color=TRUTH, linewidth=1.2, linestyle="--", label="truth")
    ax.set_title(_caption(margin), fontsize="small", color=INK)


def _histogram(ax: Axes, margin: _Margin, bins: int) -> None:
    inside = (margin.value >= margin.limits[0]) & (margin.value <= margin.limits[1])
    value = margin.value[inside]
    edges = np.linspace(value.min(), value.max(), bins + 1)
    if not (np.diff(edges) > 0.0).all():  # the few draws inside are equal
        _bars(ax, margin)
        return
    mass, _ = np.histogram(value, edges, weights=margin.weight[inside])
    density = mass / np.diff(edges)
    ax.stairs(density, edges, fill=True, color=DRAWS, alpha=0.35)
    ax.stairs(density, edges, color=DRAWS, linewidth=1.2)
    ax.set_ylim(0.0, 1.1 * float(density.max()))


def _bars(ax: Axes, margin: _Margin) -> None:
    """The probability of each value."""
    value, which = np.unique(margin.value, return_inverse=True)
    if margin.kind == "constant":
        value, which = value[:1], np.zeros_like(which)
    probability = np.bincount(which.ravel(), weights=margin.weight)
    width = 0.8 * _gap(value) if len(value) > 1 else 0.04 * (margin.limits[1] - margin.limits[0])
    ax.bar(value, probability, width=width, color=DRAWS, alpha=0.55)
    ax.set_ylim(0.0, 1.1 * float(probability.max()))


def _caption(margin: _Margin) -> str:
    if margin.kind == "empty":
        return margin.name
    spread = margin.interval[1] - margin.interval[0]
    mean = number(margin.mean, spread)
    if margin.kind == "constant":
        return f"{margin.name} = {mean}"
    whole = margin.kind == "discrete" and is_whole(margin.value).all()
    low, high = (f"{end:g}" if whole else number(end, spread) for end in margin.interval)
    return f"{margin.name} = {mean}  [{low}, {high}]"


# Below the diagonal -----------------------------------------------------------------------------


def _draw_pair(ax: Axes, x: _Margin, y: _Margin, ess: float) -> None:
    quieten(ax)
    smooth = ess >= _ESS_DENSITY and x.kind == y.kind == "continuous"
    if not (smooth and _density(ax, x, y, ess)):
        _scatter(ax, x, y)
    if np.isfinite(x.truth):
        ax.axvline(x.truth, color=TRUTH, linewidth=0.8, linestyle="--")
    if np.isfinite(y.truth):
        ax.axhline(y.truth, color=TRUTH, linewidth=0.8, linestyle="--")


def _scatter(ax: Axes, x: _Margin, y: _Margin, *, size: float = 14.0, most: float = 0.8) -> None:
    """Draws, or, where both are discrete, pairs of values; the heavier the darker."""
    a, b, weight = x.value, y.value, x.weight
    if len(a) == 0:
        return
    if {x.kind, y.kind} <= {"discrete", "constant"}:
        points, which = np.unique(np.column_stack([a, b]), axis=0, return_inverse=True)
        weight = np.asarray(np.bincount(which.ravel(), weights=weight), dtype=np.float64)
        a, b, size = points[:, 0], points[:, 1], 120.0
    chosen = np.argsort(-weight, kind="stable")[:_POINTS]
    weight = weight[chosen]
    alpha = most * np.clip(weight / weight.max(), 0.02, 1.0)
    ax.scatter(a[chosen], b[chosen], s=size, c=DRAWS, alpha=alpha, linewidths=0)


def _density(ax: Axes, x: _Margin, y: _Margin, ess: float) -> bool:
    """Filled contours of highest density, and the draws beyond; False if they cannot be drawn."""
    grid = [np.linspace(*m.limits, _CELLS + 1) for m in (x, y)]
    mass, _, _ = np.histogram2d(x.value, y.value, bins=grid, weights=x.weight)
    from scipy.ndimage import gaussian_filter

    # At a bound of the prior the kernel is reflected, so that no mass leaks out.
    mass = gaussian_filter(mass, [_bandwidth(m, ess) for m in (x, y)], mode="reflect")
    levels = _levels(mass)
    if len(levels) < 3:
        return False
    _scatter(ax, x, y, size=4.0, most=0.35)
    centre = [(edges[1:] + edges[:-1]) / 2.0 for edges in grid]
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("draws", ["#dbe7f0", DRAWS, "#143a57"])
    ax.contourf(*centre, mass.T, levels=levels, cmap=shades, zorder=2)
    return True


def _bandwidth(margin: _Margin, ess: float) -> float:
    """Half of Scott's rule on a robust scale, in cells: two modes stay two."""
    levels = weighted_quantiles(margin.value[:, None], margin.weight, (0.25, 0.75))[:, 0]
    sd = np.sqrt(margin.weight @ (margin.value - margin.mean) ** 2)
    scale = min(sd, (levels[1] - levels[0]) / 1.349) or sd
    cell = (margin.limits[1] - margin.limits[0]) / _CELLS
    return float(max(1.0, 0.6 * scale * ess ** (-1.0 / 6.0) / cell))


def _levels(mass: FloatArray) -> FloatArray:
    """Heights whose upper sets hold `_MASSES` of the mass, and the peak; increasing."""
    height = np.sort(mass, axis=None)[::-1]
    held = np.cumsum(height)
    index = np.searchsorted(held, _MASSES * held[-1])
    return np.unique(np.append(height[np.minimum(index, len(height) - 1)], height[0] * 1.001))
