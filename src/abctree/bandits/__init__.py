"""Bandits on their own: plain Bernoulli arms, and the cube.

`thompson_sampling` and `top_two` are Algorithm 5, `ucb` is UCB1, `uniform` is rejection; `hoo` is
hierarchical optimistic optimisation on the cube.  They are what MAP-Tree is made of and measured
against, and need no problem.
"""

from abctree.bandits.finite import History, identified, thompson_sampling, top_two, ucb, uniform
from abctree.bandits.hoo import Climb, hoo

__all__ = [
    "Climb",
    "History",
    "hoo",
    "identified",
    "thompson_sampling",
    "top_two",
    "ucb",
    "uniform",
]
