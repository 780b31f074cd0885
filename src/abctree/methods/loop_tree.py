"""The loop of `abc_tree` and `map_tree`: Algorithm 2 or 4 in a `Runner`."""

from __future__ import annotations

from abctree.answers.result import Result
from abctree.data import Mixture, update_denominators
from abctree.problem import Problem
from abctree.protocols import VolumePartitioner
from abctree.running.runner import Runner
from abctree.running.spec import RunSpec
from abctree.tree.outer_loop import Game, Rules, outer_loop
from abctree.tree.utilities import PosteriorMatch


def play_rounds(run: Runner) -> Result:
    """The pilot, and rounds until the budget is spent or a rule says stop."""
    pilot = run.pilot()
    mixtures = tuple(Mixture(float(n), ()) for n in pilot.n_drawn)
    run.record_pilot(mixtures)
    if run.stop():  # no partition that nobody plays
        update_denominators(run.table, mixtures, 0)
        return run.result(run.stop_reason())
    rules = rules_of(run.spec, run.problem)
    game = Game(run.problem, run.table, run.plan, rules, run.simulate, run.rng, run.stop)
    for played in outer_loop(game, mixtures):
        if why := run.after_round(played):
            return run.result(why)
    return run.result(run.stop_reason())


def rules_of(spec: RunSpec, problem: Problem) -> Rules:
    """The parts among the settings; a partitioner that works with volumes in θ knows the prior."""
    s = spec.settings
    partitioner = s["partitioner"]
    if isinstance(partitioner, VolumePartitioner):
        partitioner = partitioner.measured(problem.prior)
    return Rules(
        partitioner=partitioner,
        beliefs=s["beliefs"],
        utility=s["utility"] or PosteriorMatch(),  # which a policy does not look at
        policy=s["policy"],
        schedule=s["schedule"],
    )
