"""What the page draws by itself: accepted rows, what they say at each ε, and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from abctree.answers.posterior import Posterior
from abctree.answers.result import Result
from abctree.answers.summary import QUANTILES, errors_of, estimates_of
from abctree.faces.plots.boxes import Side, accepted_of, columns_of_dims, sides_of, slice_of
from abctree.faces.plots.checks import adjusted_or_none, free_columns, readings, tolerance_of
from abctree.faces.plots.margins import LEVELS, PriorDraws
from abctree.method import METHODS
from abctree.problem.models import Models
from abctree.problem.priors.circles import opened
from abctree.types import FloatArray, IntArray, NamedDict

#: Numbers in the table of draws as they are, most of its rows, and how many of the nearest stay.
_NUMBERS, _ROWS, _NEAREST = 40_000, 4000, 1500
#: Numbers of adjusted draws at all tolerances together, and fewest and most draws at one.
_MOVED, _FEWEST, _MOST = 30_000, 100, 500
#: Steps of a rounded number in the range of a parameter.
_STEPS = 1e4


def pair_data(result: Result) -> NamedDict | None:
    """All of it; None if nothing was accepted.

    The numbers of each tolerance are of all its draws; the rows are for the picture.
    """
    found = readings(result)
    if not found:
        return None
    answer = result.answer()
    at = tolerance_of(result, answer)
    others = sorted((p for p in found if p.epsilon != at), key=lambda p: p.epsilon)
    start = sum(p.epsilon < at for p in others)
    found = [*others[:start], result.posterior(epsilon=at), *others[start:]]
    moved = [adjusted_or_none(p) for p in found]
    if answer.is_adjusted:
        moved[start] = answer
    axes = _Axes.of(found[-1])
    n = int(np.clip(_MOVED // (len(found) * len(axes.shown)), _FEWEST, _MOST))
    return {
        "names": list(answer.names),
        "categorical": [category.column for category in answer.categories],
        "quantiles": list(QUANTILES),
        "start": start,
        "adjusted": answer.is_adjusted,
        **axes.told(),
        "mode": _mode(result, axes),
        "rows": _thinned(found[-1], axes),
        "readings": [
            {
                "epsilon": p.epsilon,
                "raw": _numbers(p),
                "adjusted": None if m is None else {
                    **_numbers(m),
                    "draws": axes.columns(m.theta[m.resample(3 * n if k == start else n, 0)]),
                },
            }
            for k, (p, m) in enumerate(zip(found, moved, strict=True))
        ],
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Axes:
    """Which parameters are drawn, and how."""

    draws: Posterior
    shown: list[int]
    prior: PriorDraws | None
    is_log: list[bool]
    unit: list[float]  #: of rounded places, a power of ten

    @classmethod
    def of(cls, draws: Posterior) -> _Axes:
        """Those of the draws with the largest tolerance."""
        shown = free_columns(draws)
        prior = PriorDraws.of(draws)
        is_log = [
            prior is not None and prior.is_log(j) and bool((draws.theta[:, j] > 0.0).all())
            for j in shown
        ]
        own = cls(draws, shown, prior, is_log, [0.0] * len(shown))
        width = [float(np.ptp(own.places(k, draws.unwrapped[:, j]))) for k, j in enumerate(shown)]
        unit = [10.0 ** np.floor(np.log10((w or 1.0) / _STEPS)) for w in width]
        return cls(draws, shown, prior, is_log, unit)

    def columns(self, theta: FloatArray) -> list[list[float]]:
        """Where draws (n, p) lie, a list for each parameter shown; a circle is cut open once."""
        theta = opened(theta, self.draws.circles, self.draws.mean())
        return [self.places(k, theta[:, j]) for k, j in enumerate(self.shown)]

    def places(self, k: int, value: FloatArray) -> list[float]:
        """Where values lie on the axis of parameter k of those shown, rounded."""
        place = np.log10(value) if self.is_log[k] else value
        unit = self.unit[k]
        return place.tolist() if unit == 0.0 else [float(f"{v:.12g}") for v in
                                                   np.round(place / unit) * unit]  # fmt: skip

    def told(self) -> NamedDict:
        """What the page has to know of them."""
        continuous = self.draws.continuous
        prior = self.prior
        return {
            "shown": self.shown,
            "log": self.is_log,
            "discrete": [continuous is not None and not continuous[j] for j in self.shown],
            "prior": None if prior is None else [
                self.places(k, prior.quantile(j, LEVELS)) for k, j in enumerate(self.shown)
            ],
        }  # fmt: skip


def _mode(result: Result, axes: _Axes) -> list[float] | None:
    """Where the mode lies; None if there is none, or not on these axes."""
    if isinstance(result.problem, Models):
        return None
    theta = result.mode().theta
    if not np.isfinite(theta).all() or (theta[axes.shown][axes.is_log] <= 0.0).any():
        return None
    return [place for (place,) in axes.columns(theta[None])]


def _numbers(draws: Posterior) -> NamedDict:
    """Estimates and errors (p, 5), as in a `Summary`, and the shortest intervals of 90 %."""
    numbers = {
        "estimates": estimates_of(draws), "errors": errors_of(draws),
        "interval": draws.hdi(0.9),
    }  # fmt: skip
    shown = {key: [[_short(v) for v in row] for row in value] for key, value in numbers.items()}
    return {"ess": draws.ess, "n": len(draws), "probabilities": _probabilities(draws), **shown}


def _short(value: float) -> float | None:
    """A number in six digits; JSON has no nan."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _probabilities(draws: Posterior) -> list[NamedDict]:
    """Of each value of each categorical parameter, in order, with errors."""
    return [
        {"parameter": category.column, "value": value, "p": _short(p), "error": _short(error)}
        for category in draws.categories
        for value, p, error in zip(*draws.probabilities(draws.names[category.column]), strict=True)
    ]


def _thinned(draws: Posterior, axes: _Axes) -> NamedDict:
    """Columns of rows in order of their distance: the nearest, and every k-th of the others.

    Each of these weighs k times as much.
    """
    most = min(_ROWS, _NUMBERS // (2 + len(axes.shown)))
    order = np.argsort(draws.distance, kind="stable")
    near, far = order[: min(_NEAREST, most // 2)], order[min(_NEAREST, most // 2) :]
    step = max(1, int(np.ceil(len(far) / (most - len(near)))))
    row = np.append(near, far[step // 2 :: step])
    weight = draws.weights[row] * np.where(np.arange(len(row)) < len(near), 1.0, step)
    return {
        "theta": axes.columns(draws.theta[row]),
        "weight": [float(f"{w:.4g}") for w in weight / weight.max()],
        "distance": [float(f"{d:.7g}") for d in draws.distance[row]],
    }


# Partitions ---------------------------------------------------------------------------------------

#: Most parameters among which two are chosen, most rounds, and most boxes in all pictures.
_PARAMETERS, _ROUNDS, _BOXES = 5, 12, 12_000
#: Most accepted draws in a picture.
_DOTS = 150
#: Steps of a rounded place along a side of the picture.
_SIDE = 1000


def partition_data(result: Result) -> NamedDict | None:
    """Boxes and accepted draws of pairs of parameters; None without two to choose.

    Places are in thousandths of the sides, and so are the square roots of the densities.
    """
    if not METHODS[result.method].cuts_boxes or len(result.rounds) < 2:
        return None
    names = [result.problem.names[j] for j in columns_of_dims(result).values()][:_PARAMETERS]
    prior = PriorDraws.of(result.posterior())
    pairs = [_sides(result, prior, pair) for pair in combinations(names, 2)]
    if not pairs:
        return None
    largest = max(len(played.partitions[0]) for played in result.rounds)
    n = int(np.clip(_BOXES // (len(pairs) * largest), 2, _ROUNDS))
    chosen = np.unique(np.linspace(1, len(result.rounds) - 1, n).round().astype(int)).tolist()
    return {
        "rounds": [f"round {s}, ε = {result.rounds[s].epsilon:.3g}" for s in chosen],
        "pairs": [
            {
                "names": [side.label for side in sides],
                "limits": [list(side.limits) for side in sides],
                "rounds": [_one(result, s, sides) for s in chosen],
            }
            for sides in pairs
        ],
    }


def _sides(result: Result, prior: PriorDraws | None, pair: tuple[str, str]) -> tuple[Side, Side]:
    """In θ; in the cube where a prior is of a logarithm, whose boxes would be slivers."""
    is_log = prior is not None and any(prior.is_log(result.problem.names.index(n)) for n in pair)
    return sides_of(result, pair, "cube" if is_log else "theta")


def _one(result: Result, s: int, sides: tuple[Side, Side]) -> NamedDict:
    played = result.rounds[s]
    corners, density = slice_of(result, played, 0, sides, "proposal")
    shade = np.sqrt(density / (density.max() or 1.0))
    return {
        "boxes": _steps(corners, sides).T.tolist(),
        "shades": np.round(_SIDE * shade).astype(int).tolist(),
        "dots": _steps(accepted_of(result, played, sides)[:, -_DOTS:], sides).T.tolist(),
    }


def _steps(places: FloatArray, sides: tuple[Side, Side]) -> IntArray:
    """Places (2 or 4, n) along both sides in turn, in thousandths of them."""
    low, high = (np.array([side.limits[i] for side in sides] * (len(places) // 2)) for i in (0, 1))
    share = (places - low[:, None]) / (high - low)[:, None]
    return np.asarray(np.round(_SIDE * np.clip(share, 0.0, 1.0)), dtype=np.int64)
