"""The compiled kernels return what their definitions in NumPy return."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abctree.data import Boxes, SplitTree
from abctree.kernels import compiled, gaussian, generator, growth
from tests import kernel_definitions as definition

seeds = st.integers(0, 2**32 - 1)


def table(seed, n, d):
    rng = np.random.default_rng(seed)
    cube = rng.random((n, d)) ** rng.uniform(0.5, 4.0, d)
    label = np.maximum(0.0, 1.0 - np.linalg.norm(cube - rng.random(d), axis=1) / 0.6)
    return rng, cube, label


def grown(cube, label, *limits):
    row = np.arange(len(cube), dtype=np.int32)
    return growth.grow_soft_tree(cube, label.copy(), row, *limits)


@given(seed=seeds, n=st.integers(0, 120), d=st.integers(1, 4), most=st.integers(1, 30))
@example(seed=8082, n=102, d=3, most=5)  # two dimensions part the same rows
def test_soft_tree_compiled_equals_reference(seed, n, d, most):
    grows_as_defined(seed, n, d, most, 8)


@pytest.mark.parametrize(("d", "n_bins"), [(2, 300), (17, 8)])
def test_soft_tree_of_slices_that_fill_more_than_a_word_equals_reference(d, n_bins):
    grows_as_defined(1, 150, d, 10, n_bins)


def grows_as_defined(seed, n, d, most, n_bins):
    _, cube, label = table(seed, n, d)
    label = np.round(2.0**18 * label) / 2.0**18  # sums are exact in any order, and ties are ties
    fast = grown(cube, label, most, 3, n_bins)
    slow = definition.grow_soft_tree(cube, label, most, 3, n_bins)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(a, b)


def test_soft_tree_of_some_rows_is_that_of_their_copy():
    rng, cube, label = table(1, 300, 3)
    rows = np.flatnonzero(rng.random(300) < 0.7)
    *tree, row_box = growth.grow_soft_tree(cube, label[rows], rows.astype(np.int32), 20, 3, 8)
    *alone, own_box = grown(cube[rows], label[rows], 20, 3, 8)
    for a, b in zip(tree, alone, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(row_box[rows], own_box)
    assert (np.delete(row_box, rows) == -1).all()


@given(seed=seeds, n=st.integers(1, 200), d=st.integers(1, 4))
def test_points_drawn_in_boxes_are_as_defined(seed, n, d):
    rng, cube, label = table(seed, n, d)
    tree = grown(cube, label, 20, 2, 8)[:5]
    corners = compiled.boxes_of_tree(*tree, d)
    share = rng.random(len(corners[0])) * (rng.random(len(corners[0])) < 0.7)
    last = np.nextafter(1.0, 0.0)
    u = np.concatenate([rng.random(n), [0.0, 0.0, last, last]])
    point = np.vstack([rng.random((n, d)), *([[value] * d] for value in (0.0, last) * 2)])
    expected = definition.draw_in_boxes(*corners, share, u, point)
    numbers = np.concatenate([u, point.ravel()])
    volume = np.prod(corners[1] - corners[0], axis=1)
    room = 1 + 3 * len(point)  # of which every third row is for these points
    found = np.full((room, d), -1.0), np.full(room, -1, np.int32), np.full(room, -1.0)
    compiled.draw_in_boxes(*corners, volume, share, numbers, 2, 3, *found)
    for fast, slow in zip(found, expected, strict=True):
        np.testing.assert_array_equal(fast[2::3], slow)
        assert (np.delete(fast, np.s_[2::3], axis=0) == -1).all()
    point, box, _ = (column[2::3] for column in found)
    np.testing.assert_array_equal(box, definition.locate(*tree, point))
    assert ((point > 0.0) & (point < 1.0)).all()


@given(seed=seeds, n=st.integers(0, 50))
def test_count_below_compiled_equals_reference(seed, n):
    rng = np.random.default_rng(seed)
    distance = rng.choice([0.0, 0.5, 1.0, np.inf], n)
    for epsilon in (0.5, 1.0, np.inf):
        fast = compiled.count_below(distance, epsilon)
        assert fast == definition.count_below(distance, epsilon)


@given(seed=seeds, n=st.integers(1, 200), d=st.integers(1, 4))
def test_locate_compiled_equals_brute_force(seed, n, d):
    rng, cube, label = table(seed, n, d)
    tree = grown(cube, label, 20, 2, 8)[:5]
    points = np.vstack([cube, rng.random((50, d)), np.zeros((1, d)), np.full((1, d), 1 - 1e-16)])
    found = np.empty(len(points), dtype=np.int64)
    compiled.locate(*SplitTree(*tree).lookup, points, found)
    np.testing.assert_array_equal(found, definition.locate(*tree, points))
    for fast, slow in zip(
        compiled.boxes_of_tree(*tree, d), definition.boxes_of_tree(*tree, d), strict=True
    ):
        np.testing.assert_array_equal(fast, slow)


@given(seed=seeds, n=st.integers(1, 200), d=st.integers(1, 4))
def test_links_of_a_tree_are_as_defined(seed, n, d):
    _, cube, label = table(seed, n, d)
    feature, _, left, right, box = tree = grown(cube, label, 20, 2, 8)[:5]
    made = SplitTree(*tree)
    links = made.parent, made.lookup[2], made.node_of_box
    for fast, slow in zip(links, definition.links_of_tree(feature, left, right, box), strict=True):
        np.testing.assert_array_equal(fast, slow)


@given(seed=seeds, n=st.integers(1, 3000))
def test_normalise_compiled_equals_reference(seed, n):
    fast = np.random.default_rng(seed).random(n)
    slow = fast.copy()
    assert compiled.normalise(fast) == pytest.approx(definition.normalise(slow), rel=1e-13)
    np.testing.assert_allclose(fast, slow, rtol=1e-13)


@given(seed=seeds, n=st.integers(0, 3000))
def test_sums_below_compiled_equal_reference_to_the_last_bit(seed, n):
    weight, distance = np.random.default_rng(seed).random((2, n))
    epsilons = np.array([2.0, 0.7, 0.1, 0.0])
    fast = np.empty(4)
    compiled.sums_below(weight, distance, epsilons, fast)
    assert np.array_equal(fast, [weight[distance < e].sum() for e in epsilons])


@given(seed=seeds, n=st.integers(1, 3000), defensive=st.sampled_from([0.0, 0.05, 1.0]))
def test_cube_shares_compiled_equal_reference(seed, n, defensive):
    given = [*np.random.default_rng(seed).random((3, n))]
    given.insert(2, defensive)
    fast = np.empty(n)
    compiled.cube_shares(*given, fast)
    np.testing.assert_allclose(fast, definition.cube_shares(*given), rtol=1e-13)


@given(seed=seeds, n=st.integers(0, 200))
def test_densities_compiled_equal_reference(seed, n):
    rng, cube, _ = table(seed, n, 2)
    tree = SplitTree(*grown(*table(seed, 60, 2)[1:], 7, 3, 8)[:5])
    value, share, kept = rng.random(tree.n_boxes), rng.random(), rng.random()
    box, fast = np.empty(n, np.int32), np.empty(n)
    compiled.densities(*tree.lookup, cube, value, share, kept, box, fast)
    assert np.array_equal(box, Boxes.from_tree(tree, 2).locate(cube))
    assert np.array_equal(fast, definition.densities(value, box, share, kept))


@given(seed=seeds, n=st.integers(0, 20), m=st.integers(0, 40), size=st.integers(-150, 150))
def test_euclidean_compiled_equals_reference_to_the_last_bit(seed, n, m, size):
    rows, to = np.random.default_rng(seed).normal(size=(n, m)), np.full(m, 0.1)
    fast = np.empty(n)
    compiled.euclidean(rows * 10.0**size, to * 10.0**size, fast)
    assert np.array_equal(fast, definition.euclidean(rows * 10.0**size, to * 10.0**size))


@given(
    values=st.lists(st.sampled_from([-0.5, -0.0, 0.0, 0.3, 1.0, 1.5, np.inf, np.nan]), max_size=5)
)
def test_within_compiled_equals_reference(values):
    assert compiled.within(np.array(values), 0.0, 1.0) == all(0.0 <= v <= 1.0 for v in values)


@given(seed=seeds, n=st.integers(0, 50), k=st.integers(1, 5))
def test_uniform_points_compiled_equal_reference(seed, n, k):
    rng = np.random.default_rng(seed)
    cube = np.vstack([rng.random((n, k)), np.zeros(k), np.ones(k)])
    low = rng.normal(size=k)
    high = low + rng.random(k)  # of one in three, low + (high - low) is above high
    fast = np.empty(cube.shape)
    compiled.uniform_points(cube, high - low, low, high, fast)
    assert np.array_equal(fast, np.minimum(cube * (high - low) + low, high))


@given(seed=seeds, n=st.integers(0, 200))
def test_add_densities_compiled_equals_reference(seed, n):
    total, share, volume = np.random.default_rng(seed).random((3, 7))
    fast, slow = total.copy(), total.copy()
    compiled.add_densities(fast, n, share, volume)
    definition.add_densities(slow, n, share, volume)
    assert np.array_equal(fast, slow)


@given(seed=seeds, n=st.integers(0, 200))
def test_mean_rates_compiled_equals_reference(seed, n):
    counts = np.random.default_rng(seed).integers(3, size=(2, n)).astype(float)
    fast, slow = np.empty((2, n))
    compiled.mean_rates(*counts, fast)
    definition.mean_rates(*counts, slow)
    assert np.array_equal(fast, slow)


@given(seed=seeds, n=st.integers(0, 200))
def test_count_rewards_compiled_equals_reference(seed, n):
    rng = np.random.default_rng(seed)
    arm, distance = rng.integers(7, size=n), np.where(rng.random(n) < 0.1, np.inf, rng.random(n))
    fast = rng.random((2, 7))
    slow = fast.copy()
    compiled.count_rewards(arm, distance, 0.4, *fast)
    definition.count_rewards(arm, distance, 0.4, *slow)
    np.testing.assert_array_equal(fast, slow)


def shrunk(parent, node_of_box, *given):
    alpha, beta = np.empty((2, len(node_of_box)))
    compiled.shrink(parent, node_of_box, *given, alpha, beta)
    return alpha, beta


@given(seed=seeds, n=st.integers(0, 200), d=st.integers(1, 3), levels=st.integers(1, 6))
def test_shrink_compiled_equals_reference(seed, n, d, levels):
    rng, cube, label = table(seed, n, d)
    *arrays, row_box = grown(cube, label, 15, 2, 8)
    tree = SplitTree(*arrays)
    epsilons = np.sort(rng.random(levels))[::-1].copy()
    distance = rng.random(n)
    fast, slow = np.zeros((2, tree.n_boxes, levels + 1))
    compiled.count_by_level(row_box, distance, epsilons, fast)
    definition.count_by_level(row_box, distance, epsilons, slow)
    np.testing.assert_array_equal(fast, slow)
    rate = np.sort(rng.uniform(0.01, 0.9, levels))[::-1].copy()
    arguments = (tree.parent, tree.node_of_box, fast, rate, 0.3)
    for a, b in zip(shrunk(*arguments), definition.shrink(*arguments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        assert (a >= 0.0).all()  # β = 0 where all were accepted and no less was expected


def two_boxes():
    cube, label = np.array([[0.1], [0.9]]), np.array([1.0, 0.0])
    return SplitTree(*grown(cube, label, 2, 1, 2)[:5])


def test_shrink_gives_counts_when_data_overwhelm_the_prior():
    tree = two_boxes()
    counts = np.array([[1e9, 3e8], [1e9, 1e6]])
    alpha, beta = shrunk(tree.parent, tree.node_of_box, counts, np.array([0.1]), 1.0)
    np.testing.assert_allclose(alpha / (alpha + beta), [0.3, 0.001], rtol=1e-5)


def test_shrink_gives_an_empty_box_its_parents_rate_corrected_by_the_level_above():
    # Two boxes under one root.  At the first level they accept 8 and 2 of 10; at the second the
    # right box accepted nothing.  It is believed to fall as the root fell.
    tree = two_boxes()
    counts = np.array([[10.0, 8.0, 4.0], [10.0, 2.0, 0.0]])
    strength = 1e-9
    alpha, beta = shrunk(tree.parent, tree.node_of_box, counts, np.array([0.5, 0.2]), strength)
    prior_mean = strength / (beta[1] - 10.0 + alpha[1])  # a₀ / (a₀ / m)
    assert prior_mean == pytest.approx(0.2 * (4 / 20) / (10 / 20), rel=1e-3)


def test_soft_tree_finds_a_planted_box():
    rng = np.random.default_rng(5)
    cube = rng.random((4000, 3))
    inside = ((cube > 0.25) & (cube < 0.5))[:, :2].all(axis=1)
    feature, threshold, *_ = grown(cube, inside.astype(float), 5, 10, 16)
    cuts = {(int(j), float(t)) for j, t in zip(feature, threshold, strict=True) if j >= 0}
    assert cuts == {(0, 0.25), (0, 0.5), (1, 0.25), (1, 0.5)}


def test_soft_tree_respects_its_limits():
    rng = np.random.default_rng(6)
    cube = rng.random((3000, 2))
    label = np.exp(-50.0 * ((cube - 0.5) ** 2).sum(axis=1))
    *arrays, row_box = grown(cube, label, 40, 25, 16)
    counts = np.bincount(row_box)
    assert len(counts) == 40
    # A row on a bin edge may be counted on the other side by rounding.
    assert counts.min() >= 24
    boxes = Boxes.from_tree(SplitTree(*arrays), 2)
    np.testing.assert_array_equal(boxes.locate(cube), row_box)


def test_counts_by_level_are_strict():
    epsilons, distance = np.array([2.0, 1.0, 0.5]), np.array([2.0, 1.0, 0.5, 0.25])
    arm = np.zeros(4, dtype=np.int64)
    for kernels in (compiled, definition):
        counts = np.zeros((1, 4))
        kernels.count_by_level(arm, distance, epsilons, counts)
        assert counts[0].tolist() == [4.0, 3.0, 2.0, 1.0]


@given(root=st.integers(0, 2**64 - 1), first=st.integers(0, 2**40), n=st.integers(0, 5))
def test_seeds_of_simulations_are_as_defined(root, first, n):
    index = np.arange(first, first + n)
    found = np.empty(len(index), dtype=np.uint64)
    generator.mix(np.uint64(root), index, found)
    assert found.tolist() == definition.mix(root, index).tolist()


@given(seed=seeds, d=st.integers(0, 5), n=st.integers(1, 40), size=st.floats(0.1, 1e200))
def test_squared_distances_are_as_defined_to_the_last_bit(seed, d, n, size):
    rng = np.random.default_rng(seed)
    y, centre = size * rng.normal(size=(4, d)), rng.normal(size=(d, n))
    with np.errstate(over="ignore"):
        right = definition.squared_distances(y, centre)
    np.testing.assert_array_equal(gaussian.squared_distances(y, centre), right)


@given(seed=seeds, d=st.integers(1, 5), n=st.integers(1, 9), size=st.floats(0.1, 60.0))
def test_gaussian_sums_are_as_defined(seed, d, n, size):
    rng = np.random.default_rng(seed)
    y, centre = size * rng.normal(size=(4, d)), rng.normal(size=(d, n))
    weight = rng.dirichlet(np.ones(n))
    total, largest = gaussian.gaussian_sums(y, centre, weight)
    log_sum = definition.log_gaussian_sums(y, centre, weight)
    np.testing.assert_allclose(np.log(total) + largest, log_sum, rtol=1e-15, atol=1e-13)
