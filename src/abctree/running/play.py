"""`play`: a run from its spec, in a store or without."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TypeAlias

from abctree.answers.result import Result
from abctree.errors import wrong
from abctree.problem import Problem
from abctree.running.executors import ExecutorLike, executor_for, running
from abctree.running.ledger import Ledger, StoreLike
from abctree.running.manifest import manifest_of
from abctree.running.progress import ProgressLike, check_progress
from abctree.running.runner import Runner
from abctree.running.spec import RunSpec

#: The loop of a method.
Loop: TypeAlias = Callable[[Runner], Result]


def play(
    loop: Loop,
    problem: Problem,
    spec: RunSpec,
    executor: ExecutorLike | None,
    progress: ProgressLike,
    path: StoreLike | None,
) -> Result:
    """A new run, kept in a store if one is given."""
    check_progress(progress)
    if path is None and spec.summaries_in_store:
        raise wrong("store", 'be a run folder with keep_summaries="store"', None)
    with (
        running(executor_for(problem, executor)) as ready,  # refused before there is a folder
        closing(Ledger() if path is None else Ledger.new(path)) as ledger,
    ):
        if path is not None:
            ledger.describe(manifest_of(spec, problem))
        with Runner(problem, spec, ready, ledger, progress) as run:
            return loop(run)
