"""What may be given as a distance, and `Combined`: one for each of several data sets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.problem import distance_arithmetic as arrays
from abctree.problem.distances import (
    Energy,
    Euclidean,
    FunctionDistance,
    Mahalanobis,
    Minkowski,
    Scaled,
    Wasserstein,
    lacks_scale,
    standardised,
)
from abctree.problem.form import Form
from abctree.protocols import Distance, HasOfEntries, LearnedDistance
from abctree.types import FloatArray, IntArray

#: Shapes of the fields of a record, by name and in their order.
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
#: What may be given as a distance.
DistanceLike: TypeAlias = str | Callable[..., object] | Distance | Mapping[str, Any]
#: Pairs of pilot simulations whose distances give a data set its unit.
_PAIRS = 200


@checks_keywords
@dataclass(frozen=True, eq=False)
class Combined:
    """A distance for each of several data sets, √Σ (w_k d_k / u_k)².

    The observation is a record: a dict, a named tuple or a dataclass, of which each field is a data
    set.  What ``distance={"cases": "mad", "deaths": ("energy", 2.0)}`` of a `Problem` stands for.

    Parameters
    ----------
    parts : mapping of str to distance, or to (distance, weight)
        By the fields of the observation, all of them.  A distance as for `Problem`; a weight above
        0, by default 1.
    scale : (k,) array_like, optional
        Units u_k, in the order of `parts`.  Default: the median distance between two simulations
        of the pilot, so that data sets of any size and unit count alike at equal weights.

    Raises
    ------
    ParameterError
        If a weight or a unit is not positive, or the fields are not those of the observation.

    Examples
    --------
    >>> import abctree
    >>> def epidemic(theta, rng):
    ...     cases = rng.poisson(theta[0], 20)
    ...     return {"cases": cases, "deaths": rng.binomial(cases.sum(), 0.1)}
    >>> observed = {"cases": [5.0] * 20, "deaths": 10.0}
    >>> problem = abctree.Problem(
    ...     {"rate": (0, 20)}, epidemic, observed, distance={"cases": "energy", "deaths": "mad"}
    ... )
    >>> problem.shape
    (21,)
    """

    parts: Mapping[str, DistanceLike | tuple[DistanceLike, float]]
    scale: FloatArray | None = None
    shapes: Shapes | None = None  #: of the fields, which the observation gives

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Mapping) or not self.parts:
            rule = "hold a distance for each data set by name"
            raise wrong("distance", rule, repr(self.parts), 'Write {"cases": "mad"}.')
        held = {str(name): _weighted(part) for name, part in self.parts.items()}
        self.__dict__["parts"] = held
        if self.scale is not None:
            scale = arrays.positive(self.scale)
            if len(scale) != len(held):
                raise wrong("scale", f"have {len(held)} numbers", len(scale))
            self.__dict__["scale"] = scale

    def of_fields(self, shapes: Shapes | None) -> Combined:
        """The same for an observation with these fields."""
        own = set() if shapes is None else set(shapes)
        if own != set(self.parts):
            raise wrong(
                "distance",
                f"have the fields of the observation, {', '.join(sorted(own)) or 'which has none'}",
                ", ".join(self.parts),
                "Give `observed` as a dict with a data set under each name.",
            )
        return replace(self, shapes=dict(shapes or {}))

    def of_entries(self, keep: IntArray, n: int) -> Combined:  # noqa: ARG002 - of the protocol
        """The same for some of n summaries: what is missing is left out of its data set."""
        shapes, parts, first = {}, {}, 0
        for name, shape in (self.shapes or {}).items():
            size = int(np.prod(shape))
            own = keep[(keep >= first) & (keep < first + size)] - first
            first += size
            if not len(own):
                continue
            distance, weight = self._part(name)
            if len(own) < size:
                form = Form(shape, keep=own)
                shape = (len(form.rows), *shape[1:]) if form.rows is not None else (len(own),)  # noqa: PLW2901
                distance = of_entries(distance, form)
            shapes[name], parts[name] = shape, (distance, weight)
        kept = [list(self.parts).index(name) for name in parts]
        scale = None if self.scale is None else self.scale[kept]
        return replace(self, parts=parts, scale=scale, shapes=shapes)

    def _part(self, name: str) -> tuple[Distance, float]:
        return cast("tuple[Distance, float]", self.parts[name])

    def _each(
        self, simulated: FloatArray, observed: FloatArray
    ) -> Iterator[tuple[str, FloatArray, FloatArray]]:
        """Name, simulations (n, ...) and observation (...) of each data set."""
        if self.shapes is None:
            raise ParameterError(
                "`distance` must know the fields of the observation, but Combined has none. Give "
                "it to a Problem."
            )
        rows, target, first = simulated.reshape(len(simulated), -1), observed.ravel(), 0
        for name, shape in self.shapes.items():
            last = first + int(np.prod(shape))
            yield name, rows[:, first:last].reshape(-1, *shape), target[first:last].reshape(shape)
            first = last

    @property
    def is_fitted(self) -> bool:
        """Whether units, and the scales of the parts, are known."""
        parts = map(self._part, self.parts)
        return self.scale is not None and not any(lacks_scale(distance) for distance, _ in parts)

    def fitted(self, simulated: FloatArray) -> Combined:
        """The distance with the units, and the parts with the scales, of pilot summaries (n, ...).

        Warns
        -----
        AbctreeWarning
            If a data set never varies: its unit is 1.
        """
        parts, unit, first = {}, {}, 0
        n = min(len(simulated) - 1, _PAIRS)
        for name, rows, target in self._each(simulated, simulated[0]):
            distance, weight = self._part(name)
            if lacks_scale(distance):
                with arrays.named_as_some(first, target.size):
                    distance = distance.fitted(rows)
            first += target.size
            parts[name] = (distance, weight)
            between = [distance(rows[i : i + 1], rows[i + 1])[0] for i in range(n)]
            unit[name] = float(np.median(between)) if n else 0.0
        own = replace(self, parts={name: parts[name] for name in self.parts})
        if own.scale is not None:
            return own
        units = np.array([unit[name] for name in self.parts])
        with arrays.named([*self.parts]):
            return replace(own, scale=arrays.ones_where_constant(units))

    def _factors(self) -> dict[str, float]:
        """w_k / u_k by name."""
        if self.scale is None:
            advice = "Call .fitted(pilot_summaries); a run does so by itself."
            raise ParameterError(f"`distance` must be fitted before use. {advice}")
        each = zip(self.parts, self.scale.tolist(), strict=True)
        return {name: self._part(name)[1] / unit for name, unit in each}

    def __call__(self, simulated: FloatArray, observed: FloatArray) -> FloatArray:
        """(n, ...) and (...) -> (n,)."""
        factor = self._factors()
        apart = [
            factor[name] * self._part(name)[0](rows, target)
            for name, rows, target in self._each(simulated, observed)
        ]
        return arrays.norm(np.column_stack(apart), 2.0)

    def standardised(self, simulated: FloatArray, observed: FloatArray) -> FloatArray | None:
        """Differences (n, m) whose norm is the distance; None if a part has none."""
        factor, columns = self._factors(), []
        for name, rows, target in self._each(simulated, observed):
            own = standardised(self._part(name)[0], rows, target)
            if own is None:
                return None
            columns.append(factor[name] * own)
        return np.column_stack(columns)


def _weighted(part: DistanceLike | tuple[DistanceLike, float]) -> tuple[Distance, float]:
    """A distance and its weight."""
    distance, weight = part if isinstance(part, tuple) else (part, 1.0)
    check_rule("weight", weight, "above 0", "Leave a data set that counts nothing out.")
    return as_distance(distance), float(weight)


_NAMES: dict[str, Callable[[], Distance]] = {
    "euclidean": Euclidean,
    "manhattan": lambda: Minkowski(1.0),
    "chebyshev": lambda: Minkowski(np.inf),
    "mad": lambda: Scaled("mad"),
    "std": lambda: Scaled("std"),
    "mahalanobis": Mahalanobis,
    "energy": Energy,
    "wasserstein": Wasserstein,
}


def as_distance(spec: DistanceLike, *, vectorized: bool = False) -> Distance:
    """The distance that a name, a function or an object stands for; see `Problem`."""
    if isinstance(spec, Mapping):
        return Combined({
            name: (as_distance(part[0], vectorized=vectorized), *part[1:])
            if isinstance(part, tuple)
            else as_distance(part, vectorized=vectorized)
            for name, part in spec.items()
        })  # fmt: skip
    if isinstance(spec, str):
        if spec not in _NAMES:
            known = ", ".join(f'"{name}"' for name in _NAMES)
            raise wrong("distance", f"be one of {known}", repr(spec))
        return _NAMES[spec]()
    if inspect.isclass(spec):
        raise ParameterError(
            f"`distance` must be an object, but got the class {spec.__name__}. Call it first: "
            f"distance={spec.__name__}()."
        )
    # Functions of any make, compiled ones (`py_func`) included, but not objects with a call.
    if inspect.isroutine(spec) or isinstance(spec, functools.partial) or hasattr(spec, "py_func"):
        return FunctionDistance(spec, vectorized=vectorized)
    if hasattr(spec, "fitted") and not isinstance(spec, LearnedDistance):
        raise ParameterError(
            "`distance` must say by `is_fitted` whether it has the scale that `fitted` gives it, "
            f"but got {spec!r}. Give it this property."
        )
    if callable(spec):
        return cast("Distance", spec)
    raise wrong("distance", "be a name, a Distance or a function", repr(spec))


def of_entries(distance: Distance, form: Form | None) -> Distance:
    """The distance for an observation of which some entries are missing."""
    if form is None or form.keep is None:
        return distance
    if isinstance(distance, Energy | Wasserstein) and len(form.shape) > 1 and form.rows is None:
        raise ParameterError(
            f"`observed` must have whole rows for {type(distance).__name__}, but some of them miss "
            "a part. Drop these rows, from what the simulator returns, too."
        )
    if isinstance(distance, HasOfEntries):
        return distance.of_entries(form.keep, int(np.prod(form.shape)))
    return distance


def distance_of(
    spec: DistanceLike, form: Form | None, shapes: Shapes | None, *, vectorized: bool
) -> Distance:
    """The distance of a problem, for the fields of its observation and what of it is missing."""
    distance = as_distance(spec, vectorized=vectorized)
    if isinstance(distance, Combined):
        distance = distance.of_fields(shapes)
    return of_entries(distance, form)
