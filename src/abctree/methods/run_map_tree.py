"""`map_tree`: a posterior mode from a prior and a simulator."""

from __future__ import annotations

from typing import Literal

from abctree.answers.failures import FailurePolicy
from abctree.answers.result import Result
from abctree.keywords import checks_keywords
from abctree.methods.run_abc_tree import play_rounds
from abctree.problem import Problem
from abctree.running.executors import ExecutorLike
from abctree.running.ledger import StoreLike
from abctree.running.play import play
from abctree.running.progress import ProgressLike
from abctree.running.spec import (
    BeliefsLike,
    PartitionerLike,
    PolicyLike,
    RunSpec,
    ScheduleLike,
    StopLike,
)
from abctree.types import RNGLike


@checks_keywords
def map_tree(
    problem: Problem,
    *,
    n_simulations: int = 20_000,
    rng: RNGLike = None,
    policy: PolicyLike | None = None,
    partitioner: PartitionerLike | None = None,
    schedule: ScheduleLike | None = None,
    beliefs: BeliefsLike | None = None,
    quota: int | None = None,
    n_pilot: int | None = None,
    n_folds: int | None = None,
    window: Literal["extended", "rolling"] | None = None,
    relabel: Literal["next", "last"] | None = None,
    block: int | None = None,
    lookahead: int | None = None,
    defensive: float | None = None,
    max_rounds: int | None = None,
    preset: Literal["published"] | None = None,
    stop: StopLike = None,
    executor: ExecutorLike | None = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | Literal["store"] | None = None,
    store: StoreLike | None = None,
    progress: ProgressLike = None,
) -> Result:
    r"""Find the mode of the ABC posterior without a likelihood (Algorithm 4, MAP-Tree).

    The outer loop of `abctree.abc_tree` with bandits that seek the best box (Algorithm 3), and a
    local-quadratic fit of all its simulations; see docs/explanation/map-tree.md.

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the exact number of simulations, the pilot included.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    policy : str or Policy
        "top-two" (default), "thompson" or "t3c", or an object such as
        ``abctree.TopTwo(b="adaptive")``, which brings its own share of prior draws.
    partitioner : str or Partitioner
        P: `abctree.Peaks` (default), "dyadic", "cart", or an object.  ``abctree.Dyadic(n_splits=1,
        pick="modal")`` refines the box k̂ of the paper, ``Dyadic(n_splits=1)`` the one proposed
        most.
    schedule : str, float, sequence of float or Schedule
        g, as for `abctree.abc_tree`.
    beliefs : str or BeliefRule
        As for `abctree.abc_tree`; default "limited-shrinkage", and "counts" on a grid.
    quota : int
        B, acceptances that end a round.  Default max(20, T / 10).
    n_pilot : int
        Prior draws of the pilot.  Default max(100, T / 5): a mode that they miss is rarely found
        later.
    n_folds, window, relabel, lookahead, max_rounds
        As for `abctree.abc_tree`; one fold, for the mode does not rest on weights.
        In one fold each draw is weighted by the proposal at its time, in evidence and posterior.
    block : int
        Pulls between two updates of the beliefs.  Default max(20, T / 100); 1 is the paper.
    defensive : float
        Share of prior draws among the pulls of a policy that is given by name.  Default 0.05.
    preset : {"published"}
        The paper's settings: three dyadic splits a round of the box proposed most, top-two
        sampling with b = ½, 0.9 ε, raw counts.  Its answers are ``estimates["kernel"]`` and
        ``estimates["box"]``.  Anything given beside it wins over it.
    stop, executor, on_failure, keep_summaries, store, progress
        As for `abctree.abc_tree`.

    Returns
    -------
    Result
        The lookup table and the rounds.  Its `mode()` has the error ellipse, rivals with their
        relative densities, and the kernel and the box estimate.

    Raises
    ------
    ParameterError, StoreError, SimulatorError
        As for `abctree.abc_tree`.

    Notes
    -----
    It is the mode of the ε-posterior in the units of the parameters: a mode changes when a
    parameter is transformed (other than linearly), and the tolerance may shift it where the
    posterior is skewed.

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> mode = abctree.map_tree(problem, n_simulations=2000, rng=1).mode()
    >>> bool(abs(mode.theta[0] - 1.0) < 0.2)
    True
    """
    spec = RunSpec.of("map_tree", locals())
    return play(play_rounds, problem, spec, executor, progress, store)
