"""`abc_tree`: a posterior from a prior and a simulator, by Algorithm 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from abctree.answers.failures import FailurePolicy
from abctree.answers.result import Result
from abctree.data import Mixture, update_denominators
from abctree.keywords import checks_keywords
from abctree.problem import Problem
from abctree.protocols import VolumePartitioner
from abctree.running.executors import ExecutorLike
from abctree.running.ledger import StoreLike
from abctree.running.play import play
from abctree.running.progress import ProgressLike
from abctree.running.runner import Runner
from abctree.running.spec import (
    BeliefsLike,
    PartitionerLike,
    PolicyLike,
    RunSpec,
    ScheduleLike,
    StopLike,
    UtilityLike,
)
from abctree.tree.game import Game, Rules
from abctree.tree.outer_loop import outer_loop
from abctree.tree.utilities import PosteriorMatch
from abctree.types import RNGLike


@checks_keywords
def abc_tree(
    problem: Problem,
    *,
    n_simulations: int,
    rng: RNGLike = None,
    partitioner: PartitionerLike | None = None,
    utility: UtilityLike | None = None,
    schedule: ScheduleLike | None = None,
    beliefs: BeliefsLike | None = None,
    policy: PolicyLike | None = None,
    quota: int | None = None,
    n_pilot: int | None = None,
    n_folds: int | None = None,
    window: Literal["extended", "rolling"] | None = None,
    relabel: Literal["next", "last"] | None = None,
    block: int | None = None,
    lookahead: int | None = None,
    defensive: float | None = None,
    proposal: Literal["boxes", "adaptive"] | Sequence[str] | None = None,
    max_rounds: int | None = None,
    preset: Literal["published"] | None = None,
    stop: StopLike = None,
    executor: ExecutorLike | None = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy = "reject",
    keep_summaries: bool | Literal["store"] | None = None,
    store: StoreLike | None = None,
    progress: ProgressLike = None,
) -> Result:
    r"""Sample the ABC posterior with bandits on a tree partition (Algorithm 2, ABC-Tree).

    Parameters
    ----------
    problem : Problem
        Prior, simulator, observation, summary and distance.
    n_simulations : int
        T, the exact number of simulations, the pilot included.
    rng : None, int, SeedSequence, BitGenerator or Generator
        Source of all randomness, simulators included.  The same seed gives the same result.
    partitioner : str or Partitioner
        P: "soft" (default), "dyadic", "cart", "bart" (needs stochtree), "dynamic" (dynamic trees)
        or "peaks" (coarse boxes, for the mode), or an object such as ``abctree.Grid(100)``.
    utility : str or Utility
        ω: "omega1", "omega2", "omega3", "ess", "models" (how well the probabilities of `Models`
        are known), or an object.  Default: effective sample size, with exponent ½ in one or two
        dimensions and 0.65 in more.
    schedule : str, float, sequence of float or Schedule
        g: "pooled" (default), which lets ε follow the effective sample size of all draws; "median"
        (default where only boxes propose) of the accepted distances; a factor (the paper: 0.9) or
        "geometric" (that factor); "adaptive", the tolerance that keeps half of the effective sample
        size; or a decreasing list of tolerances.
    beliefs : str or BeliefRule
        How α and β start on a new partition: "multi-level" (default), "global-rate" (default on a
        grid), "limited-shrinkage" or "counts", or an object such as ``abctree.Counts(0, 0)``.
    policy : str or Policy
        Which arms are played, instead of a utility's optimal proposal: "thompson", "top-two" or
        "t3c", with the share `defensive` of prior draws, or an object, which brings its own.
    quota : int
        B, acceptances that end a round.  Default max(20, T / 100); with a pooled schedule none, and
        a round is 0.4 of the simulations before it.
    n_pilot : int
        Prior draws of the pilot.  Default max(100, T / 50).
    n_folds : int
        F: simulation i belongs to fold i mod F, and a fold's proposals are learned from the other
        folds.  Default 5; 1 is the paper, whose evidence comes out too low.
    window : {"extended", "rolling"}
        Whether partitions learn from the whole table (default) or from the last round.
    relabel : {"next", "last"}
        Tolerance at which the table is relabelled and counted: that of the round to come (default)
        or, as in the paper, of the last one.
    block : int
        Pulls between two updates of the beliefs.  Default max(20, T / 50); 1 is the paper.
    lookahead : int
        Blocks that may be begun before the oldest has come back, so that a pool of workers is busy
        while it waits for stragglers.  Default 0, and 1 where the executor says that it has more
        than 16 workers: say it if the run is to be the same with fewer.
    defensive : float
        Share of the prior in every proposal.  Default 0.05.
    proposal : {"boxes", "adaptive"} or sequence of str
        What draws points.  "boxes" is the paper, and takes a quarter of the library's time.
        "adaptive" (default) draws from three things beside each other, in shares that each round
        decides anew: boxes; candidates that a model of the summaries has thinned before they are
        simulated; and kernels around accepted draws.  For the model the summaries must be kept and
        the distance be a Euclidean norm of theirs, scaled or not; else there are boxes and kernels.
        A list names some: ``["boxes", "kernels"]``.  The default is "boxes" on a grid, in one fold,
        with a `policy`, and with a utility other than "ess" and "models".
    max_rounds : int
        S_max.
    preset : {"published"}
        The paper's settings: CART, ω¹, 0.9 ε, B = 1000, one fold, no pseudo-counts, weights at the
        draw.  Anything given beside it wins over it.
    stop : StoppingRule, several, or dict
        Reasons to end early, such as ``{"seconds": 60, "epsilon": 0.1}``; see `abctree.stopping`.
        Seconds count from the first simulation, and are looked at after every block, and after
        every twentieth of the pilot.
    executor : int, str or Executor
        Who runs the simulator: a number of worker processes, "threads", "processes", an object
        such as ``abctree.Processes(4, timeout=60.0)``, or a pool of `concurrent.futures` or client
        of Dask, which is left open; default in this process, in threads if what is called releases
        the interpreter's lock (see `abctree.releases_lock`), and "serial" without.  It changes the
        default of `lookahead`, and beside that no result; threads by default do not.
    on_failure : {"reject", "raise"} or FailurePolicy
        Whether a simulation that raises or returns something unusable counts as a rejection, or
        ends the run with the parameters, the seed and the traceback.  When more than 99 % of the
        last blocks fail, the run ends early with a valid result; see `abctree.FailurePolicy`.
    keep_summaries : bool or "store"
        Whether the table keeps summaries, for regression adjustment.  Default: up to 64 numbers.
        "store" leaves them in the run folder, from which they are read when they are asked for, and
        computes `table.theta` from the cube: for runs longer than memory.
    store : str, Path or Store
        A new folder in which every block is kept before it counts, for `abctree.resume` and
        `abctree.load`; a few milliseconds a block, for a flush of the disk.  Default: nothing is
        written.
    progress : bool or callable, optional
        A bar on standard error; default: in a notebook, and where standard error is a terminal.  Or
        a function that is called with a `Progress` after each round, and now and then in a pilot
        that takes long; if it has an attribute ``every_block = True``, whenever simulations come
        back.  What it raises is a warning, once, and the run goes on.

    Returns
    -------
    Result
        Posterior, step function, evidence, the lookup table, and the rounds.

    Raises
    ------
    ParameterError
        If a setting breaks its rule, or `store` holds a run already.
    StoreError
        If `store` cannot be written to.
    SimulatorError
        If the simulator cannot be used: the first simulations have the wrong shape, or the whole
        pilot fails, or any simulation with ``on_failure="raise"``.

    Examples
    --------
    >>> import abctree
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> result = abctree.abc_tree(problem, n_simulations=2000, rng=1)
    >>> result.n_simulations
    2000
    """
    spec = RunSpec.of("abc_tree", locals())
    return play(play_rounds, problem, spec, executor, progress, store)


def play_rounds(run: Runner) -> Result:
    """Algorithm 2 or 4: the pilot, and rounds until the budget is spent or a rule says stop."""
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
