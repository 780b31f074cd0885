"""Algorithm 2: the outer loop, shared by ABC-Tree and MAP-Tree.

A generator of `Round`s.  A store, a progress bar and a stopping rule are its consumers.

    Paper differs: rewards are counted at the tolerance that is played next, not at the last one
    (``plan.relabel``); the beliefs have a prior (`BeliefRule`); the first partition may be cut from
    the pilot (``plan.from_pilot``); the partition of the last round is played, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from abctree.algorithms.inner_loop import Fold, Simulate, inner_loop
from abctree.data import (
    Boxes,
    Mixture,
    Plan,
    Round,
    Table,
    effective_sample_size,
    mixture_weights,
    update_denominators,
)
from abctree.problem import Problem
from abctree.protocols import BeliefRule, Partitioner, Policy, Schedule
from abctree.types import BoolArray


@dataclass(frozen=True)
class Rules:
    """The parts that Algorithm 2 is parametrised by."""

    partitioner: Partitioner  #: P
    beliefs: BeliefRule  #: α, β on a new partition
    policy: Policy  #: q
    schedule: Schedule  #: g


def outer_loop(
    problem: Problem,
    table: Table,
    mixtures: tuple[Mixture, ...],
    plan: Plan,
    rules: Rules,
    simulate: Simulate,
    rng: np.random.Generator,
    *,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Round]:
    """Rounds of ABC-Tree until the budget is spent; `table` holds the pilot's rows.

    Parameters
    ----------
    problem : Problem
        With its distance fitted.
    table : Table
        The lookup table; grows by T_s rows each round.
    mixtures : tuple of Mixture
        The pilot's share of the proposals, one for each fold.
    plan, rules : Plan, Rules
        Numbers and parts.
    simulate : callable
        Runs simulations.
    rng : numpy.random.Generator
        Draws arms and points, and what a partitioner draws.
    stop : callable
        Asked after every block whether to end.
    """
    update_denominators(table, mixtures, 0)
    epsilon = first = rules.schedule.first(table.distance)
    s = 1  # line 1
    boxes: tuple[Boxes | None, ...] = (None,) * plan.n_folds
    pilot_epsilons = (first, first, first)
    folds = _new_folds(problem, table, plan, rules, mixtures, boxes, pilot_epsilons, rng,
                       whole=not plan.from_pilot)  # fmt: skip
    while not _done(table, plan, s, stop):  # line 2
        begin = len(table)
        interrupted = False
        n_accepted = 0
        try:
            n_accepted = inner_loop(  # line 3
                problem,
                table,
                folds,
                epsilon,
                policy=rules.policy,
                simulate=simulate,
                quota=plan.quota,
                budget=plan.n_simulations - begin,
                block=plan.block,
                round_index=s,
                rng=rng,
                stop=stop,
            )
        except KeyboardInterrupt:  # what was simulated before Ctrl-C is a valid, shorter round
            interrupted = True
            n_accepted = int(np.count_nonzero(table.distance[begin:] < epsilon))
        mixtures = tuple(game.mixture_so_far() for game in folds)
        update_denominators(table, mixtures, begin)
        yield Round(
            index=s,
            epsilon=epsilon,
            partitions=tuple(game.partition for game in folds),
            arms=tuple(game.beliefs.arms() for game in folds),
            mixtures=mixtures,
            first=begin,
            last=len(table),
            n_accepted=n_accepted,
            ess=effective_sample_size(mixture_weights(table)[table.distance < epsilon]),
            rng_state=dict(rng.bit_generator.state),
            interrupted=interrupted,
        )
        if interrupted or _done(table, plan, s + 1, stop):
            return
        s += 1  # line 4
        last = epsilon
        epsilon = _lower(rules.schedule, table, begin, last)  # line 10
        boxes = tuple(game.partition.boxes for game in folds)
        epsilons = (first, last, epsilon)
        folds = _new_folds(problem, table, plan, rules, mixtures, boxes, epsilons, rng)


def _done(table: Table, plan: Plan, s: int, stop: Callable[[], bool]) -> bool:
    rounds_left = plan.max_rounds is None or s <= plan.max_rounds
    return len(table) >= plan.n_simulations or not rounds_left or stop()


def _new_folds(
    problem: Problem,
    table: Table,
    plan: Plan,
    rules: Rules,
    mixtures: tuple[Mixture, ...],
    boxes: tuple[Boxes | None, ...],
    epsilons: tuple[float, float, float],
    rng: np.random.Generator,
    *,
    whole: bool = False,
) -> list[Fold]:
    """Lines 5 to 9 for each fold, from the rows that teach it."""
    first, last, epsilon = epsilons
    at = last if plan.relabel == "last" else epsilon
    folds = []
    for f in range(plan.n_folds):
        rows = _teaching_rows(table, plan, f)  # line 5
        cube, distance = table.cube[rows], table.distance[rows]
        weight = mixture_weights(table)[rows]
        new = (  # line 6
            Boxes.whole(problem.d)
            if whole
            else rules.partitioner.partition(cube, distance, at, boxes[f], rng)
        )
        partition = problem.measure(new)
        beliefs = rules.beliefs.start(  # lines 7 to 9
            partition,
            new.locate(cube),
            distance,
            weight,
            epsilon=epsilon,
            first_epsilon=first,
            count_epsilon=at,
        )
        folds.append(Fold(partition, beliefs, mixtures[f]))
    return folds


def _teaching_rows(table: Table, plan: Plan, f: int) -> BoolArray:
    """Rows that fold f may learn from: those of the other folds, in the window."""
    others = np.ones(len(table), dtype=bool) if plan.n_folds == 1 else table.fold != f
    if plan.window == "rolling":
        others &= table.round == table.round[-1]
    return others


def _lower(schedule: Schedule, table: Table, begin: int, epsilon: float) -> float:
    """Line 10: ε_s ← g(ε_{s-1}); the same ε again when there is no lower one."""
    accepted = begin + np.flatnonzero(table.distance[begin:] < epsilon)
    weight = mixture_weights(table)[accepted]
    lower = schedule.next(epsilon, table.distance[accepted], weight)
    return epsilon if lower is None else lower
