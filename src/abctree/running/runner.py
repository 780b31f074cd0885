"""`Runner`: what surrounds every algorithm, whichever it is.

A loop is a function of a runner: it has the pilot made, plays its rounds, simulates through the
runner, and asks it after every block whether to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self, cast

import numpy as np

from abctree.answers.failures import Failures
from abctree.answers.result import Result
from abctree.data import (
    Arms,
    Boxes,
    Mixture,
    OtherStream,
    Progress,
    Round,
    Rounds,
    Rows,
    Simulations,
    Table,
)
from abctree.errors import AbctreeError, SimulatorError, wrong
from abctree.method import METHODS
from abctree.problem import Discrepancy, Problem
from abctree.protocols import Ahead, Chunk, Executor
from abctree.running.failing import Failing
from abctree.running.fingerprint import changes
from abctree.running.interrupts import Interrupts
from abctree.running.ledger import Ledger
from abctree.running.predictions import Predictions
from abctree.running.progress import Listener, ProgressLike, log
from abctree.running.spec import RunSpec
from abctree.running.stopping import Seconds, is_hurried
from abctree.tree.pilot import Pilot, run_pilot
from abctree.types import FloatArray, IntArray

#: How the reason begins for which a run ended at Ctrl-C.
INTERRUPTED = "interrupted"
#: Calls that drew from streams of their own, after which no more are noted.
_ENOUGH = 10_000
#: Seconds between two calls of the progress callback in the pilot, at least.
_PATIENCE = 1.0


class Runner:
    """One run: its clock, its failures, its stopping rules, and who is told of its progress.

    A context manager, in which Ctrl-C is let through only while the run waits for simulations.

    It makes what is not in the ledger.  Without an executor the run is only read: it ends where the
    ledger does, and none of its stopping rules is asked.
    """

    def __init__(
        self,
        problem: Problem,
        spec: RunSpec,
        executor: Executor | None,
        ledger: Ledger,
        progress: ProgressLike = False,  # noqa: FBT002 - one of its kinds
    ) -> None:
        self.problem = problem  #: after the pilot the one with its distance scaled
        self.spec = spec
        self.plan = spec.plan
        capacity = self.plan.n_simulations if METHODS[spec.method].keeps_all else 1
        try:
            self.table = Table(
                problem.d,
                len(problem.names),
                spec.summary_size,
                capacity=capacity,
                from_cube=problem.prior.from_cube if spec.theta_follows else None,
                stored=ledger.stored if spec.summaries_in_store else None,
            )
        except (MemoryError, ValueError):  # NumPy's, of more than memory or than it can count
            raise wrong(
                "n_simulations", "be as many as memory can hold", capacity,
                "Begin with fewer, in a `store`: abctree.resume goes on from there.",
            ) from None  # fmt: skip
        self.root = spec.seeds.root
        self.rng = np.random.default_rng(spec.seeds.algorithm)
        self.rounds: list[Round] = []
        self.failures = Failures(self.table, self.rounds, self.root, problem.unit)
        self.n_simulations = 0  #: that have come back
        self._other_streams: set[OtherStream] = set()
        self._work = Discrepancy(problem.measurement, self.root)  # one: a pool packs it once
        self._unit = problem.unit
        self._executor = executor
        self._ledger = ledger
        self._n_recorded = ledger.n_simulations
        if ledger.store is not None and spec.summary_size == 0:  # keep those that are read again
            ledger.n_summaries = self.plan.n_pilot if problem.needs_pilot else 0
        if spec.summaries_in_store:
            ledger.n_read = self.plan.n_pilot if problem.needs_pilot else 0
        self._ahead: list[Ahead] = []  # blocks that come back while another is waited for
        self._interrupts = Interrupts()
        self._failing = Failing(problem, spec, self.failures, ledger, is_read=executor is None)
        self._listener = Listener(progress)
        limits = [rule.limit for rule in spec.stop if isinstance(rule, Seconds)]
        limit = min(limits, default=np.inf)
        n = self.plan.n_simulations
        self._played = Progress(0, n, 0, np.inf, 0.0, 0.0, 0, 0.0, limit=limit)
        self._why: str | None = None
        self._told = 0.0
        self._began = time.monotonic()
        self._first: float | None = None  # when the first simulation began

    def __enter__(self) -> Self:
        self._interrupts.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._interrupts.__exit__()
        self._listener.close()
        if self._executor is not None and kind is not None and issubclass(kind, SimulatorError):
            self._ledger.drop_first()

    # Simulations ----------------------------------------------------------------------------

    def simulate(self, theta: FloatArray, index: IntArray) -> Callable[[], Simulations]:
        """Begin a block; the answer waits for it."""
        rows = Rows(theta, index, self._unit)
        missing = self._ledger.begin(rows)
        if self._executor is None or not len(missing.index):
            return partial(self._answer, rows, iter(()))
        if self._work.measurement is not self.problem.measurement:  # the pilot has scaled it
            self._work = Discrepancy(self.problem.measurement, self.root)
        chunks = self._executor.chunks(self._work, missing)
        if _is_ahead(type(chunks)):
            self._ahead.append(cast("Ahead", chunks))
        return partial(self._answer, rows, chunks)

    def _answer(self, rows: Rows, chunks: Iterator[Chunk]) -> Simulations:
        """The answers to a block; each chunk is in the ledger before the next one is waited for."""
        n_back, done, ledger = 0, None, self._ledger
        try:
            while done is None and (done := ledger.take(rows)) is None:
                with self._interrupts.through:
                    chunk = next(chunks, None)
                if chunk is None:
                    raise self._incomplete()
                if chunk[0] is rows and ledger.store is None and not chunk[1].failures:
                    done = ledger.pass_on(*chunk)
                else:
                    ledger.put(*chunk)
                if self._ahead:
                    self._gather(lambda chunk: chunk)
                if self._listener.is_told_all:
                    n_back += len(chunk[1])
                    self._listener.tell(partial(self._now, n_back))
        except KeyboardInterrupt:
            self._gather(_sound)
            raise
        if self._ahead and chunks in self._ahead:
            self._ahead.remove(chunks)
        self._look_at(done, rows.theta, rows.index)
        return done

    def _gather(self, sound: Callable[[Chunk], Chunk]) -> None:
        """Put into the ledger what has come back of all blocks."""
        for chunks in self._ahead:
            for chunk in chunks.finished():
                self._ledger.put(*sound(chunk))

    def _incomplete(self) -> BaseException:
        if self._executor is None:
            return KeyboardInterrupt()  # the run is only read
        return AbctreeError(
            f"`executor` must give the answers to all rows, but {self._executor!r} ended before."
        )

    def store_only(self, needed: Callable[[Simulations], Simulations]) -> None:
        """Let the store, if there is one, keep so much of each block."""
        if self._ledger.store is not None:
            self._ledger.needed = needed

    def pilot(self, table: Table | None = None) -> Pilot:
        """Prior draws into the run's table, or another; fewer than planned if it ends there."""
        plan, table = self.plan, self.table if table is None else table
        calls: list[IntArray] = []

        def simulate(theta: FloatArray, index: IntArray) -> Callable[[], Simulations]:
            calls.append(index)
            return self.simulate(theta, index)

        try:
            pilot = run_pilot(
                self.problem, table, simulate, plan.n_pilot, plan.n_folds, self.rng,
                stop=self._stop_pilot,
            )  # fmt: skip
        except SimulatorError as error:
            self._failing.refuse_pilot(error)
            raise
        # Those of a distance that the pilot scales are known only now.
        late = pilot.simulations.failures[self.failures.count :]
        for index in (index for index in calls if index[-1] < len(table)):
            rows = [f for f in late if index[0] <= f.index <= index[-1]]
            self._failing.count(rows, table.theta_of(index), index)
        self.problem = pilot.problem
        self._failing.forget_pilot()
        if pilot.interrupted:
            self._why = INTERRUPTED
        return pilot

    def record_pilot(self, mixtures: tuple[Mixture, ...]) -> None:
        """Round 0, once the pilot's rows are in the table; they must not all have failed."""
        self._failing.refuse_if_all()
        n = len(self.table)
        self.rounds.append(self.round_on_one_box(0, float("inf"), mixtures, (0, n), float(n)))

    def round_on_one_box(
        self,
        s: int,
        epsilon: float,
        mixtures: tuple[Mixture, ...],
        rows: tuple[int, int],
        ess: float,
    ) -> Round:
        """Round s, in which nothing was learned of where to draw."""
        whole = self.problem.region.measure(Boxes.whole(self.problem.d))
        first, last = rows
        return Round(
            index=s,
            epsilon=epsilon,
            partitions=(whole,) * len(mixtures),
            arms=(Arms(np.ones(1), np.ones(1)),) * len(mixtures),
            mixtures=mixtures,
            first=first,
            last=last,
            n_accepted=int(np.count_nonzero(self.table.distance[first:last] < epsilon)),
            ess=ess,
            rng_state=dict(self.rng.bit_generator.state),
        )

    def _look_at(self, done: Simulations, theta: FloatArray, index: IntArray) -> None:
        """Note a block that has come back."""
        self.n_simulations += len(index)
        if self._first is None and np.isfinite(done.began):  # not one that a store remembers
            ago = time.time() - done.began  # by the clock of a worker, perhaps of another machine
            now = time.monotonic()
            self._first = min(max(now - ago, self._began), now)
        if done.other_streams and len(self._other_streams) < _ENOUGH:
            self._other_streams.update(done.other_streams)
        self._failing.look_at(done, theta, index)

    # Whether to go on -----------------------------------------------------------------------

    def stop(self) -> bool:
        """Whether not even to finish the round: to be asked after every block."""
        self._why = self._why or self._failing.hopeless or self._reason(hurried=True)
        return self._why is not None

    def report_round(self, s: int, epsilon: float, rate: float, ess: float) -> str | None:
        """Tell of round s; why to stop after it, or None."""
        old = self._played
        self._played = replace(old, round=s, epsilon=epsilon, acceptance_rate=rate, ess=ess)
        self._listener.tell(self._now)
        return self._reason(hurried=False)

    def after_round(self, played: Round, rate: float | None = None) -> str | None:
        """Take a round that was played; why to stop after it, or None."""
        self.rounds.append(played)
        rate = played.acceptance_rate if rate is None else rate
        reason = self.report_round(played.index, played.epsilon, rate, played.ess)
        log.info("%s", self._now())
        return INTERRUPTED if played.interrupted else reason

    def stop_reason(self) -> str:
        """Why a loop that has ended by itself did so."""
        plan = self.plan
        if self._why is not None:
            return self._why
        if self.n_simulations >= plan.n_simulations:
            return f"budget of {plan.n_simulations} simulations spent"
        if plan.max_rounds is not None and self.rounds[-1].index >= plan.max_rounds:
            return f"{plan.max_rounds} rounds played"
        return "the schedule has no lower tolerance"

    def result(self, why: str, **more: Any) -> Result:
        """The run as it is now; a ledger that goes on keeps how it ended."""
        seconds = self._ledger.seconds
        if self._executor is not None:
            why += self._ledger.of_unfinished if why == INTERRUPTED else ""
            self._ledger.conclude(why, seconds)
            log.info("ended after %d simulations and %.3g s: %s", self.n_simulations, seconds, why)
        return Result(
            problem=self.problem,
            table=self._with_all_summaries(),
            rounds=Rounds(self.rounds),
            plan=self.plan,
            failures=self.failures,
            stopped_because=why,
            seconds=seconds,
            seconds_by_round=self._ledger.seconds_at([played.last for played in self.rounds]),
            root=self.root,
            other_streams=frozenset(self._other_streams),
            default_weights=self.spec.settings["weights"],
            method=self.spec.method,
            code_changes=changes(self.spec.code, self.n_simulations),
            kept_predictions=Predictions.beside(self._ledger.store),
            **more,
        )

    def _with_all_summaries(self) -> Table:
        """The table; without summaries if there is none of some distances, which were told."""
        if not self.table.is_in_memory:
            return self.table
        summary, distance = self.table.summary, self.table.distance
        has_none = np.isnan(summary[:, :1]).any(axis=1) & np.isfinite(distance)
        return self.table.without_summaries() if has_none.any() else self.table

    def _stop_pilot(self) -> bool:
        """As `stop`; that nearly all of it fails is no reason to end the pilot."""
        if self._seconds - self._told >= _PATIENCE:
            self._told = self._seconds
            self._listener.tell(self._now)
        self._why = self._reason(hurried=True)
        return self._why is not None

    def _reason(self, *, hurried: bool) -> str | None:
        """Why to stop by the rules, or by those only that are asked after every block.

        The clock of these does not run out while records are read again.
        """
        n = self.n_simulations
        if self._executor is None:
            return "unfinished" if self._n_recorded <= n < self.plan.n_simulations else None
        if not self.spec.stop:
            return None
        now = self._now()
        for rule in self.spec.stop:
            is_asked = n >= self._n_recorded if is_hurried(rule) else not hurried
            if is_asked and (reason := rule.reason(now)):
                return reason
        return None

    @property
    def _seconds(self) -> float:
        """Since the first simulation began: workers that start and records cost none."""
        return 0.0 if self._first is None else time.monotonic() - self._first

    def _now(self, n_more: int = 0) -> Progress:
        """The progress; so many simulations more are back of the block waited for."""
        n, failed, seconds = self.n_simulations + n_more, self.failures.count, self._seconds
        read = min(n, self._n_recorded)
        known = self._played
        return replace(known, n_simulations=n, n_failures=failed, seconds=seconds, n_read=read)


@cache  # to ask a protocol takes as long as ten simulations
def _is_ahead(kind: type) -> bool:
    return issubclass(kind, Ahead)


def _sound(chunk: Chunk) -> Chunk:
    """A chunk without the units that failed: Ctrl-C may have ended a program of theirs."""
    part, done = chunk
    if not done.failures:
        return chunk
    failed = [failure.index // part.unit for failure in done.failures]
    which = ~np.isin(part.index // part.unit, failed)
    return part[which], done.take(which, part.index[which])
