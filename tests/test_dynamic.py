"""Dynamic trees: the filter against a slow one, closed forms, prediction, partitions, no bias."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, logsumexp
from sklearn.tree import DecisionTreeClassifier

import abctree
from abctree import DynamicTree, ParameterError
from abctree.data import Boxes, SplitTree
from abctree.kernels import dynamic_trees
from abctree.testing import check_partitioner
from tests.test_unbiased import mean_and_error, relative_errors

pytestmark = pytest.mark.xdist_group("dynamic trees")  # they share kernels
HABITS = {
    "n_particles": 50,
    "max_boxes": 300,
    "min_rows": 10,
    "split_prior": (0.95, 2.0),
    "rate_prior": (0.5, 0.5),
    "n_cuts": 16,
    "factor": 1.2,
}


def filtered(cube, label, seed, **habits):
    columns = dynamic_trees.filter_rows(
        cube, label.astype(np.int64), np.random.default_rng(seed), **{**HABITS, **habits}
    )
    return SplitTree(*columns[:5]), columns[5], columns[6]


# A slow filter, written from the paper: every weight is computed afresh from the rows ------------


class Node:
    def __init__(self, rows, depth, parent=None):
        self.rows, self.depth, self.parent = list(rows), depth, parent
        self.cut = None
        self.due = 0


class SlowTree:
    """A tree of nodes that know all their rows."""

    def __init__(self, model):
        self.model, self.root = model, Node([], 0)

    def copy(self):
        twin = SlowTree(self.model)
        twin.root = self._copied(self.root, None)
        return twin

    def _copied(self, node, parent):
        twin = Node(node.rows, node.depth, parent)
        twin.due = node.due
        if node.cut is not None:
            feature, threshold, left, right = node.cut
            twin.cut = (feature, threshold, self._copied(left, twin), self._copied(right, twin))
        return twin

    def leaf_of(self, point):
        node = self.root
        while node.cut is not None:
            feature, threshold, left, right = node.cut
            node = left if point[feature] < threshold else right
        return node

    def evidence(self, rows):
        a, b = self.model.rate_prior
        ones = int(self.model.label[rows].sum())
        return betaln(a + ones, b + len(rows) - ones) - betaln(a, b)

    def log_split(self, depth):
        alpha, beta = self.model.split_prior
        return np.log(alpha * (1 + depth) ** -beta)

    def weight_as_leaf(self, node):
        return np.log1p(-np.exp(self.log_split(node.depth))) + self.evidence(node.rows)

    def weight(self, node):
        if node.cut is None:
            return self.weight_as_leaf(node)
        _, _, left, right = node.cut
        return self.log_split(node.depth) + self.weight(left) + self.weight(right)

    def leaves(self, node=None):
        node = node or self.root
        if node.cut is None:
            return [node]
        return self.leaves(node.cut[2]) + self.leaves(node.cut[3])

    def receive(self, row):
        node = self.root
        node.rows.append(row)
        while node.cut is not None:
            feature, threshold, left, right = node.cut
            node = left if self.model.cube[row, feature] < threshold else right
            node.rows.append(row)
        return node

    def move(self, leaf, rng):
        model = self.model
        options = {"stay": self.weight(leaf)}
        if leaf.parent is not None:
            rest = self.weight(leaf.parent) - options["stay"]
            options["prune"] = self.weight_as_leaf(leaf.parent) - rest
        cuts = self.offered_cuts(leaf, rng)
        if cuts:
            below = 2 * np.log1p(-np.exp(self.log_split(leaf.depth + 1)))
            mean = logsumexp([value for *_, value in cuts]) - np.log(len(cuts))
            options["grow"] = self.log_split(leaf.depth) + below + mean
        if len(options) == 1:
            return
        share = np.exp(np.array(list(options.values())) - max(options.values()))
        chance = dict(zip(options, share, strict=True))
        u = rng.random() * share.sum()
        if u < chance.get("prune", 0.0):
            top = leaf.parent
            top.cut, top.due = None, model.next_due(len(top.rows))
        elif u < chance.get("prune", 0.0) + chance.get("grow", 0.0):
            self.grow(leaf, cuts, rng.random())

    def offered_cuts(self, leaf, rng):
        """(feature, threshold, evidence) of what a leaf is offered."""
        model, rows = self.model, np.array(leaf.rows)
        ones, n = model.label[rows].sum(), len(rows)
        room = 2 * len(self.leaves()) - 1 + 2 <= 2 * model.max_boxes - 1
        due = n >= max(leaf.due, 2 * model.min_rows)
        if not due or ones in (0, n) or not room:
            return []
        leaf.due = model.next_due(n)
        offset, cuts = rng.random(model.cube.shape[1]), []
        for j, x in enumerate(model.cube[rows].T):
            for b in range(model.n_cuts):
                t = x.min() + (x.max() - x.min()) * (b + offset[j]) / model.n_cuts
                sides = rows[x < t], rows[x >= t]
                if min(map(len, sides)) >= model.min_rows:
                    cuts.append((j, t, sum(self.evidence(side) for side in sides)))
        return cuts

    def grow(self, leaf, cuts, u):
        share = np.exp(np.array([value for *_, value in cuts]))
        feature, threshold, _ = cuts[int(np.searchsorted(np.cumsum(share) / share.sum(), u))]
        left, right = Node([], leaf.depth + 1, leaf), Node([], leaf.depth + 1, leaf)
        for row in leaf.rows:
            side = left if self.model.cube[row, feature] < threshold else right
            side.rows.append(row)
        leaf.cut = (feature, threshold, left, right)


class SlowFilter:
    def __init__(self, cube, label, **habits):
        self.cube, self.label = cube, label
        for name, value in {**HABITS, **habits}.items():
            setattr(self, name, value)

    def next_due(self, n):
        return max(n + 1, int(n * self.factor))

    def run(self, rng):
        a, b = self.rate_prior
        trees = [SlowTree(self) for _ in range(self.n_particles)]
        weight = np.full(self.n_particles, 1 / self.n_particles)
        log_predictive = []
        for row, y in enumerate(self.label):
            for p, tree in enumerate(trees):
                seen = self.label[tree.leaf_of(self.cube[row]).rows]
                rate = (a + seen.sum()) / (a + b + len(seen))
                weight[p] *= rate if y == 1 else 1 - rate
            log_predictive.append(np.log(weight.sum()))
            weight /= weight.sum()
            if 1 / (weight**2).sum() < self.n_particles / 2:
                trees = self.resampled(trees, weight, rng.random())
                weight[:] = 1 / self.n_particles
            for tree in trees:
                tree.move(tree.receive(row), rng)
        drawn = int(np.searchsorted(np.cumsum(weight), rng.random()))
        return trees[drawn], np.array(log_predictive)

    def resampled(self, trees, weight, u):
        places = (np.arange(self.n_particles) + u) / self.n_particles
        number = np.bincount(np.searchsorted(np.cumsum(weight), places), minlength=len(trees))
        # Survivors keep their place; the copies fill the gaps in order.
        copies = iter(np.repeat(np.arange(len(trees)), np.maximum(number - 1, 0)))
        return [trees[p] if number[p] else trees[next(copies)].copy() for p in range(len(trees))]


def boxes_of(tree, node, lower, upper):
    """Corners and rows of the leaves of a slow tree."""
    if node.cut is None:
        return [[*lower, *upper, len(node.rows)]]
    feature, threshold, left, right = node.cut
    below, above = upper.copy(), lower.copy()
    below[feature] = above[feature] = threshold
    return boxes_of(tree, left, lower, below) + boxes_of(tree, right, above, upper)


@pytest.mark.parametrize(
    ("seed", "habits"),
    [
        (0, {"n_particles": 6, "min_rows": 5, "n_cuts": 4}),
        (1, {"n_particles": 4, "min_rows": 2, "n_cuts": 3, "split_prior": (0.9, 0.3)}),
        (2, {"n_particles": 5, "min_rows": 3, "max_boxes": 3, "rate_prior": (0.3, 2.0)}),
        (0, {"n_particles": 1, "min_rows": 4, "n_cuts": 1, "factor": 1.0}),
    ],
    ids=["plain", "many cuts", "capped", "one particle"],
)
def test_filter_is_the_slow_one(seed, habits):
    rng = np.random.default_rng(seed)
    cube = rng.random((160, 2))
    label = (rng.random(160) < np.where((cube < 0.5).all(axis=1), 0.8, 0.1)).astype(np.int64)
    slow, expected = SlowFilter(cube, label, **habits).run(np.random.default_rng(seed))
    tree, count, log_predictive = filtered(cube, label, seed, **habits)
    assert log_predictive == pytest.approx(expected, abs=1e-9)
    boxes = Boxes.from_tree(tree, 2)
    found = sorted(np.c_[boxes.lower, boxes.upper, count.sum(axis=1)].tolist())
    wanted = sorted(boxes_of(slow, slow.root, np.zeros(2), np.ones(2)))
    assert len(wanted) > 1
    assert np.array(found) == pytest.approx(np.array(wanted))


# Pieces with a closed form -----------------------------------------------------------------------


def test_prediction_of_a_tree_that_cannot_be_cut_is_beta_bernoulli(rng):
    label = (rng.random(300) < 0.2).astype(np.int64)
    _, _, log_predictive = filtered(rng.random((300, 3)), label, 0, min_rows=151)
    ones = label.sum()
    exact = betaln(0.5 + ones, 0.5 + 300 - ones) - betaln(0.5, 0.5)
    assert log_predictive.sum() == pytest.approx(exact, abs=1e-9)
    _, _, other = filtered(rng.random((300, 3)), label, 0, min_rows=151, rate_prior=(1.0, 1.0))
    assert abs(other.sum() - exact) > 0.1


@pytest.mark.parametrize(("alpha", "wrong"), [(0.95, 0.5), (0.5, 0.95)])
def test_growth_and_pruning_reach_the_posterior_of_a_single_cut(alpha, wrong):
    """Two boxes at most: the share of cut particles against prior times evidence, by quadrature.

    The labels say little, so that neither answer is sure.  Growth is offered at every row and
    pruning, too, so the particles mix over both.
    """
    cube = np.linspace(0.01, 0.99, 24)[:, None]
    label = np.r_[np.tile([0, 1, 0], 4), np.tile([1, 1, 0], 4)]
    order = np.random.default_rng(0).permutation(24)
    shares = [
        len(filtered(cube[order], label[order], s, min_rows=4, max_boxes=2, factor=1.0,
                     split_prior=(alpha, 2.0))[1]) == 2
        for s in range(400)
    ]  # fmt: skip
    assert np.mean(shares) == pytest.approx(posterior_of_a_cut(label, 4, alpha), abs=0.08)
    assert abs(np.mean(shares) - posterior_of_a_cut(label, 4, wrong)) > 0.2


def posterior_of_a_cut(label, min_rows, alpha):
    """Labels in the order of their equidistant points: cuts between two neighbours are alike."""

    def evidence(part):
        return betaln(0.5 + part.sum(), 0.5 + len(part) - part.sum()) - betaln(0.5, 0.5)

    cuts = range(min_rows, len(label) - min_rows + 1)
    pairs = [evidence(label[:k]) + evidence(label[k:]) for k in cuts]
    cut = np.log(alpha) + 2 * np.log1p(-alpha / 4) + logsumexp(pairs) - np.log(len(pairs))
    return 1 / (1 + np.exp(np.log1p(-alpha) + evidence(label) - cut))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.floats(0.0, 0.999))
def test_offspring_of_a_particle_is_within_one_of_its_share(weight, u):
    weight = np.array(weight) + 1e-12
    number = dynamic_trees.offspring(weight, u)
    assert number.sum() == len(weight)
    assert (np.abs(number - len(weight) * weight / weight.sum()) < 1 + 1e-9).all()


def test_offspring_is_the_share_on_average():
    weight = np.array([0.05, 0.4, 0.15, 0.4])
    mean = np.mean([dynamic_trees.offspring(weight, u) for u in (np.arange(1000) + 0.5) / 1000], 0)
    assert mean == pytest.approx(4 * weight, abs=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([1, 7]))
@settings(max_examples=25)
def test_counts_of_the_drawn_particle_are_those_of_its_boxes(seed, d, n_particles):
    rng = np.random.default_rng(seed)
    cube = rng.random((400, d))
    label = (rng.random(400) < np.where(cube[:, 0] < 0.5, 0.7, 0.2)).astype(np.int64)
    habits = {"min_rows": 3, "split_prior": (0.95, 0.5), "n_particles": n_particles}
    tree, count, _ = filtered(cube, label, seed, **habits)
    box = Boxes.from_tree(tree, d).locate(cube)
    for y in (0, 1):
        assert np.array_equal(np.bincount(box[label == y], minlength=len(count)), count[:, y])


# Prediction --------------------------------------------------------------------------------------


def two_peaks(seed, n, d):
    """Points around two places, and labels that are likely at either; their true rates, too."""
    rng = np.random.default_rng(seed)
    cube = 0.3 + 0.4 * (rng.random((n, 1)) < 0.5) + 0.15 * rng.standard_normal((n, d))
    cube = np.clip(cube, 0.001, 0.999)
    wide, narrow = ((cube - 0.3) ** 2).sum(axis=1), ((cube - 0.7) ** 2).sum(axis=1)
    rate = 0.02 + 0.8 * np.exp(-wide / 0.02) + 0.6 * np.exp(-narrow / 0.005)
    rate = np.minimum(rate, 0.95)
    return cube, (rng.random(n) < rate).astype(np.int64), rate


def log_loss(rate, label):
    """Mean log-likelihood of labels, in nats a row."""
    return float(np.mean(np.where(label == 1, np.log(rate), np.log1p(-rate))))


def cart_held_out(cube, label, min_leaf):
    """Log-likelihood of the second half under a tree of the first half, rates smoothed."""
    half = len(label) // 2
    tree = DecisionTreeClassifier(max_leaf_nodes=1000, min_samples_leaf=min_leaf, random_state=0)
    leaf = tree.fit(cube[:half], label[:half]).apply(cube[:half])
    ones = np.bincount(leaf, label[:half], tree.tree_.node_count)
    rate = (ones + 0.5) / (np.bincount(leaf, minlength=tree.tree_.node_count) + 1.0)
    return log_loss(rate[tree.apply(cube[half:])], label[half:])


@pytest.mark.parametrize("d", [2, 5])
def test_sequential_prediction_beats_a_constant_and_is_as_good_as_held_out_cart(d):
    cube, label, rate = two_peaks(1, 10_000, d)
    log_predictive = filtered(cube, label, 0)[2]
    constant = log_loss(np.full(10_000, label.mean()), label)
    cart = max(cart_held_out(cube, label, leaf) for leaf in (10, 50, 100))
    assert log_predictive.mean() > constant + 0.005
    assert log_predictive[5000:].mean() > cart - 0.02
    assert log_predictive.mean() < log_loss(rate, label)  # nothing beats the truth


def test_sequential_prediction_of_noise_does_not_beat_a_constant():
    cube, label, _ = two_peaks(1, 10_000, 2)
    label = np.random.default_rng(0).permutation(label)
    assert filtered(cube, label, 0)[2].mean() < log_loss(np.full(10_000, label.mean()), label)


@pytest.mark.slow
def test_filter_of_ten_thousand_rows_takes_less_than_twenty_scikit_learn_fits():
    cube, label, _ = two_peaks(1, 10_000, 5)
    filtered(cube[:50], label[:50], 0)  # compiled
    assert least_seconds(lambda: filtered(cube, label, 0)) < 0.2 + 20 * least_seconds(
        lambda: DecisionTreeClassifier(max_leaf_nodes=1000, min_samples_leaf=10).fit(cube, label)
    )


def least_seconds(work):
    seconds = []
    for _ in range(2):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


# The partitioner ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize(
    "partitioner",
    [
        DynamicTree(n_particles=10, n_trees=1),
        DynamicTree(n_particles=10, n_trees=5, min_rows=3),
        DynamicTree(
            n_particles=2, n_trees=1, min_rows=1, max_boxes=7, split_prior=(0.99, 0.0), n_cuts=2
        ),
    ],
)
def test_dynamic_tree_keeps_the_contract_of_partitioners(partitioner, d):
    check_partitioner(partitioner, d=d, n=300)


def square(seed=0, n=3000):
    """Rows with small distances in a square, and their epsilon."""
    rng = np.random.default_rng(seed)
    cube = rng.random((n, 2))
    inside = (np.abs(cube - 0.4) < 0.15).all(axis=1)
    return cube, np.where(inside, 0.5, 2.0) * rng.random(n) + 0.1, 0.6


def test_dynamic_tree_finds_a_planted_square():
    cube, distance, epsilon = square()
    boxes = DynamicTree(n_trees=1).partition(
        cube, distance, epsilon, None, np.random.default_rng(1)
    )
    at = boxes.locate(np.array([[0.4, 0.4]]))[0]
    assert np.abs(boxes.lower[at] - 0.25).max() < 0.05
    assert np.abs(boxes.upper[at] - 0.55).max() < 0.05


def test_dynamic_tree_is_coarse_and_five_of_them_are_finer():
    cube, distance, epsilon = square()
    sizes = [
        len(
            DynamicTree(n_trees=m).partition(
                cube, distance, epsilon, None, np.random.default_rng(1)
            )
        )
        for m in (1, 5)
    ]
    assert 5 <= sizes[0] < sizes[1]


@pytest.mark.parametrize("n_trees", [1, 5])
def test_dynamic_tree_keeps_its_limits_on_boxes_and_rows(n_trees):
    cube, distance, epsilon = square()
    capped = DynamicTree(n_trees=n_trees, max_boxes=4)
    boxes = capped.partition(cube, distance, epsilon, None, np.random.default_rng(1))
    assert len(boxes) <= 4
    large = DynamicTree(n_trees=n_trees, min_rows=200)
    boxes = large.partition(cube, distance, epsilon, None, np.random.default_rng(1))
    assert len(boxes) > 1
    assert np.bincount(boxes.locate(cube), minlength=len(boxes)).min() >= 200


def test_dynamic_tree_repeats_itself_and_differs_between_seeds():
    cube, distance, epsilon = square()
    draws = [
        DynamicTree().partition(cube, distance, epsilon, None, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(draws[0].lower, draws[1].lower)
    assert not np.array_equal(draws[0].lower, draws[2].lower)


@pytest.mark.parametrize("window", ["extended", "rolling"])
def test_dynamic_tree_is_fed_the_rows_of_the_window(monkeypatch, window):
    fed = []
    original = DynamicTree.partition

    def watched(self, cube, distance, epsilon, current, rng):
        fed.append(len(cube))
        return original(self, cube, distance, epsilon, current, rng)

    monkeypatch.setattr(DynamicTree, "partition", watched)
    problem = abctree.problems.gauss(2)
    run = abctree.abc_tree(
        problem, n_simulations=2000, rng=1, partitioner="dynamic", n_folds=1, window=window
    )
    ends = [r.last for r in run.rounds[:-1]]
    starts = [0 if window == "extended" else r.first for r in run.rounds[:-1]]
    assert len(fed) >= 3
    assert fed == [last - first for first, last in zip(starts, ends, strict=True)]


@pytest.mark.parametrize(
    "bad",
    [
        {"n_particles": 0},
        {"n_trees": 0},
        {"n_particles": 4, "n_trees": 5},
        {"max_boxes": 0},
        {"min_rows": 0},
        {"n_cuts": 0},
        {"split_prior": (1.0, 2.0)},
        {"split_prior": (0.9, -1.0)},
        {"rate_prior": (0.0, 1.0)},
    ],
)
def test_dynamic_tree_refuses_settings_out_of_range(bad):
    with pytest.raises(ParameterError, match=f"`{next(iter(bad))}` must be"):
        DynamicTree(**bad)


# No bias -----------------------------------------------------------------------------------------


class Inflated:
    """A partitioner whose boxes own more than lies between their corners: a fault that biases."""

    def __init__(self, inner):
        self.inner = inner

    def partition(self, cube, distance, epsilon, current, rng):
        boxes = self.inner.partition(cube, distance, epsilon, None, rng)
        tree = boxes.tree
        outwards = tree.threshold + np.where(tree.threshold > 0.5, 0.02, -0.02)
        moved = SplitTree(tree.feature, outwards, tree.left, tree.right, tree.box)
        return Boxes(boxes.lower, boxes.upper, moved)


def test_posterior_and_evidence_agree_with_the_closed_form():
    settings = {"partitioner": DynamicTree(n_particles=5)}
    mean, error = mean_and_error(relative_errors(2, 6, 8_000, block=1_000, **settings))
    assert (np.abs(mean) < 3.5 * error + 0.005).all(), (mean, error)
    assert (error < 0.03).all()


def test_corners_that_are_not_the_cuts_would_be_noticed():
    settings = {"partitioner": Inflated(DynamicTree(n_particles=10))}
    mean, error = mean_and_error(relative_errors(2, 6, 4_000, **settings))
    assert (np.abs(mean) > 3.5 * error + 0.005).any(), (mean, error)
