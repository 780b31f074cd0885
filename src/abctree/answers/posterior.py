"""`Posterior`: the accepted draws with their weights."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from abctree.answers.adjustment import adjust
from abctree.answers.moments import Moments
from abctree.answers.reading.choice import Choice, Summaries
from abctree.answers.reading.modes import modes
from abctree.answers.reading.regression import Method, check_method
from abctree.answers.weighted import error_of, log_of, root_of, scatter
from abctree.data import effective_sample_size
from abctree.errors import ParameterError, needed, warn
from abctree.keywords import checks_keywords_of_methods, place_of
from abctree.markup import listed, page, table, title
from abctree.numbers import checked_count, checked_rng
from abctree.problem.region import Region
from abctree.problem.ridge import Regressor
from abctree.problem.scores import Scores
from abctree.types import BoolArray, FloatArray, IntArray, RNGLike

#: What is worked out from the rest, and not worth sending.
_MADE_AGAIN = ("_scores", "_laws", "_directions", "unwrapped")
#: How often a smooth draw is tried where the constraint refuses it.
_TRIES = 100


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False)
class Posterior(Moments):
    """Weighted draws of the ε-posterior.

    Every method works on any number of draws: without draws estimates are nan, and the spread of a
    single draw is nan.  Weights are kept raw, as logarithms, and normalised on reading.  Quantiles
    invert the weighted empirical distribution function (NumPy's ``method="inverted_cdf"`` with
    weights): they and the ends of intervals are draws, so that discrete parameters keep their
    values, and splitting a draw into two halves changes nothing.  Those of a `Periodic` parameter
    are counted from opposite its circular mean (`unwrapped`).
    """

    theta: FloatArray  #: (m, p) accepted parameters, in user units
    log_weights: (
        FloatArray  #: (m,) raw log importance weights; the evidence is Σ exp / n_simulations
    )
    distance: FloatArray  #: (m,) all below `epsilon`
    epsilon: float
    names: tuple[str, ...]  #: of the columns of `theta`
    n_simulations: int  #: T, accepted or not
    cube: FloatArray | None = None  #: (m, d) the same draws in the unit cube
    summary: FloatArray | None = None  #: (m, ...) their summaries, for `adjusted`
    observed: FloatArray | None = None  #: (...) the observed summaries, for `adjusted`
    bounds: FloatArray | None = None  #: (p, 2) of the prior, inf where there is none
    continuous: BoolArray | None = None  #: (p,) False for a discrete parameter
    region: Region | None = None  #: prior and constraint; with `cube`, what draws may become
    is_adjusted: bool = False  #: whether a regression has moved the draws
    #: (p,) Of an adjusted mean: its error over that of a mean of as many draws, at least 1.
    slope_error: FloatArray | None = None
    #: (p,) Of adjusted draws: which weight was as far out, before, as their median is, at most 1.
    as_far: FloatArray | None = None
    summaries: Summaries = "own"  #: by which the table was read; `distance` is in their units
    notes: tuple[str, ...] = ()  #: of the run, to be told with the draws
    reading: Choice | None = None  #: of `Result.answer`: how the table is read, and against what

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what cannot be pickled, as a constraint that is a lambda, and its prior."""
        state = {key: value for key, value in self.__dict__.items() if key not in _MADE_AGAIN}
        try:
            pickle.dumps(self.region)
        except Exception:  # noqa: BLE001 - whatever a function or a prior of the user's raises
            state["region"] = None
        return state

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def tolerance(self) -> str:
        """The tolerance in words: distances by other summaries have another unit."""
        of = "" if self.summaries == "own" else f" of {self.summaries} summaries"
        return f"epsilon {self.epsilon:.4g}{of}"

    def __repr__(self) -> str:
        return (
            f"Posterior({listed(self.names)}; {len(self)} draws, ESS {self.ess:.1f}, "
            f"{self.tolerance}{', adjusted' if self.is_adjusted else ''})"
        )

    def _repr_html_(self) -> str:
        numbers = np.column_stack([self.mean(), self.std(), self.quantile([0.05, 0.5, 0.95]).T])
        rows = zip(self.names, numbers.tolist(), strict=True)
        heads = ("", "mean", "sd", "5 %", "50 %", "95 %")
        cells = ((name, *(f"{value:.4g}" for value in row)) for name, row in rows)
        return page(title(repr(self)), table(heads, cells))

    def __getitem__(self, name: str) -> FloatArray:
        """(m,) The draws of one parameter, to be taken with `weights`.

        Raises
        ------
        ParameterError
            If there is no parameter of this name.
        """
        return self.theta[:, place_of(name, self.names)]

    # Draws without weights ------------------------------------------------------------------

    def resample(self, n: int, rng: RNGLike = None) -> IntArray:
        """(n,) Numbers of draws, picked in proportion to their weights by systematic resampling.

        Draw i is picked ``n w_i`` times, rounded up or down, in a random order.
        ``len(numpy.unique(...))`` of the answer says how many different draws there are.

        Parameters
        ----------
        n : int
            How many, at least 0.
        rng : None, int, SeedSequence, BitGenerator or Generator
            Source of randomness.

        Raises
        ------
        ParameterError
            If there is nothing to pick from, or `n` is negative.
        """
        n = checked_count("n", n, least=0)
        if n > 0 and self.ess == 0.0:
            raise ParameterError(
                f"`n` must be 0 for a posterior without draws, but got {n}. Nothing was accepted "
                f"at {self.tolerance}: use a larger epsilon or more simulations."
            )
        generator = checked_rng(rng)
        position = (generator.random() + np.arange(n)) / max(1, n)
        kept = np.flatnonzero(self.weights > 0.0)
        picked = np.searchsorted(np.cumsum(self.weights[kept]), position, side="right")
        index = kept[np.minimum(picked, len(kept) - 1)] if n else np.empty(0, dtype=np.int64)
        return np.asarray(generator.permutation(index), dtype=np.int64)

    def sample(self, n: int, rng: RNGLike = None, *, smooth: bool = False) -> FloatArray:
        """(n, p) Draws without weights.

        Plain draws are picked by `resample`, so there are at most ``len(posterior)`` different
        ones, and about the effective sample size when weights are uneven: asking for more repeats
        them, and the repeats carry no information.

        Smooth draws are those of a kernel density estimate that keeps the weighted mean and
        covariance (West 1993, Liu and West 2001): a picked draw is shrunk towards the mean by
        √(1 − h²) and gets normal noise of h² times the covariance, h the rule-of-thumb bandwidth
        (4 / ((k + 2) ESS))^(1/(k + 4)), at most 1.  All of it is done to the k scores Φ⁻¹(u) of
        the place u in the unit cube, so that no draw leaves the prior, whatever its kind; a draw
        that a constraint refuses is drawn again.  Discrete and constant parameters are left as
        picked.  Modes that lie apart are smoothed each by itself; closer ones are blurred.  Smooth
        draws are for plots and for methods that want many draws.

        Parameters
        ----------
        n : int
            How many.
        rng : RNGLike
            None, a seed, or a generator.
        smooth : bool
            Whether to smooth.

        Raises
        ------
        ParameterError
            If there is nothing to draw from, or `n` is negative.

        Warns
        -----
        AbctreeWarning
            If a constraint refused some smooth draws 100 times: these are left as picked.
        """
        generator = checked_rng(rng)
        picked = self.resample(n, generator)
        return self._smoothed(picked, generator) if smooth and n else self.theta[picked]

    def _smoothed(self, picked: IntArray, generator: np.random.Generator) -> FloatArray:
        scores = self._scores
        z, k = scores.z, scores.z.shape[1]
        mode = modes(z, self.weights, 0)
        mode = np.zeros(len(z), dtype=np.int64) if mode is None else mode
        mean, root, shrink = np.empty_like(z), [], np.empty((len(z), 1))
        for i in range(mode.max() + 1):
            weight = self.weights * (mode == i)
            h = min(1.0, (4.0 / ((k + 2.0) * effective_sample_size(weight))) ** (1.0 / (k + 4.0)))
            weight /= weight.sum()
            mean[mode == i], shrink[mode == i] = weight @ z, np.sqrt(1.0 - h**2)
            root.append(h * root_of(scatter(z, weight)))
        draws = self.theta[picked]
        left = np.arange(len(picked))
        for _ in range(_TRIES):
            row, noise = picked[left], generator.standard_normal((len(left), k))
            for i, of_mode in enumerate(root):
                noise[mode[row] == i] = noise[mode[row] == i] @ of_mode.T
            shrunk = mean[row] + shrink[row] * (z[row] - mean[row])
            theta, _, allowed = scores.moved(shrunk + noise, row)
            draws[left[allowed]] = theta[allowed]
            left = left[~allowed]
            if not len(left):
                return draws
            picked[left] = self.resample(len(left), generator)
        warn(
            f"{len(left)} of {len(picked)} smooth draws were refused by the constraint {_TRIES} "
            "times each and are draws of the run as they are. Use smooth=False.",
        )
        draws[left] = self.theta[picked[left]]
        return draws

    @cached_property
    def _scores(self) -> Scores:
        if self.cube is not None and self.region is None:
            warn(
                "The prior of these draws did not come with them, as where a pickle could not hold "
                "its functions: smooth and adjusted draws may leave it. Make them before that, or "
                "put the constraint in a function of a module."
            )
        known = self.theta, self.cube, self.region, self.bounds, self.continuous
        return Scores.of(*known, self.weights)

    # Other forms ----------------------------------------------------------------------------

    def adjusted(self, method: Method | Regressor = "ridge") -> Posterior:
        """The posterior with draws moved by a regression on the summaries.

        See `abctree.answers.adjustment.adjust` for what it does and when it falls back (with an
        `AbctreeWarning`) to the draws as they are.  An adjusted posterior is returned as it is.
        It wants more draws than are read unadjusted: `Result.adjusted` takes them.

        The regression is on the scores Φ⁻¹(u) of the place u in the unit cube, so that no draw
        leaves the prior, whatever its kind.  Discrete parameters keep their values.  A draw that
        would come to where the constraint refuses it, or a `DensityPrior` has no density, is moved
        half as far until it is allowed, and a warning counts them.

        Parameters
        ----------
        method : {"ridge", "heteroscedastic", "linear"} or Regressor
            Ridge regression with a penalty by generalised cross-validation, of each mode by itself
            where modes lie apart, and residuals as wide as errors of new data are; the same, and
            residuals that are scaled by a regression of their own; least squares; or a regressor
            with the interface of scikit-learn.

        Raises
        ------
        ParameterError
            If the method is unknown or no summaries were kept.

        Warns
        -----
        AbctreeWarning
            If nothing is adjusted, or some draws are moved less far.
        """
        check_method(method)
        if self.is_adjusted:
            return self
        if self.summary is None or self.observed is None:
            raise ParameterError(
                "`summary` and `observed` must be known for an adjustment, but no summaries were "
                "kept: by default they are up to 64 numbers. Run with keep_summaries=True."
            )
        unit = float(np.max(self.log_weights, initial=-np.inf))
        unit = unit if np.isfinite(unit) else 0.0
        raw = np.exp(self.log_weights - unit)
        scores = self._scores
        z, weight, pull = adjust(
            scores.z, self.summary, self.observed, self.distance, self.epsilon, raw, method
        )
        if z is scores.z:
            return self
        theta, cube, short = scores.moved_within(z)
        notes = self.notes
        if len(short):
            said = (
                f"The regression would move {len(short)} of {len(theta)} draws, "
                f"{weight[short].sum() / weight.sum():.2g} of the weight, to where the constraint "
                "or the prior refuses them: they are moved less far. Where this is much, it does "
                "not fit near the border: compare with the draws as they are."
            )
            warn(said)
            notes = (*notes, said)
        moved = replace(self, theta=theta, cube=cube, log_weights=log_of(weight) + unit)
        error = _slope_error(theta - moved.weights @ theta, moved.weights, pull)
        error = error if self.continuous is None else np.where(self.continuous, error, 1.0)
        far = _as_far(self.theta, moved)
        return replace(moved, notes=notes, is_adjusted=True, slope_error=error, as_far=far)

    def to_dataframe(self) -> Any:
        """A `pandas.DataFrame`: a column for each parameter, then weight, log_weight, distance.

        A parameter of one of these names keeps it; the other column gets a trailing underscore.

        Raises
        ------
        MissingDependencyError
            If pandas is not installed.
        """
        pandas = needed("pandas", "`to_dataframe` needs pandas", "pandas")
        columns: dict[str, FloatArray] = {
            name: self.theta[:, j] for j, name in enumerate(self.names)
        }
        beside = {"weight": self.weights, "log_weight": self.log_weights}
        for name, value in {**beside, "distance": self.distance}.items():
            columns[f"{name}_" if name in self.names else name] = value
        return pandas.DataFrame(columns)


def _as_far(theta: FloatArray, moved: Posterior) -> FloatArray:
    """(p,) Weight of draws (m, p) that were as far out as the median of the same draws, `moved`."""
    median, weight = moved.quantile(0.5), moved.weights
    far = np.minimum(weight @ (theta >= median), weight @ (theta <= median))
    far[[circle.column for circle in moved.circles]] = 1.0  # nothing is far out on a circle
    return np.asarray(far)


def _slope_error(centred: FloatArray, weight: FloatArray, pull: FloatArray) -> FloatArray:
    """(p,) How much larger the error of a mean is with that of slopes; coordinates may be others.

    To first order a draw moves the mean by its residual times its pull.
    """
    if pull.shape != centred.shape:
        pull = pull.mean(axis=1, keepdims=True) if pull.size else np.ones((len(pull), 1))
    with_slopes, without = error_of(centred * pull, weight), error_of(centred, weight)
    ratio = np.divide(with_slopes, without, out=np.ones_like(without), where=without > 0.0)
    return np.maximum(ratio, 1.0)
