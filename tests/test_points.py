"""Points to simulate where some or all of a box is refused, and averages over ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import abctree
from abctree import T3C, Growth, Thompson, TopTwo
from abctree.data import Arms, Boxes, Mixture, Simulations, Steps
from abctree.problem import region
from abctree.proposals import (
    OnBoxes,
    Points,
    draw_allowed,
    draw_in_arms,
    draw_points,
    pick,
    points,
    ranges,
)
from abctree.tree import beliefs, fold, inner_loop, policies

from .conftest import z_score
from .test_inner_loop import game_of

SQUARE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
#: Of the boxes of `Grid(4)` on the unit square, by the constraint a > b.
EMPTY = [1, 2, 3, 6, 7, 11]
WHOLE = [4, 8, 9, 12, 13, 14]


def ordered(t):
    return t["a"] > t["b"]


def noisy(theta, rng):
    return theta + rng.standard_normal(theta.shape)


def square(constraint=ordered):
    return abctree.Problem(SQUARE, noisy, [0.0, 0.0], vectorized=True, constraint=constraint)


def line(constraint):
    return abctree.Problem({"t": (0.0, 1.0)}, noisy, [0.0], constraint=constraint)


def grid(problem, bins=4):
    nothing = np.empty((0, problem.d)), np.empty(0)
    return problem.region.measure(abctree.Grid(bins).partition(*nothing, 1.0, None, None))


# What is measured ---------------------------------------------------------------------------------


def test_a_box_without_allowed_points_has_hardly_any_mass_or_density():
    partition = grid(square())
    assert partition.prior_mass[EMPTY].sum() < 1e-3
    assert policies.box_density(partition)[EMPTY].max() < 2e-3
    # The others keep what they have.
    assert partition.prior_mass[WHOLE] == pytest.approx(np.full(6, 1 / 8), rel=0.05)
    assert policies.box_density(partition)[WHOLE] == pytest.approx(np.ones(6), rel=0.05)
    assert (partition.feasible > 0.0).all()
    assert partition.prior_mass.sum() == pytest.approx(1.0)


def sliver(t):
    """Half of the square, and of the box number 2 the share 0.005."""
    return (t["a"] > 0.5) | ((t["a"] < 0.00125) & (t["b"] > 0.5) & (t["b"] < 0.75))


def test_a_sliver_of_a_box_is_measured_and_would_be_missed_by_the_first_look(monkeypatch):
    exact = 0.005 / 16 / (0.5 + 0.005 / 16)
    assert grid(square(sliver)).prior_mass[2] == pytest.approx(exact, rel=0.3)
    monkeypatch.setattr(region, "_SECOND_LOOK", region._MEASURE_POINTS)
    assert grid(square(sliver)).prior_mass[2] > 2.0 * exact


def test_boxes_are_not_taken_to_be_empty_where_hardly_anything_is_allowed():
    partition = grid(square(lambda t: np.abs(t["a"] - t["b"]) < 1e-4))
    assert partition.prior_mass.min() > 0.01
    assert policies.box_density(partition).min() > 0.1


# What is drawn ------------------------------------------------------------------------------------


def test_pick_draws_in_proportion_to_q():
    rng = np.random.default_rng(2)
    q = np.array([0.0, 0.2, 0.0, 0.5, 0.3, 0.0])
    counts = np.bincount(pick(np.cumsum(q), 100_000, rng), minlength=6)
    assert counts[[0, 2, 5]].sum() == 0
    np.testing.assert_allclose(counts / 1e5, q, atol=0.006)


def test_draw_points_counts_what_the_constraint_refused():
    problem = line(lambda t: t["t"] < 0.2)
    whole = OnBoxes(Boxes.whole(1), np.ones(1))
    shares = [
        draw_points(problem, whole, 50, np.random.default_rng(seed)).n_drawn for seed in range(80)
    ]
    assert abs(z_score(shares, 50 / 0.2)) < 3.5
    drawn = draw_points(problem, whole, 50, np.random.default_rng(0))
    assert (drawn.theta < 0.2).all()


@pytest.mark.slow
@pytest.mark.parametrize("some", [0, 1, 3])
def test_a_source_counts_the_candidates_of_the_points_that_it_gives(some, rng):
    problem = square()
    source = points.Source(points.UniformCube(2), 1.0, n_left=20)
    first = source.draw(problem, 5, rng)
    drawn = [first, source.draw(problem, some, rng), source.draw(problem, 15 - some, rng)]
    assert [len(p.cube) for p in drawn] == [5, some, 15 - some]
    assert sum(p.n_drawn for p in drawn) == source.tally.n_drawn
    assert all(p.n_drawn >= len(p.cube) for p in drawn)
    assert some > 0 or drawn[1].n_drawn == 0


def test_a_constraint_that_refuses_everything_is_an_error_and_not_an_endless_loop():
    problem = line(lambda t: t["t"] > 2.0)
    whole = OnBoxes(Boxes.whole(1), np.ones(1))
    with pytest.raises(abctree.ParameterError, match="refused"):
        draw_points(problem, whole, 5, np.random.default_rng(0))


def test_draws_in_arms_count_what_the_constraint_refused():
    p = line(lambda t: t["t"] < 0.25)
    whole = p.region.measure(Boxes.whole(1))
    drawn = draw_in_arms(p, whole, np.zeros(2000, dtype=np.int64), np.random.default_rng(0))
    assert drawn.n_drawn == pytest.approx(8000, rel=0.1)


def half():
    """Of four boxes one is allowed wholly, one to a half, and two not at all."""
    p = line(lambda t: t["t"] < 0.375)
    boxes = abctree.Grid(4).partition(np.empty((0, 1)), np.empty(0), 1.0, None, None)
    return p, p.region.measure(boxes)


def test_arms_are_played_as_q_whatever_a_constraint_leaves_of_their_boxes():
    p, partition = half()
    q = np.array([0.5, 0.5, 0.0, 0.0])
    share = partition.cube_proposal(q)
    drawn = draw_points(p, OnBoxes(partition.boxes, share), 20_000, np.random.default_rng(0))
    assert np.bincount(partition.boxes.locate(drawn.cube), minlength=4)[
        0
    ] / 20_000 == pytest.approx(0.5, abs=0.02)


def test_a_box_without_a_feasible_point_may_still_hold_a_sliver():
    _, partition = half()
    assert partition.prior_mass[:2] == pytest.approx([2 / 3, 1 / 3], rel=0.05)
    # None of 1 024 points was allowed, where .375 of an average box is.
    assert partition.feasible[2:] == pytest.approx([0.375] * 2, rel=0.05)
    sliver = 0.25 * 0.5 / (0.5 + 1024 * 0.375)
    assert partition.prior_mass[2:] == pytest.approx([sliver] * 2, rel=0.1)


def test_draw_allowed_takes_the_first_and_counts_those_before_them():
    stream = iter(range(10**6))

    def propose(want):
        return (np.array([next(stream) for _ in range(want)]),)

    (found,), n_drawn = draw_allowed(propose, lambda x: x % 5 == 4, 30)
    np.testing.assert_array_equal(found, 5 * np.arange(30) + 4)
    assert n_drawn == 150


def test_draw_allowed_gives_up_after_many_refusals_in_a_row_and_not_before(monkeypatch):
    monkeypatch.setattr(points, "_HOPELESS", 1000)

    def first_ones(want):
        rows = np.arange(first_ones.n, first_ones.n + want)
        first_ones.n += want
        return (rows,)

    first_ones.n = 0
    with pytest.raises(abctree.ParameterError, match=r"refused \d+ points in a row"):
        draw_allowed(first_ones, lambda x: x < 3, 5)  # although it has found some
    assert first_ones.n < 10_000
    rare = draw_allowed(first_ones, lambda x: x % 500 == 0, 50)
    assert rare[1] > 20_000


def test_arms_are_drawn_as_given_without_a_constraint(rng):
    problem = square(None)
    arm = rng.integers(16, size=50)
    drawn = draw_in_arms(problem, grid(problem), arm, rng)
    np.testing.assert_array_equal(grid(problem).boxes.locate(drawn.cube), arm)
    assert drawn.n_drawn == 50
    assert draw_in_arms(problem, grid(problem), arm[:0], rng).n_drawn == 0


def test_given_arms_without_allowed_points_are_left(rng):
    problem = square()
    partition = grid(problem)
    for arm in (np.array([2]), np.repeat(EMPTY, 20)):
        drawn = draw_in_arms(problem, partition, arm, rng)
        assert problem.region.feasible(drawn.theta).all()
        assert drawn.n_drawn < 20_000 * len(arm)


def test_given_arms_are_played_as_often_as_they_are_given(rng):
    problem = square()
    arm = np.repeat([4, 2, 13], [3000, 3000, 6000])
    drawn = draw_in_arms(problem, grid(problem), arm, rng)
    share = np.bincount(grid(problem).boxes.locate(drawn.cube), minlength=16) / len(arm)
    assert share[[4, 13]] == pytest.approx([1 / 3, 2 / 3], abs=0.02)
    assert share[[4, 13]].sum() > 0.97


@pytest.mark.parametrize("policy", [Thompson(), TopTwo(), T3C(), Thompson(defensive=0.2)])
def test_policies_leave_the_draw_of_arms_to_the_loop_where_points_are_refused(policy, rng):
    arms = Arms(np.ones(16), np.ones(16))
    fixed, q = policy.pull(arms, grid(square()), 5, rng)
    assert fixed is None
    assert q.sum() == pytest.approx(1.0)
    assert q[EMPTY].sum() < 0.01
    assert policy.pull(arms, grid(square(None)), 5, rng)[0] is not None


# What is recorded ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steady:
    """Half of the pulls on a box without allowed points, whatever comes of them."""

    fixed: bool

    def pull(self, arms, partition, n, rng):
        q = np.full(len(partition), 0.5 / 15)
        q[2] = 0.5
        return (rng.choice(16, n, p=q) if self.fixed else None), q


def evidence_of(policy, seed):
    """Of a > 3/4 by the weights; nothing is learnt that matters."""
    problem = square()
    known = beliefs.BetaBeliefs(np.ones(16), np.ones(16), 1.0)
    one = fold.Fold(grid(problem), known, Mixture(0.0, ()))

    def simulate(theta, index):
        distance = np.where(theta[:, 0] > 0.75, 0.5, 2.0)
        return lambda: Simulations(distance, np.zeros((len(theta), 0)))

    rng = np.random.default_rng(seed)
    own = game_of(problem, simulate, rng, policy=policy, budget=600, block=10)
    inner_loop.inner_loop(own, [one], 1.0, 1)
    table = own.table
    weight = len(table) / one.mixture_so_far()(table.cube) / problem.region.normaliser[0]
    return float((weight * (table.distance < 1.0)).mean())


def keep_to_the_arms(problem, partition, arm, rng):
    """The twin: forty points in each arm, and then the prior, recorded as if nothing were."""
    cube, missing, n_drawn = np.empty((len(arm), 2)), np.arange(len(arm)), 0
    for _ in range(40):
        if not len(missing):
            break
        cube[missing] = partition.boxes.sample(arm[missing], rng)
        n_drawn += len(missing)
        missing = missing[~problem.region.feasible(problem.prior.from_cube(cube[missing]))]
    share = partition.cube_proposal(partition.prior_mass)
    rest = draw_points(problem, OnBoxes(partition.boxes, share), len(missing), rng)
    cube[missing] = rest.cube
    n_drawn += rest.n_drawn
    return Points(cube, problem.prior.from_cube(cube), np.full(len(arm), n_drawn), n_drawn)


def test_weights_are_exact_when_a_box_without_allowed_points_is_played(monkeypatch):
    exact = 0.4375  # of a > 3/4 given a > b
    z = [evidence_of(Steady(fixed=False), seed) for seed in range(20)]
    assert abs(z_score(z, exact)) < 3.5
    assert np.std(z) / np.sqrt(20) < 0.02 * exact
    monkeypatch.setattr(inner_loop, "draw_in_arms", keep_to_the_arms)
    assert abs(z_score([evidence_of(Steady(fixed=True), seed) for seed in range(8)], exact)) > 10.0


# Runs ---------------------------------------------------------------------------------------------

OBSERVED = np.array([0.6, -0.6])


class Counted:
    """The constraint a > b, which counts the points that it is asked about, up to a limit."""

    def __init__(self, limit):
        self.n, self.limit = 0, limit

    def __call__(self, t):
        self.n += len(t["a"])
        if self.n > self.limit:
            raise OverflowError("asked about too many points")
        return t["a"] > t["b"]


def run_problem(kind, counted, observed=OBSERVED):
    box = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    if kind == "constraint":
        return abctree.Problem(box, noisy, observed, vectorized=True, constraint=counted)

    def log_density(theta):
        return np.where(counted({"a": theta[:, 0], "b": theta[:, 1]}), 0.0, -np.inf)

    prior = abctree.DensityPrior(log_density, box)
    return abctree.Problem(prior, noisy, observed, vectorized=True)


def quadrature(epsilon):
    """Evidence and mean of a in the ε-posterior."""
    edges = np.linspace(-5.0, 5.0, 601)
    x = (edges[1:] + edges[:-1]) / 2.0
    a, b = np.meshgrid(x, x, indexing="ij")
    prior = (a > b) + 0.5 * (a == b)
    noncentral = (a - OBSERVED[0]) ** 2 + (b - OBSERVED[1]) ** 2
    near = stats.ncx2.cdf(epsilon**2, 2, noncentral) * prior
    return near.sum() / prior.sum(), (near * a).sum() / near.sum()


# Thompson sampling alone feeds back: half of the pulls are prior draws.
RUNS = {
    "Thompson on a grid": {
        "partitioner": abctree.Grid(10), "policy": Thompson(defensive=0.5),
    },
    "boxes": {"proposal": "boxes"},
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_runs_over_boxes_without_allowed_points_are_unbiased(name):
    epsilon, n = 1.0, 8

    def run(seed, kind="constraint"):
        problem = run_problem(kind, Counted(2_000_000))
        return abctree.abc_tree(problem, n_simulations=2500, rng=seed, block=250, **RUNS[name])

    runs = [run(seed) for seed in range(n)]
    z = [run.evidence(epsilon).estimate for run in runs]
    mean = [run.posterior(epsilon=epsilon).mean()[0] for run in runs]
    without = [np.mean(run.table.distance < epsilon) for run in runs]
    evidence, first = quadrature(epsilon)
    assert abs(z_score(z, evidence)) < 3.5
    assert abs(z_score(mean, first)) < 3.5
    assert np.std(z) / np.sqrt(n) < 0.04 * evidence
    assert np.std(mean) / np.sqrt(n) < 0.06
    assert z_score(without, evidence) > 10.0  # the twin: weights dropped
    # Where a density is zero is played as what a constraint refuses.
    other = run(0, "density")
    np.testing.assert_array_equal(other.table.theta, runs[0].table.theta)
    assert other.evidence(epsilon).estimate == pytest.approx(z[0], rel=1e-12)
    assert other.posterior(epsilon=epsilon).mean()[0] == pytest.approx(mean[0], rel=1e-12)


@pytest.mark.parametrize("kind", ["constraint", "density"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"partitioner": abctree.Grid(10)}, {"preset": "published", "block": 20}],
    ids=str,
)
def test_map_tree_ends_where_boxes_have_no_allowed_points(kind, settings):
    problem = run_problem(kind, Counted(500_000), [1.0, -1.0])
    result = abctree.map_tree(problem, n_simulations=1000, rng=1, **settings)
    assert result.n_simulations == 1000
    assert np.abs(result.mode().theta - [1.0, -1.0]).max() < 1.5


def test_a_box_that_is_played_again_and_again_would_be_noticed(monkeypatch):
    # The twin: a box in which 32 points are refused counts as any other, and its arm is kept to.
    monkeypatch.setattr(region.Region, "measure", as_any_other(region.Region.measure))
    monkeypatch.setattr(policies, "_pulled", with_fixed_arms(policies._pulled))
    monkeypatch.setattr(inner_loop, "draw_in_arms", until_all_are_allowed)
    problem = run_problem("constraint", Counted(500_000), [1.0, -1.0])
    with pytest.raises(abctree.ParameterError, match="asked about too many points"):
        abctree.map_tree(problem, n_simulations=1000, rng=1, partitioner=abctree.Grid(10))


def as_any_other(measure):
    def measured(self, boxes):
        partition = measure(self, boxes)
        empty = partition.prior_mass < 0.01 * boxes.volume
        mass = np.where(empty, 0.5 / 32 * boxes.volume, partition.prior_mass)
        feasible = np.where(empty, 0.5 / 32.5, partition.feasible)
        return replace(partition, prior_mass=mass / mass.sum(), feasible=feasible)

    return measured


def with_fixed_arms(pulled):
    def fixed(arms, partition, n, *rest, **how):
        _, q = pulled(arms, partition, n, *rest, **how)
        return rest[-1].choice(len(q), n, p=q / q.sum()), q

    return fixed


def until_all_are_allowed(problem, partition, arm, rng):
    missing = np.arange(len(arm))
    while len(missing):
        cube = partition.boxes.sample(np.repeat(arm[missing], 100), rng)
        allowed = problem.region.feasible(problem.prior.from_cube(cube)).reshape(-1, 100)
        missing = missing[~allowed.any(axis=1)]
    return draw_in_arms(problem, partition, arm, rng)


# Averages over ranges of the cube ---------------------------------------------------------------


def random_boxes(d, n, rng):
    growth = Growth(Boxes.whole(d))
    for _ in range(n):
        boxes = growth.boxes()
        k, dim = rng.integers(len(boxes)), rng.integers(d)
        low, high = boxes.lower[k, dim], boxes.upper[k, dim]
        growth.split(int(k), int(dim), float(low + (high - low) * rng.uniform(0.1, 0.9)))
    return growth.boxes()


def overlap_mean(boxes, value, lower, upper):
    """By brute force over all pairs; a range without length belongs to one box."""
    low, high = lower[:, None, :], upper[:, None, :]
    overlap = np.minimum(high, boxes.upper) - np.maximum(low, boxes.lower)
    inside = (low >= boxes.lower) & (low < boxes.upper)
    share = np.where(
        high > low, np.maximum(overlap, 0.0) / np.where(high > low, high - low, 1.0), inside
    )
    return share.prod(axis=2) @ value


@pytest.mark.parametrize("free", [(), (1,), (0, 2), (0, 1, 2)])
def test_mean_over_ranges_is_the_overlap_with_boxes(free):
    rng = np.random.default_rng(5)
    boxes = random_boxes(3, 40, rng)
    value = rng.gamma(1.0, size=len(boxes))
    ends = np.sort(rng.random((2, 300, 3)), axis=0)
    # Some ends on cuts and on the faces of the cube.
    ends[0, :20] = boxes.lower[:20]
    ends[1, :20, 0] = 1.0
    upper = ends[0].copy()
    upper[:, free] = ends[1][:, free]
    exact = overlap_mean(boxes, value, ends[0], upper)
    np.testing.assert_allclose(ranges.mean_over(boxes, value, ends[0], upper), exact, rtol=1e-12)
    # The twin: the value in the middle.
    twin = value[boxes.locate((ends[0] + upper) / 2)]
    assert (len(free) == 0) == np.allclose(twin, exact)


def test_mean_over_many_ranges_does_not_depend_on_how_many_at_once(monkeypatch):
    rng = np.random.default_rng(6)
    boxes = random_boxes(2, 20, rng)
    lower, upper = np.sort(rng.random((2, 100, 2)), axis=0)
    value = rng.random(len(boxes))
    whole = ranges.mean_over(boxes, value, lower, upper)
    monkeypatch.setattr(ranges, "_ROWS_AT_ONCE", 7)
    assert np.array_equal(ranges.mean_over(boxes, value, lower, upper), whole)
    assert len(ranges.mean_over(boxes, value, lower[:0], upper[:0])) == 0


def test_mean_density_is_that_of_all_layers():
    rng = np.random.default_rng(7)
    laws = [Steps(b, rng.random(len(b))) for b in (random_boxes(2, 9, rng) for _ in range(3))]
    mixture = Mixture(5.0, (((1.0, laws[0]),), ((2.0, laws[1]), (1.0, laws[2]))))
    lower, upper = np.sort(rng.random((2, 50, 2)), axis=0)
    means = [overlap_mean(law.boxes, law.value, lower, upper) for law in laws]
    exact = 5.0 + means[0] + 2.0 * means[1] + means[2]
    np.testing.assert_allclose(ranges.mean_density(mixture, lower, upper), exact)
    np.testing.assert_allclose(ranges.mean_density(mixture, lower, lower), mixture(lower))


class Curved:
    """A density that is constant on no boxes."""

    def density(self, cube):
        return cube[:, 0] * cube[:, 1] ** 4


def test_mean_density_of_another_mixture_is_near_its_integral():
    mixture = Mixture(0.01).plus((1.0, Curved()))
    lower = np.array([[0.5, 0.0], [0.9, 0.2], [0.3, 0.4]])
    upper = np.array([[0.5, 1.0], [0.9, 0.9], [0.3, 0.4]])
    a, b = lower[:2, 1], upper[:2, 1]
    exact = 0.01 + lower[:2, 0] * (b**5 - a**5) / (5.0 * (b - a))
    found = ranges.mean_density(mixture, lower, upper)
    assert found[:2] == pytest.approx(exact, rel=0.005)
    assert found[2:] == pytest.approx(mixture(lower[2:]))
    both = ranges.mean_density(mixture, np.zeros((1, 2)), np.ones((1, 2)))  # in two dimensions
    assert both == pytest.approx(0.01 + 0.1, rel=0.05)
    # The twin: the value in the middle.
    assert mixture((lower + upper) / 2)[:2] != pytest.approx(exact, rel=0.2)
