"""The pair plot of weighted posteriors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    INK,
    TRUTH,
    Grid,
    figure_of,
    finished,
    fit_texts,
    grid_of_axes,
    legend_beside,
    quieten,
    short_ticks,
)
from abctree.faces.plots.margins import (
    Margin,
    Series,
    columns_of,
    gap,
    posteriors_of,
    series_of,
    truth_of,
)
from abctree.faces.plots.series import weighted_quantiles
from abctree.keywords import checks_keywords
from abctree.numbers import checked_count
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: From this effective sample size on a smooth two-dimensional density is drawn.
_ESS_DENSITY = 100.0
#: Cells a side of that density.
_CELLS = 64
#: Masses inside its contours, and those of several posteriors.
_MASSES, _OF_SEVERAL = (0.95, 0.9, 0.75, 0.5, 0.25), (0.9, 0.5)
#: Most points of a scatter, and bins of the prior.
_POINTS, _BINS = 3000, 80
#: The shade that stands for all of them in the legend.
_SHADES = ("#dbe7f0", DRAWS, "#143a57")


@checks_keywords
def pair(
    posterior: Posterior | Sequence[Posterior] | Mapping[str, Posterior],
    truth: Mapping[str, float] | Sequence[float] | FloatArray | None = None,
    names: Sequence[str] | None = None,
    bins: int | None = None,
    axes: object = None,
    *,
    prior: bool = True,
) -> Figure:
    """Weighted marginals of each parameter, and of each pair of them, over the prior.

    On the diagonal a weighted histogram, the mean (line), the shortest interval with 90 % of the
    posterior (bar) and the density of the prior (dashed); below it the weighted density of two
    parameters, darker where the 25, 50, 75, 90 and 95 % of highest density lie, or, with few draws
    or a discrete parameter, the draws, the heavier the darker.  A discrete parameter gets a bar for
    each value, a constant one a single bar.  The outermost 0.1 % of the posterior on either side
    may lie beyond the limits.  A parameter whose prior is one of its logarithm has a log axis.

    Of several posteriors the histograms are outlines, and below the diagonal contours hold 50 and
    90 % of each.

    Parameters
    ----------
    posterior : Posterior, or a list or dict of them
        Any number of draws, none included.  Several are of the same parameters: two tolerances, raw
        and adjusted, two runs; a dict has what the legend calls each.
    truth : dict or (p,) array, optional
        Values to mark, by name or one for each parameter; nan for none.  The limits include them.
    names : sequence of str, optional
        Parameters to show, in this order.  Default: all.
    bins : int, optional
        Of the histograms.  Default: by the effective sample size, 5 to 40.
    axes : (k, k) array of matplotlib Axes, optional
        For k parameters.  Default: of a new figure.
    prior : bool
        Whether the prior is drawn, if the draws come with one.

    Raises
    ------
    ParameterError
        If a name is unknown, posteriors are of different parameters, or `truth`, `bins` or `axes`
        do not fit.
    """
    given = posteriors_of(posterior)
    first = next(iter(given.values()))
    shown = columns_of(first, names)
    values = truth_of(first, truth)
    bins = None if bins is None else checked_count("bins", bins)
    grid = grid_of_axes(axes, (len(shown), len(shown)))
    legend_beside(grid, draw_pairs(grid, given, shown, values, bins, prior=prior), own=axes is None)
    return finished(grid[0, 0])


def draw_pairs(
    grid: Grid,
    given: Mapping[str, Posterior],
    shown: Sequence[int],
    truth: FloatArray,
    bins: int | None = None,
    *,
    prior: bool = True,
) -> list[Artist]:
    """Draw posteriors into axes (k, k); what the legend is to explain."""
    drawn = series_of(given, shown, truth, prior=prior)
    k = len(shown)
    for row in range(k):
        for column in range(k):
            ax = grid[row, column]
            if column > row:
                ax.set_axis_off()
                continue
            x, y = drawn[0].margins[column], drawn[0].margins[row]
            _scale(ax, x, y if column < row else None)
            for number, one in enumerate(drawn):
                if column == row:
                    _draw_margin(ax, one, row, bins, number, len(drawn))
                else:
                    _draw_pair(ax, one, column, row, alone=len(drawn) == 1)
            if column == row:
                title = x.caption if len(drawn) == 1 else x.name
                ax.set_title(title, fontsize="small", color=INK)
            _finish(ax, x, y, row=row, column=column, last=k - 1)
    fit_pairs(grid)
    figure_of(grid[0, 0]).align_ylabels(list(grid[:, 0]))
    return _legend(drawn)


# Around the panels ------------------------------------------------------------------------------


def _scale(ax: Axes, x: Margin, y: Margin | None) -> None:
    """Scales and limits, which contours need to know of."""
    if x.is_log:
        ax.set_xscale("log")
    if y is not None:
        if y.is_log:
            ax.set_yscale("log")
        ax.set_ylim(y.limits)
    ax.set_xlim(x.limits)


def _finish(ax: Axes, x: Margin, y: Margin, *, row: int, column: int, last: int) -> None:
    """Limits, ticks and labels of one panel."""
    ax.set_xlim(x.limits)
    unit = short_ticks(ax.xaxis, x.limits, is_log=x.is_log, is_whole=x.kind == "discrete")
    ax.tick_params(labelbottom=row == last)
    if row == last:
        ax.set_xlabel(x.name + unit)
    if column < row:
        ax.set_ylim(y.limits)
        unit = short_ticks(ax.yaxis, y.limits, is_log=y.is_log, is_whole=y.kind == "discrete")
        ax.tick_params(labelleft=column == 0)
        if column == 0:
            ax.set_ylabel("\n".join(filter(None, (y.name, unit.strip()))))


def fit_pairs(grid: Grid) -> None:
    """Make all titles alike and all labels alike, and none longer than its panel."""
    fit_texts([(ax, ax.title) for ax in np.diag(grid)])
    fit_texts([(ax, label) for ax in grid.ravel() if ax.axison
               for label in (ax.xaxis.label, ax.yaxis.label) if label.get_text()])  # fmt: skip


def _legend(drawn: Sequence[Series]) -> list[Artist]:
    """One artist for each kind of thing in the picture, with its words."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    margins = [margin for one in drawn for margin in one.margins]
    kinds = {margin.kind for margin in margins}
    handles: list[Artist] = [
        Patch(facecolor=one.color, alpha=0.45, edgecolor=one.color, label=one.label)
        for one in drawn
    ]
    if kinds & {"continuous", "discrete"}:
        handles += [
            Line2D([], [], color=INK, linewidth=1.2, label="mean"),
            Line2D([], [], color=INK, linewidth=4.0, label="shortest 90 %"),
        ]
    if any(margin.prior is not None for margin in margins):
        handles.append(Line2D([], [], color=FAINT, linestyle="--", label="prior"))
    if np.isfinite([margin.truth for margin in margins]).any():
        handles.append(Line2D([], [], color=TRUTH, linestyle="--", label="truth"))
    n_smooth = sum(m.kind == "continuous" for m in drawn[0].margins)
    if n_smooth > 1 and len(drawn) == 1 and drawn[0].ess >= _ESS_DENSITY:
        masses = [*zip(_SHADES, ("95 %", "75 %", "25 %"), strict=True)]
        handles += [Patch(facecolor=shade, label=f"densest {mass}") for shade, mass in masses]
    elif n_smooth > 1 and len(drawn) > 1:
        handles.append(Line2D([], [], color=INK, linewidth=0.9, label="contours: 50, 90 %"))
    elif len(drawn[0].margins) > 1 and kinds != {"empty"}:
        handles.append(
            Line2D([], [], color=drawn[0].color, marker="o", linestyle="none", label="draws")
        )
    return handles


# The diagonal -----------------------------------------------------------------------------------


def _draw_margin(
    ax: Axes, one: Series, j: int, bins: int | None, place: int, n_series: int
) -> None:
    margin, alone = one.margins[j], n_series == 1
    quieten(ax)
    ax.spines["left"].set_visible(False)
    ax.set_yticks([])
    # Bins grow with the cube root of the draws (Freedman and Diaconis).
    n_bins = bins or int(np.clip(round(2.5 * one.ess ** (1.0 / 3.0)), 5, 40))
    top = 0.0 if place == 0 else ax.get_ylim()[1]
    if margin.kind == "empty":
        ax.text(0.5, 0.5, "no draws", transform=ax.transAxes, ha="center", va="center", color=FAINT)
    elif margin.kind == "continuous":
        top = max(top, _histogram(ax, one, margin, n_bins, alone=alone))
    else:
        top = max(top, _bars(ax, one, margin, place, n_series))
    if margin.kind in ("continuous", "discrete"):
        color = INK if alone else one.color
        ax.axvline(margin.mean, color=color, linewidth=1.2, label="mean")
        ax.plot(
            margin.interval, [0.03 * place * top] * 2, color=color, linewidth=4.0,
            solid_capstyle="butt", label="90 %", clip_on=False, zorder=3,
        )  # fmt: skip
    if place == 0:
        top = max(top, _prior(ax, margin, top))
        if np.isfinite(margin.truth):
            ax.axvline(margin.truth, color=TRUTH, linewidth=1.2, linestyle="--", label="truth")
    ax.set_ylim(0.0, top or 1.0)


def _histogram(ax: Axes, one: Series, margin: Margin, bins: int, *, alone: bool) -> float:
    """Draw it; the height that the axis must have."""
    found = margin.histogram(bins)
    if found is None:  # the few draws inside are equal
        return _bars(ax, one, margin, 0, 1)
    density, edges = found
    ax.stairs(density, edges, fill=True, color=one.color, alpha=0.35 if alone else 0.12)
    ax.stairs(density, edges, color=one.color, linewidth=1.2)
    return 1.1 * float(density.max())


def _bars(ax: Axes, one: Series, margin: Margin, place: int, n_series: int) -> float:
    """Draw the probability of each value; the height that the axis must have."""
    value, probability = margin.probabilities()
    low, high = margin.limits
    whole = 0.8 * gap(value) if len(value) > 1 else 0.04 * (high - low)
    width = whole / n_series
    shift = width * (place - (n_series - 1) / 2.0)
    ax.bar(value + shift, probability, width=width, color=one.color, alpha=0.55)
    return 1.1 * float(probability.max())


def _prior(ax: Axes, margin: Margin, top: float) -> float:
    """Draw the prior's density or probabilities, no higher than twice the posterior's."""
    if margin.prior is None or margin.kind in ("constant", "empty"):
        return 0.0
    if margin.kind == "discrete":
        value = np.unique(margin.value)
        height = margin.prior.probability(margin.column, value)
        line = ax.plot(value, height, drawstyle="steps-mid")[0]
    else:
        height, edges = margin.density_of(margin.prior, _BINS)
        line = ax.plot(edges, np.append(height, height[-1]), drawstyle="steps-post")[0]
    line.set(color=FAINT, linestyle="--", linewidth=1.1, label="prior", zorder=1)
    return min(1.1 * float(height.max()), 2.0 * top)


# Below the diagonal -----------------------------------------------------------------------------


def _draw_pair(ax: Axes, one: Series, column: int, row: int, *, alone: bool) -> None:
    x, y = one.margins[column], one.margins[row]
    quieten(ax)
    smooth = one.ess >= _ESS_DENSITY and x.kind == y.kind == "continuous"
    if not (smooth and _density(ax, one, x, y, alone=alone)):
        _scatter(ax, one, x, y)
    if np.isfinite(x.truth):
        ax.axvline(x.truth, color=TRUTH, linewidth=0.8, linestyle="--")
    if np.isfinite(y.truth):
        ax.axhline(y.truth, color=TRUTH, linewidth=0.8, linestyle="--")


def _scatter(
    ax: Axes, one: Series, x: Margin, y: Margin, *, size: float = 14.0, most: float = 0.8
) -> None:
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
    ax.scatter(a[chosen], b[chosen], s=size, c=one.color, alpha=alpha, linewidths=0)


def _density(ax: Axes, one: Series, x: Margin, y: Margin, *, alone: bool) -> bool:
    """Contours of highest density, and the draws beyond; False if they cannot be drawn."""
    grid = [np.linspace(*m.ends, _CELLS + 1) for m in (x, y)]
    mass, _, _ = np.histogram2d(x.places, y.places, bins=grid, weights=x.weight)
    from scipy.ndimage import gaussian_filter

    # At a bound of the prior the kernel is reflected, so that no mass leaks out.
    mass = gaussian_filter(mass, [_bandwidth(m, one.ess) for m in (x, y)], mode="reflect")
    levels = _levels(mass, _MASSES if alone else _OF_SEVERAL)
    if len(levels) < 3:
        return False
    centre = [
        m.value_at((edges[1:] + edges[:-1]) / 2.0) for m, edges in zip((x, y), grid, strict=True)
    ]
    if not alone:
        ax.contour(*centre, mass.T, levels=levels[:-1], colors=one.color, linewidths=1.1)
        return True
    _scatter(ax, one, x, y, size=4.0, most=0.35)
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("draws", _SHADES)
    ax.contourf(*centre, mass.T, levels=levels, cmap=shades, zorder=2)
    return True


def _bandwidth(margin: Margin, ess: float) -> float:
    """Half of Scott's rule on a robust scale, in cells: two modes stay two."""
    place = margin.places
    levels = weighted_quantiles(place[:, None], margin.weight, (0.25, 0.75))[:, 0]
    sd = np.sqrt(margin.weight @ (place - margin.weight @ place) ** 2)
    scale = min(sd, (levels[1] - levels[0]) / 1.349) or sd
    low, high = margin.ends
    return float(max(1.0, 0.6 * scale * ess ** (-1.0 / 6.0) * _CELLS / (high - low)))


def _levels(mass: FloatArray, masses: Sequence[float]) -> FloatArray:
    """Heights whose upper sets hold these masses, and the peak; increasing."""
    height = np.sort(mass, axis=None)[::-1]
    held = np.cumsum(height)
    index = np.searchsorted(held, np.array(masses) * held[-1])
    return np.unique(np.append(height[np.minimum(index, len(height) - 1)], height[0] * 1.001))
