"""Partitioners P: rules that cut the cube into boxes (Equation 12)."""

from __future__ import annotations

from abctree.keywords import part_named
from abctree.protocols import Partitioner
from abctree.tree.partitioners.bart import Bart
from abctree.tree.partitioners.cart import Cart
from abctree.tree.partitioners.dyadic import Dyadic
from abctree.tree.partitioners.dynamic import DynamicTree
from abctree.tree.partitioners.grid import Grid
from abctree.tree.partitioners.peaks import Peaks
from abctree.tree.partitioners.soft_tree import SoftTree

__all__ = ["Bart", "Cart", "Dyadic", "DynamicTree", "Grid", "Peaks", "SoftTree", "as_partitioner"]

_BY_NAME: dict[str, type[Partitioner]] = {
    "soft": SoftTree,
    "dyadic": Dyadic,
    "cart": Cart,
    "bart": Bart,
    "dynamic": DynamicTree,
    "peaks": Peaks,
}


def as_partitioner(spec: str | Partitioner) -> Partitioner:
    """A partitioner from its short name, or as it is; "bart" raises where stochtree is not."""
    hint = "A grid needs its size: abctree.Grid(100)." if spec == "grid" else ""
    return part_named("partitioner", spec, _BY_NAME, "partition(...)", hint)
