"""BART: refinement of trees, the forest in our arrays, guards, no bias."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import abctree
from abctree import Bart, Growth, MissingDependencyError, ParameterError
from abctree.data import Boxes, SplitTree
from abctree.testing import check_partitioner
from abctree.tree import partitioners
from tests.test_dynamic import Inflated
from tests.test_unbiased import mean_and_error, relative_errors

#: A short chain: what a test needs of a forest is that it is one.
QUICK = {"n_warm_start": 5, "n_burn_in": 20, "max_rows": 1500}

needs_stochtree = pytest.mark.skipif(
    importlib.util.find_spec("stochtree") is None, reason="stochtree is not installed"
)


# Refinement --------------------------------------------------------------------------------------


def random_tree(rng, d, n_cuts):
    """A tree that cuts any of its boxes anywhere."""
    growth = Growth(Boxes.whole(d))
    for _ in range(n_cuts):
        box, feature = int(rng.integers(len(growth))), int(rng.integers(d))
        low, high = growth.lower(box)[feature], growth.upper(box)[feature]
        # Round numbers, so that trees share cuts.
        growth.split(box, feature, float(np.round(rng.uniform(low, high), 1)))
    return growth.boxes().tree


def addresses(trees, points, d):
    """(n, m) The leaf of each point in each tree."""
    return np.column_stack([Boxes.from_tree(tree, d).locate(points) for tree in trees])


@st.composite
def forests(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 3))
    trees = [random_tree(rng, d, draw(st.integers(0, 6))) for _ in range(draw(st.integers(1, 4)))]
    return d, trees, rng.random((draw(st.integers(0, 200)), d)), rng


@given(forests())
def test_refinement_without_limits_has_one_box_for_every_cell(forest):
    d, trees, rows, rng = forest
    boxes = partitioners.refinement.refinement(trees, rows, max_boxes=10**6, min_rows=0)
    points = rng.random((500, d))
    here = addresses(trees, points, d)
    centres = addresses(trees, 0.5 * (boxes.lower + boxes.upper), d)
    assert boxes.volume.sum() == pytest.approx(1.0)
    assert np.array_equal(centres[boxes.locate(points)], here)  # a box lies in one cell ...
    assert len(np.unique(centres, axis=0)) == len(boxes)  # ... and a cell in one box


def test_refinement_that_forgets_a_tree_would_be_noticed(rng):
    trees = [random_tree(rng, 2, 5) for _ in range(3)]
    boxes = partitioners.refinement.refinement(
        trees[:2], rng.random((50, 2)), max_boxes=10**6, min_rows=0
    )
    points = rng.random((500, 2))
    centres = addresses(trees, 0.5 * (boxes.lower + boxes.upper), 2)
    assert not np.array_equal(centres[boxes.locate(points)], addresses(trees, points, 2))


@given(forests())
def test_refinement_separates_rows_as_the_trees_do_and_no_more(forest):
    d, trees, rows, _ = forest
    boxes = partitioners.refinement.refinement(trees, rows, max_boxes=10**6, min_rows=1)
    cell = np.unique(addresses(trees, rows, d), axis=0, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([cell, boxes.locate(rows)]), axis=0)
    assert len(pairs) == len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1]))
    assert len(boxes) == max(1, len(pairs))  # no box without a row
    assert boxes.volume.sum() == pytest.approx(1.0)


@given(forests(), st.integers(1, 20), st.integers(1, 12))
def test_refinement_keeps_its_limits(forest, min_rows, max_boxes):
    _, trees, rows, _ = forest
    boxes = partitioners.refinement.refinement(trees, rows, max_boxes, min_rows)
    count = np.bincount(boxes.locate(rows), minlength=len(boxes))
    assert len(boxes) <= max_boxes
    assert len(boxes) == 1 or count.min() >= min_rows
    assert boxes.volume.sum() == pytest.approx(1.0)


@given(forests(), st.integers(2, 12))
def test_refinement_cuts_the_fullest_box_that_can_be_cut(forest, max_boxes):
    _, trees, rows, _ = forest
    finest = partitioners.refinement.refinement(trees, rows, 10**6, 1)
    before, after = (
        partitioners.refinement.refinement(trees, rows, k, 1) for k in (max_boxes - 1, max_boxes)
    )
    if len(after) < max_boxes:
        return  # nothing more to cut
    box = before.locate(rows)
    count = np.bincount(box, minlength=len(before))
    fine = finest.locate(rows)
    parts = [len(np.unique(fine[box == k])) for k in range(len(before))]
    cut = [k for k in range(len(before)) if len(np.unique(after.locate(rows[box == k]))) > 1]
    assert len(cut) == 1
    assert count[cut[0]] == max(n for n, m in zip(count, parts, strict=True) if m > 1)


def test_refinement_is_no_deeper_than_its_trees_together(rng):
    trees = [random_tree(rng, 3, 8) for _ in range(5)]
    boxes = partitioners.refinement.refinement(
        trees, rng.random((2000, 3)), max_boxes=10**6, min_rows=0
    )
    assert len(boxes) > 100
    assert depth(boxes.tree) <= sum(map(depth, trees))


def depth(tree):
    level = np.zeros(tree.n_nodes, dtype=int)
    for node in range(1, tree.n_nodes):
        level[node] = level[tree.parent[node]] + 1
    return level.max()


# The forest --------------------------------------------------------------------------------------


def square(seed=0, n=2000, d=2):
    """Rows with small distances in a cube around 0.4, and their epsilon."""
    rng = np.random.default_rng(seed)
    cube = rng.random((n, d))
    inside = (np.abs(cube - 0.4) < 0.2).all(axis=1)
    return cube, np.where(inside, 0.5, 2.0) * rng.random(n) + 0.1, 0.6


def leaf_values(forest, number):
    """Values of the leaves of a tree of stochtree's, level by level."""
    nodes, values = [0], []
    for node in nodes:
        if forest.is_leaf_node(0, number, node):
            values.append(float(np.squeeze(forest.node_leaf_values(0, number, node))))
        else:
            nodes += [
                forest.left_child_node(0, number, node),
                forest.right_child_node(0, number, node),
            ]
    return np.array(values)


@pytest.fixture
def sampled(monkeypatch):
    """A partition, stochtree's model behind it, and rows."""
    stochtree = pytest.importorskip("stochtree")
    models = []

    class Watched(stochtree.BARTModel):
        def __init__(self):
            super().__init__()
            models.append(self)

    monkeypatch.setattr(stochtree, "BARTModel", Watched)
    cube, distance, epsilon = square()
    partitioner = Bart(n_burn_in=50, min_rows=1)
    boxes = partitioner.partition(cube, distance, epsilon, None, np.random.default_rng(3))
    return boxes, models[0], cube


def on_the_cuts(model, cube):
    """Each row moved onto a cut of each tree."""
    moved = []
    for number in range(5):
        tree = partitioners.bart._tree(model.forest_container_mean, 0, number)
        for node in np.flatnonzero(tree.feature >= 0):
            points = cube[:50].copy()
            points[:, tree.feature[node]] = np.nextafter(tree.threshold[node], -np.inf)
            moved.append(points)
    return np.concatenate(moved)


def test_forest_is_a_probit_model(sampled):
    _, model, cube = sampled
    rate = np.ravel(model.predict(X=cube, terms="y_hat", scale="probability"))
    assert rate == pytest.approx(norm.cdf(predictions(model, cube)))


def test_trees_sum_to_the_predictions_of_stochtree(sampled):
    _, model, cube = sampled
    for points in (cube, on_the_cuts(model, cube)):
        assert sum_of_trees(model, points) == pytest.approx(predictions(model, points), abs=1e-9)


def test_trees_cut_on_the_wrong_side_of_the_threshold_would_be_noticed(sampled):
    _, model, cube = sampled
    points = on_the_cuts(model, cube)
    below = sum_of_trees(model, points, nudge=lambda t: np.nextafter(t, -np.inf))
    assert np.abs(below - predictions(model, points)).max() > 1e-3


def predictions(model, cube):
    return np.ravel(model.predict(X=cube, terms="y_hat", scale="linear"))


def sum_of_trees(model, cube, nudge=lambda t: t):
    forest = model.forest_container_mean
    total = np.full(len(cube), float(np.squeeze(model.y_bar)))
    for number in range(5):
        tree = partitioners.bart._tree(forest, 0, number)
        moved = SplitTree(tree.feature, nudge(tree.threshold), tree.left, tree.right, tree.box)
        total += leaf_values(forest, number)[Boxes.from_tree(moved, 2).locate(cube)]
    return total


def test_rows_of_a_box_have_one_prediction(sampled):
    boxes, model, cube = sampled
    prediction, box = predictions(model, cube), boxes.locate(cube)
    assert len(boxes) > 3
    for k in range(len(boxes)):
        assert np.ptp(prediction[box == k]) < 1e-9


@needs_stochtree
def test_bart_finds_a_planted_square():
    cube, distance, epsilon = square()
    boxes = Bart(**QUICK).partition(cube, distance, epsilon, None, np.random.default_rng(1))
    label, box = distance < epsilon, boxes.locate(cube)
    rate = np.bincount(box, label) / np.bincount(box)
    error = np.mean((label - rate[box]) ** 2)
    inside = (np.abs(cube - 0.4) < 0.2).all(axis=1)
    best = np.mean((label - np.where(inside, label[inside].mean(), label[~inside].mean())) ** 2)
    constant = label.var()
    assert error < best + 0.25 * (constant - best)


@needs_stochtree
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("partitioner", [{}, {"max_boxes": 5, "min_rows": 1, "n_trees": 12}])
def test_bart_keeps_the_contract_of_partitioners(partitioner, d):
    settings = {"n_burn_in": 10, **partitioner}
    check_partitioner(Bart(**settings), d=d, n=300)


@needs_stochtree
def test_bart_is_one_box_when_labels_are_equal_or_rows_are_few():
    cube, distance, _ = square()
    few = np.arange(9)
    for rows, epsilon in ((slice(None), 100.0), (slice(None), 1e-9), (few, 0.6), (few[:0], 0.6)):
        boxes = Bart(**QUICK).partition(
            cube[rows], distance[rows], epsilon, None, np.random.default_rng(0)
        )
        assert len(boxes) == 1


@needs_stochtree
def test_bart_repeats_itself_and_differs_between_seeds():
    cube, distance, epsilon = square()
    np.random.seed(0)  # noqa: NPY002 - the global state must not matter
    bart = Bart(**QUICK)
    draws = [
        bart.partition(cube, distance, epsilon, None, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(draws[0].lower, draws[1].lower)
    assert not np.array_equal(draws[0].lower, draws[2].lower)


@needs_stochtree
def test_bart_fits_at_most_max_rows_and_refines_with_all(monkeypatch):
    fitted = []
    original = Bart._forest

    def watched(self, cube, label, seed):
        fitted.append(len(cube))
        return original(self, cube, label, seed)

    monkeypatch.setattr(Bart, "_forest", watched)
    cube, distance, epsilon = square()
    for most in (500, None):
        settings = {**QUICK, "max_rows": most, "min_rows": 60}
        boxes = Bart(**settings).partition(cube, distance, epsilon, None, np.random.default_rng(1))
        assert len(boxes) > 1
        assert np.bincount(boxes.locate(cube), minlength=len(boxes)).min() >= 60
    assert fitted == [500, 2000]


@needs_stochtree
@pytest.mark.parametrize(
    "bad",
    [
        {"n_trees": 0},
        {"n_burn_in": -1},
        {"max_boxes": 0},
        {"min_rows": 0},
        {"max_rows": 9},
        {"n_warm_start": -1},
    ],
)
def test_bart_refuses_settings_out_of_range(bad):
    with pytest.raises(ParameterError, match=f"`{next(iter(bad))}` must be"):
        Bart(**bad)


# Without stochtree -------------------------------------------------------------------------------


def test_bart_says_what_to_install_before_anything_is_simulated(monkeypatch):
    monkeypatch.setitem(sys.modules, "stochtree", None)
    calls = []
    problem = abctree.Problem(
        {"a": (0.0, 1.0)}, lambda theta, rng: calls.append(1) or theta, [0.5], vectorized=True
    )
    with pytest.raises(MissingDependencyError, match=r"pip install abctree\[bart\]"):
        abctree.abc_tree(problem, n_simulations=1000, partitioner="bart")
    assert calls == []


# No bias -----------------------------------------------------------------------------------------


@needs_stochtree
def test_posterior_and_evidence_agree_with_the_closed_form():
    # With three folds there are two forests in five fewer, and simulations cost little.
    settings = {"partitioner": Bart(**QUICK), "n_folds": 3, "block": 350}
    mean, error = mean_and_error(relative_errors(2, 6, 7_000, **settings))
    assert (np.abs(mean) < 3.5 * error + 0.005).all(), (mean, error)
    assert (error < 0.05).all()


@needs_stochtree
def test_corners_that_are_not_the_cuts_would_be_noticed():
    settings = {"partitioner": Inflated(Bart(**QUICK)), "n_folds": 3}
    mean, error = mean_and_error(relative_errors(2, 5, 4_000, **settings))
    assert (np.abs(mean) > 3.5 * error + 0.005).any(), (mean, error)
