"""Algorithm 2: the outer loop, shared by ABC-Tree and MAP-Tree.

A generator of `Round`s.  A store, a progress bar and a stopping rule are its consumers.

    Paper differs: rewards are counted at the tolerance that is played next, not at the last one
    (``plan.relabel``); the beliefs have a prior (`BeliefRule`); the first partition may be cut from
    the pilot (``plan.from_pilot``); after the last round no partition is made that nobody plays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from abctree.data import (
    Boxes,
    Mixture,
    Round,
    effective_sample_size,
    mixture_weights,
    update_denominators,
)
from abctree.protocols import LocatingPartitioner
from abctree.tree.adaptive import Tolerances, rows_to_read, with_sources
from abctree.tree.fold import Fold
from abctree.tree.game import Game
from abctree.tree.inner_loop import inner_loop
from abctree.tree.model_weights import model_weights
from abctree.tree.partitioners.soft_tree import SoftTree
from abctree.types import FloatArray, IntArray


def outer_loop(game: Game, mixtures: tuple[Mixture, ...]) -> Iterator[Round]:
    """Rounds of ABC-Tree until the budget is spent.

    The table of the game holds the pilot's rows, whose share of the proposals each fold has in its
    mixture.
    """
    update_denominators(game.table, mixtures, 0)
    first = game.rules.schedule.first(game.table.distance)
    epsilon = Tolerances(first, first, first)
    s = 1  # line 1
    folds = (
        _cut_folds(game, mixtures, [None] * game.plan.n_folds, epsilon)
        if game.plan.from_pilot
        else _whole_folds(game, mixtures, epsilon)
    )
    while not _is_over(game, s):  # line 2
        played = _play_round(game, folds, s, epsilon.now)  # line 3
        yield played
        s += 1  # line 4
        if played.interrupted or _is_over(game, s):
            return
        current = [fold.partition.boxes for fold in folds]
        epsilon = _lowered(game, epsilon, played)  # line 10
        folds = _cut_folds(game, played.mixtures, current, epsilon)  # lines 5 to 9


def _is_over(game: Game, s: int) -> bool:
    most = game.plan.max_rounds
    spent = len(game.table) >= game.plan.n_simulations
    return spent or (most is not None and s > most) or game.stop()


def _play_round(game: Game, folds: Sequence[Fold], s: int, epsilon: float) -> Round:
    """Line 3, and what the round leaves behind."""
    table = game.table
    begin = len(table)
    interrupted = False
    try:
        inner_loop(game, folds, epsilon, s)
    except KeyboardInterrupt:
        interrupted = True  # what was simulated before is a valid, shorter round
    mixtures = tuple(fold.mixture_so_far() for fold in folds)
    update_denominators(table, mixtures, begin, game.each)
    return Round(
        index=s,
        epsilon=epsilon,
        partitions=tuple(fold.partition for fold in folds),
        arms=tuple(fold.beliefs.arms() for fold in folds),
        mixtures=mixtures,
        first=begin,
        last=len(table),
        n_accepted=int(np.count_nonzero(table.distance[begin:] < epsilon)),
        ess=effective_sample_size(mixture_weights(table, table.distance < epsilon)),
        rng_state=dict(game.rng.bit_generator.state),
        interrupted=interrupted,
    )


def _whole_folds(game: Game, mixtures: Sequence[Mixture], epsilon: Tolerances) -> tuple[Fold, ...]:
    """Line 1: Ω^1 = {Θ} in every fold."""
    whole, weight = Boxes.whole(game.problem.d), mixture_weights(game.table)
    folds = []
    for f, mixture in enumerate(mixtures):
        rows = _teachers(game, f)
        arm: IntArray = np.zeros(len(rows), dtype=np.int32)
        folds.append(_new_fold(game, whole, mixture, epsilon, rows, arm, weight[rows]))
    return tuple(folds)


def _cut_folds(
    game: Game,
    mixtures: Sequence[Mixture],
    current: Sequence[Boxes | None],
    epsilon: Tolerances,
) -> tuple[Fold, ...]:
    """Lines 5 to 9 for each fold, from the rows that teach it."""
    table, plan, partitioner = game.table, game.plan, game.rules.partitioner

    def cut(f: int) -> tuple[Boxes, IntArray]:
        rows, label_epsilon = _teachers(game, f), _label_epsilon(game, epsilon)  # line 5
        if type(partitioner) is SoftTree:  # line 6
            return partitioner.of_rows(table.cube, table.distance, rows, label_epsilon)
        cube = table.cube[rows]
        given = cube, table.distance[rows], label_epsilon, current[f], game.rng
        if isinstance(partitioner, LocatingPartitioner):
            return partitioner.partition_and_locate(*given)
        boxes = partitioner.partition(*given)
        return boxes, boxes.locate(cube)

    # Others may draw; and each thread keeps 20 bytes a row.
    each = game.each if table.is_in_memory and type(partitioner) is SoftTree else map
    folds: list[Fold] = []
    row_box: list[IntArray] = []
    read = rows_to_read(game)
    for f, (boxes, arm) in enumerate(each(cut, range(len(mixtures)))):
        rows = _teachers(game, f)
        # Weights are made where they are needed, and not kept: they are as long as the table.
        given = boxes, mixtures[f], epsilon, rows, arm
        folds.append(_new_fold(game, *given, mixture_weights(table, rows)))
        if plan.proposal != ("boxes",):
            box: IntArray = np.full(len(table), -1, dtype=np.int32)
            box[rows] = arm
            row_box.append(box[read])
    if plan.proposal == ("boxes",):
        return tuple(folds)
    return with_sources(game, folds, read, row_box, partial(_teachers, game), epsilon)


def _new_fold(
    game: Game,
    boxes: Boxes,
    mixture: Mixture,
    epsilon: Tolerances,
    rows: IntArray,
    arm: IntArray,
    weight: FloatArray,
) -> Fold:
    """Lines 7 to 9: beliefs on a new partition from past rows, in the boxes `arm`, with weights."""
    partition = game.problem.region.measure(boxes)
    beliefs = game.rules.beliefs.start(
        partition,
        arm,
        game.table.distance[rows],
        weight,
        epsilon=epsilon.now,
        first_epsilon=epsilon.first,
        count_epsilon=_label_epsilon(game, epsilon),
    )
    return Fold(partition, beliefs, mixture, model_weights(game, rows, epsilon.now))


def _label_epsilon(game: Game, epsilon: Tolerances) -> float:
    """The tolerance at which the past is relabelled."""
    return epsilon.last if game.plan.relabel == "last" else epsilon.now


def _teachers(game: Game, f: int) -> IntArray:
    """Rows that fold f may learn from: those of the other folds, in the window."""
    table, plan = game.table, game.plan
    others = np.ones(len(table), dtype=bool) if plan.n_folds == 1 else table.fold != f
    if plan.window == "rolling":
        others &= table.round == table.round[-1]
    return others.nonzero()[0].astype(np.int32)


def _lowered(game: Game, epsilon: Tolerances, played: Round) -> Tolerances:
    """Line 10: ε_s ← g(ε_{s-1}); the same ε again when there is no lower one.

    Paper differs: a pooled schedule looks at all rows, and may raise ε again.
    """
    table, schedule, pooled = game.table, game.rules.schedule, game.rules.pooled
    weight = mixture_weights(table)
    if pooled is not None:
        budget = game.plan.goal(len(table))
        now = pooled.pooled(epsilon.now, epsilon.first, table.distance, weight, budget)
        return Tolerances(epsilon.first, epsilon.now, now)
    distance = table.distance[played.first : played.last]
    accepted = played.first + np.flatnonzero(distance < epsilon.now)
    lower = schedule.next(epsilon.now, table.distance[accepted], weight[accepted])
    return Tolerances(epsilon.first, epsilon.now, epsilon.now if lower is None else lower)
