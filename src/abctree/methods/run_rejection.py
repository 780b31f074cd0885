"""`rejection`: prior draws, the closest of which are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from abctree.answers.failure_policy import FailurePolicy
from abctree.answers.result import Result
from abctree.data import Progress
from abctree.keywords import checks_keywords
from abctree.methods.run_folder import StoreLike, play
from abctree.problem import Problem
from abctree.running.executors import ExecutorLike
from abctree.running.spec import RunSpec, StopLike
from abctree.types import RNGLike


@checks_keywords
def rejection(
    problem: Problem,
    *,
    n_simulations: int,
    keep: int | None = None,
    rng: RNGLike = None,
    executor: ExecutorLike | None = None,
    chunk: int | None = None,
    lookahead: int = 1,
    progress: Callable[[Progress], None] | None = None,
    stop: StopLike = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | None = None,
    store: StoreLike | None = None,
) -> Result:
    r"""Sample the ABC posterior by rejection: prior draws, the closest of which are kept.

    Simulations are streamed: memory holds the kept rows and a few chunks, so that 10⁸ of a cheap
    simulator are feasible.

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the exact number of simulations.
    keep : int, optional
        How many of the closest simulations the result holds; `posterior()` then gives all of them.
        Default: all up to 10⁶ simulations, failures included, and of more the closest 100 000;
        `posterior()` then chooses as after `abctree.abc_tree`.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    executor : int, str or Executor
        Who runs the simulator, as for `abctree.abc_tree`.  It never changes the result.
    chunk : int
        Simulations begun at once, and after which `progress` is told and `stop` is asked.
        Default: T / 100, at most 16 384.  It never changes a result, except where `stop` ends the
        run.
    lookahead : int
        Chunks that may be begun before the oldest has come back.
    progress : callable
        Called with a `Progress` after each chunk, and now and then in a pilot that takes long.  Its
        epsilon is the largest distance that is still taken.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60}``; see `abctree.stopping`.  "epsilon" ends
        the run when `keep` simulations are closer.
    on_failure : {"reject", "raise"} or FailurePolicy
        As for `abctree.abc_tree`.
    keep_summaries : bool
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.
    store : str, Path or Store
        A new folder in which every chunk is kept before it counts, as for `abctree.abc_tree`: of
        its simulations those that were closer than all but `keep` when they were made, and those
        that failed.  With `keep` closest of T it holds about ``keep * (1 + log(T / keep))`` of
        them, and some hundred bytes for each chunk.

    Returns
    -------
    Result
        With the same reading methods as a result of `abctree.abc_tree`, but for `histogram`.  Its
        table holds the kept rows, and `n_simulations` counts all.  The evidence is that of all
        simulations: it is known up to the largest ε below which every simulation was kept,
        ``result.rounds[1].epsilon``, and above that tolerance the result cannot be read.

    Raises
    ------
    ParameterError
        If a setting breaks its rule, or `store` holds a run already.
    StoreError
        If `store` cannot be written to.
    SimulatorError
        If the simulator cannot be used: the first simulations have the wrong shape, or all fail
        from which the distance takes its scale, or any with ``on_failure="raise"``.

    Notes
    -----
    Where equal distances lie at the border, the first of them are kept and weighted to stand for
    all.  A distance that scales itself takes its scale from the first min(10 000, T / 50)
    simulations, but at least 100.  Time O(T), memory O(keep).

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> result = abctree.rejection(problem, n_simulations=2000, keep=100, rng=1)
    >>> len(result.table), result.n_simulations, len(result.posterior())
    (100, 2000, 100)
    """
    spec = RunSpec.of("rejection", locals())
    return play(problem, spec, executor, progress, store)
