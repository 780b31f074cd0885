"""Pictures of checks: where known parameters lie in their posteriors, and models against ε."""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING

import numpy as np

from abctree.answers.comparison import Comparison
from abctree.answers.reading.calibration import Calibration, coverage_of
from abctree.errors import wrong
from abctree.faces.plots.canvas import figure_of, one_axes
from abctree.keywords import checks_keywords
from abctree.methods.calibrate import CalibrationRuns
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
        line = ax.plot(_LEVELS, _curve(found.ranks[:, j], share), label=name)[0]
        if isinstance(found, Calibration):
            raw = _curve(found.raw_ranks[:, j], share)
            label = "as accepted" if j == 0 else None
            ax.plot(_LEVELS, raw, "--", color=line.get_color(), linewidth=0.9, label=label)
    if isinstance(found, CalibrationRuns):
        ax.plot(_LEVELS, found.expected_coverage(_LEVELS), "--", color="black", label="jointly")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the interval", ylabel="share that it holds")
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if many else {"loc": "best"}
    ax.legend(frameon=False, fontsize="small", **beside)
    return figure_of(ax)


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
        line = ax.plot(found.epsilons, middle, marker="o", markersize=3, label=name)[0]
        ax.fill_between(found.epsilons, low, high, color=line.get_color(), alpha=0.15)
    ax.set(xscale="log", ylim=(0, 1), xlabel="epsilon", ylabel="probability of the model")
    ax.legend(frameon=False, fontsize="small")
    return figure_of(ax)


def _probability(log_z: FloatArray, j: int, shift: FloatArray) -> FloatArray:
    """(s,) Of model j at each tolerance, with its log evidence shifted."""
    moved = log_z.copy()
    moved[:, j] += shift
    weight = np.exp(moved - moved.max(axis=1, keepdims=True))
    return np.asarray(weight[:, j] / weight.sum(axis=1))
