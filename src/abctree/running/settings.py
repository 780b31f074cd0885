"""Settings of `abc_tree`: from what a user says to a `Plan` and `Rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from abctree.data import Plan
from abctree.errors import ParameterError
from abctree.numbers import checked_count, checked_number
from abctree.protocols import BeliefRule, Partitioner, Policy, Schedule, Utility
from abctree.tree.beliefs import Counts, GlobalRate, MultiLevel
from abctree.tree.outer_loop import Rules
from abctree.tree.partitioners import Cart, Grid, as_partitioner
from abctree.tree.policies import UtilityProposal
from abctree.tree.schedules import Geometric, as_schedule
from abctree.tree.utilities import EffectiveSampleSize, as_utility

#: `preset="published"`: Algorithms 1 and 2 as the paper prints and runs them.
PUBLISHED: dict[str, Any] = {
    "partitioner": Cart(max_leaves=1000, min_leaf=10),
    "utility": "omega1",
    "schedule": Geometric(0.9),
    "beliefs": Counts(0.0, 0.0),
    "n_folds": 1,
    "quota": 1000,
    "block": 1,
    "defensive": 0.0,
    "relabel": "last",
    "from_pilot": False,
    "weights": "draw",
}
PRESETS: dict[str, Mapping[str, Any]] = {"published": PUBLISHED}


@dataclass(frozen=True)
class Settings:
    """A resolved run: numbers, parts, and how its weights are read by default."""

    plan: Plan
    rules: Any  #: the parts, by name: the dataclass of the method, see `METHODS`
    weights: Literal["mixture", "round", "draw", "population"]


def resolve(
    d: int,
    n_simulations: int,
    given: Mapping[str, Any],
    preset: str | None,
) -> Settings:
    """Defaults, overridden by the preset, overridden by what is not None in `given`.

    Raises
    ------
    ParameterError
        If a value breaks its rule.
    """
    if preset is not None and preset not in PRESETS:
        raise ParameterError(
            f"`preset` must be None or one of {sorted(PRESETS)}, but got {preset!r}."
        )
    n = checked_count("n_simulations", n_simulations, least=2)
    said = {k: v for k, v in given.items() if v is not None}
    s = {**_defaults(d, n), **(PRESETS[preset] if preset else {}), **said}
    plan = _plan(n, s)
    partitioner = as_partitioner(s["partitioner"])
    rules = Rules(
        partitioner=partitioner,
        beliefs=_beliefs(s["beliefs"], partitioner),
        policy=_policy(s["policy"], s["utility"], plan.defensive),
        schedule=as_schedule(s["schedule"]),
    )
    if s["weights"] not in ("mixture", "round", "draw"):
        raise ParameterError(
            f'`weights` must be "mixture", "round" or "draw", but got {s["weights"]!r}.'
        )
    return Settings(plan, rules, s["weights"])


def _defaults(d: int, n: int) -> dict[str, Any]:
    """The default rule; the numbers are from docs/explanation/defaults.md."""
    return {
        "partitioner": "soft",
        "utility": EffectiveSampleSize(0.5 if d <= 2 else 0.65),
        "schedule": "median",
        "beliefs": None,
        "policy": None,
        "n_folds": 5,
        "n_pilot": max(100, n // 50),
        "quota": max(20, n // 100),
        "block": max(20, n // 50),
        "lookahead": 0,
        "window": "extended",
        "relabel": "next",
        "from_pilot": True,
        "defensive": 0.05,
        "kernels": False,
        "max_rounds": None,
        "weights": "mixture",
    }


def _plan(n: int, s: Mapping[str, Any]) -> Plan:
    if s["window"] not in ("extended", "rolling"):
        raise ParameterError(f'`window` must be "extended" or "rolling", but got {s["window"]!r}.')
    if s["relabel"] not in ("next", "last"):
        raise ParameterError(f'`relabel` must be "next" or "last", but got {s["relabel"]!r}.')
    if not 0.0 <= checked_number("defensive", s["defensive"]) < 1.0:
        raise ParameterError(f"`defensive` must be in [0, 1), but got {s['defensive']}.")
    n_folds = checked_count("n_folds", s["n_folds"])
    # A short budget is all pilot but for one simulation; every fold needs a row to learn from.
    n_pilot = min(n - 1, checked_count("n_pilot", s["n_pilot"]))
    n_folds = min(n_folds, n_pilot)
    return Plan(
        n_simulations=n,
        n_pilot=n_pilot,
        quota=checked_count("quota", s["quota"]),
        block=checked_count("block", s["block"]),
        lookahead=checked_count("lookahead", s["lookahead"], least=0),
        n_folds=n_folds,
        window=s["window"],
        relabel=s["relabel"],
        from_pilot=bool(s["from_pilot"]),
        defensive=float(s["defensive"]),
        kernels=_kernels(s, n_folds),
        max_rounds=(
            None if s["max_rounds"] is None else checked_count("max_rounds", s["max_rounds"])
        ),
    )


def _kernels(s: Mapping[str, Any], n_folds: int) -> bool:
    if not isinstance(s["kernels"], bool | np.bool_):
        raise ParameterError(f"`kernels` must be True or False, but got {s['kernels']!r}.")
    if s["kernels"] and s["policy"] is not None:
        raise ParameterError(
            "`kernels` must be False with a `policy` of your own: they propose beside boxes that "
            "are drawn by a utility."
        )
    if s["kernels"] and n_folds < 2:
        raise ParameterError(
            f"`n_folds` and `n_pilot` must be at least 2 with `kernels`, but there are {n_folds} "
            "folds: draws would be weighted by kernels that stand around themselves."
        )
    return bool(s["kernels"])


def _beliefs(spec: BeliefRule | None, partitioner: Partitioner) -> BeliefRule:
    if spec is None:
        # A grid has no hierarchy worth following: its cells are flat arms.
        return GlobalRate() if isinstance(partitioner, Grid) else MultiLevel()
    if not hasattr(spec, "start"):
        raise ParameterError(
            f"`beliefs` must have a method `start(...)`, as abctree.MultiLevel(), but got {spec!r}."
        )
    return spec


def _policy(spec: Policy | None, utility: str | Utility, defensive: float) -> Policy:
    if spec is None:
        return UtilityProposal(as_utility(utility), defensive)
    if not hasattr(spec, "pull"):
        raise ParameterError(
            f"`policy` must have a method `pull(arms, partition, n, rng)`, but got {spec!r}."
        )
    return spec


#: What `abc_tree` accepts as a schedule.
ScheduleLike = str | float | Sequence[float] | Schedule
UtilityLike = str | Utility
PartitionerLike = str | Partitioner
