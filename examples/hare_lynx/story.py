"""The main job: what 21 years of hare and lynx pelts say, in a picture and in one paragraph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from abctree.answers.diagnostics import ESS_MEANS
from abctree.answers.posterior import Posterior
from abctree.answers.result import Result
from abctree.errors import AbctreeWarning
from abctree.faces.plots import pair, predictive, weighted_quantiles
from abctree.faces.plots.canvas import INK, new_figure, number
from abctree.types import BoolArray, FloatArray, RNGLike
from examples.hare_lynx.model import pelts, simulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPECIES = ("hare", "lynx")
_PLURAL = {"hare": "hares", "lynx": "lynx"}
#: Simulated series behind the bands.
N_SERIES = 4000
#: Of counts outside the band so many are named.
_NAMED = 4
#: Share of the draws, the closest ones, to which the posterior is compared.
_CLOSER = 0.25
#: Below this change of a mean, in standard deviations, the tolerance is called small enough.
_MOVED = 0.25


@dataclass(frozen=True, eq=False)
class Prediction:
    """Series simulated anew from the draws, beside the observed one."""

    year: FloatArray  #: (21,)
    observed: FloatArray  #: (21, 2) thousands of pelts, hares and lynxes
    series: FloatArray  #: (n, 21, 2) all with the same weight; n = 0 without draws

    def __len__(self) -> int:
        return len(self.series)

    @cached_property
    def levels(self) -> FloatArray:
        """(5, 21, 2) The 5, 25, 50, 75 and 95 % quantiles of every count; nan without series."""
        if len(self) == 0:
            return np.full((5, *self.observed.shape), np.nan)
        flat = self.series.reshape(len(self), -1)
        levels = weighted_quantiles(flat, np.ones(len(self)), (0.05, 0.25, 0.5, 0.75, 0.95))
        return levels.reshape(5, *self.observed.shape)

    def inside(self, mass: float) -> BoolArray:
        """(20, 2) Whether the counts after 1900, which is given, lie in the central 0.5 or 0.9."""
        low, high = (0, 4) if mass == 0.9 else (1, 3)
        later = self.observed[1:]
        return np.asarray((later >= self.levels[low, 1:]) & (later <= self.levels[high, 1:]))

    def misses(self) -> list[tuple[str, int, float, float, float]]:
        """Species, year, count and band of the counts outside of 90 %, the farthest first."""
        low, high = self.levels[0, 1:], self.levels[4, 1:]
        count = self.observed[1:]
        off = np.log1p(count) - np.log1p(np.clip(count, low, high))
        rows = np.argwhere(~self.inside(0.9)).tolist()
        rows.sort(key=lambda at: -abs(float(off[at[0], at[1]])))
        return [
            (SPECIES[j], int(self.year[1 + i]), float(count[i, j]), float(low[i, j]),
             float(high[i, j]))
            for i, j in rows
        ]  # fmt: skip


def predict(posterior: Posterior, rng: RNGLike = None, n: int = N_SERIES) -> Prediction:
    """n series from draws of the posterior of `problem`, with fresh noise."""
    data = pelts()
    observed = np.stack([data[name] for name in SPECIES], axis=1)
    generator = np.random.default_rng(rng)
    if posterior.ess == 0.0:
        return Prediction(data["year"], observed, np.empty((0, *observed.shape)))
    theta = posterior.theta[posterior.resample(n, generator)]
    series = simulate(theta, generator.integers(2**64, size=n, dtype=np.uint64))
    return Prediction(data["year"], observed, series)


# The picture ------------------------------------------------------------------------------------


def picture(posterior: Posterior, prediction: Prediction) -> Figure:
    """The pair plot of the rates, and the bands over both series.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    figure = new_figure(14.0, 7.4)
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.15, 1.0), wspace=0.03)
    left, right = halves
    k = len(posterior.names)
    pair(posterior, axes=left.subplots(k, k, squeeze=False))
    left.suptitle("Yearly rates: mean, and shortest interval with 90 %", color=INK)
    upper, lower = right.subplots(2, 1, sharex=True)
    for j, (ax, name) in enumerate(zip((upper, lower), SPECIES, strict=True)):
        predictive(prediction.year, prediction.observed[:, j], prediction.series[:, :, j], ax=ax)
        ax.set_ylabel(f"{name}, thousand pelts")
        ax.set_ylim(bottom=0.0)
        ax.margins(x=0.02)
    right.align_ylabels([upper, lower])
    lower.get_legend().remove()  # that of the upper one tells it all
    lower.set_xticks(prediction.year[::5].tolist())
    right.suptitle("Pelts: record, and what the posterior predicts", color=INK)
    return figure


# The paragraph ----------------------------------------------------------------------------------


def paragraph(result: Result, posterior: Posterior, prediction: Prediction) -> str:
    """What was learned, and how far to trust it: one paragraph, made of the numbers."""
    if posterior.ess == 0.0:
        return (
            f"Nothing was learned: none of {result.n_simulations} simulated series came within "
            f"epsilon {posterior.epsilon:.3g} of the pelts."
        )
    sentences = [*_learned(posterior), _beside_prior(result, posterior)]
    if posterior.ess < ESS_MEANS:
        sentences.append(
            f"Do not trust it: this rests on {len(posterior)} draws, worth {posterior.ess:.1f} "
            "independent ones."
        )
    else:
        sentences += [_sampling(posterior), _tolerance(result, posterior)]
    sentences += _fit(prediction)
    return " ".join(sentences)


def _learned(posterior: Posterior) -> list[str]:
    hare_birth, predation, lynx_birth, lynx_death = posterior.theta.T

    def said(value: FloatArray, unit: str = "") -> str:
        return _interval(value, posterior.weights, unit)

    period = 2.0 * np.pi / np.sqrt(hare_birth * lynx_death)
    return [
        f"What was learned: hares left alone grow at a rate of {said(hare_birth)} a year and so "
        f"double in {_median(np.log(2.0) / hare_birth, posterior.weights):.1f} years; lynx stock "
        f"worth a thousand pelts kills {said(100.0 * predation, ' %')} of the hares a year; hare "
        f"stock worth a thousand pelts adds {said(100.0 * lynx_birth, ' %')} to the lynx a year, "
        f"which without hares die at a rate of {said(lynx_death)} a year, after "
        f"{_median(1.0 / lynx_death, posterior.weights):.1f} years on average.",
        f"Together the rates imply cycles of {said(period)} years around a balance of "
        f"{_median(lynx_death / lynx_birth, posterior.weights):.0f} thousand hare and "
        f"{_median(hare_birth / predation, posterior.weights):.0f} thousand lynx pelts "
        "(medians; 90 % intervals in brackets).",
    ]


def _beside_prior(result: Result, posterior: Posterior) -> str:
    """How much narrower the intervals are than the prior's."""
    levels = np.array([0.05, 0.95])
    prior = result.problem.prior
    before = np.ptp(prior.from_cube(np.tile(levels[:, None], prior.d)), axis=0)
    after = np.ptp(posterior.quantile(levels), axis=0)
    if not (after > 0.0).all():
        return "A single draw says nothing of intervals."
    ratio = np.sort(before / after)
    return (
        f"The prior, centred on rates that others found, had intervals {ratio[0]:.1f} to "
        f"{ratio[-1]:.1f} times as wide."
    )


def _sampling(posterior: Posterior) -> str:
    error = float(np.max(posterior.mcse() / posterior.std()))
    grade = "of no concern" if error <= 0.05 else "small" if error <= 0.1 else "not small"
    return (
        f"How far to trust it: {len(posterior)} draws are worth {posterior.ess:.0f} independent "
        f"ones, so the sampling error of a mean, up to {_percent(error)} of a standard deviation, "
        f"is {grade}."
    )


def _tolerance(result: Result, posterior: Posterior) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AbctreeWarning)
        closer = result.posterior(ess=_CLOSER * posterior.ess)
    lead = (
        f"Accepted series miss the record by at most {_percent(np.expm1(posterior.epsilon))} in a "
        f"typical year (epsilon {posterior.epsilon:.2g})"
    )
    sd = posterior.std()
    if not closer.epsilon < posterior.epsilon or not (sd > 0.0).all():
        return f"{lead}."
    moved = np.abs(closer.mean() - posterior.mean()) / sd
    narrower = 1.0 - closer.std() / sd
    worst = int(np.argmax(moved))
    grade = (
        "the tolerance hardly shifts the answer"
        if moved[worst] <= _MOVED
        else f"the tolerance still shifts the answer, {posterior.names[worst]} most"
    )
    change = float(np.max(narrower))
    width = (
        f" and some intervals would be {_percent(change)} narrower: they are, if anything, too wide"
        if change >= 0.05
        else " and no interval would be narrower by 5 %"
    )
    return (
        f"{lead}; at a quarter of the effective sample size (epsilon {closer.epsilon:.2g}) the "
        f"means move by at most {moved[worst]:.2f} standard deviations, so {grade},{width}."
    )


def _fit(prediction: Prediction) -> list[str]:
    total = int(prediction.observed[1:].size)
    held, half = (int(prediction.inside(mass).sum()) for mass in (0.9, 0.5))
    grade = "fits most of the record" if held >= 0.85 * total else "fits only part of the record"
    sentences = [
        f"Series simulated anew from the draws hold {held} of the {total} counts after 1900 (which "
        f"is given) in their 90 % band and {half} in their 50 % band, where {0.9 * total:.0f} and "
        f"{0.5 * total:.0f} are expected, so the model {grade}."
    ]
    misses = prediction.misses()
    if misses:
        named = [
            f"{_PLURAL[name]} in {year} ({count:.3g} against {low:.2g} to {high:.2g})"
            for name, year, count, low, high in misses[:_NAMED]
        ]
        rest = len(misses) - len(named)
        more = f", and {rest} more" if rest else ""
        sentences.append(f"It does not explain {_listed(named)}{more}.")
    error = np.log1p(prediction.levels[2, 1:]) - np.log1p(prediction.observed[1:])
    typical = np.expm1(np.sqrt(np.mean(error**2)))
    sentences.append(
        f"Its median is off by {_percent(typical)} in a typical year: constant rates and chance, "
        "without food, weather or the habits of trappers, give the rhythm of the record, but not "
        "each count."
    )
    return sentences


def _interval(value: FloatArray, weight: FloatArray, unit: str) -> str:
    low, middle, high = weighted_quantiles(value[:, None], weight, (0.05, 0.5, 0.95))[:, 0]
    spread = float(high - low)
    return f"{number(middle, spread)}{unit} ({number(low, spread)} to {number(high, spread)})"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _median(value: FloatArray, weight: FloatArray) -> float:
    return float(weighted_quantiles(value[:, None], weight, (0.5,))[0, 0])


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
