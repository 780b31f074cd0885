"""`RunSpec`: what makes a run, beside its problem and the answers of its executor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from abctree.answers.failures import FailurePolicy, as_failure_policy
from abctree.data import Plan
from abctree.errors import ParameterError, wrong
from abctree.method import METHODS
from abctree.numbers import checked_count, checked_rng
from abctree.problem import Problem
from abctree.problem.models import Models
from abctree.proposals.coordinates import coordinates
from abctree.protocols import (
    BeliefRule,
    ModelUtility,
    Partitioner,
    Policy,
    PooledSchedule,
    Schedule,
    StoppingRule,
    Utility,
)
from abctree.running.executors import workers_of
from abctree.running.fingerprint import Versions
from abctree.running.settings import LARGEST_CHUNK, MANY_WORKERS, SETTINGS, resolve
from abctree.running.stopping import Rounds, as_stopping_rules
from abctree.tree.beliefs import Counts
from abctree.tree.partitioners import Cart, Dyadic
from abctree.tree.policies import T3C, Thompson, TopTwo
from abctree.tree.schedules import Geometric
from abctree.types import Named, NamedDict, RNGLike

StopLike = StoppingRule | Iterable[StoppingRule] | Mapping[str, float] | None
ScheduleLike = str | float | Sequence[float] | Schedule
UtilityLike = str | Utility
PartitionerLike = str | Partitioner
BeliefsLike = str | BeliefRule
PolicyLike = str | Policy

#: `preset="published"`: Algorithms 1 to 4 as the paper prints and runs them.  B is that of its
#: Section 4, where boxes are those of CART; the dyadic ones are of its Figure 7, which has no B.
_PUBLISHED = {
    "schedule": Geometric(0.9),
    "beliefs": Counts(0.0, 0.0),
    "quota": 1000,
    "block": 1,
    "lookahead": 0,
    "defensive": 0.0,
    "relabel": "last",
    "from_pilot": False,
}
PRESETS: Mapping[str, Mapping[str, Named]] = {
    "published": {
        "abc_tree": {
            **_PUBLISHED,
            "proposal": "boxes",
            "partitioner": Cart(max_leaves=1000, min_leaf=10),
            "utility": "omega1",
            "n_folds": 1,
            "weights": "draw",
        },
        "map_tree": {
            **_PUBLISHED,
            "partitioner": Dyadic(n_splits=3),
            "policy": TopTwo(0.5, n_draws=1),  # nobody weights its draws
        },
    }
}
#: Share of pulls over the whole peak of one or two parameters, of a policy that is given to
#: `map_tree` by name; of more, boxes are coarse, and it would leave the peak.
_SPREAD = 0.3
#: Summaries with more numbers than this are not kept in the table unless asked for.
_KEEP_UP_TO = 64
#: Most prior draws of the pilot of `rejection`.
_PILOT = 10_000


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
class RunSpec:
    """What makes a run, beside its problem and the answers of its executor."""

    method: str  #: the function of abctree that was called
    settings: Named  #: by name, resolved; all that its loop and its plan need
    seeds: Seeds
    summary_size: int  #: columns of the table's summaries
    summaries_in_store: bool = False  #: whether they are read from there when they are asked for
    stop: tuple[StoppingRule, ...] = ()
    on_failure: FailurePolicy = field(default_factory=FailurePolicy)
    code: Versions = field(default_factory=dict, compare=False)  #: of a run that goes on

    @classmethod
    def of(cls, method: str, given: Named) -> RunSpec:
        """The spec of a call, from the arguments of the method by name, `problem` among them."""
        problem = given["problem"]
        check_problem_given(problem)
        settings = complete(method, problem.d, _with_what_it_asks_for(method, problem, given))
        keep, size = given.get("keep_summaries"), int(np.prod(problem.shape))
        if keep is not None:
            keep = SETTINGS["keep_summaries"].kind.read("keep_summaries", keep)
        if keep == "store" and not METHODS[method].keeps_all:
            raise ParameterError(
                f'`keep_summaries` must be True or False for {method}, but got "store": memory '
                "holds the closest simulations only."
            )
        stop = as_stopping_rules(given.get("stop"))
        if isinstance(settings.get("utility"), ModelUtility) and not isinstance(problem, Models):
            raise wrong(
                "utility", "be one for a single problem", repr(settings["utility"]),
                "It shares simulations between models: give abctree.Models.",
            )  # fmt: skip
        if METHODS[method].seeks_mode and isinstance(problem, Models):
            raise wrong(
                "problem", "be one model for a mode", "abctree.Models",
                "Heights over other parameters cannot be compared: seek the mode of each.",
            )  # fmt: skip
        if method == "smc":
            coordinates(problem.prior, settings["space"])  # raises if it has no density there
        if not METHODS[method].has_rounds and any(isinstance(rule, Rounds) for rule in stop):
            raise ParameterError(
                f'`stop` must not limit "rounds": {method} has none. Limit "seconds".'
            )
        return cls(
            method,
            settings,
            Seeds.of(given.get("rng")),
            size if keep or (keep is None and size <= _KEEP_UP_TO) else 0,
            keep == "store",
            stop,
            as_failure_policy(given.get("on_failure", "reject")),
        )

    @property
    def theta_follows(self) -> bool:
        """Whether theta is computed from the cube when it is asked for: memory is to be saved."""
        return self.summaries_in_store and METHODS[self.method].cuts_boxes

    @property
    def plan(self) -> Plan:
        """The numbers among the settings."""
        s = self.settings
        numbers = {f.name: s[f.name] for f in fields(Plan) if f.name in s}
        return Plan(**{**numbers, "block": s["block"] or 0})

    def extended(self, n_simulations: int | None) -> RunSpec:
        """The spec with a larger budget; blocks end where those of the former one did."""
        former = self.plan.n_simulations
        if n_simulations is None or n_simulations == former:
            return self
        if checked_count("n_simulations", n_simulations) < former:
            raise ParameterError(
                f"`n_simulations` must be at least the budget of the run, {former}, but got "
                f"{n_simulations}. What is simulated cannot be taken back; to stop earlier use "
                "`stop`."
            )
        more = {
            "n_simulations": int(n_simulations),
            "milestones": (*self.plan.milestones, former),
        }
        return replace(self, settings={**self.settings, **more})


def _with_what_it_asks_for(method: str, problem: Problem, given: Named) -> Named:
    """The arguments, with what follows from the problem where it is not said."""
    n = SETTINGS["n_simulations"].kind.read("n_simulations", given["n_simulations"])
    asked: NamedDict = {"n_pilot": problem.length_of_pilot(n)}
    if method == "rejection" and problem.measurement.vectorized:
        asked["chunk"] = max(1, min(LARGEST_CHUNK, n // 10))  # one costs as much as 1000 rows
    more = {name: value for name, value in asked.items() if given.get(name) is None and value}
    return {**given, **more}


def check_problem_given(problem: object) -> None:
    """Raise `ParameterError` unless it is a `Problem`."""
    if not isinstance(problem, Problem):
        raise wrong("problem", "be an abctree.Problem", repr(problem))


def complete(method: str, d: int, given: Named) -> NamedDict:
    """Return the settings of a run: resolved, and with what follows from several of them."""
    preset = given.get("preset")
    if preset is not None:
        SETTINGS["preset"].kind.read("preset", preset)
    said = {
        **(PRESETS[preset][method] if preset else {}),
        **{name: value for name, value in given.items() if value is not None},
    }
    s = resolve(method, d, said)
    if method == "rejection":
        return {**s, **_of_rejection(s, said)}
    if method == "smc":
        return {**s, **_of_smc(s)}
    if method == "abc_tree" and "lookahead" not in said:
        s["lookahead"] = int(workers_of(said.get("executor")) > MANY_WORKERS)
    return {**s, **_of_tree(method, d, s, said)}


def _of_rejection(s: Named, said: Named) -> NamedDict:
    n = s["n_simulations"]
    return {
        "answers": "keep" in said,  # whether those that are kept are the answer
        "n_pilot": min(n, said.get("n_pilot") or max(100, min(_PILOT, n // 50))),
        "quota": s["keep"] or n,
        "block": s["chunk"],
        "n_folds": 1,
        "defensive": 0.0,
        "weights": "mixture",
    }


def _of_smc(s: Named) -> NamedDict:
    return {
        "n_pilot": min(s["n_simulations"], s["n_pilot"]),
        "quota": s["n_particles"],
        "n_folds": 1,
        "defensive": 0.0,
    }


def _of_tree(method: str, d: int, s: Named, said: Named) -> NamedDict:
    n = checked_count("n_simulations", s["n_simulations"], least=2)
    # A short budget is all pilot but for one simulation; every fold needs a row to learn from.
    n_pilot = min(n - 1, s["n_pilot"])
    n_folds = min(s["n_folds"], n_pilot)
    policy = s["policy"]
    if isinstance(policy, Thompson | TopTwo | T3C) and isinstance(said.get("policy", ""), str):
        spread = _SPREAD / max(1.0, 0.5 * d) if method == "map_tree" else 0.0
        policy = replace(policy, defensive=s["defensive"], spread=spread)
    proposal = s.get("proposal", ("boxes",))
    if len(proposal) > 1:
        _check_beside(proposal, policy, n_folds)
    grows = "quota" not in said and isinstance(s["schedule"], PooledSchedule)
    return {
        "n_pilot": n_pilot,
        "n_folds": n_folds,
        "policy": policy,
        "grows": grows,
        "utility": s.get("utility") if policy is None else None,
        "from_pilot": said.get("from_pilot", True),
        # Those of one fold are biased: its proposals have learned from the draws that they weight.
        "weights": said.get(
            "weights", "draw" if method == "map_tree" and n_folds == 1 else "mixture"
        ),
    }


def _check_beside(proposal: tuple[str, ...], policy: Policy | None, n_folds: int) -> None:
    if policy is not None:
        raise ParameterError(
            f'`proposal` must be "boxes" with a `policy` of your own, but got {proposal}: what '
            "draws beside boxes is weighed against a utility's optimal proposal."
        )
    if n_folds < 2:
        raise ParameterError(
            f"`n_folds` and `n_pilot` must be at least 2 with `proposal={proposal}`, but there are "
            f"{n_folds} folds: draws would be weighted by proposals that they have shaped."
        )
