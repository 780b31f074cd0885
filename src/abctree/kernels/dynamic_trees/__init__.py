"""Particle learning of dynamic trees with Beta-Bernoulli leaves.

The method is that of Taddy, Gramacy and Polson, "Dynamic trees for learning and design", Journal of
the American Statistical Association 106 (2011).  A particle is a tree.  Rows arrive one after the
other; each particle is weighted by its prediction of the new label, the particles are resampled,
and then each lets the leaf that received the row stay, be pruned together with its sibling's
branch, or grow, with probabilities in the ratio of prior times evidence.

Three liberties, so that 1e5 rows take seconds:

- a leaf is offered growth when it has become larger by a given factor, not at every row, and not
  while its labels are all equal;
- it is then offered `n_cuts` cuts along each coordinate, a stratified sample of the prior on cuts,
  where the paper offers one: growth is weighted by their mean, and one is drawn by its evidence;
- particles carry their weights, and are resampled when these are worth less than half of them.
"""

from abctree.kernels.dynamic_trees.particles import filter_rows, offspring

__all__ = ["filter_rows", "offspring"]
