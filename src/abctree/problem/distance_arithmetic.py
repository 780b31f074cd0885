"""What distances are computed with: differences and norms, scales of a pilot, samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import numpy as np
import scipy

from abctree import kernels
from abctree.errors import ParameterError, SimulatorError, warn, wrong
from abctree.types import BoolArray, FloatArray, IntArray

#: Eigenvalues of a correlation matrix below this share of the largest count as zero.
_SINGULAR = 1e-10
#: Rows shorter than this are dealt with column by column: NumPy would loop over each.
_SHORT = 8
#: Most numbers of a row that einsum sums in one part.
_PART = 8192


def flat(simulated: FloatArray) -> FloatArray:
    """(n, q) The numbers of what was simulated (n, ...), of which there may be none."""
    return simulated.reshape(len(simulated), math.prod(simulated.shape[1:]))


@np.errstate(over="ignore", invalid="ignore")  # inf − inf is the row's own nan
def differences(simulated: FloatArray, observed: FloatArray) -> FloatArray:
    """Differences as rows (n, m)."""
    s = np.asarray(simulated, dtype=np.float64)
    o = np.asarray(observed, dtype=np.float64)
    if s.ndim == 0 or s.shape[1:] != o.shape:
        raise SimulatorError(
            f"simulated summaries must have shape (n, {str(o.shape)[1:-1].rstrip(',')}) like the "
            f"observed ones of shape {o.shape}, but got {s.shape}. "
            'Samples of different sizes need distance="energy" or "wasserstein".'
        )
    rows = s if s.ndim == 2 else flat(s)
    if not o.size < _SHORT <= len(s):
        return rows - o.ravel()
    found = np.empty_like(rows)
    np.subtract(rows.T, o.reshape(-1, 1), out=found.T, order="C")
    return found


def euclidean(simulated: FloatArray, observed: FloatArray) -> FloatArray:
    """Euclidean distances (n,) of what was simulated (n, ...), bit for bit `norm` of `differences`.

    One pass where the kernels are there: of few rows NumPy takes ten times as long.
    """
    compiled = getattr(kernels, "compiled", None)  # where somebody has loaded it
    s = np.ascontiguousarray(simulated, np.float64)
    o = np.ascontiguousarray(observed, np.float64)
    is_plain = s.ndim == 2 and s.shape[1:] == o.shape and o.size <= _PART
    if compiled is None or not (is_plain and _sums_as_einsum()):
        return norm(differences(simulated, observed), 2.0)
    found = np.empty(len(s))
    compiled.euclidean(s, o, found)
    return found


@cache
def _sums_as_einsum() -> bool:
    """Whether NumPy adds up as the kernel does; builds for other processors have another order."""
    rows, at, found = np.sin(np.arange(999.0)).reshape(27, 37), np.zeros(37), np.empty(27)
    at.flags.writeable = False  # as an observation, for else the kernel is compiled twice
    kernels.load().euclidean(rows, at, found)
    return np.array_equal(found, norm(rows, 2.0))


def one_each(distance: FloatArray, n: int) -> FloatArray:
    """The distances, if they are one for each simulation: (n,)."""
    if distance.shape != (n,):
        raise SimulatorError(
            f"distance returned shape {distance.shape} for {n} simulations; it must be ({n},). "
            "Reduce over all axes but the first, as in np.abs(s - s_obs).sum(axis=1)."
        )
    return distance


def norm(difference: FloatArray, p: float) -> FloatArray:
    """The p-norm of each row."""
    if p == 2.0:  # neither function tells of an overflow
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(difference)
        if p == 1.0:
            return np.asarray(size.sum(axis=1))
        largest = np.max(size, axis=1, initial=0.0)
        if np.isinf(p):
            return np.asarray(largest)
        # Divided by the largest: a high power of a plain number overflows.
        unit = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        return np.asarray(unit * ((size / unit[:, None]) ** p).sum(axis=1) ** (1.0 / p))


# Scales -----------------------------------------------------------------------------------------


def to_be_scaled(
    name: str, scale: FloatArray | None, simulated: FloatArray, observed: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The scale of a distance, (m,) or (m, r), if it has it, and differences (n, m) that fit."""
    if scale is None:
        advice = "Call .fitted(pilot_summaries); a run does so by itself."
        raise ParameterError(
            f"`distance` must be fitted before use, but {name} has no scale. {advice}"
        )
    difference = differences(simulated, observed)
    if len(scale) != difference.shape[1]:
        raise SimulatorError(
            f"the distance was scaled for {len(scale)} summaries, but got {difference.shape[1]}."
        )
    return scale, difference


def positive(scale: object) -> FloatArray:
    """(m,) The scales that a user gives, or `ParameterError`."""
    array = np.ravel(np.asarray(scale, dtype=np.float64))
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise wrong("scale", "be positive and finite", array)
    return array


def usable_rows(simulated: FloatArray, at_least: int = 1) -> FloatArray:
    """(n, m) The summaries of the pilot without the rows that are not finite."""
    rows = flat(np.asarray(simulated, dtype=np.float64))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < at_least:
        raise SimulatorError(
            f"the distance takes its scale from pilot simulations, but {len(rows)} of "
            f"{len(simulated)} gave finite summaries; it needs {at_least}. Check the simulator at "
            "prior draws."
        )
    return np.asarray(rows)


def deviations(rows: FloatArray) -> FloatArray:
    """(m,) Standard deviations; exactly 0 where a column never varies."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    width = high - low
    unit = np.where(width > 0.0, width, 1.0)
    # In units of the range: squares of very large or small numbers are lost.
    return np.asarray(np.where(width > 0.0, unit * ((rows - low) / unit).std(axis=0), 0.0))


def ones_where_constant(scale: FloatArray) -> FloatArray:
    """The scales, with 1 and a warning for what never varies."""
    constant: BoolArray = scale == 0.0
    if constant.any():
        warn(
            f"{listed(constant)}: never varies in the pilot, so it has no scale; 1 is used. "
            "Drop it if it says nothing of the parameters."
        )
    return np.where(constant, 1.0, scale)


#: What the user calls the summaries of which a distance takes its scale, if that is known.
_names: ContextVar[Sequence[str]] = ContextVar("names", default=())


@contextmanager
def named(names: Sequence[str]) -> Iterator[None]:
    """Messages call summaries by these names."""
    before = _names.set(names)
    try:
        yield
    finally:
        _names.reset(before)


@contextmanager
def named_as_some(first: int, n: int) -> Iterator[None]:
    """Messages are about n summaries, from one of those that have names on."""
    with named(_names.get()[first : first + n]):
        yield


def listed(which: BoolArray) -> str:
    """The names of some summaries, for a message."""
    known = _names.get()
    names = known if len(known) == len(which) else [*map(str, range(len(which)))]
    index = np.flatnonzero(which)
    shown = ", ".join(names[i] for i in index[:10]) + (", ..." if len(index) > 10 else "")
    return f"summary {shown}{' (counting from 0)' * all(map(str.isdecimal, names))}"


def covariance(cov: object) -> FloatArray:
    """(m, m) The covariance that a user gives, made exactly symmetric, or `ParameterError`."""
    array = np.asarray(cov, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not np.isfinite(array).all():
        raise wrong("cov", "be a finite square matrix", repr(array))
    if not (np.diag(array) > 0.0).all():
        raise ParameterError(
            f"`cov` must have positive variances, but its diagonal is {np.diag(array)}."
        )
    sd = np.sqrt(np.diag(array))
    if (np.abs(array - array.T) > 1e-8 * np.outer(sd, sd)).any():
        raise wrong("cov", "be symmetric", repr(array))
    return np.asarray((array + array.T) / 2.0)


def whitening(cov: FloatArray) -> FloatArray:
    """W (m, r) with W Wᵀ = C⁻¹, r the numerical rank."""
    sd = np.sqrt(np.diag(cov))
    value, vector = np.linalg.eigh(cov / sd[:, None] / sd[None, :])
    if value[0] < -_SINGULAR * len(value) * value[-1]:
        raise ParameterError(
            f"`cov` must not have negative eigenvalues, but its correlation has {value[0]:.3g}."
        )
    known = value > _SINGULAR * value[-1]
    if not known.all():
        warn(
            f"the covariance of the {len(value)} summaries has numerical rank {known.sum()}; "
            "differences along the other directions are not counted. Drop summaries that are "
            "combinations of others, or use more pilot simulations."
        )
    return np.asarray(vector[:, known] / np.sqrt(value[known]) / sd[:, None])


def paired(simulated: FloatArray, observed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Samples as (n, m, k) and (m', k)."""
    x = np.asarray(simulated, dtype=np.float64)
    y = np.asarray(observed, dtype=np.float64)
    if x.ndim == 2 and y.ndim == 1:
        x, y = x[:, :, None], y[:, None]
    if x.ndim != 3 or y.ndim != 2 or x.shape[2] != y.shape[1] or 0 in {*x.shape[1:], *y.shape}:
        raise SimulatorError(
            "simulated samples must have shape (n, m) with observed (m',), or (n, m, k) with "
            f"(m', k), none of them empty, but got {np.shape(simulated)} and {np.shape(observed)}."
        )
    return x, y


def energy_line(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 ∫ (F − G)² of samples x (n, m) and y (m',)."""
    pooled = np.concatenate([x, np.broadcast_to(y, (len(x), len(y)))], axis=1)
    step = np.concatenate([np.full(x.shape[1], 1 / x.shape[1]), np.full(len(y), -1 / len(y))])
    order = np.argsort(pooled, axis=1)
    gap = np.diff(np.take_along_axis(pooled, order, axis=1), axis=1)
    difference = np.cumsum(step[order], axis=1)[:, :-1]
    return np.asarray(2.0 * np.sum(difference**2 * gap, axis=1))


def energy(x: FloatArray, y: FloatArray) -> FloatArray:
    """2 E|X−Y| − E|X−X'| − E|Y−Y'| of samples x (n, m, k) and y (m', k), over all pairs."""
    m = x.shape[1]
    # `pdist` holds each pair once; a point has no distance to itself.
    cdist, pdist = scipy.spatial.distance.cdist, scipy.spatial.distance.pdist
    within_y = 2.0 * pdist(y).sum() / len(y) ** 2
    within_x = np.array([2.0 * pdist(row).sum() / m**2 for row in x])
    across = np.array([cdist(row, y).mean() for row in x])
    return np.asarray(2.0 * across - within_x - within_y)


# Wasserstein ------------------------------------------------------------------------------------


def wasserstein_line(x: FloatArray, y: FloatArray, p: float) -> FloatArray:
    """∫ |F⁻¹ − G⁻¹|^p of samples x (n, m) and y (m',)."""
    i, j, width = _common_levels(x.shape[1], len(y))
    gap = np.abs(np.sort(x, axis=1)[:, i] - np.sort(y)[j])
    return np.asarray((gap if p == 1.0 else gap**p) @ width)


def directions(n: int, k: int, seed: int) -> FloatArray:
    """(n, k) Random unit vectors; the only one, (1, 1), on the line."""
    if k == 1:
        return np.ones((1, 1))
    u = np.random.default_rng(seed).standard_normal((n, k))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


def _common_levels(m: int, n: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Intervals on which both empirical quantile functions are constant: ranks and widths.

    In whole numbers (levels times m n), because i/m and j/n that are equal may differ as floats.
    """
    level = np.union1d(np.arange(m + 1) * n, np.arange(n + 1) * m)
    start = level[:-1]
    return start // n, start // m, np.diff(level) / (m * n)
