"""Regression adjustment: accepted draws moved to where the observation is."""

from __future__ import annotations

import numpy as np

from abctree.answers.reading.modes import ByMode, modes
from abctree.answers.reading.regression import Method, check_method, moved, regression
from abctree.data import effective_sample_size as ess
from abctree.errors import ParameterError, warn
from abctree.problem.ridge import Regressor, Ridge, varies
from abctree.types import BoolArray, FloatArray

#: Draws that a regression with a penalty needs, at least.
_FEWEST = 5


def adjust(
    z: FloatArray,
    summary: FloatArray,
    observed: FloatArray,
    distance: FloatArray,
    epsilon: float,
    weight: FloatArray,
    method: Method | Regressor = "ridge",
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Draws adjusted by local regression (Beaumont, Zhang and Balding 2002).

    With weights w_i (1 − (d_i/ε)²), regress z (m, k) on s − s_obs and move each draw to ẑ(s_obs)
    plus its residual.  Where z is linear in s with errors that do not depend on s, this removes
    what ε > 0 adds to the posterior; where it is not, it can do harm.  The draws are on a scale
    without bounds, such as `abctree.problem.scores.Scores`; columns of their summaries (m, ...)
    that never vary, or are not finite, are not used.

    "linear" is least squares.  "ridge" shrinks the slopes of each coordinate by generalised
    cross-validation, which is what many summaries need; modes that lie apart are regressed each by
    itself.  "heteroscedastic" scales the residuals,
    too, by a second regression of their log squares (Blum and François 2010).  A regressor of the
    user's is fitted to each coordinate with ``fit(X, y, sample_weight=)``.

    Returns the draws; their weights (m,), times that of the kernel; and how far each draw moves the
    regression at the observation (m, k), over how far it moves the mean: 1 where the observation is
    in the middle of the draws, or a regressor is the user's.  With an effective number of draws
    below q + 2 ("linear"), or 5, nothing is adjusted, with a warning.
    """
    check_method(method)
    m, n_numbers, pull = len(z), int(np.size(observed)), np.ones_like(z)
    lengths = {len(summary), len(distance), len(weight), m}
    if len(lengths) != 1 or np.shape(summary)[1:] != np.shape(observed):
        raise ParameterError(
            f"`summary` must have one row for each of {m} draws, each like `observed` of shape "
            f"{np.shape(observed)}, but got {np.shape(summary)} with {len(distance)} distances and "
            f"{len(weight)} weights."
        )
    s = np.asarray(np.reshape(summary, (m, n_numbers)) - np.ravel(observed), dtype=np.float64)
    kernel_weight = weight * np.maximum(0.0, 1.0 - (distance / epsilon) ** 2)
    inside = s[kernel_weight > 0.0]
    if len(inside) > 0 and not inside.any():
        return z, weight, pull  # all are at the observation
    used = _usable(s, kernel_weight)
    n, q = ess(kernel_weight), int(used.sum())
    needed = q + 2 if method == "linear" else _FEWEST
    if n < needed or q == 0:
        warn(
            f"The regression on {q} summaries needs an effective number of draws of {needed} or "
            f"more, and at least one summary that varies, but has {n:.1f}: the draws are returned "
            "unadjusted. Use a larger epsilon or ess, or fewer summaries."
        )
        return z, weight, pull
    counts = kernel_weight > 0.0
    adjusted = z.copy()
    counted = kernel_weight[counts]
    fit = regression(s[counts][:, used], counted, method, modes(z[counts], counted, q))
    adjusted[counts] = moved(z[counts], fit, method)
    if isinstance(fit, Ridge | ByMode):
        pull[counts] = fit.pull(z[counts])
    return adjusted, kernel_weight, pull


def _usable(s: FloatArray, weight: FloatArray) -> BoolArray:
    """Columns that are finite and vary among the rows that count."""
    finite = np.isfinite(s).all(axis=0)
    return np.asarray(finite & varies(np.where(finite, s, 0.0)[weight > 0.0]))
