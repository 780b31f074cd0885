"""`resume` and `load`: runs that are kept in a folder.

A run is a function of its spec, its problem, and the answers of its executor.  To resume is to
begin it again, with the answers that the folder has and an executor for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from abctree.answers.failure_policy import FailurePolicy
from abctree.answers.result import Result
from abctree.data import Progress, Table
from abctree.errors import SimulatorError, StoreError, warn
from abctree.keywords import checks_keywords
from abctree.method import METHODS
from abctree.methods.loops import LOOPS
from abctree.problem import Problem
from abctree.protocols import Executor, StoppingRule
from abctree.running.executors import ExecutorLike, as_executor, running
from abctree.running.ledger import Ledger, StoreLike
from abctree.running.manifest import check_version, manifest_of, spec_of, unknown_code
from abctree.running.progress_callback import check_progress
from abctree.running.runner import Runner
from abctree.running.spec import RunSpec, StopLike, check_problem_given
from abctree.running.stopping import is_hurried
from abctree.running.versions import changes
from abctree.types import Named, NamedDict

__all__ = ["StoreLike", "load", "play", "resume"]

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
    progress: Callable[[Progress], None] | None = None,
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
        Who runs the simulator from here on, as in `abc_tree`; default in this process.
    stop : StoppingRule, several, or dict
        Default: those of the run, and the clock begins anew, with the first new simulation; ``()``
        for none.
    on_failure : {"reject", "raise"} or FailurePolicy
        Default: that of the run.  Failures are kept like other answers: a run that ended by
        "raise" ends there again, unless it is resumed with "reject".
    progress : callable
        Called with a `Progress` after each round, those that are computed again included.
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
    ledger = Ledger.open(path)
    try:
        manifest = ledger.manifest or {}
        given = {**parts, "stop": stop, "on_failure": on_failure}
        spec = spec_of(manifest, problem, given, ledger.n_simulations + ledger.n_noted)
        _say(*changes(spec.code, sys.maxsize))
        check_version(manifest)
        spec = spec.extended(n_simulations)
        ledger.describe(_continued(manifest, manifest_of(spec, problem)))
        with running(as_executor(executor)) as ready:
            return _kept(problem, spec, ledger, ready, progress)
    finally:
        ledger.close()


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
    ledger = Ledger.read(path)
    try:
        manifest = ledger.manifest or {}
        n = ledger.n_simulations
        given = {**parts, "stop": _EndOfRecords(n), "on_failure": _LENIENT}
        spec = spec_of(manifest, problem, given, None)
        _say(*changes(spec.code, n), *unknown_code(manifest, problem, parts))
        if n == 0:
            raise StoreError(
                f"{ledger.store!r} holds no simulations yet. Go on with the run by abctree.resume."
            )
        run = _runner(problem, spec, None, ledger)
        with run.interrupts:
            result = LOOPS[spec.method](run)
        budget, reason = result.plan.n_simulations, result.stopped_because
        if ledger.ending is not None:
            reason = str(ledger.ending.get("stopped_because"))
        elif n < budget:
            reason = f"unfinished: {n} of {budget} simulations made{_more(ledger)}"
        return replace(result, stopped_because=reason, seconds=ledger.seconds)
    finally:
        ledger.close()


def play(
    problem: Problem,
    spec: RunSpec,
    executor: ExecutorLike | None,
    progress: Callable[[Progress], None] | None,
    path: StoreLike | None,
) -> Result:
    """A new run, kept in a store if one is given."""
    check_progress(progress)
    with running(as_executor(executor)) as ready:  # refused before there is a folder
        if path is not None:
            return _kept_anew(problem, spec, ready, progress, path)
        run = _runner(problem, spec, ready, Ledger(), progress=progress)
        with run.interrupts:
            return LOOPS[spec.method](run)


def _kept_anew(
    problem: Problem,
    spec: RunSpec,
    executor: Executor,
    progress: Callable[[Progress], None] | None,
    path: StoreLike,
) -> Result:
    """A new run in a store."""
    ledger = Ledger.new(path)
    try:
        ledger.describe(manifest_of(spec, problem))
        return _kept(problem, spec, ledger, executor, progress)
    finally:
        ledger.close()


def _kept(
    problem: Problem,
    spec: RunSpec,
    ledger: Ledger,
    executor: Executor,
    progress: Callable[[Progress], None] | None,
) -> Result:
    """Play a run with a store, and note how it ended."""
    n_before = ledger.n_simulations
    rules = tuple(_AfterReplay(rule, n_before, is_hurried(rule)) for rule in spec.stop)
    run = _runner(problem, spec, executor, ledger, rules, progress)
    try:
        with run.interrupts:
            result = LOOPS[spec.method](run)
    except SimulatorError:
        ledger.drop_first()
        raise
    why = result.stopped_because
    if why == "interrupted":
        why += _more(ledger)
    result = replace(result, seconds=ledger.seconds, stopped_because=why)
    ledger.conclude(why, result.seconds)
    return result


def _more(ledger: Ledger) -> str:
    """What a store has beside whole blocks, in words."""
    n = ledger.n_noted
    return f"; {n} simulations of unfinished blocks are kept for abctree.resume" if n else ""


def _say(*sentences: str) -> None:
    """Warn the caller of `resume` or `load`."""
    for sentence in sentences:
        warn(sentence)


def _runner(
    problem: Problem,
    spec: RunSpec,
    executor: Executor | None,
    ledger: Ledger,
    rules: tuple[StoppingRule, ...] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Runner:
    """A run that is to be played; its ledger keeps the summaries that are read again."""
    if ledger.store is not None and spec.summary_size == 0:
        ledger.n_summaries = spec.plan.n_pilot if problem.needs_pilot else 0
    capacity = spec.plan.n_simulations if METHODS[spec.method].keeps_all else 1
    table = Table(problem.d, len(problem.names), spec.summary_size, capacity=capacity)
    return Runner(problem, spec, executor, table, ledger, rules, progress)


@dataclass(frozen=True)
class _AfterReplay:
    """A stopping rule whose clock does not run out while the records are read again."""

    rule: StoppingRule
    n_recorded: int
    every_block: bool

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        if self.every_block and progress.n_simulations < self.n_recorded:
            return None
        return self.rule.reason(progress)


@dataclass(frozen=True)
class _EndOfRecords:
    """Stop where the records end."""

    n_recorded: int
    every_block = True

    def reason(self, progress: Progress) -> str | None:
        """Why to stop now, or None."""
        n = progress.n_simulations
        return "unfinished" if self.n_recorded <= n < progress.budget else None


def _continued(then: Named, now: Named) -> NamedDict:
    """The manifest of a run that goes on: what it was begun with, its new end and its code."""
    return {**then, **{key: now[key] for key in ("settings", "stop", "on_failure", "code")}}
