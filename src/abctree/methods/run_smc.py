"""`smc`: population Monte Carlo ABC, the baseline that a tree has to beat."""

from __future__ import annotations

from typing import Literal

import numpy as np

from abctree.answers.failures import FailurePolicy
from abctree.answers.result import Result
from abctree.baselines.smc import SmcRules, SmcRun, accepted_of, populations
from abctree.data import Mixture, Round, Table
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.proposals.coordinates import coordinates
from abctree.proposals.kernel_mixture import update_mixture
from abctree.proposals.perturbations import Perturbation
from abctree.running.executors import ExecutorLike
from abctree.running.ledger import StoreLike
from abctree.running.play import play
from abctree.running.progress import ProgressLike
from abctree.running.runner import Runner
from abctree.running.spec import RunSpec, ScheduleLike, StopLike
from abctree.types import RNGLike

#: A population that was cut short answers if its effective sample size is this share of N.
_ANSWER = 0.5


@checks_keywords
def smc(
    problem: Problem,
    *,
    n_simulations: int,
    n_particles: int | None = None,
    rng: RNGLike = None,
    kernel: str | Perturbation = "twice-covariance",
    schedule: ScheduleLike = "median",
    weights: Literal["population", "mixture"] = "population",
    min_ess: float = 0.0,
    space: Literal["theta", "cube"] | None = None,
    n_pilot: int | None = None,
    block: int | None = None,
    max_rounds: int | None = None,
    stop: StopLike = None,
    executor: ExecutorLike | None = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | Literal["store"] | None = None,
    store: StoreLike | None = None,
    progress: ProgressLike = None,
) -> Result:
    r"""Sample the ABC posterior by population Monte Carlo (Beaumont et al. 2009), as SMC-ABC.

    The first population are prior draws closer than ε₁.  Each next one is proposed from the last:
    a particle j with probability W_j and a Gaussian step, at a lower tolerance, until
    `n_particles` draws are closer.  A draw weighs ``π(θ) / Σ_j W_j K(θ | θ_j)``.

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the most simulations that are made, the pilot included.  All are made unless `stop`,
        `max_rounds` or the end of a list of tolerances comes first.  Where ε cannot fall, because
        all accepted distances are equal, the last population takes the rest of them.
    n_particles : int
        N, accepted draws in a population.  Default T / 50, at least 20 and at most 1000.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    kernel : str or Perturbation
        Covariance of the steps: "twice-covariance" (default) of the particles, "componentwise"
        (twice their variances, as first published), "silverman" (a kernel density estimate: steps
        are smaller, ε falls faster, weights are less even), "local" (the spread of each particle's
        nearest neighbours), or an object of `abctree.proposals.perturbations`.
    schedule : str, float, sequence of float or Schedule
        "median" (default) of the accepted distances, or another of their quantiles by
        ``abctree.Quantile(q)``; "adaptive", the tolerance at which the weighted draws keep half
        their effective sample size; a factor such as 0.9; or a decreasing list of tolerances, at
        whose end the run ends.
    weights : {"population", "mixture"}
        Who answers: the last population by its own weights, as published; or all populations by
        the mixture of all their proposals, which `posterior` reads at any ε.  The mixture costs
        O(T N) for each population.  Each draw is weighted by what particles of other folds would
        have proposed: by kernels that are centred at itself, or learned their steps from it, the
        evidence comes out up to a fifth too small.
    min_ess : float
        A population goes on until its effective sample size is at least this, too.
    space : {"theta", "cube"}
        Where steps are made: in the parameters' own units (default), or in the unit cube of the
        prior's quantiles.  A `PriorTransform` has no density in θ, and takes the cube; so does a
        prior of which more than a thousandth is an end of its support, up to rounding.
    n_pilot : int
        Prior draws from which ε₁ and the scale of the distance are taken; they belong to the first
        population.  Default N, at least 100.
    block : int
        Simulations begun at once.  Default: about as many as are expected to be missing.
    max_rounds : int
        Most populations.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60, "epsilon": 0.1}``; see `abctree.stopping`.
    executor : int, str or Executor
        Who runs the simulator, as for `abctree.abc_tree`.  It never changes the result.
    on_failure : {"reject", "raise"} or FailurePolicy
        As for `abctree.abc_tree`.
    keep_summaries : bool or "store"
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.
        "store" leaves them in the run folder, from which they are read when they are asked for.
    store : str, Path or Store
        A new folder in which every block is kept before it counts, as for `abctree.abc_tree`.
    progress : bool or callable, optional
        As in `abc_tree`; a round is a population.

    Returns
    -------
    Result
        With the same reading methods as a result of `abctree.abc_tree`, but for `histogram`.  Its
        rounds are the populations, and its table has a row for every simulation.  `posterior()`
        gives the draws of population ``result.population`` at its tolerance: the last one that
        reached N draws, or that was cut short with an effective sample size of at least N / 2.

    Raises
    ------
    ParameterError, StoreError, SimulatorError
        As for `abctree.abc_tree`.

    Notes
    -----
    Points outside the support of the prior or the constraint are drawn again at no cost of
    simulations; weights account for their share.  A whole number takes a rounded step, whose mass
    is known exactly, a value of a list steps in the order of the list, and fixed parameters stay.
    Time O(T N), on top of the simulator's.

    References
    ----------
    Beaumont, Cornuet, Marin and Robert (2009), Biometrika 96.  Filippi, Barnes, Cornebise and
    Stumpf (2013), Statistical Applications in Genetics and Molecular Biology 12.

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> result = abctree.smc(problem, n_simulations=2000, n_particles=100, rng=1)
    >>> result.n_simulations
    2000
    """
    spec = RunSpec.of("smc", locals())
    return play(play_populations, problem, spec, executor, progress, store)


def play_populations(run: Runner) -> Result:
    """Populations until there is a reason to stop."""
    s = run.spec.settings
    n_prior = run.pilot().n_drawn[0]
    run.record_pilot((Mixture(n_prior),))
    chart = coordinates(run.problem.prior, s["space"])
    rules = SmcRules(s["kernel"], s["schedule"], chart, s["min_ess"])
    smc_run = SmcRun(run.problem, run.table, run.plan, rules, run.simulate, run.rng, run.stop)
    why = None
    for played in populations(smc_run, n_prior):
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
