"""Conformance checks for partitioners, utilities and priors of your own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from abctree.data import Boxes, SplitTree
from abctree.errors import ParameterError
from abctree.parts.partitioners.growth import Growth
from abctree.protocols import Partitioner, Prior, Utility
from abctree.types import FloatArray, IntArray, RNGLike

# Brute-force ownership compares every point with every box: at most so many comparisons at once.
_CHUNK = 2_000_000


def _require(condition: Any, rule: str) -> None:
    """Raise `AssertionError` with the rule, also under ``python -O``."""
    if not bool(condition):
        raise AssertionError(rule)


# ---------------------------------------------------------------------------------- partitioners


@dataclass(frozen=True, eq=False)
class _Case:
    """One call of a partitioner."""

    name: str
    cube: FloatArray
    distance: FloatArray
    epsilon: float
    current: Boxes | None = None


def check_partitioner(partitioner: Partitioner, d: int = 2, rng: RNGLike = 0, n: int = 500) -> None:
    """Check that a partitioner keeps the contract of `abctree.protocols.Partitioner`.

    It is called on an ordinary table and on the tables that break partitioners: no rows, one row,
    equal, infinite and missing distances, repeated points, points at the corners of the cube, a
    tiny and an infinite tolerance, with and without a `current` partition.  After each call

    - the boxes must tile the cube: lie within it, have ``lower < upper``, volumes that sum to one,
      and exactly one box for every row and every random, corner and border point;
    - `locate` must agree with ``lower <= cube < upper``, and find every point that `sample` makes;
    - the tree must be consistent: children after parents, one leaf for each box, and corners that
      are exactly those that its cuts imply;
    - the same arguments and seed must give the same boxes, whatever was asked in between;
    - the arguments must be left as they were.

    Parameters
    ----------
    partitioner : Partitioner
        An object with ``partition(cube, distance, epsilon, current, rng)``.
    d : int
        Dimensions of the cube, >= 1.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the tables and test points.
    n : int
        Rows of the ordinary table, >= 2.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the table that breaks it.

    Examples
    --------
    >>> from abctree.parts.partitioners import Grid
    >>> check_partitioner(Grid(4), d=3)
    """
    generator = np.random.default_rng(rng)
    seed = int(generator.integers(2**31))
    cases = _cases(d, n, generator)
    made = []
    for case in cases:
        boxes = _call(partitioner, case, seed, frozen=False)
        _check_boxes(boxes, case, generator)
        made.append(boxes)
        # What a partitioner made is what it is given in the next round.
        again = dataclasses.replace(
            case, name=f"{case.name}, `current` its own", current=boxes, epsilon=case.epsilon / 2
        )
        _check_boxes(_call(partitioner, again, seed, frozen=True), again, generator)
    # In another order, so that a memory of earlier calls shows.
    for case, boxes in reversed(list(zip(cases, made, strict=True))):
        same = _same_boxes(boxes, _call(partitioner, case, seed, frozen=True))
        _require(
            same,
            "the same arguments and the same seed must give the same boxes, but a second call "
            f"gave others (table: {case.name}). A partitioner must keep no memory of earlier "
            "calls and draw only from the `rng` it is given.",
        )


def _cases(d: int, n: int, rng: np.random.Generator) -> list[_Case]:
    cube = rng.random((n, d))
    distance = 4.0 * np.abs(cube - 0.3).max(axis=1) + 0.1 * rng.random(n)
    epsilon = float(np.quantile(distance, 0.2))
    failed = np.where(rng.random(n) < 0.3, np.inf, distance)
    edge = np.nextafter(1.0, 0.0)
    corners = rng.choice([np.finfo(float).tiny, 2.0**-53, 0.5, edge], size=(n, d))
    clump = np.repeat(cube[:2], [n - n // 2, n // 2], axis=0)
    growth = Growth(Boxes.whole(d))
    growth.split(0, 0, 0.3)
    growth.split(1, d - 1, 0.625)
    current = growth.boxes()
    return [
        _Case("ordinary", cube, distance, epsilon),
        _Case("ordinary, `current` given", cube, distance, epsilon, current),
        _Case("some distances infinite", cube, failed, epsilon),
        _Case("all distances equal", cube, np.ones(n), 1.5),
        _Case("all distances infinite", cube, np.full(n, np.inf), 1.0),
        _Case("all distances infinite and epsilon too", cube, np.full(n, np.inf), np.inf),
        _Case("no row accepted", cube, distance + 1.0, 0.5),
        _Case("epsilon tiny", cube, distance, 1e-300),
        _Case("epsilon infinite", cube, failed, np.inf),
        _Case("no rows", cube[:0], distance[:0], epsilon),
        _Case("no rows, `current` given", cube[:0], distance[:0], epsilon, current),
        _Case("one row", cube[:1], distance[:1], epsilon),
        _Case("one point repeated", np.repeat(cube[:1], n, axis=0), distance, epsilon),
        _Case("two points repeated", clump, distance, epsilon),
        _Case("points at the corners of the cube", corners, distance, epsilon),
    ]


def _call(partitioner: Partitioner, case: _Case, seed: int, *, frozen: bool) -> Boxes:
    """One call, on copies; read-only ones if `frozen`, as the columns of a `Table` are."""
    cube, distance = case.cube.copy(), case.distance.copy()
    if frozen:
        cube.flags.writeable = distance.flags.writeable = False
    given = [cube, distance, *_arrays(case.current)]
    before = [array.copy() for array in given]
    try:
        boxes = partitioner.partition(
            cube, distance, case.epsilon, case.current, np.random.default_rng(seed)
        )
    except Exception as error:
        raise AssertionError(
            f"`partition` must accept every table, but raised {error!r} (table: {case.name}"
            f"{', read-only: `partition` must not change its arguments' if frozen else ''})."
        ) from error
    _require(
        all(np.array_equal(a, b) for a, b in zip(given, before, strict=True)),
        f"`partition` must not change its arguments, but did (table: {case.name}).",
    )
    return boxes


def _arrays(boxes: Boxes | None) -> list[Any]:
    """Everything that defines a partition."""
    if boxes is None:
        return []
    tree = boxes.tree
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.box)
    return [boxes.lower, boxes.upper, *columns]


def _same_boxes(one: Boxes, other: Boxes) -> bool:
    pairs = zip(_arrays(one), _arrays(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def _check_boxes(boxes: Boxes, case: _Case, rng: np.random.Generator) -> None:
    where = f"(table: {case.name})"
    _require(
        all(hasattr(boxes, name) for name in ("lower", "upper", "tree", "locate", "sample")),
        f"`partition` must return `Boxes`, but returned {type(boxes).__name__} {where}.",
    )
    _check_corners(boxes, case.cube.shape[1], where)
    _check_tree(boxes.tree, len(boxes.lower), boxes.lower.shape[1], where)
    _check_owners(boxes, _points(boxes, case.cube, rng), where)
    _check_sampling(boxes, rng, where)
    _check_implied_corners(boxes, where)


def _check_corners(boxes: Boxes, d: int, where: str) -> None:
    lower, upper = boxes.lower, boxes.upper
    _require(
        lower.ndim == 2 and lower.shape == upper.shape and lower.shape[1] == d and len(lower) >= 1,
        f"`lower` and `upper` must both have shape (K, {d}) with K >= 1, but have "
        f"{lower.shape} and {upper.shape} {where}.",
    )
    _require(
        (lower >= 0.0).all() and (upper <= 1.0).all(),
        f"the boxes must lie within [0, 1], but reach from {lower.min()} to {upper.max()} {where}.",
    )
    thin = np.flatnonzero(~(lower < upper).all(axis=1))
    _require(
        len(thin) == 0,
        f"every box must have `lower` < `upper` in every coordinate, but {len(thin)} have not, "
        f"the first of them box {thin[:1]} {where}.",
    )
    volume = float(np.prod(upper - lower, axis=1).sum())
    _require(
        abs(volume - 1.0) <= 1e-9,
        f"the boxes must tile the cube, so their volumes must sum to 1, but they sum to "
        f"{volume!r} {where}.",
    )


def _check_tree(tree: SplitTree, n_boxes: int, d: int, where: str) -> None:
    m = 2 * n_boxes - 1
    columns = (tree.feature, tree.threshold, tree.left, tree.right, tree.box)
    _require(
        all(np.shape(column) == (m,) for column in columns),
        f"the arrays of a tree with {n_boxes} leaves must all have length {m}, but have "
        f"{[np.shape(column) for column in columns]} {where}.",
    )
    leaf = tree.feature < 0
    inner = np.flatnonzero(~leaf)
    _require(
        (tree.feature < d).all(),
        f"`feature` must be a coordinate in 0..{d - 1}, or -1 in a leaf, but reaches "
        f"{tree.feature.max()} {where}.",
    )
    _require(
        np.array_equal(np.sort(tree.box[leaf]), np.arange(n_boxes)),
        f"the leaves must carry the box numbers 0..{n_boxes - 1}, each once, but carry others "
        f"{where}.",
    )
    children = np.concatenate([tree.left[inner], tree.right[inner]])
    _require(
        (children > np.tile(inner, 2)).all(),
        f"every child must have a larger number than its parent, but some have not {where}.",
    )
    _require(
        np.array_equal(np.sort(children), np.arange(1, m)),
        f"every node but the root must be the child of exactly one node, but some are not {where}.",
    )
    _require(
        (tree.box[inner] == -1).all()
        and (tree.left[leaf] == -1).all()
        and (tree.right[leaf] == -1).all(),
        f"`box` must be -1 in inner nodes, and `left` and `right` -1 in leaves, but they are not "
        f"{where}.",
    )


def _check_implied_corners(boxes: Boxes, where: str) -> None:
    tree, d = boxes.tree, boxes.lower.shape[1]
    lower, upper = np.zeros((tree.n_nodes, d)), np.ones((tree.n_nodes, d))
    for node in np.flatnonzero(tree.feature >= 0):
        j, t = tree.feature[node], tree.threshold[node]
        left, right = tree.left[node], tree.right[node]
        lower[left] = lower[right] = lower[node]
        upper[left] = upper[right] = upper[node]
        upper[left, j] = lower[right, j] = t
    node_of_box = np.empty(len(boxes.lower), dtype=np.int64)
    leaves = np.flatnonzero(tree.feature < 0)
    node_of_box[tree.box[leaves]] = leaves
    same = (lower[node_of_box] == boxes.lower) & (upper[node_of_box] == boxes.upper)
    _require(
        same.all(),
        "`lower` and `upper` must be exactly what the cuts of the tree imply, but are not in "
        f"{np.count_nonzero(~same.all(axis=1))} boxes {where}.",
    )


def _points(boxes: Boxes, cube: FloatArray, rng: np.random.Generator) -> FloatArray:
    """The rows, random points, corners of the cube, and points on and just below borders."""
    d = boxes.lower.shape[1]
    some = rng.permutation(len(boxes.lower))[:300]
    edges = np.array([0.0, np.nextafter(1.0, 0.0)])
    below = np.nextafter(boxes.upper[some], 0.0)
    mixed = np.where(rng.random(below.shape) < 0.5, below, boxes.lower[some])
    corners = edges[rng.integers(2, size=(2 * d + 2, d))]
    random = rng.random((300, d))
    return np.concatenate([cube, random, corners, boxes.lower[some], below, mixed])


def _owners(boxes: Boxes, points: FloatArray) -> tuple[IntArray, IntArray]:
    """By comparison with every box: how many boxes own each point (n,), and the last one (n,)."""
    step = max(1, _CHUNK // max(1, boxes.lower.size))
    counts, last = [], []
    for start in range(0, len(points), step):
        point = points[start : start + step, None, :]
        inside = ((boxes.lower <= point) & (point < boxes.upper)).all(axis=2)
        counts.append(inside.sum(axis=1))
        last.append(inside.argmax(axis=1))
    return np.concatenate(counts), np.concatenate(last)


def _check_owners(boxes: Boxes, points: FloatArray, where: str) -> None:
    count, owner = _owners(boxes, points)
    for wrong, what in ((count == 0, "none has"), (count > 1, "several have")):
        _require(
            not wrong.any(),
            f"every point must lie in exactly one half-open box, but {what} "
            f"{points[wrong][:1].tolist()} and {np.count_nonzero(wrong)} of {len(points)} "
            f"test points are like it {where}.",
        )
    located = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(located != owner)
    _require(
        len(wrong) == 0,
        "`locate` must find the box with `lower` <= point < `upper`, but for "
        f"{points[wrong[:1]].tolist()} it gives box {located[wrong[:1]]} where it should be "
        f"{owner[wrong[:1]]} ({len(wrong)} of {len(points)} test points) {where}.",
    )


def _check_sampling(boxes: Boxes, rng: np.random.Generator, where: str) -> None:
    box = np.tile(np.arange(len(boxes.lower)), 3)
    points = boxes.sample(box, rng)
    found = np.asarray(boxes.locate(points))
    wrong = np.flatnonzero(found != box)
    _require(
        len(wrong) == 0,
        f"`locate` must find a point sampled from box k in box k, but finds one of box "
        f"{box[wrong[:1]]} in box {found[wrong[:1]]} ({len(wrong)} of {len(box)}) {where}.",
    )


# ------------------------------------------------------------------------------------- utilities


def check_utility(utility: Utility, rng: RNGLike = 0) -> None:
    """Check that a utility keeps the contract of `abctree.protocols.Utility`.

    Its q* must be finite, >= 0 and sum to one (to 1e-9) for one box and for a thousand, for rates
    from 1e-300 to 1, with boxes of rate 0 and with boxes of hardly any mass; it must be the prior
    masses where all rates are 0; and it must leave its arguments as they were.

    Parameters
    ----------
    utility : Utility
        An object with ``optimal_proposal(eta, prior_mass)``.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the rates and the masses.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the rates that break it.

    Examples
    --------
    >>> from abctree.parts.utilities import EffectiveSampleSize
    >>> check_utility(EffectiveSampleSize())
    """
    generator = np.random.default_rng(rng)
    for name, eta, mass in _rates(generator):
        where = f"(rates: {name})"
        given = eta.copy(), mass.copy()
        try:
            q = np.asarray(utility.optimal_proposal(eta, mass))
        except Exception as error:
            raise AssertionError(
                f"`optimal_proposal` must accept all rates, but raised {error!r} {where}."
            ) from error
        _require(
            np.array_equal(eta, given[0]) and np.array_equal(mass, given[1]),
            f"`optimal_proposal` must not change its arguments, but did {where}.",
        )
        _check_probabilities(q, len(eta), where)
        _require(
            eta.any() or np.allclose(q, mass, rtol=1e-9, atol=0.0),
            f"q* must be the prior masses where all rates are 0, but is not {where}.",
        )


def _rates(rng: np.random.Generator) -> list[tuple[str, FloatArray, FloatArray]]:
    k = 50
    mass = rng.dirichlet(np.ones(k))
    eta = rng.random(k)
    many = rng.dirichlet(np.ones(1000))
    uneven = np.r_[1e-12, np.full(k - 1, (1.0 - 1e-12) / (k - 1))]
    spread = 10.0 ** rng.uniform(-12.0, 0.0, k)
    return [
        ("random", eta, mass),
        ("half of them 0", np.where(np.arange(k) % 2 == 0, 0.0, eta), mass),
        ("all but one 0", np.where(np.arange(k) == 7, 0.4, 0.0), mass),
        ("all 0", np.zeros(k), mass),
        ("all equal", np.full(k, 0.3), mass),
        ("all 1", np.ones(k), mass),
        ("over twelve decades", spread, mass),
        ("all about 1e-300", 1e-300 * (1.0 + eta), mass),
        ("one box of mass 1e-12 with the largest rate", np.r_[1.0, 1e-3 * eta[1:]], uneven),
        ("a thousand boxes, most of them 0", np.where(many > 2e-3, many, 0.0), many),
        ("one box", np.array([0.2]), np.ones(1)),
        ("one box, rate 0", np.zeros(1), np.ones(1)),
        ("two boxes", np.array([0.9, 0.1]), np.array([0.5, 0.5])),
    ]


def _check_probabilities(q: FloatArray, n_boxes: int, where: str) -> None:
    _require(
        q.shape == (n_boxes,),
        f"q* must have one entry for each box, ({n_boxes},), but has shape {q.shape} {where}.",
    )
    _require(np.isfinite(q).all(), f"q* must be finite, but is not {where}.")
    _require((q >= 0.0).all(), f"q* must be >= 0, but its least entry is {q.min()} {where}.")
    _require(
        abs(float(q.sum()) - 1.0) <= 1e-9,
        f"q* must sum to 1, but sums to {float(q.sum())!r} {where}.",
    )


# ---------------------------------------------------------------------------------------- priors


def check_prior(prior: Prior, rng: RNGLike = 0, n: int = 200) -> None:
    """Check that a prior keeps the contract of `abctree.protocols.Prior`.

    - `names` are distinct strings, and `from_cube` gives a finite row of as many numbers for every
      point of the open cube, however near its border (to 2⁻⁵³), each row on its own, and no rows
      for no rows;
    - ``from_cube(to_cube(theta))`` is theta (to 1e-6 of the spread of a column), unless `to_cube`
      says that there is no inverse, with a `NotImplementedError` or an `abctree.ParameterError`;
    - volumes add up: cutting a box in two gives two boxes whose volumes sum to its own (to 1e-6),
      wherever `log_volume` is finite; nan says that it is not known.

    Parameters
    ----------
    prior : Prior
        The prior.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Makes the points and the boxes.
    n : int
        Points and boxes, >= 1.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.
    """
    generator = np.random.default_rng(rng)
    names = tuple(prior.names)
    _require(
        all(isinstance(name, str) for name in names) and len(set(names)) == len(names),
        f"`names` must be distinct strings, but are {names}.",
    )
    cube = generator.random((n, prior.d))
    _check_from_cube(prior, cube, len(names), generator)
    _check_to_cube(prior, 0.001 + 0.998 * cube)
    _check_log_volume(prior, generator, n)


def _check_from_cube(
    prior: Prior, cube: FloatArray, n_parameters: int, rng: np.random.Generator
) -> None:
    edges = np.array([2.0**-53, np.nextafter(1.0, 0.0)])
    cube = np.concatenate([cube, edges[rng.integers(2, size=(20, prior.d))]])
    given = cube.copy()
    theta = np.asarray(prior.from_cube(cube))
    _require(np.array_equal(cube, given), "`from_cube` must not change its argument, but did.")
    _require(
        theta.shape == (len(cube), n_parameters),
        f"`from_cube` must give one row for each point and one column for each of the "
        f"{n_parameters} names, {(len(cube), n_parameters)}, but gives shape {theta.shape}.",
    )
    wrong = np.flatnonzero(~np.isfinite(theta).all(axis=1))
    _require(
        len(wrong) == 0,
        f"`from_cube` must be finite in the open cube, but maps {cube[wrong[:1]].tolist()} to "
        f"{theta[wrong[:1]].tolist()}.",
    )
    alone = np.concatenate([np.asarray(prior.from_cube(cube[i : i + 1])) for i in range(5)])
    _require(
        np.allclose(alone, theta[:5], rtol=1e-12, atol=0.0),
        "`from_cube` must treat each row on its own, but a row alone gives another theta than the "
        "same row among others.",
    )
    _require(
        np.shape(prior.from_cube(cube[:0])) == (0, n_parameters),
        f"`from_cube` of no points must have shape (0, {n_parameters}), but has "
        f"{np.shape(prior.from_cube(cube[:0]))}.",
    )


def _check_to_cube(prior: Prior, cube: FloatArray) -> None:
    theta = np.asarray(prior.from_cube(cube))
    try:
        back = np.asarray(prior.to_cube(theta))
    except (NotImplementedError, ParameterError):
        return
    _require(
        back.shape == cube.shape,
        f"`to_cube` must give shape {cube.shape}, one column for each coordinate of the cube, but "
        f"gives {back.shape}.",
    )
    _require(
        ((back >= 0.0) & (back <= 1.0)).all(), "`to_cube` must stay within [0, 1], but does not."
    )
    error = np.abs(np.asarray(prior.from_cube(back)) - theta)
    allowed = 1e-6 * np.ptp(theta, axis=0) + 1e-9 * np.abs(theta)
    wrong = np.flatnonzero((error > allowed).any(axis=1))
    _require(
        len(wrong) == 0,
        f"`from_cube(to_cube(theta))` must be theta, but is off by up to "
        f"{error.max(axis=0).tolist()}, for example at {theta[wrong[:1]].tolist()} "
        f"({len(wrong)} of {len(theta)} points).",
    )


def _check_log_volume(prior: Prior, rng: np.random.Generator, n: int) -> None:
    if prior.d == 0:
        return
    lower = rng.uniform(0.0, 0.5, (n, prior.d))
    upper = rng.uniform(0.5, 1.0, (n, prior.d))
    lower[rng.random(lower.shape) < 0.2] = 0.0
    upper[rng.random(upper.shape) < 0.2] = 1.0
    row, feature = np.arange(n), rng.integers(prior.d, size=n)
    cut = lower[row, feature] + rng.random(n) * (upper - lower)[row, feature]
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[row, feature] = right_lower[row, feature] = cut
    whole, left, right = (
        np.asarray(prior.log_volume(a, b))
        for a, b in ((lower, upper), (lower, left_upper), (right_lower, upper))
    )
    for log_volume in (whole, left, right):
        _require(
            log_volume.shape == (n,),
            f"`log_volume` of {n} boxes must have shape ({n},), but has {log_volume.shape}.",
        )
    # Without a volume for one of them (nan, or a box that reaches infinity) there is no sum.
    known = np.isfinite(whole) & np.isfinite(left) & np.isfinite(right)
    both = np.logaddexp(left[known], right[known])
    wrong = np.flatnonzero(np.abs(both - whole[known]) > 1e-6)
    _require(
        len(wrong) == 0,
        f"`log_volume` must add up when a box is cut in two, but in {len(wrong)} of "
        f"{np.count_nonzero(known)} boxes it does not: the log of the sum of the parts is "
        f"{both[wrong[:1]]}, that of the box {whole[known][wrong[:1]]}.",
    )
