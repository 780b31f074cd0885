"""The published conformance checks: our parts pass them, deliberately broken ones do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import (
    AcceptanceMinusDivergence,
    Cart,
    Categorical,
    DensityPrior,
    Dirichlet,
    Dyadic,
    EffectiveSampleSize,
    Grid,
    Growth,
    Integers,
    ModelProbabilities,
    MultivariateNormal,
    PosteriorMatch,
    PriorTransform,
    SamplingEfficiency,
    SoftTree,
)
from abctree.data import Boxes
from abctree.protocols import Category, Circle
from abctree.testing import check_partitioner, check_prior, check_utility

# -------------------------------------------------------------------------------------- our parts


def product(spec):
    """The prior of a dict."""
    return abctree.Problem(spec, max, 0.0).prior


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize(
    "partitioner",
    [
        SoftTree(),
        SoftTree(min_rows=1, n_bins=3),
        Dyadic(),
        Dyadic(n_splits=10),
        Dyadic(n_splits=30, direction="cyclic", min_draws=1, label=None),
        Cart(),
        Cart(label=2.5, min_leaf=1, max_leaves=60),
        Cart(prune=True, n_pruning_folds=3),
        Grid(3),
    ],
    ids=repr,
)
def test_our_partitioners_conform(partitioner, d):
    check_partitioner(partitioner, d=d, rng=d)


@pytest.mark.parametrize("n", [2, 20, 3000])
def test_our_partitioners_conform_when_the_table_is_small_or_large(n):
    for partitioner in (SoftTree(), Dyadic(), Cart()):
        check_partitioner(partitioner, n=n)


@pytest.mark.parametrize(
    "utility",
    [
        PosteriorMatch(),
        SamplingEfficiency(),
        AcceptanceMinusDivergence(),
        EffectiveSampleSize(),
        EffectiveSampleSize(gamma=0.0),
        EffectiveSampleSize(gamma=0.65),
        ModelProbabilities(),
    ],
    ids=repr,
)
def test_our_utilities_conform(utility):
    check_utility(utility)


@pytest.mark.parametrize(
    "prior",
    [
        product({"a": stats.norm(0, 2), "b": (-5.0, 5.0), "n": stats.randint(1, 21), "c": 3.0}),
        product({"a": stats.cauchy(), "b": stats.gamma(0.3), "c": stats.lognorm(2.0)}),
        product({"a": (1e-13, 2e-13), "b": stats.norm(1e9, 1e-3)}),
        product({"i": Integers(0, 5), "k": Categorical([1.0, 2.5, 9.0]), "p": stats.poisson(3.0)}),
        product({("x", "y"): MultivariateNormal([0, 1], [[2.0, 0.9], [0.9, 1.0]])}),
        product({("p", "q", "r"): Dirichlet([1.0, 2.0, 0.5])}),
        product({"n": 2.0, "angle": abctree.Periodic(-1.0, 5.0), "k": Categorical([2.5, 1.0])}),
        PriorTransform(lambda cube: np.sort(cube, axis=1), ("low", "high")),
        DensityPrior(lambda t: -np.square(t).sum(axis=1), {"a": (-1.0, 1.0), "b": (0.0, 2.0)}),
    ],
    ids=[
        "mixed",
        "heavy tails",
        "scales",
        "discrete",
        "normal",
        "simplex",
        "circle",
        "map",
        "density",
    ],
)
def test_our_priors_conform(prior):
    check_prior(prior)


# ---------------------------------------------------------------------------- broken partitioners


class Sound:
    """A fixed partition with three boxes, the sound twin of what follows."""

    def partition(self, cube, distance, epsilon, current, rng):
        growth = Growth(Boxes.whole(cube.shape[1]))
        growth.split(0, 0, 0.45)
        growth.split(1, 0, 0.75)
        return self.spoilt(growth.boxes())

    def spoilt(self, boxes):
        return boxes


class Overlapping(Sound):
    def spoilt(self, boxes):
        upper = boxes.upper.copy()
        upper[0, 0] = 0.6
        return Boxes(boxes.lower, upper, boxes.tree)


class Gap(Sound):
    def spoilt(self, boxes):
        upper = boxes.upper.copy()
        upper[0, 0] = 0.4
        return Boxes(boxes.lower, upper, boxes.tree)


class Swapped(Sound):
    """A gap and an overlap whose volumes cancel."""

    def spoilt(self, boxes):
        lower, upper = boxes.lower.copy(), boxes.upper.copy()
        upper[0, 0] = 0.55  # overlaps box 1 by .1
        lower[2, 0] = 0.85  # leaves a gap of .1 behind it
        return Boxes(lower, upper, boxes.tree)


class Outside(Sound):
    def spoilt(self, boxes):
        upper = boxes.upper.copy()
        upper[2, 0] = 1.25
        return Boxes(boxes.lower, upper, boxes.tree)


class Flat(Sound):
    def spoilt(self, boxes):
        lower = np.concatenate([boxes.lower, [np.full(boxes.d, 0.5)]])
        upper = np.concatenate([boxes.upper, [np.full(boxes.d, 0.5)]])
        return Boxes(lower, upper, boxes.tree)


class OffByOne(Sound):
    class Boxes(Boxes):
        def locate(self, cube):
            return (super().locate(cube) + 1) % len(self)

    def spoilt(self, boxes):
        return self.Boxes(boxes.lower, boxes.upper, boxes.tree)


class ClosedAbove(OffByOne):
    """Points on a border go left."""

    class Boxes(Boxes):
        def locate(self, cube):
            return super().locate(np.nextafter(cube, 0.0))


class SamplesElsewhere(OffByOne):
    class Boxes(Boxes):
        def sample(self, box, rng):
            return rng.random((len(box), self.d))


class Renumbered(Sound):
    """The tree numbers the boxes in another order than the corners."""

    def spoilt(self, boxes):
        tree = dataclasses.replace(boxes.tree, box=np.where(boxes.tree.box < 0, -1, 0))
        leaves = np.flatnonzero(tree.box >= 0)
        tree.box[leaves] = [0, 2, 1]
        return Boxes(boxes.lower, boxes.upper, tree)


class ChildrenFirst(Sound):
    """A sound tree, its nodes listed from the last to the first but for the root."""

    def spoilt(self, boxes):
        old = boxes.tree
        order = np.array([0, *range(old.n_nodes - 1, 0, -1)])
        number = np.append(np.argsort(order), -1)
        columns = {name: getattr(old, name)[order] for name in ("feature", "threshold", "box")}
        left, right = number[old.left[order]], number[old.right[order]]
        return Boxes(boxes.lower, boxes.upper, type(old)(left=left, right=right, **columns))


class Remembers(Sound):
    """Cuts finer with each call."""

    calls = 0

    def partition(self, cube, distance, epsilon, current, rng):
        self.calls += 1
        return Dyadic(n_splits=self.calls, min_draws=1).partition(
            cube, distance, epsilon, None, rng
        )


class Accumulates(Sound):
    """Reproducible when asked twice in a row, but not after another table."""

    rows = frozenset()

    def partition(self, cube, distance, epsilon, current, rng):
        self.rows |= {row.tobytes() for row in cube}
        bins = 2 + len(self.rows) // 505
        return Grid(bins).partition(cube, distance, epsilon, current, rng)


class OwnRandomness(Sound):
    generator = np.random.default_rng(0)

    def partition(self, cube, distance, epsilon, current, rng):
        growth = Growth(Boxes.whole(cube.shape[1]))
        growth.split(0, 0, 0.1 + 0.8 * self.generator.random())
        return growth.boxes()


class FixesFailures(Sound):
    """Overwrites the infinite distances it is given."""

    def partition(self, cube, distance, epsilon, current, rng):
        distance[~np.isfinite(distance)] = 1e9
        return super().partition(cube, distance, epsilon, current, rng)


class SortsRows(Sound):
    def partition(self, cube, distance, epsilon, current, rng):
        cube.sort(axis=0)
        return super().partition(cube, distance, epsilon, current, rng)


class RefinesInPlace(Sound):
    def partition(self, cube, distance, epsilon, current, rng):
        if current is not None and len(current) > 1:
            current.tree.threshold[0] += 1e-3
        return super().partition(cube, distance, epsilon, current, rng)


class NeedsRows(Sound):
    def partition(self, cube, distance, epsilon, current, rng):
        boxes = Growth(Boxes.whole(cube.shape[1]))
        boxes.split(0, 0, float(cube[:, 0].max()))
        return boxes.boxes()


class NeedsAcceptance(Sound):
    def partition(self, cube, distance, epsilon, current, rng):
        growth = Growth(Boxes.whole(cube.shape[1]))
        growth.split(0, 0, float(cube[distance < epsilon, 0].max()))
        return growth.boxes()


class CutsAtQuantiles(Sound):
    """Does not ask whether the quantiles differ."""

    def partition(self, cube, distance, epsilon, current, rng):
        low, high = np.quantile(cube[:, 0], [0.4, 0.6]) if len(cube) else (0.4, 0.6)
        boxes = Sound().partition(cube, distance, epsilon, current, rng)
        lower, upper = boxes.lower.copy(), boxes.upper.copy()
        upper[0, 0] = lower[1, 0] = low
        upper[1, 0] = lower[2, 0] = high
        threshold = boxes.tree.threshold.copy()
        threshold[boxes.tree.feature >= 0] = [low, high]
        return Boxes(lower, upper, dataclasses.replace(boxes.tree, threshold=threshold))


class OutgrowsItself(Sound):
    """Cannot refine what it made itself."""

    def partition(self, cube, distance, epsilon, current, rng):
        if current is not None and len(current) > 4:
            return Overlapping().partition(cube, distance, epsilon, current, rng)
        return Grid(5).partition(cube, distance, epsilon, current, rng)


class ReturnsCorners(Sound):
    def spoilt(self, boxes):
        return boxes.lower, boxes.upper


class WrongDimension(Sound):
    def partition(self, cube, distance, epsilon, current, rng):
        return Boxes.whole(cube.shape[1] + 1)


def test_check_partitioner_accepts_the_sound_twin_of_the_broken_ones():
    for d in (1, 2, 3):
        check_partitioner(Sound(), d=d)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Overlapping, "volumes must sum to 1"),
        (Gap, "volumes must sum to 1"),
        (Swapped, "exactly one half-open box"),
        (Outside, r"within \[0, 1\]"),
        (Flat, "`lower` < `upper`"),
        (OffByOne, "`locate` must find the box"),
        (ClosedAbove, "`locate` must find the box"),
        (SamplesElsewhere, "sampled from box k"),
        (Renumbered, "`locate` must find the box"),
        (ChildrenFirst, "larger number than its parent"),
        (Remembers, "same seed must give the same boxes"),
        (Accumulates, "same seed must give the same boxes"),
        (OwnRandomness, "same seed must give the same boxes"),
        (FixesFailures, "must not change its arguments"),
        (SortsRows, "must not change its arguments"),
        (RefinesInPlace, "must not change its arguments"),
        (NeedsRows, "must accept every table.*no rows"),
        (NeedsAcceptance, "must accept every table.*raised ValueError"),
        (CutsAtQuantiles, "`lower` < `upper`.*one row"),
        (OutgrowsItself, "volumes must sum to 1.*`current` its own"),
        (ReturnsCorners, "must return `Boxes`"),
        (WrongDimension, r"shape \(K, 2\)"),
    ],
)
def test_check_partitioner_rejects_a_broken_part_and_names_the_rule(broken, says):
    with pytest.raises(AssertionError, match=says):
        check_partitioner(broken())


class LostNode(Sound):
    def spoilt(self, boxes):
        tree = boxes.tree
        right = tree.right.copy()
        right[0] = tree.left[0]
        return Boxes(boxes.lower, boxes.upper, dataclasses.replace(tree, right=right))


class ShortTree(Sound):
    def spoilt(self, boxes):
        tree = dataclasses.replace(boxes.tree, threshold=boxes.tree.threshold[:-1])
        return Boxes(boxes.lower, boxes.upper, tree)


class NoSuchCoordinate(Sound):
    def spoilt(self, boxes):
        tree = dataclasses.replace(boxes.tree, feature=np.where(boxes.tree.feature < 0, -1, 7))
        return Boxes(boxes.lower, boxes.upper, tree)


class RepeatedNumber(Sound):
    def spoilt(self, boxes):
        tree = dataclasses.replace(boxes.tree, box=np.minimum(boxes.tree.box, 1))
        return Boxes(boxes.lower, boxes.upper, tree)


class NumberedInnerNode(Sound):
    def spoilt(self, boxes):
        tree = dataclasses.replace(boxes.tree, box=np.maximum(boxes.tree.box, 0))
        return Boxes(boxes.lower, boxes.upper, tree)


class RoundedCorners(Sound):
    """Corners kept with fewer digits than the cuts."""

    def partition(self, cube, distance, epsilon, current, rng):
        growth = Growth(Boxes.whole(cube.shape[1]))
        growth.split(0, 0, 1 / 3)
        boxes = growth.boxes()
        corners = (c.astype(np.float32).astype(float) for c in (boxes.lower, boxes.upper))
        return Boxes(*corners, boxes.tree)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (LostNode, "child of exactly one node"),
        (ShortTree, "must all have length 5"),
        (NoSuchCoordinate, r"coordinate in 0\.\.1"),
        (RepeatedNumber, "box numbers 0..2"),
        (NumberedInnerNode, "-1 in inner nodes"),
        (RoundedCorners, "exactly what the cuts|`locate` must find"),
    ],
)
def test_check_partitioner_rejects_an_inconsistent_tree(broken, says):
    with pytest.raises(AssertionError, match=says):
        check_partitioner(broken())


class OneRounding(Sound):
    """One border is a rounding away from its cut."""

    def partition(self, cube, distance, epsilon, current, rng):
        boxes = Dyadic(n_splits=500, min_draws=1).partition(cube, distance, epsilon, None, rng)
        upper = boxes.upper.copy()
        upper[-1, 0] = np.nextafter(upper[-1, 0], 0.0)
        return Boxes(boxes.lower, upper, boxes.tree)


@pytest.mark.slow
def test_check_of_corners_rejects_a_border_one_rounding_away_from_its_cut():
    check_partitioner(Dyadic(n_splits=500, min_draws=1))
    with pytest.raises(AssertionError, match=r"exactly what the cuts of the tree imply.* 1 boxes"):
        check_partitioner(OneRounding())


def test_check_partitioner_names_the_table():
    with pytest.raises(AssertionError, match=r"\(table: ordinary\)"):
        check_partitioner(Gap())


class Measured(Sound):
    """Cuts otherwise once it is told the volumes."""

    def measured(self, prior):
        assert prior.names == ("a0", "a1")
        return Gap()


def test_check_partitioner_rejects_one_that_is_broken_when_it_is_told_the_volumes():
    check_partitioner(Dyadic(pick="modal"), d=3)
    with pytest.raises(AssertionError, match=r"volumes must sum to 1.*\(table: measured\)"):
        check_partitioner(Measured())


class Misplaced(SoftTree):
    """Says another box of the first row than it is in."""

    def partition_and_locate(self, *given):
        boxes, box = super().partition_and_locate(*given)
        return boxes, np.where(np.arange(len(box)) == 0, (box + 1) % max(len(boxes), 2), box)


def test_check_partitioner_rejects_one_that_misplaces_a_row():
    check_partitioner(SoftTree())
    with pytest.raises(AssertionError, match=r"box that `locate` finds.*\(table: ordinary\)"):
        check_partitioner(Misplaced())


# ------------------------------------------------------------------------------- broken utilities


def utility(function):
    """A utility from a function of η and π."""
    return type("Broken", (), {"optimal_proposal": staticmethod(function)})()


def spoils(eta, mass):
    eta *= 0.5
    return mass


BROKEN_UTILITIES = [
    (lambda eta, mass: mass * eta, "sum to 1"),
    (lambda eta, mass: mass * eta / max((mass * eta).sum(), 1e-290), "sum to 1"),
    (lambda eta, mass: np.divide(*[mass * eta, (mass * eta).sum()]), "finite"),
    (lambda eta, mass: mass + (eta - eta.mean()) / 10, ">= 0"),
    (lambda eta, mass: mass[:-1] / mass[:-1].sum(), "one entry for each box"),
    (lambda eta, mass: np.full(len(eta), 1 / len(eta)), "prior masses where all rates are 0"),
    (lambda eta, mass: mass * (eta[1] >= 0.0), "must accept all.*IndexError"),
    (spoils, "must not change its arguments"),
]


@pytest.mark.parametrize(("function", "says"), BROKEN_UTILITIES)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_check_utility_rejects_a_broken_part_and_names_the_rule(function, says):
    with pytest.raises(AssertionError, match=says):
        check_utility(utility(function))


def test_check_utility_accepts_the_sound_twin():
    def sound(eta, mass):
        q = mass * eta
        return q / q.sum() if q.any() else mass

    check_utility(utility(sound))


class Valued:
    """Says what it maximises: the match with the posterior."""

    sign = -1.0

    def optimal_proposal(self, eta, mass):
        q = mass * eta
        return q / q.sum() if q.any() else mass

    def value(self, q, eta, mass):
        return self.sign * float(((q - self.optimal_proposal(eta, mass)) ** 2).sum())


def test_check_utility_wants_weights_of_models_above_zero():
    class Forgets(ModelProbabilities):
        def model_weights(self, evidence):
            return np.minimum(1.0, evidence)

    with pytest.raises(AssertionError, match=r"`model_weights` must be in \(0, 1\]"):
        check_utility(Forgets())


def test_check_utility_compares_its_value_with_that_of_the_prior():
    check_utility(Valued())
    with pytest.raises(AssertionError, match=r"q\* must have the largest `value`, but has"):
        check_utility(type("Worst", (Valued,), {"sign": 1.0})())


# ----------------------------------------------------------------------------------- broken priors


class Square:
    """θ = (u₁, u₂²): the sound twin of what follows."""

    names = ("a", "b")
    d = 2

    def from_cube(self, cube):
        return np.column_stack([cube[:, 0], cube[:, 1] ** 2])

    def to_cube(self, theta):
        return np.column_stack([theta[:, 0], np.sqrt(theta[:, 1])])

    def log_volume(self, lower, upper):
        with np.errstate(divide="ignore"):
            ends = np.log(upper - lower)
        ends[:, 1] += np.log(upper[:, 1] + lower[:, 1])
        return ends.sum(axis=1)


class CubeVolume(Square):
    """Takes the middle density for the whole box, so that volumes do not add up."""

    def log_volume(self, lower, upper):
        middle = 0.5 * (lower + upper)
        return np.log(upper - lower).sum(axis=1) + 1.5 * np.log(middle[:, 1])


class WrongInverse(Square):
    def to_cube(self, theta):
        return theta.copy()


class OutsideInverse(Square):
    def to_cube(self, theta):
        return 3.0 * super().to_cube(theta)


class MissingColumn(Square):
    def from_cube(self, cube):
        return cube[:, :1]


class InfiniteEdge(Square):
    def from_cube(self, cube):
        with np.errstate(over="ignore", divide="ignore"):
            return super().from_cube(cube) / (cube > 1e-15)


class Standardises(Square):
    """A row depends on the other rows."""

    def from_cube(self, cube):
        theta = super().from_cube(cube)
        return theta - theta.mean(axis=0) if len(theta) else theta


class SpoilsCube(Square):
    def from_cube(self, cube):
        cube[:, 1] **= 2
        return cube.copy()


class NoRows(Square):
    def from_cube(self, cube):
        return super().from_cube(cube) if len(cube) else np.empty(0)


class TwiceNamed(Square):
    names = ("a", "a")


class ScalarVolume(Square):
    def log_volume(self, lower, upper):
        return np.float64(0.0)


class NoInverse(Square):
    def to_cube(self, theta):
        raise NotImplementedError

    def log_volume(self, lower, upper):
        return np.full(len(lower), np.nan)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (CubeVolume, "`log_volume` must add up"),
        (WrongInverse, "must be theta"),
        (OutsideInverse, r"within \[0, 1\]"),
        (MissingColumn, "one column for each of the 2 names"),
        (InfiniteEdge, "finite in the open cube"),
        (Standardises, "each row on its own"),
        (SpoilsCube, "must not change its argument"),
        (NoRows, r"shape \(0, 2\)"),
        (TwiceNamed, "distinct strings"),
        (ScalarVolume, "must have shape"),
    ],
)
def test_check_prior_rejects_a_broken_part_and_names_the_rule(broken, says):
    with pytest.raises(AssertionError, match=says):
        check_prior(broken())


@pytest.mark.parametrize("prior", [Square(), NoInverse()])
def test_check_prior_accepts_the_sound_twin_with_or_without_an_inverse(prior):
    check_prior(prior)


class Told(Square):
    """Says all that a prior may say: the sound twin of what follows."""

    bounds = np.array([[0.0, 1.0], [0.0, np.nan]])

    def cube_density(self, cube):
        return cube[:, 0]

    def log_density(self, theta):
        return np.where(theta[:, 0] < 0.5, -np.inf, 0.0)

    def cube_range(self, theta):
        point = self.to_cube(theta)
        return point - 1e-9, point + 1e-9


def test_check_prior_asks_for_what_a_prior_has_beside_its_protocol():
    check_prior(Told())


@pytest.mark.parametrize(
    ("name", "broken", "says"),
    [
        ("bounds", np.array([[0.0, 1.0], [0.0, 0.5]]), "`bounds` must have shape"),
        ("bounds", np.array([0.0, 1.0]), "`bounds` must have shape"),
        ("cube_density", lambda self, cube: cube[:, 0] - 0.5, "`cube_density` must be finite"),
        ("cube_density", lambda self, cube: cube, "`cube_density` must be finite"),
        ("log_density", lambda self, theta: theta, "`log_density` must give 200 draws"),
        ("log_density", lambda self, theta: theta[:, 0] * np.nan, "`log_density` must give 200"),
        ("cube_range", lambda self, theta: (theta, theta), "`cube_range` must hold"),
        ("circles", (Circle(0, 0, 0.0, 2.0),), "`circles` must be uniform"),
        ("circles", (Circle(0, 1, 0.0, 1.0),), "`circles` must be uniform"),
        ("categories", (Category(0, (0.0, 1.0)),), "`categories` must have the values"),
    ],
)
def test_check_prior_rejects_what_is_broken_beside_its_protocol(name, broken, says):
    with pytest.raises(AssertionError, match=says):
        check_prior(type("Broken", (Told,), {name: broken})())
