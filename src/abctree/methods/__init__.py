"""What a user calls: settings in, a run of an algorithm, a result out."""

from abctree.methods.run_abc_tree import abc_tree

__all__ = ["abc_tree"]
