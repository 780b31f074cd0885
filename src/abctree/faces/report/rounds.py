"""What the page draws of partitions: the boxes of any two parameters, round by round."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from abctree.answers.result import Result
from abctree.faces.plots.boxes import Side, accepted_of, columns_of_dims, sides_of, slice_of
from abctree.faces.plots.prior import PriorDraws
from abctree.method import METHODS
from abctree.types import FloatArray, IntArray, NamedDict

#: Most parameters among which two are chosen, most rounds, and most boxes in all pictures.
_PARAMETERS, _ROUNDS, _BOXES = 5, 12, 12_000
#: Most accepted draws in a picture.
_DOTS = 150
#: Steps of a rounded place along a side of the picture.
_STEPS = 1000


def partition_data(result: Result) -> NamedDict | None:
    """Boxes and accepted draws of pairs of parameters; None without two to choose.

    Places are in thousandths of the sides, and so are the square roots of the densities.
    """
    if not METHODS[result.method].cuts_boxes or len(result.rounds) < 2:
        return None
    names = [result.problem.names[j] for j in columns_of_dims(result).values()][:_PARAMETERS]
    pairs = [_sides(result, pair) for pair in combinations(names, 2)]
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


def _sides(result: Result, pair: tuple[str, str]) -> tuple[Side, Side]:
    """In θ; in the cube where a prior is of a logarithm, whose boxes would be slivers."""
    prior = PriorDraws.of(result.posterior())
    is_log = prior is not None and any(prior.is_log(result.problem.names.index(n)) for n in pair)
    return sides_of(result, pair, "cube" if is_log else "theta")


def _one(result: Result, s: int, sides: tuple[Side, Side]) -> NamedDict:
    played = result.rounds[s]
    corners, density = slice_of(result, played, 0, sides, "proposal")
    shade = np.sqrt(density / (density.max() or 1.0))
    return {
        "boxes": _steps(corners, sides).T.tolist(),
        "shades": np.round(_STEPS * shade).astype(int).tolist(),
        "dots": _steps(accepted_of(result, played, sides)[:, -_DOTS:], sides).T.tolist(),
    }


def _steps(places: FloatArray, sides: tuple[Side, Side]) -> IntArray:
    """Places (2 or 4, n) along both sides in turn, in thousandths of them."""
    low, high = (np.array([side.limits[i] for side in sides] * (len(places) // 2)) for i in (0, 1))
    share = (places - low[:, None]) / (high - low)[:, None]
    return np.asarray(np.round(_STEPS * np.clip(share, 0.0, 1.0)), dtype=np.int64)
