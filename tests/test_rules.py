"""What the algorithms hand to their parts, and what counts: strictly below ε, weighted, by fold."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import abctree
from abctree import Counts, GlobalRate, MultiLevel, Quantile
from abctree.data import Table, effective_sample_size, mixture_weights


def problem(**kwargs):
    return abctree.Problem(
        {"a": (-5.0, 5.0), "b": (-5.0, 5.0)},
        lambda theta, rng: theta + rng.normal(size=theta.shape),
        [1.0, -1.0],
        vectorized=True,
        **kwargs,
    )


def whole_steps(theta, rng):
    return np.rint(theta + rng.normal(size=theta.shape))


def test_weights_count_the_rows_of_their_own_fold():
    table = Table(1, 1)
    table.append(
        cube=np.zeros((4, 1)), theta=np.zeros((4, 1)), distance=1.0, proposal=1.0,
        prior_weight=1.0, arm=0, round=0, fold=[0, 0, 0, 1], denominator=1.0,
    )  # fmt: skip
    assert mixture_weights(table).tolist() == [3.0, 3.0, 3.0, 1.0]


@pytest.mark.parametrize("looks", [(), (0, 3, 4), range(40)])
def test_table_is_the_same_whenever_somebody_looks(looks):
    rng = np.random.default_rng(1)
    sizes = rng.choice([1, 3, 700, 1200], 40)
    blocks = [
        {
            "cube": rng.random((n, 2)), "theta": rng.random((n, 2)), "distance": rng.random(n),
            "proposal": rng.random(n), "prior_weight": rng.random(n) if i > 2 else np.ones(n),
            "arm": rng.integers(5, size=n), "round": i, "fold": np.arange(n) % 3,
            "denominator": np.nan, "summary": rng.random((n, 1, 2)),
        }
        for i, n in enumerate(sizes)
    ]  # fmt: skip
    table = Table(2, 2, 2, capacity=4)
    for i, block in enumerate(blocks):
        table.append(**block)
        assert len(table) == sizes[: i + 1].sum()
        if i in looks:
            assert table.round[-1] == i
            assert table.has_prior_weights == (i > 2)
    for name in blocks[0]:
        parts = [
            np.broadcast_to(block[name], np.shape(block[name]) or n)
            for n, block in zip(sizes, blocks, strict=True)
        ]
        expected = np.concatenate(parts).reshape(getattr(table, name).shape)
        np.testing.assert_array_equal(getattr(table, name), expected)


def test_denominators_are_replaced_in_rows_that_nobody_has_looked_at():
    table = Table(1, 1)
    table.append(
        cube=np.zeros((3, 1)), theta=np.zeros((3, 1)), distance=1.0, proposal=1.0,
        prior_weight=1.0, arm=0, round=0, fold=0, denominator=np.nan,
    )  # fmt: skip
    table.set_denominator(np.arange(3.0))
    assert table.denominator.tolist() == [0.0, 1.0, 2.0]
    other = pickle.loads(pickle.dumps(table))  # after somebody has looked
    other.set_denominator(np.zeros(3))
    assert other.denominator.tolist() == [0.0, 0.0, 0.0]
    assert not other.denominator.flags.writeable
    assert table.denominator.tolist() == [0.0, 1.0, 2.0]


class Spy:
    """Any part, and what it was given."""

    def __init__(self, part, name):
        self.part, self.name, self.seen = part, name, []

    def __getattr__(self, name):
        method = getattr(self.part, name)
        if name != self.name:
            return method

        def spied(*args, **kwargs):
            self.seen.append((args, kwargs))
            return method(*args, **kwargs)

        return spied


def tied(**kwargs):
    p = abctree.Problem(
        {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, whole_steps, [1.0, -1.0], vectorized=True
    )
    return abctree.abc_tree(p, n_simulations=2000, rng=0, proposal="boxes", **kwargs)


def test_rounds_count_what_is_strictly_below_their_tolerance():
    result = tied()
    for played in result.rounds[1:]:
        distance = result.table.distance[played.first : played.last]
        assert played.n_accepted == np.count_nonzero(distance < played.epsilon)
    assert any((result.table.distance == r.epsilon).any() for r in result.rounds[1:])  # it matters


def test_schedule_is_given_the_accepted_rows_of_the_round_with_their_weights():
    spy = Spy(Quantile(0.5), "next")
    result = tied(schedule=spy)
    weighed = []
    for (epsilon, distance, weight), _ in spy.seen:
        assert (distance < epsilon).all()
        assert len(weight) == len(distance)
        weighed.append(np.ptp(weight) > 0.0)
    assert all(weighed[1:])
    played = result.rounds[1]
    own = result.table.distance[played.first : played.last]
    np.testing.assert_array_equal(spy.seen[0][0][1], own[own < played.epsilon])


@pytest.mark.parametrize("relabel", ["next", "last"])
def test_the_past_is_relabelled_at_the_tolerance_that_was_asked_for(relabel):
    cut, beliefs = Spy(abctree.SoftTree(), "partition_and_locate"), Spy(MultiLevel(), "start")
    result = abctree.abc_tree(
        problem(), n_simulations=3000, rng=1, partitioner=cut, beliefs=beliefs, relabel=relabel,
        n_folds=2, proposal="boxes",
    )  # fmt: skip
    epsilon = [r.epsilon for r in result.rounds[1:]]
    last = [epsilon[0], *epsilon[:-1]]
    labelled = epsilon if relabel == "next" else last
    assert [args[2] for args, _ in cut.seen] == np.repeat(labelled, 2).tolist()
    assert [k["count_epsilon"] for _, k in beliefs.seen] == np.repeat(labelled, 2).tolist()
    assert [k["epsilon"] for _, k in beliefs.seen] == np.repeat(epsilon, 2).tolist()
    assert {k["first_epsilon"] for _, k in beliefs.seen} == {epsilon[0]}
    assert len(set(epsilon)) > 3


@pytest.mark.parametrize("window", ["extended", "rolling"])
def test_the_window_says_which_rows_a_partition_learns_from(window):
    cut = Spy(abctree.SoftTree(), "partition_and_locate")
    result = abctree.abc_tree(
        problem(),
        n_simulations=3000,
        rng=1,
        partitioner=cut,
        window=window,
        n_folds=2,
        proposal="boxes",
    )
    fold, number = result.table.fold, result.table.round
    for s, played in enumerate(result.rounds[:-1]):
        known = number == s if window == "rolling" else number <= s
        for f in (0, 1):
            assert len(cut.seen[2 * s + f][0][0]) == np.count_nonzero(known & (fold != f)), played


def test_ess_of_a_round_is_that_of_all_draws_so_far():
    result = abctree.abc_tree(problem(), n_simulations=3000, rng=1, block=150)
    last = result.rounds[-1]
    near = result.table.distance < last.epsilon
    assert last.ess == pytest.approx(effective_sample_size(mixture_weights(result.table)[near]))


def test_counts_are_taken_at_the_tolerance_of_the_past():
    p = problem()
    boxes = abctree.Grid(1).partition(np.empty((0, 2)), np.empty(0), 1.0, None, None)
    arm, distance = np.zeros(4, dtype=np.int64), np.array([0.5, 1.0, 1.5, 9.0])
    for rule in (Counts(0.0, 0.0), GlobalRate(1e-9)):
        beliefs = rule.start(
            p.region.measure(boxes), arm, distance, np.ones(4), epsilon=1.0, first_epsilon=2.0,
            count_epsilon=2.0,
        )  # fmt: skip
        assert beliefs.arms().alpha[0] == pytest.approx(3.0)
        beliefs.learn(np.zeros(2, dtype=np.int64), np.array([0.5, 1.0]))  # played at 1, strictly
        assert beliefs.arms().alpha[0] == pytest.approx(4.0)
        assert beliefs.arms().beta[0] == pytest.approx(2.0)


def test_new_rows_are_counted_at_the_tolerance_that_is_played():
    boxes = abctree.Grid(1).partition(np.empty((0, 2)), np.empty(0), 1.0, None, None)
    none = np.empty(0)
    beliefs = MultiLevel(1.0).start(
        problem().region.measure(boxes), none.astype(np.int64), none, none,
        epsilon=1.0, first_epsilon=2.0, count_epsilon=2.0,
    )  # fmt: skip
    before = beliefs.arms().alpha[0]
    beliefs.learn(np.zeros(3, dtype=np.int64), np.array([0.5, 1.0, 1.5]))
    assert beliefs.arms().alpha[0] == pytest.approx(before + 1.0)


def test_root_rate_is_under_the_prior():
    boxes = abctree.Grid(1).partition(np.empty((0, 2)), np.empty(0), 1.0, None, None)
    arm, distance = np.zeros(4, dtype=np.int64), np.array([0.5, 9.0, 9.0, 9.0])
    rule = GlobalRate(1e6)
    arms = rule.start(
        problem().region.measure(boxes), arm, distance, np.array([3.0, 1.0, 1.0, 1.0]), epsilon=1.0,
        first_epsilon=1.0, count_epsilon=1.0,
    ).arms()  # fmt: skip
    assert arms.mean[0] == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize(("d", "strength"), [(2, 1.0), (3, 0.3)])
def test_strength_depends_on_the_dimension(d, strength):
    p = abctree.Problem({f"t{j}": (0.0, 1.0) for j in range(d)}, lambda theta, rng: 0.0, 0.0)
    none = np.empty(0)
    arms = (
        MultiLevel()
        .start(p.region.measure(abctree.data.Boxes.whole(d)), none.astype(np.int64), none, none,
               epsilon=1.0, first_epsilon=1.0, count_epsilon=1.0)
        .arms()
    )  # fmt: skip
    assert arms.alpha[0] == strength


def test_populations_have_as_many_draws_as_asked_for_also_where_distances_tie():
    p = abctree.Problem(
        {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, whole_steps, [1.0, -1.0], vectorized=True
    )
    result = abctree.smc(p, n_simulations=4000, n_particles=100, rng=0, schedule=[5.0, 3.0, 2.0])
    for played in result.rounds[1:]:
        rows = (
            (result.table.round <= 1) if played.index == 1 else result.table.round == played.index
        )
        assert np.count_nonzero(result.table.distance[rows] < played.epsilon) >= 100


def test_points_of_a_box_that_is_a_few_floats_wide_stay_below_its_upper_border():
    tree = abctree.data.SplitTree(
        np.array([0, -1, -1]), np.array([1.0 - 2.0**-52, 0, 0]), np.array([1, -1, -1]),
        np.array([2, -1, -1]), np.array([-1, 0, 1]),
    )  # fmt: skip
    boxes = abctree.data.Boxes.from_tree(tree, 1)
    box = np.ones(1000, dtype=np.int64)
    points = boxes.sample(box, np.random.default_rng(0))
    assert (points < boxes.upper[box]).all()
    assert (boxes.locate(points) == 1).all()


def test_a_soft_tree_with_a_partition_of_its_own_is_asked_for_it():
    class Halves(abctree.SoftTree):
        def partition(self, cube, distance, epsilon, current, rng):
            return abctree.Grid((2, 1)).partition(cube, distance, epsilon, current, rng)

    result = abctree.abc_tree(problem(), n_simulations=400, rng=1, partitioner=Halves())
    assert {len(p.boxes) for r in result.rounds[1:] for p in r.partitions} == {2}
