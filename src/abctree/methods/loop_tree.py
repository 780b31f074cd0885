"""The loop of `abc_tree` and `map_tree`: Algorithm 2 or 4 in a `Runner`."""

from __future__ import annotations

from dataclasses import replace

from abctree.answers.result import Result
from abctree.data import Mixture, update_denominators
from abctree.problem import Problem
from abctree.protocols import VolumePartitioner
from abctree.running.runner import Runner
from abctree.tree.outer_loop import Game, Rules, outer_loop


def play_rounds(run: Runner) -> Result:
    """The pilot, and rounds until the budget is spent or a rule says stop."""
    pilot = run.pilot()
    mixtures = tuple(Mixture(float(n), ()) for n in pilot.n_drawn)
    run.begin(mixtures)
    if run.stop():  # no partition that nobody plays
        update_denominators(run.table, mixtures, 0)
        return run.result(run.ended())
    rules = _measured(run.recipe.settings.rules, run.problem)
    game = Game(run.problem, run.table, run.plan, rules, run.simulate, run.rng, run.stop)
    return run.result(run.follow(outer_loop(game, mixtures)))


def _measured(rules: Rules, problem: Problem) -> Rules:
    """The rules; a partitioner that works with volumes in θ is told the prior.

    It is told here because the prior is no part of a recipe.
    """
    if not isinstance(rules.partitioner, VolumePartitioner):
        return rules
    return replace(rules, partitioner=rules.partitioner.measured(problem.prior))
