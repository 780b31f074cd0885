"""Half-open boxes tile the cube, and `locate` inverts sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import abctree
from abctree.data import Boxes

PARTITIONERS = [
    abctree.SoftTree(min_rows=2),
    abctree.Dyadic(),
    abctree.Dyadic(n_splits=10, direction="cyclic"),
    abctree.Cart(max_leaves=60, min_leaf=2),
    abctree.Cart(max_leaves=60, min_leaf=2, prune=True),
    abctree.Grid(7),
]


def cut(partitioner, seed, n, d):
    rng = np.random.default_rng(seed)
    centre = rng.random(d)
    cube = np.clip(rng.normal(centre, 0.2, (n, d)), 1e-12, 1 - 1e-12)
    distance = np.linalg.norm(cube - centre, axis=1)
    return partitioner.partition(cube, distance, 0.15, None, rng), rng


@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=repr)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 300), d=st.integers(1, 3))
def test_boxes_tile_the_cube(partitioner, seed, n, d):
    boxes, rng = cut(partitioner, seed, n, d)
    assert boxes.volume.sum() == pytest.approx(1.0, abs=1e-12)
    points = np.vstack([rng.random((200, d)), np.zeros((1, d))])
    inside = (boxes.lower <= points[:, None]) & (points[:, None] < boxes.upper)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=repr)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 300), d=st.integers(1, 3))
def test_locate_inverts_sampling(partitioner, seed, n, d):
    boxes, rng = cut(partitioner, seed, n, d)
    box = rng.integers(0, len(boxes), 400)
    np.testing.assert_array_equal(boxes.locate(boxes.sample(box, rng)), box)


def test_sampling_stays_inside_the_open_cube_when_the_generator_gives_its_extremes():
    class Extreme:
        def __init__(self, value):
            self.value = value

        def random(self, shape):
            return np.full(shape, self.value)

    boxes = Boxes.whole(2)
    for value in (0.0, np.nextafter(1.0, 0.0)):
        point = boxes.sample(np.zeros(3, dtype=np.int64), Extreme(value))
        assert ((point > 0.0) & (point < 1.0)).all()


def test_a_closed_upper_border_would_be_noticed():
    # The twin that must fail: with points on the cut given to the left box, `locate` disagrees.
    boxes, _ = cut(abctree.Grid(4), 0, 10, 1)
    on_the_cut = boxes.lower[1:]
    wrong = np.arange(3)
    assert (boxes.locate(on_the_cut) != wrong).all()
