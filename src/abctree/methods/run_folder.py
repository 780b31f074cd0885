"""`resume` and `load`: runs that are kept in a folder.

A run is a function of its spec, its problem, and the answers of its executor.  To resume is to
begin it again, with the answers that the folder has and an executor for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

from abctree.answers.failures import FailurePolicy
from abctree.answers.result import Result
from abctree.errors import StoreError, warn
from abctree.keywords import checks_keywords
from abctree.methods.run_abc_tree import play_rounds
from abctree.methods.run_rejection import play_stream
from abctree.methods.run_smc import play_populations
from abctree.problem import Problem
from abctree.running.executors import ExecutorLike, executor_for, running
from abctree.running.fingerprint import changes
from abctree.running.ledger import Ledger, StoreLike
from abctree.running.manifest import check_version, manifest_of, spec_of, unknown_code
from abctree.running.play import Loop
from abctree.running.progress import ProgressLike, check_progress
from abctree.running.runner import Runner
from abctree.running.spec import StopLike, check_problem_given

__all__ = ["LOOPS", "load", "resume"]

#: The loop of each method, by the name of the function that a user calls.
LOOPS: Mapping[str, Loop] = {
    "abc_tree": play_rounds,
    "map_tree": play_rounds,
    "smc": play_populations,
    "rejection": play_stream,
}
#: To read what is recorded to its end, whatever the run thought of it.
_LENIENT = FailurePolicy("reject", limit=1.0)


@checks_keywords
def resume(
    path: StoreLike,
    problem: Problem,
    *,
    n_simulations: int | None = None,
    executor: ExecutorLike | None = None,
    stop: StopLike = None,
    on_failure: Literal["reject", "raise"] | FailurePolicy | None = None,
    progress: ProgressLike = None,
    **parts: Any,
) -> Result:
    """Go on with a run that was killed, stopped or interrupted, or with a larger budget.

    The result is that of a run which was never interrupted, bit for bit, whatever the executor.
    With a larger budget it is that of a run with the larger budget from the beginning, whose quota,
    pilot and blocks are those of the first budget.  A finished run is only computed again.

    Parameters
    ----------
    path : str, Path or Store
        What was given to the method as `store`.
    problem : Problem
        The problem of the run: code is not kept in the folder.
    n_simulations : int, optional
        The new budget in all, at least the former one.
    executor : Executor, int, str or concurrent.futures.Executor
        Who runs the simulator from here on, as in `abc_tree`.
    stop : StoppingRule, several, or dict
        Default: those of the run, and the clock begins anew, with the first new simulation; ``()``
        for none.
    on_failure : {"reject", "raise"} or FailurePolicy
        Default: that of the run.  Failures are kept like other answers: a run that ended by
        "raise" ends there again, unless it is resumed with "reject".
    progress : bool or callable, optional
        As in `abc_tree`; rounds that are computed again are told of, too.
    **parts
        Partitioner, utility, schedule, beliefs, policy or kernel of your own, under the name that
        the run was given it.  Those of abctree need not be given.

    Returns
    -------
    Result
        As from the method of the run; its `seconds` are those of all processes that worked on it.

    Raises
    ------
    ParameterError
        If the problem, a part or the budget is not that of the run.
    StoreError
        If the folder holds no run, is damaged, foreign or newer, is used by another process, or
        holds the answers to other parameters than the run now asks for.

    Warns
    -----
    AbctreeWarning
        If code has changed since the run began; the folder remembers after how many simulations.

    Examples
    --------
    >>> import abctree, tempfile
    >>> def simulate(theta, rng):
    ...     return theta[0] + rng.normal()
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, simulate, observed=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = abctree.abc_tree(problem, n_simulations=500, rng=1, store=folder)
    ...     more = abctree.resume(folder, problem, n_simulations=800)
    >>> len(more.table), bool((more.table.theta[:500] == first.table.theta).all())
    (800, True)
    """
    check_problem_given(problem)
    check_progress(progress)
    with closing(Ledger.open(path)) as ledger:
        manifest = ledger.manifest or {}
        given = {**parts, "stop": stop, "on_failure": on_failure}
        spec = spec_of(manifest, problem, given, ledger.n_simulations + ledger.n_noted)
        _say(*changes(spec.code, sys.maxsize))
        check_version(manifest)
        spec = spec.extended(n_simulations)
        now = manifest_of(spec, problem)
        new = {key: now[key] for key in ("settings", "stop", "on_failure", "code")}
        ledger.describe({**manifest, **new})
        with (
            running(executor_for(problem, executor)) as ready,
            Runner(problem, spec, ready, ledger, progress) as run,
        ):
            return LOOPS[spec.method](run)


@checks_keywords
def load(path: StoreLike, problem: Problem, **parts: Any) -> Result:
    """A run as far as it is in its folder, with all its methods; the simulator is never called.

    The folder is only read, and may be one that another process is writing to.

    Parameters
    ----------
    path : str, Path or Store
        What was given to the method as `store`.
    problem : Problem
        The problem of the run.
    **parts
        As in `resume`.

    Returns
    -------
    Result
        As from the method of the run.  `stopped_because` begins with "unfinished" if it has not
        ended.

    Raises
    ------
    ParameterError
        If the problem or a part is not that of the run.
    StoreError
        If the folder holds no run, is damaged, foreign or newer, holds the answers to other
        parameters than the run now asks for, or has no simulations yet.

    Warns
    -----
    AbctreeWarning
        If code changed while the run was made, or is another now.
    """
    check_problem_given(problem)
    with closing(Ledger.read(path)) as ledger:
        manifest = ledger.manifest or {}
        n = ledger.n_simulations
        spec = spec_of(manifest, problem, {**parts, "stop": (), "on_failure": _LENIENT}, None)
        _say(*changes(spec.code, n), *unknown_code(manifest, problem, parts))
        if n == 0:
            raise StoreError(
                f"{ledger.store!r} holds no simulations yet. Go on with the run by abctree.resume."
            )
        with Runner(problem, spec, None, ledger) as run:
            result = LOOPS[spec.method](run)
        budget, reason = result.plan.n_simulations, result.stopped_because
        if ledger.ending is not None:
            reason = str(ledger.ending.get("stopped_because"))
        elif n < budget:
            reason = f"unfinished: {n} of {budget} simulations made{ledger.of_unfinished}"
        return replace(result, stopped_because=reason)


def _say(*sentences: str) -> None:
    """Warn the caller of `resume` or `load`."""
    for sentence in sentences:
        warn(sentence)
