"""Growth, grids, dyadic partitions and CART: geometry, oracles, pruning."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abctree import Cart, Dyadic, Grid, Growth, ParameterError
from abctree.data import Boxes
from abctree.tree import partitioners

PARTITIONERS = [
    Grid(3),
    Dyadic(),
    Dyadic(n_splits=10),
    Dyadic(n_splits=25, direction="cyclic", min_draws=1, label=None),
    Cart(),
    Cart(min_leaf=1, max_leaves=40, label=2.5),
    Cart(prune=True, min_leaf=2),
]


def owners(boxes, points):
    """Which boxes own each point, by the definition of a half-open box: (n, K)."""
    inside = (boxes.lower <= points[:, None, :]) & (points[:, None, :] < boxes.upper)
    return inside.all(axis=2)


def make_table(seed, n, d, kind):
    rng = np.random.default_rng(seed)
    cube = rng.random((n, d))
    if kind == "lattice":
        cube = (1 + rng.integers(0, 7, (n, d))) / 8
    elif kind == "clump":
        cube = 0.37 + 1e-9 * cube
    elif kind == "one point":
        cube = np.full((n, d), 0.3)
    distance = 3 * np.abs(cube - 0.4).max(axis=1, initial=0.0) + 0.5 * rng.random(n)
    distance[rng.random(n) < 0.1] = np.inf
    return cube, distance


tables = st.builds(
    make_table,
    st.integers(0, 2**32 - 1),
    st.integers(0, 150),
    st.integers(1, 4),
    st.sampled_from(["uniform", "lattice", "clump", "one point"]),
)


# ------------------------------------------------------------------------------ every partitioner


@settings(max_examples=25, deadline=None)
@given(tables, st.sampled_from([1e-300, 0.3, 1.0, np.inf]), st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=repr)
def test_partitioner_tiles_the_cube_and_locate_inverts_sampling(partitioner, table, epsilon, seed):
    cube, distance = table
    rng = np.random.default_rng(seed)
    boxes = None
    for _ in range(2):
        boxes = partitioner.partition(cube, distance, epsilon, boxes, rng)
        points = np.concatenate([cube, rng.random((20, cube.shape[1])), boxes.lower])
        inside = owners(boxes, points)
        assert (inside.sum(axis=1) == 1).all()
        assert np.array_equal(inside.argmax(axis=1), boxes.locate(points))
        assert boxes.volume.sum() == pytest.approx(1.0, abs=1e-12)
        box = np.arange(len(boxes))
        assert np.array_equal(boxes.locate(boxes.sample(box, rng)), box)


# ---------------------------------------------------------------------------------------- labels


def test_labels_are_the_reward_or_fall_linearly_to_zero():
    distance = np.array([0.0, 1.0, 2.0, 4.0, 5.0, 9.0, np.inf, np.nan])
    assert partitioners.growth.labels(distance, 2.0, None).tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert partitioners.growth.labels(distance, 2.0, 2.5) == pytest.approx(
        [1.0, 0.8, 0.6, 0.2, 0, 0, 0, 0]
    )


@pytest.mark.parametrize("width", [None, 2.5])
def test_labels_are_finite_when_the_tolerance_is_extreme(width):
    distance = np.array([0.0, 1.0, 1e300, np.inf])
    assert partitioners.growth.labels(distance, np.inf, width).tolist() == [1, 1, 1, 0]
    assert partitioners.growth.labels(distance, 5e-324, width).tolist() == [1, 0, 0, 0]
    assert partitioners.growth.labels(distance, 1e308, width)[-1] == 0
    assert partitioners.growth.labels(distance, 0.0, width).tolist() == [0, 0, 0, 0]


# ---------------------------------------------------------------------------------------- Growth


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 40))
def test_growth_corners_are_those_of_its_tree_after_any_cuts(seed, d, n_cuts):
    rng = np.random.default_rng(seed)
    growth = Growth(Boxes.whole(d))
    depth = [0]
    for _ in range(n_cuts):
        box, feature = int(rng.integers(len(growth))), int(rng.integers(d))
        low, high = growth.lower(box)[feature], growth.upper(box)[feature]
        parts = growth.split(box, feature, low + (high - low) * rng.random())
        assert parts == (box, len(growth) - 1)  # an inner threshold: 0 or 1 have probability 2⁻⁵³
        depth[box] += 1
        depth.append(depth[box])
    boxes = growth.boxes()
    again = Boxes.from_tree(boxes.tree, d)
    assert np.array_equal(boxes.lower, again.lower)
    assert np.array_equal(boxes.upper, again.upper)
    inner = boxes.tree.feature >= 0
    assert (boxes.tree.left[inner] > np.flatnonzero(inner)).all()
    assert len(boxes) == boxes.tree.n_boxes == n_cuts + 1
    regrown = Growth(boxes)
    assert [regrown.depth(k) for k in range(len(boxes))] == depth


def test_growth_keeps_the_number_of_the_left_part_and_leaves_its_start_alone():
    start = Growth(Boxes.whole(2))
    start.split(0, 0, 0.5)
    boxes = start.boxes()
    growth = Growth(boxes)
    assert growth.split(0, 1, 0.25) == (0, 2)
    grown = growth.boxes()
    assert grown.lower.tolist() == [[0, 0], [0.5, 0], [0, 0.25]]
    assert grown.upper.tolist() == [[0.5, 0.25], [1, 1], [0.5, 1]]
    assert boxes.upper.tolist() == [[0.5, 1], [1, 1]]
    assert len(boxes.tree.feature) == 3


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.0, 1.5, np.nan, 1e-310])
def test_growth_refuses_a_threshold_that_is_not_strictly_inside(threshold):
    growth = Growth(Boxes.whole(1))
    assert growth.split(0, 0, threshold) is None
    assert len(growth) == len(growth.boxes()) == 1


def test_growth_refuses_the_midpoint_when_a_box_is_one_float_wide():
    growth = Growth(Boxes.whole(1))
    growth.split(0, 0, 0.7)
    growth.split(1, 0, np.nextafter(0.7, 1))
    middle = 0.5 * (growth.lower(1)[0] + growth.upper(1)[0])
    assert middle in {0.7, np.nextafter(0.7, 1)}  # the case is the one that is meant
    assert growth.split(1, 0, middle) is None
    boxes = growth.boxes()
    assert boxes.locate(boxes.sample(np.array([1]), np.random.default_rng(0))).tolist() == [1]


# ------------------------------------------------------------------------------------------ Grid


def grid_boxes(bins, d):
    return Grid(bins).partition(np.empty((0, d)), np.empty(0), 1.0, None, None)


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 100])
def test_grid_has_equal_bins_in_order_when_one_dimensional(bins):
    boxes = grid_boxes(bins, 1)
    assert boxes.lower[:, 0].tolist() == [k / bins for k in range(bins)]
    assert boxes.upper[:, 0].tolist() == [(k + 1) / bins for k in range(bins)]
    assert boxes.locate(boxes.lower).tolist() == list(range(bins))
    assert boxes.locate(np.nextafter(boxes.upper, 0)).tolist() == list(range(bins))


@pytest.mark.parametrize("bins", [(3, 4), (2, 1, 5), (5, 2, 2, 3)])
def test_grid_numbers_its_cells_in_c_order(bins):
    boxes = grid_boxes(bins, len(bins))
    index = np.array(np.unravel_index(np.arange(len(boxes)), bins)).T
    assert len(boxes) == np.prod(bins)
    assert boxes.lower == pytest.approx(index / bins, abs=0)
    assert boxes.upper == pytest.approx((index + 1) / bins, abs=0)
    again = Boxes.from_tree(boxes.tree, len(bins))
    assert np.array_equal(again.lower, boxes.lower)


def test_grid_hangs_on_a_balanced_tree():
    tree = grid_boxes((1000, 6), 2).tree
    depth = np.zeros(tree.n_nodes, dtype=int)
    for node in range(1, tree.n_nodes):
        assert tree.parent[node] < node
        depth[node] = depth[tree.parent[node]] + 1
    assert depth.max() == 10 + 3  # ceil(log2 1000) + ceil(log2 6)


def test_grid_makes_its_boxes_once_and_ignores_the_rows():
    grid = Grid(4)
    rng = np.random.default_rng(0)
    first = grid.partition(rng.random((9, 2)), rng.random(9), 0.5, None, rng)
    assert grid.partition(np.empty((0, 2)), np.empty(0), 9.0, Boxes.whole(2), rng) is first
    assert len(grid.partition(np.empty((0, 3)), np.empty(0), 9.0, None, rng)) == 64


@pytest.mark.parametrize(
    ("bins", "d", "says"),
    [(0, 1, "at least 1"), ((3, 0), 2, "at least 1"), (2.5, 1, "whole number"),
     ((3, 4), 3, "one entry for each of the 3"), (50, 5, "at most 2000000 cells")],
)  # fmt: skip
def test_grid_refuses_bins_that_make_no_grid(bins, d, says):
    with pytest.raises(ParameterError, match=says):
        grid_boxes(bins, d)


# ---------------------------------------------------------------------------------------- Dyadic


def naive_dyadic(cube, label, boxes, n_splits, *, rank=1, cyclic=False):
    """The rule by its definition: count rows, take the fullest box, try every coordinate."""
    corners = [
        (low.copy(), high.copy(), 0) for low, high in zip(boxes.lower, boxes.upper, strict=True)
    ]
    d = cube.shape[1]
    for _ in range(n_splits):
        rows = [((low <= cube) & (cube < high)).all(axis=1) for low, high, _ in corners]
        counts = np.array([r.sum() for r in rows])
        box = int(np.argsort(-counts, kind="stable")[min(rank, len(counts)) - 1])
        low, high, depth = corners[box]
        middle = (low + high) / 2
        y = label[rows[box]]
        falls = []
        for j in range(d):
            left = cube[rows[box], j] < middle[j]
            parts = [y[left], y[~left]]
            error = sum(((p - p.mean()) ** 2).sum() for p in parts if len(p))
            falls.append(((y - y.mean()) ** 2).sum() - error if len(y) else 0.0)
        j = int(np.argmax(falls)) if max(falls) > 1e-9 else int(np.argmax(high - low))
        j = depth % d if cyclic else j
        cut_low, cut_high = low.copy(), high.copy()
        cut_low[j] = cut_high[j] = middle[j]
        corners[box] = (low, cut_high, depth + 1)
        corners.append((cut_low, high, depth + 1))
    return np.array([c[0] for c in corners]), np.array([c[1] for c in corners])


def dyadic_case(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    cube = rng.beta(1.3, 2.5, (400, d))
    if seed % 2:
        cube = (1 + np.floor(14 * cube)) / 16  # rows on the midpoints
    return cube, 3 * np.abs(cube - 0.35).max(axis=1) + 0.2 * rng.random(400)


@pytest.mark.parametrize("direction", ["separating", "cyclic"])
@pytest.mark.parametrize("seed", range(6))
def test_dyadic_cuts_the_fullest_box_as_a_brute_force_search_does(seed, direction):
    cube, distance = dyadic_case(seed)
    whole = Boxes.whole(cube.shape[1])
    boxes = Dyadic(n_splits=12, direction=direction).partition(cube, distance, 0.5, None, None)
    y = partitioners.growth.labels(distance, 0.5, 2.5)
    lower, upper = naive_dyadic(cube, y, whole, 12, cyclic=direction == "cyclic")
    assert np.array_equal(boxes.lower, lower)
    assert np.array_equal(boxes.upper, upper)
    # The twin that must fail: an oracle that takes the second fullest box.
    other, _ = naive_dyadic(cube, y, whole, 12, rank=2, cyclic=direction == "cyclic")
    assert not np.array_equal(boxes.lower, other)


@pytest.mark.parametrize("seed", range(3))
def test_dyadic_refines_the_current_partition_with_the_rows_of_this_round(seed):
    cube, distance = dyadic_case(seed)
    more, farther = dyadic_case(seed + 100)
    more = np.resize(more[:, : cube.shape[1]], (400, cube.shape[1]))
    rule = Dyadic(n_splits=10)
    first = rule.partition(cube, distance, 0.8, None, None)
    second = rule.partition(more, farther, 0.4, first, None)
    lower, upper = naive_dyadic(more, partitioners.growth.labels(farther, 0.4, 2.5), first, 10)
    assert len(first) == 11
    assert len(second) == 21
    assert np.array_equal(second.lower, lower)
    assert np.array_equal(second.upper, upper)
    inside = (first.lower <= second.lower[:, None]) & (second.upper[:, None] <= first.upper)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


def first_cuts(label_of, n_seeds=30):
    """The coordinate of the first cut under fresh tables."""
    found = []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        cube = rng.random((300, 5))
        boxes = Dyadic(n_splits=1).partition(cube, label_of(cube, rng), 0.5, None, rng)
        found.append(int(boxes.tree.feature[0]))
    return np.array(found)


def test_dyadic_separating_finds_the_coordinate_that_matters():
    relevant = first_cuts(lambda cube, rng: cube[:, 3] + 0.3 * rng.random(len(cube)))
    assert (relevant == 3).all()
    # The twin that must fail: distances that do not depend on the point.
    unrelated = first_cuts(lambda cube, rng: rng.random(len(cube)))
    assert (unrelated == 3).mean() < 0.6


def test_dyadic_separating_cuts_the_widest_side_when_no_cut_gains():
    growth = Growth(Boxes.whole(3))
    growth.split(0, 0, 0.5)
    growth.split(0, 1, 0.5)
    cube = np.full((40, 3), 0.2) * np.linspace(0.9, 1.1, 40)[:, None]
    rule = Dyadic(n_splits=1)
    boxes = rule.partition(cube, np.full(40, 9.0), 0.5, growth.boxes(), None)
    assert boxes.upper[0].tolist() == [0.5, 0.5, 0.5]


def test_dyadic_cyclic_takes_the_depth_modulo_the_dimension():
    cube = np.random.default_rng(0).random((2000, 3))
    rule = Dyadic(n_splits=60, direction="cyclic")
    tree = rule.partition(cube, cube[:, 0], 0.5, None, None).tree
    depth = np.zeros(tree.n_nodes, dtype=int)
    for node in range(1, tree.n_nodes):
        depth[node] = depth[tree.parent[node]] + 1
    inner = tree.feature >= 0
    assert inner.sum() == 60
    assert np.array_equal(tree.feature[inner], depth[inner] % 3)


def test_dyadic_cyclic_passes_over_a_side_that_is_too_short():
    growth = Growth(Boxes.whole(2))
    for side in (0.5, 2.0**-39, 2.0**-40, 2.0**-41):
        growth.split(0, 0, side)
    cube = np.full((40, 2), [2.0**-43, 0.5])
    rule = Dyadic(n_splits=1, direction="cyclic")
    assert growth.depth(0) % 2 == 0
    boxes = rule.partition(cube, np.ones(40), 0.5, growth.boxes(), None)
    assert boxes.upper[0].tolist() == [2.0**-41, 0.5]


def test_dyadic_stops_at_one_box_for_150_rows_and_at_its_limits():
    rng = np.random.default_rng(0)
    cube = rng.random((3000, 2))
    distance = cube[:, 0]

    def count(rule, n=3000, current=None):
        return len(rule.partition(cube[:n], distance[:n], 0.3, current, rng))

    assert count(Dyadic()) == 20
    assert count(Dyadic(), n=299) == 1
    assert count(Dyadic(), n=300) == 2
    assert count(Dyadic(max_boxes=7)) == 7
    assert count(Dyadic(n_splits=5, max_boxes=4)) == 4
    fine = Dyadic(n_splits=500).partition(cube, distance, 0.3, None, rng)
    assert len(fine) == 501
    assert Dyadic().partition(cube, distance, 0.3, fine, rng) is fine


def test_dyadic_leaves_boxes_with_few_draws_alone():
    cube = np.random.default_rng(0).random((200, 2))
    rule = Dyadic(n_splits=1000, min_draws=20, direction="cyclic")
    boxes = rule.partition(cube, cube[:, 0], 0.3, None, None)
    assert np.bincount(boxes.locate(cube)).max() < 20
    coarse = Dyadic(n_splits=1000, min_draws=200, direction="cyclic")
    assert len(coarse.partition(cube, cube[:, 0], 0.3, None, None)) == 2


def test_dyadic_stops_at_a_shortest_side_when_all_rows_are_one_point():
    cube = np.full((50, 2), 1 / 3)
    boxes = Dyadic(n_splits=10_000).partition(cube, np.ones(50), 2.0, None, None)
    assert len(boxes) == 81
    assert (boxes.upper - boxes.lower).min() == 2.0**-40


@pytest.mark.parametrize(
    "bad",
    [{"n_splits": 0}, {"direction": "random"}, {"min_draws": 0}, {"max_boxes": 0}, {"label": 0.0}],
)
def test_dyadic_refuses_settings_out_of_range(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        Dyadic(**bad)


def test_dyadic_first_round_takes_well_under_a_second_when_there_are_100_000_rows():
    rng = np.random.default_rng(0)
    cube = rng.random((100_000, 5))
    distance = np.linalg.norm(cube - 0.4, axis=1)
    Boxes.whole(5).locate(cube[:2])  # compiled before the clock starts
    start = time.process_time()
    boxes = Dyadic().partition(cube, distance, 0.2, None, rng)
    assert time.process_time() - start < 1.0  # measured: 0.08 s
    assert len(boxes) == 666


# ------------------------------------------------------------------------------------------ Cart


def rectangle(seed, n=4000, d=2):
    """Distance 0 in a rectangle of the first two coordinates, 1 outside."""
    rng = np.random.default_rng(seed)
    cube = rng.random((n, d))
    inside = ((cube[:, :2] >= [0.3, 0.2]) & (cube[:, :2] < [0.6, 0.7])).all(axis=1)
    return cube, np.where(inside, 0.0, 1.0)


def accuracy(boxes, cube, distance, fresh, truth):
    """How often the majority label of a box is the truth at fresh points."""
    box = boxes.locate(cube)
    rate = np.bincount(box, distance < 0.5, len(boxes)) / np.bincount(box, minlength=len(boxes))
    return np.mean((rate[boxes.locate(fresh)] > 0.5) == (truth < 0.5))


@pytest.mark.parametrize("label", [None, 2.5])
@pytest.mark.parametrize("d", [2, 4])
def test_cart_finds_a_planted_rectangle(d, label):
    cube, distance = rectangle(0, d=d)
    fresh, truth = rectangle(1, d=d)
    rng = np.random.default_rng(0)
    boxes = Cart(label=label).partition(cube, distance, 0.5, None, rng)
    # Every border is known to about two gaps of n points; the sum of four borders is the error.
    assert accuracy(boxes, cube, distance, fresh, truth) > 0.99
    assert len(boxes) < 30
    # The twin that must fail: the same labels in another order.
    shuffled = rng.permutation(distance)
    boxes = Cart(label=label).partition(cube, shuffled, 0.5, None, rng)
    assert accuracy(boxes, cube, shuffled, fresh, truth) < 0.9


@pytest.mark.parametrize("label", [None, 2.5])
@pytest.mark.parametrize(("max_leaves", "min_leaf"), [(1, 1), (2, 1), (20, 10), (1000, 25)])
def test_cart_keeps_its_limits_on_leaves_and_rows(max_leaves, min_leaf, label):
    rng = np.random.default_rng(3)
    cube = rng.random((2000, 3))
    rule = Cart(max_leaves=max_leaves, min_leaf=min_leaf, label=label)
    boxes = rule.partition(cube, rng.random(2000), 0.4, None, rng)
    rows = np.bincount(boxes.locate(cube), minlength=len(boxes))
    assert len(boxes) <= max_leaves
    # Exact here: no row lies on a cut.  In general a row exactly halfway between two neighbouring
    # float32 numbers may fall on the other side.
    assert rows.min() >= min_leaf
    # The limits bind.
    assert len(boxes) == max_leaves or (rows.min() < 2 * min_leaf and len(boxes) > 20)


def test_cart_keeps_its_limit_on_depth():
    rng = np.random.default_rng(3)
    cube = rng.random((2000, 3))
    boxes = Cart(max_depth=3).partition(cube, rng.random(2000), 0.4, None, rng)
    growth = Growth(boxes)
    assert max(growth.depth(k) for k in range(len(boxes))) == 3


@pytest.mark.parametrize("jitter", [1.0, 1e-8, 0.0])
def test_cart_gives_its_rows_the_leaves_of_scikit_learn(jitter):
    from sklearn.tree import DecisionTreeClassifier

    # With a small jitter many float64 rows share a float32 number, and neighbouring numbers are
    # only a few float32 steps apart.
    rng = np.random.default_rng(5)
    step = rng.integers(0, 1000, (3000, 2))
    cube = (0.6 + 3e-7 * step if jitter < 1 else 0.0) + jitter * rng.random((3000, 2))
    assert (len(np.unique(cube.astype(np.float32))) < 0.5 * cube.size) == (jitter < 1)
    distance = (cube[:, 0] - 0.6) / 3e-4 if jitter < 1 else cube[:, 0]
    distance = distance + 0.3 * rng.random(3000)
    boxes = Cart(min_leaf=5).partition(cube, distance, 0.3, None, np.random.default_rng(0))
    state = int(np.random.default_rng(0).integers(2**31 - 1))
    model = DecisionTreeClassifier(max_leaf_nodes=1000, min_samples_leaf=5, random_state=state)
    leaf = model.fit(cube, distance < 0.3).apply(cube)
    pairs = np.unique(np.column_stack([leaf, boxes.locate(cube)]), axis=0)
    assert len(pairs) == len(np.unique(leaf)) == len(boxes) > 1


@pytest.mark.parametrize(
    ("beyond", "kept"), [(0.9, 3), (0.5, 3), (0.1, 4), (np.nextafter(0.25, 0), 4)]
)
def test_cart_drops_a_cut_that_is_not_inside_its_box(beyond, kept):
    # Node 1 is [.25, .5) but for roundings.  It is cut outside, and one of its sides cut at .375.
    n = np.ones(9)
    low, high, inner = (np.nextafter(t, 0) for t in (0.25, 0.5, 0.375))
    left, right = np.full(9, -1), np.full(9, -1)
    feature, threshold = np.full(9, -2), np.full(9, -2.0)
    for node, cut, first in ((0, low, 2), (1, high, 7), (7, beyond, 3), (kept, inner, 5)):
        feature[node], threshold[node], left[node], right[node] = 0, cut, first, first + 1
    left[0], right[0] = 2, 1
    tree = partitioners.cart._Tree(feature, threshold, left, right, n, n, n)
    boxes = partitioners.cart._boxes(tree, tree.left < 0, 1)
    assert sorted(boxes.lower[:, 0].tolist()) == [0.0, 0.25, 0.375, 0.5]
    assert sorted(boxes.upper[:, 0].tolist()) == [0.25, 0.375, 0.5, 1.0]


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("label", [None, 2.5])
def test_cart_is_one_box_when_all_labels_are_equal(label, prune):
    rng = np.random.default_rng(0)
    rule = Cart(label=label, prune=prune)
    for distance in (np.full(300, np.inf), np.zeros(300), np.full(300, 0.2)):
        assert len(rule.partition(rng.random((300, 2)), distance, 1.0, None, rng)) == 1
    assert len(rule.partition(np.empty((0, 2)), np.empty(0), 1.0, None, rng)) == 1


@pytest.mark.parametrize(
    "bad",
    [{"max_leaves": 0}, {"min_leaf": 0}, {"max_depth": 0}, {"label": -1.0}, {"n_pruning_folds": 1}],
)
def test_cart_refuses_settings_out_of_range(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        Cart(**bad)


def test_what_a_run_does_not_need_is_not_imported():
    """In each process that is started this would take longer than all the rest."""
    code = (
        "import sys, abctree; abctree.Cart(); abctree.Bart\n"
        "problem = abctree.Problem({'a': (0.0, 1.0)}, lambda t, rng: t + rng.random(), [0.5])\n"
        "abctree.abc_tree(problem, n_simulations=200, rng=1).posterior()\n"
        "print({'sklearn', 'stochtree', 'scipy.stats', 'scipy.spatial'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.strip() == "set()"


# --------------------------------------------------------------------------------------- pruning


def steps(seed, n=4000):
    """Acceptance rates .05, .6, .2, .8 on the quarters of the first of two coordinates."""
    rng = np.random.default_rng(seed)
    cube = rng.random((n, 2))
    rate = np.array([0.05, 0.6, 0.2, 0.8])[(4 * cube[:, 0]).astype(int)]
    return cube, np.where(rng.random(n) < rate, 0.0, 1.0)


def noise(seed, n=4000):
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)), np.where(rng.random(n) < 0.3, 0.0, 1.0)


def n_leaves(rule, make, n_seeds=4):
    return np.array(
        [
            len(rule.partition(*make(seed), 0.5, None, np.random.default_rng(seed)))
            for seed in range(n_seeds)
        ]
    )


@pytest.mark.parametrize("label", [None, 2.5])
def test_cart_pruning_finds_the_size_of_a_step_function(label):
    found = n_leaves(Cart(prune=True, label=label), steps)
    assert found.min() >= 4
    assert found.max() <= 8
    # The twin that must fail: without pruning.
    assert n_leaves(Cart(label=label), steps).min() > 100


def test_cart_pruning_leaves_little_when_labels_are_noise():
    found = n_leaves(Cart(prune=True), noise)
    assert np.median(found) <= 2
    assert found.max() <= 12
    # The twin that must fail: without pruning.
    assert n_leaves(Cart(), noise).min() > 100


@pytest.mark.parametrize("label", [None, 2.5])
@pytest.mark.parametrize("n_folds", [2, 5])
def test_cart_pruning_fits_once_a_fold_and_once_more(monkeypatch, n_folds, label):
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    fits = []
    for model in (DecisionTreeClassifier, DecisionTreeRegressor):

        def counted(self, *args, _fit=model.fit, **kwargs):
            fits.append(1)
            return _fit(self, *args, **kwargs)

        monkeypatch.setattr(model, "fit", counted)
    rule = Cart(prune=True, label=label, n_pruning_folds=n_folds)
    cube, distance = steps(0, n=1000)
    boxes = rule.partition(cube, distance, 0.5, None, np.random.default_rng(0))
    assert len(boxes) > 1  # otherwise the folds may not have been needed
    assert len(fits) == n_folds + 1


def refitted_loss(model, cube, label, held_cube, held_label):
    """The held-out log loss of a refitted scikit-learn tree, one row at a time."""
    leaf, held = model.apply(cube), model.apply(held_cube)
    loss = 0.0
    for node in np.unique(held):
        y = label[leaf == node]
        rate = (y.sum() + label.mean()) / (len(y) + 1)
        t = held_label[held == node]
        loss -= np.sum(t * np.log(rate) + (1 - t) * np.log(1 - rate))
    return loss


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 2.5]), st.sampled_from([3, 10]))
def test_cart_pruning_path_is_what_refitting_with_each_penalty_gives(seed, label, min_leaf):
    rng = np.random.default_rng(seed)
    rule = Cart(label=label, min_leaf=min_leaf)
    cube = rng.random((400, 2))
    y = partitioners.growth.labels(2 * cube[:, 0] + rng.random(400), 1.0, label)
    taught = np.arange(400) % 5 != 0
    estimator, tree = rule._fitted(cube[taught], y[taught], rng)
    loss = partitioners.cart._node_loss(tree, estimator.apply(cube[~taught]), y[~taught])
    path = partitioners.cart._weakest_links(tree, loss)
    penalties = path.candidates()[1:-1]  # penalty 0 is no pruning to scikit-learn
    evaluated = path.loss_at(penalties)
    for penalty, value in list(zip(penalties, evaluated, strict=True))[::5]:
        model = type(estimator)(**estimator.get_params()).set_params(ccp_alpha=penalty)
        model.fit(cube[taught], y[taught])
        again = refitted_loss(model, cube[taught], y[taught], cube[~taught], y[~taught])
        assert value == pytest.approx(again, rel=1e-9)
        boxes = partitioners.cart._boxes(tree, (tree.left < 0) | (path.collapse <= penalty), 2)
        assert len(boxes) == model.get_n_leaves()
        pairs = np.column_stack([boxes.locate(cube), model.apply(cube)])
        assert len(np.unique(pairs, axis=0)) == model.get_n_leaves()
    # The twin that must fail: the loss of the tree that was never pruned.
    assert not np.allclose(evaluated, path.loss[0], rtol=1e-3)


def test_cart_pruning_keeps_the_smallest_of_equally_good_trees():
    # 100 rows can be cut into leaves of 45, the 80 of a training fold cannot: all losses are equal.
    rng = np.random.default_rng(0)
    cube = rng.random((100, 1))
    distance = cube[:, 0]
    assert len(Cart(min_leaf=45).partition(cube, distance, 0.5, None, rng)) == 2
    assert len(Cart(min_leaf=45, prune=True).partition(cube, distance, 0.5, None, rng)) == 1


def test_cart_pruning_deals_rare_labels_evenly_over_the_folds():
    label = np.zeros(1003)
    label[:10] = 1.0
    fold = partitioners.cart._dealt(label, 5, np.random.default_rng(0))
    assert np.bincount(fold[label == 1.0]).tolist() == [2] * 5
    assert np.ptp(np.bincount(fold)) <= 1
    other = partitioners.cart._dealt(label, 5, np.random.default_rng(1))
    assert not np.array_equal(fold, other)


def test_weakest_links_collapse_the_cheapest_branch_first():
    # A root with two branches of two leaves each; by hand g = .05, .1, then (.5 - .2) / 1 = .3.
    tree = partitioners.cart._Tree(
        feature=np.array([0, 0, 0, -2, -2, -2, -2]),
        threshold=np.zeros(7),
        left=np.array([1, 3, 5, -1, -1, -1, -1]),
        right=np.array([2, 4, 6, -1, -1, -1, -1]),
        n=np.ones(7), mean=np.ones(7),
        risk=np.array([0.5, 0.1, 0.1, 0.025, 0.025, 0.0, 0.0]),
    )  # fmt: skip
    path = partitioners.cart._weakest_links(tree, np.array([9.0, 3.0, 4.0, 1.0, 1.0, 1.5, 1.5]))
    assert path.alpha == pytest.approx([0.05, 0.1, 0.3])
    assert path.loss == pytest.approx([5.0, 6.0, 7.0, 9.0])
    assert path.collapse[:3] == pytest.approx([0.3, 0.05, 0.1])
    assert path.loss_at(np.array([0.0, 0.07, 0.2, np.inf])) == pytest.approx([5, 6, 7, 9])
    assert np.array_equal(path.loss_at(path.alpha), path.loss[1:])  # at its own penalty it falls
    assert path.candidates() == pytest.approx([0, np.sqrt(0.005), np.sqrt(0.03), np.inf])
