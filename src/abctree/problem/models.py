"""`Models`: several problems about one observation, as one problem over (model, parameters)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords, place_of
from abctree.numbers import checked_number
from abctree.problem.distances import lacks_scale
from abctree.problem.priors.cube import checked_boxes, checked_cube, checked_theta
from abctree.problem.problem import Problem
from abctree.problem.simulators import Model
from abctree.protocols import Category, Distance, HasCubeRange
from abctree.types import Data, FloatArray, IntArray, SeedArray

#: The first column of theta.
COLUMN = "model"


@checks_keywords
class Models(Problem):
    """Several models of one observation, in one run.

    The model is a parameter, cut by the tree as the others are: an arm is a box of one model, or of
    several, and simulations go to the models and boxes where they tell most.  `abctree.compare`
    gives the probabilities of the models, `Result.of_model` the run of one of them.

    Parameters
    ----------
    problems : mapping of str to Problem
        Two or more, by name, with the same observed summary and distance.  A distance whose scale
        is learned in the pilot is one for all of them.
    prior : mapping of str to float, optional
        Probabilities of the models before the data, by the same names; divided by their sum.
        Default: equal ones.

    Raises
    ------
    ParameterError
        If there are fewer than two problems, names differ, a prior is not positive, or the problems
        have other observed summaries or distances.

    Notes
    -----
    The columns of theta are the number of the model and its own parameters, from the left; what a
    model does not use is 0.

    Examples
    --------
    >>> import abctree
    >>> def poisson(theta, rng):
    ...     return rng.poisson(theta[0], 5).mean()
    >>> def geometric(theta, rng):
    ...     return rng.geometric(1.0 / (1.0 + theta[0]), 5).mean() - 1.0
    >>> models = abctree.Models(
    ...     {f.__name__: abctree.Problem({"mean": (0, 9)}, f, 2.0) for f in (poisson, geometric)}
    ... )
    >>> models.names
    ('model', 'mean')
    """

    def __init__(
        self, problems: Mapping[str, Problem], *, prior: Mapping[str, float] | None = None
    ) -> None:
        if not isinstance(problems, Mapping) or len(problems) < 2:
            raise wrong(
                "problems",
                "hold two problems or more by name",
                repr(problems),
                'Write {"one": problem, "other": problem}.',
            )
        self.problems = dict(problems)
        named = tuple(self.problems)
        own = tuple(self.problems.values())
        for name, problem in self.problems.items():
            if not isinstance(problem, Problem) or isinstance(problem, Models):
                raise wrong("problems", "hold problems", f"{problem!r} for {name!r}")
        check_same(named, own)
        self.probability = dict(zip(named, model_prior(named, prior).tolist(), strict=True))
        share = np.array(list(self.probability.values()))
        plain = all(problem.region.is_plain for problem in own)
        law = (ModelPrior if plain else ModelDensityPrior)(own, share)
        simulator = _Simulator(tuple(problem.model for problem in own), own[0].shape, law.widths)
        super().__init__(
            law,
            simulator,
            own[0].observed_summary,
            distance=own[0].distance,
            vectorized=simulator.vectorized,
            batch_size=min(problem.model.batch_size for problem in own),
        )

    def number(self, name: str) -> int:
        """The number of a model in theta.

        Raises
        ------
        ParameterError
            If there is no model of this name.
        """
        return place_of(name, tuple(self.problems))

    def __repr__(self) -> str:
        return f"Models({', '.join(self.problems)}; observed summary of shape {self.shape})"


@dataclass(frozen=True, eq=False)
class ModelPrior:
    """The prior of a model and of its parameters: the first coordinate of the cube is the model.

    The others are those of the model, from the left; what it does not use is free and means
    nothing.
    """

    problems: tuple[Problem, ...]
    share: FloatArray  #: (m,) probabilities of the models

    @property
    def d(self) -> int:
        """One more than the largest model has."""
        return 1 + max(problem.d for problem in self.problems)

    @property
    def widths(self) -> IntArray:
        """(m,) Parameters of each model, fixed ones included."""
        return np.array([len(problem.names) for problem in self.problems])

    @property
    def names(self) -> tuple[str, ...]:
        """The model, and what stands in each place: all names that models have there."""
        columns = range(self.widths.max())
        held = [[p.names[j] for p in self.problems if j < len(p.names)] for j in columns]
        placed = ["/".join(dict.fromkeys(names)) for names in held]
        taken = [COLUMN, *placed]
        return tuple(
            name if taken.count(name) == 1 else f"{name} ({j})" if j else COLUMN
            for j, name in enumerate(taken)
        )

    @property
    def bounds(self) -> FloatArray:
        """(p, 2) All nan: no parameter may be moved, for it means another thing in each model."""
        return np.full((len(self.names), 2), np.nan)

    @property
    def categories(self) -> tuple[Category, ...]:
        """The model."""
        return (Category(0, tuple(map(float, range(len(self.problems))))),)

    def model_at(self, cube: FloatArray) -> IntArray:
        """Number of the model at points (n, d): (n,)."""
        ends = np.cumsum(self.share)[:-1]
        return np.searchsorted(ends, cube[:, 0], side="right")

    def parts_of(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Share of each model in boxes (K, d): (K, m)."""
        ends = np.concatenate([[0.0], np.cumsum(self.share)[:-1], [1.0]])
        low, high = lower[:, :1], upper[:, :1]
        common = np.minimum(high, ends[1:]) - np.maximum(low, ends[:-1])
        return np.asarray(np.maximum(common, 0.0) / (high - low))

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """(n, d) in [0, 1] -> theta (n, p)."""
        points = checked_cube("cube", cube, self.d)
        model = self.model_at(points)
        theta = np.zeros((len(points), 1 + self.widths.max()))
        theta[:, 0] = model
        for k, problem in enumerate(self.problems):
            rows = np.flatnonzero(model == k)
            own = problem.prior.from_cube(points[rows, 1 : 1 + problem.d])
            theta[rows, 1 : 1 + own.shape[1]] = own
        return theta

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Theta (n, p) -> (n, d), the middle of the model's part and of what it does not use."""
        return self._placed(theta)[0]

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta (n, p) -> the ends (n, d), (n, d) of the part of the cube that is mapped to it."""
        return self._placed(theta)[1:]

    def _placed(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        rows = checked_theta(theta, self.names)
        model = np.clip(rows[:, 0], 0, len(self.problems) - 1).astype(np.int64)
        ends = np.concatenate([[0.0], np.cumsum(self.share)])
        ends[-1] = 1.0
        lower, upper = np.zeros((2, len(rows), self.d))
        upper[:] = 1.0
        lower[:, 0], upper[:, 0] = ends[model], ends[model + 1]
        middle = 0.5 * (lower + upper)
        for k, problem in enumerate(self.problems):
            at = np.flatnonzero(model == k)
            own = rows[at, 1 : 1 + len(problem.names)]
            place = slice(1, 1 + problem.d)
            middle[at, place] = problem.prior.to_cube(own)
            if isinstance(problem.prior, HasCubeRange):
                lower[at, place], upper[at, place] = problem.prior.cube_range(own)
            else:
                lower[at, place] = upper[at, place] = middle[at, place]
        return middle, lower, upper

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K, d), (K, d) -> nan (K,): models have no common volume."""
        low, _ = checked_boxes(lower, upper, self.d)
        return np.full(len(low), np.nan)


class ModelDensityPrior(ModelPrior):
    """The same where a model has a constraint, or a prior that is known as a density."""

    def cube_density(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,), the density of each model's own prior, truncated and normalised."""
        points = checked_cube("cube", cube, self.d)
        model = self.model_at(points)
        out = np.ones(len(points))
        for k, problem in enumerate(self.problems):
            if not problem.region.is_plain:
                rows = np.flatnonzero(model == k)
                out[rows] = problem.region.density(points[rows, 1 : 1 + problem.d])
        return out


@dataclass(frozen=True, eq=False)
class _Simulator:
    """Hands rows to the models that their first column names, each called as it wants."""

    models: tuple[Model, ...]
    shape: tuple[int, ...]  #: of a summary
    widths: IntArray

    @property
    def releases_lock(self) -> bool:
        """Whether all models do: see `abctree.releases_lock`."""
        return all(model.is_for_threads for model in self.models)

    @property
    def vectorized(self) -> bool | Literal["seeds"]:
        """One way for all: a batch with one generator where they differ."""
        kinds = {model.vectorized for model in self.models}
        return kinds.pop() if len(kinds) == 1 else True

    def __call__(self, theta: FloatArray, rng: np.random.Generator | SeedArray) -> Data:
        """Theta (p,) or (n, p) -> summaries (...) or (n, ...)."""
        rows = np.atleast_2d(theta)
        out = np.empty((len(rows), *self.shape))
        for k, model in enumerate(self.models):
            at = np.flatnonzero(rows[:, 0] == k)
            if len(at):
                own = np.ascontiguousarray(rows[at, 1 : 1 + self.widths[k]])
                out[at] = self._summaries(model, own, at, rng)
        return out if theta.ndim == 2 else out[0]

    def _summaries(
        self, model: Model, theta: FloatArray, at: IntArray, rng: np.random.Generator | SeedArray
    ) -> FloatArray:
        """(n, ...) Of rows of one model."""
        if not model.vectorized:
            return np.concatenate([model.read(model.simulator(t, rng), self.shape) for t in theta])
        given = rng
        if model.vectorized == "seeds":
            if isinstance(rng, np.random.Generator):  # of a batch, where ways differ
                given = rng.integers(2**64, size=len(at), dtype=np.uint64)
            else:
                given = rng[at]
        return model.read(model.simulator(theta, given), self.shape, len(at))


def model_prior(names: Sequence[str], prior: Mapping[str, float] | None) -> FloatArray:
    """(m,) Probabilities of models before the data: equal ones, or those given over their sum."""
    if not all(isinstance(name, str) for name in names):
        raise ParameterError(f"Models must have strings as names, but got {list(names)}.")
    if prior is None:
        return np.full(len(names), 1.0 / len(names))
    if set(prior) != set(names):
        raise wrong("prior", f"have the names {', '.join(names)}", ", ".join(map(str, prior)))
    weight = np.array([checked_number("prior", prior[name]) for name in names])
    if not (np.isfinite(weight).all() and (weight > 0.0).all()):
        raise wrong("prior", "be positive", dict(prior))
    weight /= weight.max()  # the sum may be no float
    return np.asarray(weight / weight.sum())


def check_same(names: Sequence[str], problems: Sequence[Problem]) -> None:
    """Raise `ParameterError` where observed summaries, or what distances mean, differ."""
    first = problems[0]
    for name, other in zip(names[1:], problems[1:], strict=True):
        if not np.array_equal(other.observed_summary, first.observed_summary):
            raise ParameterError(
                f"Models must have the same observed summary, but that of {name!r} is not that "
                f"of {names[0]!r}. Use the same data and summary."
            )
        if not _same_distance(other.distance, first.distance, first.observed_summary):
            raise ParameterError(
                f"Models must have the same distance, but that of {name!r} is not that of "
                f"{names[0]!r}: a scale that is learned in the pilot is one for each run. Give "
                "all problems one distance, such as abctree.distances.Scaled(scale=...), or run "
                "them as one, abctree.Models."
            )


def _same_distance(one: Distance, other: Distance, observed: FloatArray) -> bool:
    """Whether two distances agree at steps along each summary, and along all."""
    if lacks_scale(one):
        return type(one) is type(other) and repr(one) == repr(other)
    if lacks_scale(other):
        return False
    q = observed.size
    step = np.vstack([np.eye(q), np.ones((1, q))]) * (1.0 + np.abs(observed).max(initial=0.0))
    probe = observed[None] + step.reshape(q + 1, *observed.shape)
    there, here = one(probe, observed), other(probe, observed)
    return bool(np.allclose(here, there, rtol=1e-9, equal_nan=True))
