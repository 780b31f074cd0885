"""What a pair plot is given, and what it knows of each parameter: draws, kind, axis, prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.stats import qmc

from abctree.answers.posterior import Posterior
from abctree.answers.weighted import Weighted
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import SERIES, is_whole, legend_name, number, widened
from abctree.faces.plots.series import weighted_quantiles
from abctree.problem.priors.circles import opened
from abctree.problem.priors.cube import inside
from abctree.types import FloatArray

Kind: TypeAlias = Literal["continuous", "discrete", "constant", "empty"]
#: A spread below this share of the value is rounding: the parameter is constant.
_CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class Margin:
    """One parameter of the draws that have weight."""

    name: str
    value: FloatArray  #: (m,)
    weight: FloatArray  #: (m,) sums to one, if there are any
    kind: Kind
    limits: tuple[float, float]  #: of the axis
    mean: float
    interval: tuple[float, float]
    truth: float  #: nan for none
    is_log: bool  #: whether the axis is logarithmic
    prior: PriorDraws | None
    column: int  #: of the parameter

    @classmethod
    def of(cls, posterior: Posterior, j: int, truth: float, prior: PriorDraws | None) -> Margin:
        """Of parameter j of a posterior."""
        kept = posterior.weights > 0.0
        value, weight = posterior.unwrapped[kept, j], posterior.weights[kept]
        low, high = posterior.hdi(0.9)[j]
        positive = bool((value > 0.0).all()) and not truth <= 0.0
        own = cls(
            name=posterior.names[j],
            value=value,
            weight=weight,
            kind=_kind(posterior, j, value),
            limits=(0.0, 1.0),
            mean=float(posterior.mean()[j]),
            interval=(float(low), float(high)),
            truth=truth,
            is_log=False,
            prior=prior,
            column=j,
        )
        if own.kind == "continuous" and positive and prior is not None:
            own = replace(own, is_log=prior.is_log(j))
        low, high = own.place(np.array(_limits(own, *_bounds(posterior, j, own.mean))))
        ends = widened((float(low), float(high)), float(own.place(np.array(truth))))
        return own.within(ends)

    def within(self, ends: tuple[float, float]) -> Margin:
        """The same on an axis with these ends, given as places."""
        low, high = self.value_at(np.array(ends)).tolist()
        return replace(self, limits=(low, high))

    # The axis -----------------------------------------------------------------------------------

    def place(self, value: FloatArray) -> FloatArray:
        """Where values lie on the axis: their logarithm if it is logarithmic."""
        return np.asarray(np.log10(value) if self.is_log else value)

    def value_at(self, place: FloatArray) -> FloatArray:
        """The values at places of the axis."""
        return np.asarray(10.0**place if self.is_log else place)

    @property
    def places(self) -> FloatArray:
        """(m,) Where the draws lie."""
        return self.place(self.value)

    @property
    def ends(self) -> tuple[float, float]:
        """Where the limits lie."""
        low, high = self.place(np.array(self.limits)).tolist()
        return low, high

    # What is drawn ------------------------------------------------------------------------------

    def histogram(self, bins: int) -> tuple[FloatArray, FloatArray] | None:
        """Density per unit of the axis (bins,), and edges as values; None if draws are equal."""
        low, high = self.ends
        inside = (self.places >= low) & (self.places <= high)
        place = self.places[inside]
        edges = np.linspace(place.min(), place.max(), bins + 1)
        if not (np.diff(edges) > 0.0).all():
            return None
        mass, _ = np.histogram(place, edges, weights=self.weight[inside])
        return np.asarray(mass / np.diff(edges)), self.value_at(edges)

    def density_of(self, prior: PriorDraws, bins: int) -> tuple[FloatArray, FloatArray]:
        """The same of the prior, over the whole axis."""
        edges = np.linspace(*self.ends, bins + 1)
        values = self.value_at(edges)
        return prior.mass(self.column, values) / np.diff(edges), values

    def probabilities(self) -> tuple[FloatArray, FloatArray]:
        """Distinct values, and the probability of each."""
        value, which = np.unique(self.value, return_inverse=True)
        if self.kind == "constant":
            value, which = value[:1], np.zeros_like(which)
        return value, np.asarray(np.bincount(which.ravel(), weights=self.weight))

    @property
    def caption(self) -> str:
        """The name; and below it the mean with the interval, to two digits of it."""
        if self.kind == "empty":
            return self.name
        spread = self.interval[1] - self.interval[0]
        mean = number(self.mean, spread)
        if self.kind == "constant":
            return f"{self.name}\n= {mean}"
        whole = self.kind == "discrete" and is_whole(self.value).all()
        low, high = (f"{end:g}" if whole else number(end, spread) for end in self.interval)
        return f"{self.name}\n{mean}  [{low}, {high}]"


def gap(value: FloatArray) -> float:
    """The smallest distance of two values of a discrete parameter."""
    distinct = np.unique(value)
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 1.0


def _kind(posterior: Posterior, j: int, value: FloatArray) -> Kind:
    if len(value) == 0:
        return "empty"
    if np.ptp(value) <= _CONSTANT * np.abs(value).max():
        return "constant"
    if posterior.continuous is not None:
        return "continuous" if posterior.continuous[j] else "discrete"
    return "discrete" if is_whole(value).all() else "continuous"


def _bounds(posterior: Posterior, j: int, mean: float) -> tuple[float, float]:
    """Ends of the prior; of a circle half a turn from the mean."""
    for circle in posterior.circles:
        if circle.column == j:
            return mean - circle.width / 2.0, mean + circle.width / 2.0
    if posterior.bounds is None:
        return -np.inf, np.inf
    low, high = posterior.bounds[j].tolist()
    return low, high


def _limits(margin: Margin, lowest: float, highest: float) -> tuple[float, float]:
    """Ends of the axis as values: nearly all of the draws, and not more than the prior's bounds."""
    if margin.kind == "empty":
        bounded = np.isfinite([lowest, highest]).all() and lowest < highest
        return (lowest, highest) if bounded else (0.0, 1.0)
    low, high = weighted_quantiles(margin.value[:, None], margin.weight, (0.001, 0.999))[:, 0]
    if margin.kind == "discrete":
        room = gap(margin.value) / 2.0
        return float(low - room), float(high + room)
    if margin.kind == "constant" or low == high:
        room = 0.5 * abs(low) or 0.5
        return float(low - room), float(high + room)
    ends = margin.place(np.array([low, high]))
    room = 0.08 * (ends[1] - ends[0])
    wide = margin.value_at(np.array([ends[0] - room, ends[1] + room]))
    return float(max(wide[0], min(low, lowest))), float(min(wide[1], max(high, highest)))


# What is given ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Series:
    """One posterior in the picture."""

    label: str
    color: str
    ess: float
    margins: list[Margin]


def posteriors_of(posterior: object) -> dict[str, Posterior]:
    """The posteriors by what the legend calls them."""
    if isinstance(posterior, Mapping):
        given = {str(label): draws for label, draws in posterior.items()}
    elif isinstance(posterior, list | tuple):
        given = {f"posterior {i + 1}": draws for i, draws in enumerate(posterior)}
        if all(isinstance(draws, Posterior) for draws in posterior):
            told = [f"{_said(draws)}" for draws in posterior]
            given = dict(zip(told if len({*told}) == len(told) else given, posterior, strict=True))
    else:
        given = {"posterior": posterior}
    others = [draws for draws in given.values() if not isinstance(draws, Posterior)]
    if others or not given:
        got = f"a {type(others[0]).__name__}" if others else "none"
        raise ParameterError(
            f"`posterior` must be a Posterior, or a list or dict of them, but got {got}. "
            "Give result.posterior()."
        )
    names = {draws.names for draws in given.values()}
    if len(names) > 1:
        raise wrong("posterior", "be of the same parameters", sorted(names))
    return given


def _said(draws: Posterior) -> str:
    of = "" if draws.summaries == "own" else f", {draws.summaries} summaries"
    return f"ε = {draws.epsilon:.3g}{of}{', adjusted' if draws.is_adjusted else ''}"


def columns_of(posterior: Posterior, names: Sequence[str] | None) -> list[int]:
    """Numbers of the parameters to show."""
    chosen = posterior.names if names is None else tuple(names)
    unknown = [name for name in chosen if name not in posterior.names]
    if unknown or not chosen:
        raise wrong("names", f"be some of {', '.join(posterior.names)}", list(chosen))
    return [posterior.names.index(name) for name in chosen]


def truth_of(posterior: Posterior, truth: Any) -> FloatArray:
    """(p,) Values to mark; nan for none."""
    p = len(posterior.names)
    if truth is None:
        return np.full(p, np.nan)
    if hasattr(truth, "iloc") and isinstance(next(iter(truth.index), None), str):
        truth = dict(truth.items())  # a Series, or a row of a DataFrame
    if isinstance(truth, Mapping):
        unknown = [name for name in truth if name not in posterior.names]
        if unknown:
            raise wrong("truth", f"name some of {', '.join(posterior.names)}", unknown)
        return np.array([float(truth.get(name, np.nan)) for name in posterior.names])
    try:
        values = np.asarray(truth, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong("truth", "be numbers", repr(truth), "Write [0.5, 2.0].") from None
    if values.shape != (p,):
        raise ParameterError(
            f"`truth` must be one number for each of {', '.join(posterior.names)}, but got shape "
            f"{values.shape}. A dict by name may leave some out."
        )
    return values


def series_of(
    given: Mapping[str, Posterior], shown: Sequence[int], truth: FloatArray, *, prior: bool
) -> list[Series]:
    """All posteriors on the same axes."""
    first = next(iter(given.values()))
    truth = opened(truth, first.circles, first.mean())
    known = next((p for p in map(PriorDraws.of, given.values()) if p), None) if prior else None
    margins = [
        [Margin.of(draws, j, float(truth[j]), known) for j in shown] for draws in given.values()
    ]
    for column in range(len(shown)):
        ends = np.array([own[column].ends for own in margins])
        for own in margins:
            own[column] = own[column].within((float(ends[:, 0].min()), float(ends[:, 1].max())))
    return [
        Series(legend_name(label), SERIES[i % len(SERIES)], draws.ess, own)
        for i, ((label, draws), own) in enumerate(zip(given.items(), margins, strict=True))
    ]


# The prior ----------------------------------------------------------------------------------------

#: Points of the cube, as a power of two.
_POWER = 14
#: A log axis is for a prior whose 90 % span this factor at least, and that is symmetric on it: off
#: by less than this share of half its width, and by more on a plain axis.
_SPAN, _ASYMMETRY = 10.0, 0.1
#: Levels of the quantiles that tell the density.
LEVELS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class PriorDraws:
    """Points of the prior with weights."""

    theta: FloatArray  #: (m, p)
    weight: FloatArray  #: (m,) sums to one

    @classmethod
    def of(cls, draws: Posterior) -> PriorDraws | None:
        """Of the prior that some draws come with; None if they have none."""
        region = draws.region
        if region is None:
            return None
        cube = inside(qmc.Sobol(region.prior.d, rng=np.random.default_rng(0)).random_base2(_POWER))
        weight = region.weight_of_feasible(cube)
        if not weight.sum() > 0.0:
            return None
        theta = opened(region.prior.from_cube(cube), draws.circles, draws.mean())
        return cls(theta, weight / weight.sum())

    def quantile(self, j: int, levels: FloatArray) -> FloatArray:
        """Quantiles of one parameter."""
        return Weighted.of(self.theta[:, j], self.weight).quantile(levels)

    def is_log(self, j: int) -> bool:
        """Whether the prior of a parameter is one of its logarithm: symmetric there, and wide."""
        ends = self.quantile(j, np.array([0.05, 0.5, 0.95]))
        if not (ends[0] > 0.0 and ends[2] >= _SPAN * ends[0]):
            return False
        return _asymmetry(np.log(ends)) < _ASYMMETRY <= _asymmetry(ends)

    def mass(self, j: int, edges: FloatArray) -> FloatArray:
        """Probability of each bin of one continuous parameter, smooth between its quantiles."""
        below = np.interp(edges, self.quantile(j, LEVELS), LEVELS, left=0.0, right=1.0)
        return np.diff(below)

    def probability(self, j: int, values: FloatArray) -> FloatArray:
        """Probability of each value of one discrete parameter."""
        near = np.isclose(self.theta[:, j], values[:, None], rtol=1e-9, atol=0.0)
        return np.asarray(near @ self.weight)


def _asymmetry(ends: FloatArray) -> float:
    """How far the middle one of three is from halfway, in half widths."""
    low, middle, high = ends
    return float(abs(2.0 * middle - low - high) / (high - low))
