"""`Cart`: scikit-learn's trees, the paper's partitioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abctree.data import Boxes
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.tree.partitioners.growth import Growth, labels
from abctree.types import BoolArray, FloatArray, IntArray


@checks_keywords
@dataclass(frozen=True)
class Cart:
    """A classification tree of the accepted and rejected rows, refitted from the root each round.

    The paper's choice in its experiments (supplement, "Tree Regression (CART)"): 1 000 leaves of at
    least 10 rows.  It overfits rare acceptances: `label` and fewer leaves help, `n_folds` of the
    run cures the bias, `prune` chooses the size of the tree by cross-validation (and may keep a
    single box while acceptances are rare).

    Parameters
    ----------
    max_leaves : int
        Most boxes, >= 1.
    min_leaf : int
        Fewest rows in a box, >= 1.
    max_depth : int or None
        Most cuts between the cube and a box, >= 1; None for no limit.
    prune : bool
        Cost-complexity pruning (Breiman et al. 1984) with the penalty of least held-out log loss.
    label : float or None
        None for the reward ``1[distance < epsilon]``; else a regression tree of the soft label
        ``max(0, 1 - distance / (label * epsilon))``.
    n_pruning_folds : int
        Folds of the cross-validation, >= 2.

    Notes
    -----
    One fit of O(d n log n) for each level of the tree; `prune` makes ``n_pruning_folds + 1`` fits.

    scikit-learn compares in float32 and does not cut between rows closer than 1e-7.  The boxes here
    are those of the same cuts in float64, so the rows of a box can differ from scikit-learn's only
    where a row lies exactly on a cut.
    """

    max_leaves: int = ruled(1000, "a whole number of at least 1")
    min_leaf: int = ruled(10, "a whole number of at least 1")
    max_depth: int | None = ruled(None, "a whole number of at least 1 or None")
    prune: bool = False
    label: float | None = ruled(None, "above 0 or None")
    n_pruning_folds: int = ruled(5, "a whole number of at least 2")

    def partition(
        self,
        cube: FloatArray,
        distance: FloatArray,
        epsilon: float,
        current: Boxes | None,  # noqa: ARG002 - the tree is refitted from the root
        rng: np.random.Generator,
    ) -> Boxes:
        """The leaves of a tree, see `Partitioner`; one box where all labels are equal."""
        label = labels(distance, epsilon, self.label)
        if self.max_leaves == 1 or len(label) == 0 or label.min() == label.max():
            return Boxes.whole(cube.shape[1])
        _, tree = self._fitted(cube, label, rng)
        leaf = tree.left < 0
        if self.prune:
            path = _weakest_links(tree, np.zeros(len(leaf)))
            leaf |= path.collapse <= self._penalty(cube, label, path.candidates(), rng)
        return _boxes(tree, leaf, cube.shape[1])

    def _fitted(
        self, cube: FloatArray, label: FloatArray, rng: np.random.Generator
    ) -> tuple[Any, _Tree]:
        """scikit-learn's estimator, and its tree in our arrays."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        make = DecisionTreeClassifier if self.label is None else DecisionTreeRegressor
        estimator = make(
            max_leaf_nodes=self.max_leaves,
            min_samples_leaf=self.min_leaf,
            max_depth=self.max_depth,
            random_state=int(rng.integers(2**31 - 1)),
        )
        estimator.fit(cube, label)
        return estimator, _Tree.of(estimator)

    def _penalty(
        self,
        cube: FloatArray,
        label: FloatArray,
        candidates: FloatArray,
        rng: np.random.Generator,
    ) -> float:
        """The candidate with the least held-out log loss; of equals, the one with fewest leaves."""
        n_folds = min(self.n_pruning_folds, len(label))
        fold = _dealt(label, n_folds, rng)
        total = np.zeros(len(candidates))
        for f in range(n_folds):
            taught = fold != f
            estimator, tree = self._fitted(cube[taught], label[taught], rng)
            loss = _node_loss(tree, estimator.apply(cube[~taught]), label[~taught])
            total += _weakest_links(tree, loss).loss_at(candidates)
        return float(candidates[np.flatnonzero(total <= total.min())[-1]])


@dataclass(frozen=True, eq=False)
class _Tree:
    """A fitted tree of m nodes; children have larger numbers than their parent."""

    feature: IntArray
    threshold: FloatArray  #: scikit-learn's: left where float32(x) <= threshold
    left: IntArray  #: -1 in a leaf
    right: IntArray
    n: FloatArray  #: rows of the node
    mean: FloatArray  #: their mean label
    risk: FloatArray  #: share of rows times impurity, Breiman's R(t)

    @classmethod
    def of(cls, estimator: Any) -> _Tree:
        tree = estimator.tree_
        value = tree.value[:, 0, :]
        if hasattr(estimator, "classes_"):
            # Shares of the classes, or counts of them before scikit-learn 1.3.
            value = value @ estimator.classes_ / value.sum(axis=1)
        n = np.asarray(tree.weighted_n_node_samples, dtype=np.float64)
        return cls(
            feature=np.asarray(tree.feature, dtype=np.int64),
            threshold=np.asarray(tree.threshold, dtype=np.float64),
            left=np.asarray(tree.children_left, dtype=np.int64),
            right=np.asarray(tree.children_right, dtype=np.int64),
            n=n,
            mean=np.asarray(value, dtype=np.float64).reshape(len(n)),
            risk=n / n[0] * np.asarray(tree.impurity, dtype=np.float64),
        )

    def parent(self) -> IntArray:
        """(m,) The node above; -1 for the root."""
        parent = np.full(len(self.left), -1)
        inner = np.flatnonzero(self.left >= 0)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return parent

    def below(self, of_leaf: FloatArray) -> FloatArray:
        """(m,) Sums over the leaves below every node, from values (m,) read in the leaves."""
        total = np.where(self.left < 0, of_leaf, 0.0)
        for node in np.flatnonzero(self.left >= 0)[::-1]:
            total[node] = total[self.left[node]] + total[self.right[node]]
        return total


@dataclass(frozen=True, eq=False)
class _Path:
    """All prunings of a tree, from the full one to its root."""

    alpha: FloatArray  #: (s,) penalties at which a node collapses, never falling
    loss: FloatArray  #: (s + 1,) loss of the pruned tree before each collapse and after the last
    collapse: FloatArray  #: (m,) penalty at which a node becomes a leaf; inf where it never does

    def candidates(self) -> FloatArray:
        """One penalty for each pruning: 0, the geometric means between collapses, inf."""
        alpha = np.maximum(self.alpha, 0.0)
        # Equal branches collapse together, and rounding decides what happens in between.
        apart = alpha[1:] > alpha[:-1] * (1.0 + 1e-9) + 1e-15
        return np.unique([0.0, *np.sqrt(alpha[:-1] * alpha[1:])[apart], np.inf])

    def loss_at(self, penalty: FloatArray) -> FloatArray:
        """The loss of the tree pruned at each penalty, as scikit-learn's `ccp_alpha` prunes it."""
        return self.loss[np.searchsorted(self.alpha, penalty, side="right")]


def _weakest_links(tree: _Tree, loss: FloatArray) -> _Path:
    """Weakest-link pruning (Breiman et al. 1984, chapter 3), with the loss at every stage.

    `loss` (m,) is what each node would cost as a leaf.  Of all inner nodes the one with the least
    ``g(t) = (R(t) - R(T_t)) / (|T_t| - 1)`` collapses first; T_t is the branch below t.
    """
    parent = tree.parent()
    inner = tree.left >= 0
    branch_risk = tree.below(tree.risk)
    branch_loss = tree.below(loss)
    leaves = tree.below(np.ones(len(parent)))
    link = np.full(len(parent), np.inf)
    link[inner] = (tree.risk[inner] - branch_risk[inner]) / (leaves[inner] - 1.0)
    collapse = np.full(len(parent), np.inf)
    alpha: list[float] = []
    losses = [float(branch_loss[0])]
    while leaves[0] > 1.0:
        node = int(np.argmin(link))
        # The links never fall, up to rounding; scikit-learn stops at the first above its penalty.
        collapse[node] = max([float(link[node]), *alpha[-1:]])
        alpha.append(float(collapse[node]))
        change = (
            tree.risk[node] - branch_risk[node],
            loss[node] - branch_loss[node],
            leaves[node] - 1.0,
        )
        _forget_below(tree, node, link)
        above = node
        while above >= 0:
            branch_risk[above] += change[0]
            branch_loss[above] += change[1]
            leaves[above] -= change[2]
            if above != node:
                link[above] = (tree.risk[above] - branch_risk[above]) / (leaves[above] - 1.0)
            above = parent[above]
        losses.append(float(branch_loss[0]))
    return _Path(np.array(alpha), np.array(losses), collapse)


def _forget_below(tree: _Tree, node: int, link: FloatArray) -> None:
    """Take a collapsed node and the branch below it out of the race."""
    todo = [node]
    while todo:
        t = todo.pop()
        if link[t] < np.inf:
            link[t] = np.inf
            todo += (int(tree.left[t]), int(tree.right[t]))


def _node_loss(tree: _Tree, leaf: IntArray, label: FloatArray) -> FloatArray:
    """(m,) Held-out log loss of every node, were it a leaf, from one traversal of the rows.

    The predicted rate of a node is its mean, with one row's worth of the root's mean added: a raw
    rate of 0 would make the loss of a single surprise infinite.
    """
    m = len(tree.n)
    n = tree.below(np.bincount(leaf, minlength=m).astype(np.float64))
    total = tree.below(np.bincount(leaf, weights=label, minlength=m).astype(np.float64))
    rate = (tree.n * tree.mean + tree.mean[0]) / (tree.n + 1.0)
    rate = np.clip(rate, 1e-12, 1.0 - 1e-12)
    return np.asarray(-(total * np.log(rate) + (n - total) * np.log1p(-rate)))


def _dealt(label: FloatArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """(n,) A random fold for each row, with rare labels spread evenly over the folds."""
    order = np.lexsort((rng.random(len(label)), label))
    fold = np.empty(len(label), dtype=np.int64)
    fold[order] = np.arange(len(label)) % n_folds
    return fold


def _boxes(tree: _Tree, leaf: BoolArray, d: int) -> Boxes:
    """The boxes of a tree that ends at the nodes marked `leaf` (m,)."""
    growth = Growth(Boxes.whole(d))
    todo = [(0, 0)]
    while todo:
        node, box = todo.pop()
        if leaf[node]:
            continue
        feature = int(tree.feature[node])
        # x <= t and x < nextafter(t) are the same in float64.
        threshold = float(np.nextafter(tree.threshold[node], np.inf))
        parts = growth.split(box, feature, threshold)
        left, right = int(tree.left[node]), int(tree.right[node])
        if parts is not None:
            todo += ((right, parts[1]), (left, parts[0]))
        # A cut that float64 does not see inside the box leaves all of the box on one side.
        elif threshold >= growth.upper(box)[feature]:
            todo.append((left, box))
        else:
            todo.append((right, box))
    return growth.boxes()
