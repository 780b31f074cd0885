"""`Recipe`: what makes a run, beside its problem and the answers of its executor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from abctree.answers.failure_policy import FailurePolicy, as_policy
from abctree.errors import ParameterError
from abctree.numbers import checked_rng
from abctree.problem import Problem
from abctree.protocols import StoppingRule
from abctree.running.settings import Settings
from abctree.running.stopping import as_stopping_rules
from abctree.running.versions import Versions
from abctree.types import RNGLike

StopLike = StoppingRule | Iterable[StoppingRule] | Mapping[str, float] | None

#: Summaries with more numbers than this are not kept in the table unless asked for.
_KEEP_UP_TO = 64


@dataclass(frozen=True)
class Seeds:
    """Where all randomness of a run comes from; with the settings, they are the run."""

    root: int  #: 64-bit seed of the streams of the simulations
    algorithm: tuple[int, ...]  #: entropy of the generator that the algorithm draws from

    @classmethod
    def of(cls, rng: RNGLike) -> Seeds:
        """Seeds from a source of randomness as in SPEC 7; a Generator moves on."""
        source = checked_rng(rng)
        root = int(source.integers(2**64, dtype=np.uint64))
        return cls(root, tuple(source.integers(2**63, size=4).tolist()))


@dataclass(frozen=True)
class Recipe:
    """What makes a run, beside its problem and the answers of its executor."""

    settings: Settings
    seeds: Seeds
    summary_size: int  #: columns of the table's summaries
    stop: tuple[StoppingRule, ...] = ()
    on_failure: FailurePolicy = field(default_factory=FailurePolicy)
    method: str = "abc_tree"  #: the function of abctree that was called
    code: Versions = field(default_factory=dict, compare=False)  #: of a run that goes on

    @classmethod
    def of(
        cls,
        problem: Problem,
        settings: Settings,
        *,
        method: str,
        rng: RNGLike,
        stop: StopLike,
        on_failure: str | FailurePolicy,
        keep_summaries: bool | None,
    ) -> Recipe:
        """The recipe of a call, from the arguments that all methods have.

        Raises
        ------
        ParameterError
            If one of them breaks its rule.
        """
        size = int(np.prod(problem.shape))
        keep = size <= _KEEP_UP_TO if keep_summaries is None else keep_summaries
        return cls(
            settings,
            Seeds.of(rng),
            size if keep else 0,
            as_stopping_rules(stop),
            as_policy(on_failure),
            method,
        )


def check_problem_given(problem: object) -> None:
    """Raise `ParameterError` unless it is a `Problem`."""
    if not isinstance(problem, Problem):
        raise ParameterError(f"`problem` must be an abctree.Problem, but got {problem!r}.")
