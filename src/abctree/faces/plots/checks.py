"""Pictures of checks: known parameters in their posteriors, models and the answer against ε."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.comparison import Comparison
from abctree.answers.posterior import Posterior
from abctree.answers.reading.calibration import Calibration, coverage_of
from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.errors import ParameterError, warnings_kept, wrong
from abctree.faces.plots.canvas import (
    DRAWS,
    FAINT,
    TRUTH,
    figure_of,
    finished,
    fit_texts,
    grid_of_axes,
    legend_above,
    legend_name,
    one_axes,
    plain_ticks,
    quieten,
    short_ticks,
)
from abctree.keywords import checks_keywords
from abctree.methods.calibrate import CalibrationRuns
from abctree.numbers import checked_count
from abctree.problem.ridge import varies
from abctree.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = np.linspace(0.02, 0.98, 49)
#: Two standard errors are shaded.
_BAND = 2.0
#: The legend of more parameters stands beside the axes.
_MANY = 4


def _require(found: object, kind: type | UnionType, maker: str) -> None:
    if not isinstance(found, kind):
        raise wrong("found", f"be what {maker} gives", f"a {type(found).__name__}")


@checks_keywords
def calibration(found: Calibration | CalibrationRuns, ax: Axes | None = None) -> Figure:
    """Draw the share of known parameters in intervals of every level, one line a parameter.

    On the diagonal intervals hold what they say; below it they are too narrow.  Shaded is where two
    standard errors would leave a calibrated line.  Of `Result.calibration` the draws as they are
    are dashed; of `abctree.calibrate` the joint posterior is.

    Parameters
    ----------
    found : Calibration or CalibrationRuns
        Of `Result.calibration` or `abctree.calibrate`.
    ax : Axes, optional
        Where to draw.  Default: a new figure.
    """
    _require(found, Calibration | CalibrationRuns, "result.calibration() or abctree.calibrate")
    many = len(found.names) > _MANY
    ax = one_axes(ax, 6.2 if many else 4.5, 4.5)
    share = found.share if isinstance(found, Calibration) else None
    n = len(found.ranks) if share is None else 1.0 / float(np.square(share).sum())
    half = _BAND * np.sqrt(_LEVELS * (1.0 - _LEVELS) / n)
    ax.fill_between(_LEVELS, _LEVELS - half, _LEVELS + half, color="0.9", label="two errors")
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=0.8)
    for j, name in enumerate(found.names):
        line = ax.plot(_LEVELS, _curve(found.ranks[:, j], share), label=legend_name(name))[0]
        if isinstance(found, Calibration):
            raw = _curve(found.raw_ranks[:, j], share)
            label = "as accepted" if j == 0 else None
            ax.plot(_LEVELS, raw, "--", color=line.get_color(), linewidth=0.9, label=label)
    if isinstance(found, CalibrationRuns):
        ax.plot(_LEVELS, found.expected_coverage(_LEVELS), "--", color="black", label="jointly")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the interval", ylabel="share that it holds")
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if many else {"loc": "best"}
    ax.legend(frameon=False, fontsize="small", **beside)
    return finished(ax)


def _curve(ranks: FloatArray, share: FloatArray | None) -> FloatArray:
    """Coverage at each level of ranks (n,)."""
    return np.array([coverage_of(ranks[:, None], level, share)[0] for level in _LEVELS])


@checks_keywords
def comparison(found: Comparison, ax: Axes | None = None) -> Figure:
    """Draw the probability of each model against the tolerance; flat to the left is done.

    Shaded are two standard errors of the model's own evidence.

    Parameters
    ----------
    found : Comparison
        Of `abctree.compare`.
    ax : Axes, optional
        Where to draw.  Default: a new figure.
    """
    _require(found, Comparison, "abctree.compare")
    ax = one_axes(ax, 5.0, 3.5)
    log_z = found.log_evidence + np.log(found.prior)
    error = _BAND * np.nan_to_num(found.log_error)
    for j, name in enumerate(found.names):
        low, middle, high = (
            _probability(log_z, j, sign * error[:, j]) for sign in (-1.0, 0.0, 1.0)
        )
        line = ax.plot(found.epsilons, middle, marker="o", markersize=3, label=legend_name(name))[0]
        ax.fill_between(found.epsilons, low, high, color=line.get_color(), alpha=0.15)
    ax.set(xscale="log", ylim=(0, 1), xlabel="epsilon", ylabel="probability of the model")
    ax.legend(frameon=False, fontsize="small")
    return finished(ax)


def _probability(log_z: FloatArray, j: int, shift: FloatArray) -> FloatArray:
    """(s,) Of model j at each tolerance, with its log evidence shifted."""
    moved = log_z.copy()
    moved[:, j] += shift
    weight = np.exp(moved - moved.max(axis=1, keepdims=True))
    return np.asarray(weight[:, j] / weight.sum(axis=1))


# The answer against the tolerance -----------------------------------------------------------------

#: Tolerances that are read, and the least effective sample size among them.
_READINGS, _FEWEST = 16, 30.0
_ENDS = (0.05, 0.95)
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
    n = checked_count("n", n, 2)
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
        low, high = answer.quantile(_ENDS)[:, j]
        near = [p for p in (*found, *moved) if p.epsilon <= _NEAR * at]
        ends = np.concatenate([[low, high], *(p.quantile(_ENDS)[:, j] for p in near)])
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
    figure_of(grid[0]).align_ylabels(list(grid))
    legend_above(grid[0])
    return finished(grid[0])


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
    rows = [[p.epsilon, p.mean()[j], *p.quantile(_ENDS)[:, j]] for p in found]
    return np.transpose(rows)


def tolerance_of(result: Result, draws: Posterior) -> float:
    """That of some draws of a run, or by other summaries that of as good a posterior by its own."""
    if draws.summaries == "own":
        return draws.epsilon
    with warnings_kept():  # the best there is will do
        return result.posterior(ess=draws.ess).epsilon


def readings(result: Result, n: int = _READINGS) -> list[Posterior]:
    """Posteriors at up to n falling tolerances, the widest first; none if nothing was accepted."""
    with warnings_kept():  # of what is out of reach: none of it is
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
    with warnings_kept():
        moved = draws.adjusted()
    return moved if moved.is_adjusted else None


def free_columns(draws: Posterior) -> list[int]:
    """Numbers of the parameters that vary; of the first if none does."""
    return np.flatnonzero(varies(draws.theta)).tolist() or [0]
