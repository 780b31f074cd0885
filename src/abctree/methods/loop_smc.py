"""The loop of `smc`: populations in a `Runner`."""

from __future__ import annotations

import numpy as np

from abctree.answers.result import Result
from abctree.baselines.smc import SmcGame, SmcRules, accepted_of, populations
from abctree.data import Mixture, Round, Table
from abctree.proposals.coordinates import coordinates
from abctree.proposals.kernel_mixture import update_mixture
from abctree.running.runner import Runner

#: A population that was cut short answers if its effective sample size is this share of N.
_ANSWER = 0.5


def play_populations(run: Runner) -> Result:
    """Populations until there is a reason to stop."""
    s = run.spec.settings
    n_prior = run.pilot().n_drawn[0]
    run.record_pilot((Mixture(n_prior),))
    chart = coordinates(run.problem.prior, s["space"])
    rules = SmcRules(s["kernel"], s["schedule"], chart, s["min_ess"])
    game = SmcGame(run.problem, run.table, run.plan, rules, run.simulate, run.rng, run.stop)
    why = None
    for played in populations(game, n_prior):
        if why := run.after_round(played, _acceptance_rate(run.table, played)):
            break
    why = why or run.stop_reason()
    population = _answering(run, s["min_ess"])
    if s["weights"] == "mixture":
        update_mixture(run.table, run.rounds[-1].mixtures[0])
        return run.result(why, population=population)
    return run.result(why, population=population, default_epsilon=run.rounds[population].epsilon)


def _acceptance_rate(table: Table, played: Round) -> float:
    """Of a population, the pilot included in the first."""
    first = 0 if played.index == 1 else played.first
    close = np.count_nonzero(table.distance[first : played.last] < played.epsilon)
    return float(close / max(1, played.last - first))


def _answering(run: Runner, min_ess: float) -> int:
    """The last population that is whole, or that the end of the run has cut short by little."""
    particles, played = run.plan.quota, run.rounds[1:]

    def is_enough(population: Round) -> bool:
        n = len(accepted_of(run.table, population.index, population.epsilon))
        whole = n >= particles and population.ess >= min_ess
        return whole or population.ess >= max(min_ess, _ANSWER * particles)

    enough = [population for population in played if is_enough(population)]
    if enough:  # several have one tolerance where it could not fall
        played = [population for population in enough if population.epsilon == enough[-1].epsilon]
    return max(played, key=lambda population: population.ess).index
