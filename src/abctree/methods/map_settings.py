"""Settings of `map_tree`: from what a user says to a `Plan` and `Rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from abctree.errors import ParameterError
from abctree.numbers import checked_count, checked_number
from abctree.running.settings import Settings, resolve
from abctree.tree.beliefs import Counts, FairHearing
from abctree.tree.partitioners import Dyadic, Grid, Peaks, as_partitioner
from abctree.tree.policies import T3C, Thompson, TopTwo, as_policy
from abctree.tree.schedules import Geometric

#: `preset="published"`: Algorithms 3 and 4 as the paper prints and runs them.  B is that of its
#: Section 4, where boxes are those of CART; the dyadic ones are of its Figure 7, which has no B.
PUBLISHED: dict[str, Any] = {
    "partitioner": Dyadic(n_splits=3),
    "policy": TopTwo(0.5, n_draws=1),  # nobody weights its draws
    "schedule": Geometric(0.9),
    "beliefs": Counts(0.0, 0.0),
    "quota": 1000,
    "block": 1,
    "defensive": 0.0,
    "relabel": "last",
    "from_pilot": False,
}
#: Share of pulls over the whole peak of one or two parameters, of a policy that is given by name;
#: of more, boxes are coarse, and it would leave the peak.
_SPREAD = 0.3
PRESETS: dict[str, Mapping[str, Any]] = {"published": PUBLISHED}


def resolve_map(
    d: int, n_simulations: int, given: Mapping[str, Any], preset: str | None
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
    said = {k: v for k, v in given.items() if v is not None}
    n = checked_count("n_simulations", n_simulations, least=2)
    s = {**_defaults(n), **(PRESETS[preset] if preset else {}), **said}
    s["partitioner"] = as_partitioner(s["partitioner"])
    s["policy"] = _defended(d, s["policy"], checked_number("defensive", s["defensive"]))
    if "beliefs" not in s:
        # A grid is the paper's finite parameter space: flat arms with a prior of one each.
        s["beliefs"] = Counts(1.0, 1.0) if isinstance(s["partitioner"], Grid) else FairHearing()
    return resolve(d, n, s, None)


def _defaults(n: int) -> dict[str, Any]:
    """The default rule; docs/explanation/map-tree.md says why."""
    return {
        "partitioner": Peaks(),
        "policy": "top-two",
        "schedule": "median",
        "n_folds": 1,
        "n_pilot": max(100, n // 5),
        "quota": max(20, n // 10),
        "block": max(20, n // 100),
        "defensive": 0.05,
    }


def _defended(d: int, spec: Any, defensive: float) -> Any:
    """The policy with shares of prior and posterior draws, if it was given by name."""
    policy = as_policy(spec)
    if isinstance(spec, str) and isinstance(policy, Thompson | TopTwo | T3C):
        return replace(policy, defensive=defensive, spread=_SPREAD / max(1.0, 0.5 * d))
    return policy
