"""Partitioners P: rules that cut the cube into boxes (Equation 12)."""

from __future__ import annotations

from abctree.errors import ParameterError
from abctree.protocols import Partitioner
from abctree.tree.partitioners.bart import Bart
from abctree.tree.partitioners.cart import Cart
from abctree.tree.partitioners.dyadic import Dyadic
from abctree.tree.partitioners.dynamic import DynamicTree
from abctree.tree.partitioners.grid import Grid
from abctree.tree.partitioners.peaks import Peaks
from abctree.tree.partitioners.soft_tree import SoftTree

__all__ = ["Bart", "Cart", "Dyadic", "DynamicTree", "Grid", "Peaks", "SoftTree", "as_partitioner"]

_BY_NAME = {
    "soft": SoftTree,
    "dyadic": Dyadic,
    "cart": Cart,
    "bart": Bart,
    "dynamic": DynamicTree,
    "peaks": Peaks,
}


def as_partitioner(spec: str | Partitioner) -> Partitioner:
    """A partitioner from its short name or an object.

    The names are "soft", "dyadic", "cart", "bart", "dynamic" and "peaks".

    Raises
    ------
    ParameterError
        If it is neither.
    MissingDependencyError
        If it is "bart" and stochtree is not installed.
    """
    if isinstance(spec, str):
        if spec not in _BY_NAME:
            hint = " A grid needs its size: abctree.Grid(100)." if spec == "grid" else ""
            raise ParameterError(
                f"`partitioner` must be one of {sorted(_BY_NAME)} or an object with `partition`, "
                f"but got {spec!r}.{hint}"
            )
        named: Partitioner = _BY_NAME[spec]()
        return named
    if not hasattr(spec, "partition"):
        raise ParameterError(
            f"`partitioner` must have a method `partition(...)`, but got {spec!r}. "
            "See abctree.protocols.Partitioner."
        )
    return spec
