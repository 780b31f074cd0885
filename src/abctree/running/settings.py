"""The settings of all methods, each said once: its rule, its defaults, a line about it.

What a call resolves to, errors, options of the command line, keys of its files, the manifest of a
run and the table in docs/explanation/defaults.md are made from `SETTINGS`.  Nothing heavy is
imported before a value is read, because ``abctree --help`` is made from it, too.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from abctree.errors import wrong
from abctree.method import METHODS

if TYPE_CHECKING:  # it imports NumPy
    from abctree.types import Named, NamedDict

# What a value may be ---------------------------------------------------------------------------


class Kind(Protocol):
    """The rule of a setting."""

    @property
    def words(self) -> str:
        """What a value must be, as an error and the documents say it."""

    def read(self, name: str, value: object) -> Any:
        """Return the value as the method uses it; a `ParameterError` if it breaks the rule."""


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 1

    @property
    def words(self) -> str:
        """The rule."""
        return f"a whole number of at least {self.least}"

    def read(self, name: str, value: object) -> int:
        """Return it as an int."""
        from abctree.numbers import checked_count

        return checked_count(name, value, self.least)


@dataclass(frozen=True)
class Real:
    """A number of [least, below)."""

    least: float = 0.0
    below: float = math.inf

    @property
    def words(self) -> str:
        """The rule."""
        if math.isinf(self.below):
            return f"at least {self.least:g}"
        return f"in [{self.least:g}, {self.below:g})"

    def read(self, name: str, value: object) -> float:
        """Return it as a float."""
        from abctree.numbers import checked_number

        number = checked_number(name, value)
        if not self.least <= number < self.below:
            raise wrong(name, f"be {self.words}", value)
        return number


@dataclass(frozen=True)
class Choice:
    """One of some names."""

    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """The rule."""
        return _one_of(f'"{name}"' for name in self.names)

    def read(self, name: str, value: object) -> str:
        """Return it as it is."""
        if not isinstance(value, str) or value not in self.names:
            raise wrong(name, f"be {self.words}", repr(value))
        return value


@dataclass(frozen=True)
class Names:
    """Some of several names, the first among them; one name may stand for them."""

    names: tuple[str, ...]
    everything: str  #: the name that stands for all of them

    @property
    def words(self) -> str:
        """The rule."""
        first, *others = self.names
        some = _one_of(f'"{name}"' for name in others)
        return f'"{first}", "{self.everything}", or a list of "{first}" and {some}'

    def read(self, name: str, value: object) -> tuple[str, ...]:
        """Return those that are named, in their order."""
        short = {self.names[0]: self.names[:1], self.everything: self.names}
        some = short.get(value, ()) if isinstance(value, str) else value
        if (
            not isinstance(some, list | tuple)
            or self.names[0] not in some
            or any(one not in self.names for one in some)  # which may be a dict, of no set
        ):
            raise wrong(name, f"be {self.words}", repr(value))
        return tuple(known for known in self.names if known in some)


@dataclass(frozen=True)
class Flag:
    """Yes or no, or one of some names."""

    names: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The rule."""
        return _one_of(["True", "False", *(f'"{name}"' for name in self.names)])

    def read(self, name: str, value: object) -> bool | str:
        """Return it as a bool, or the name as it is."""
        import numpy as np

        if isinstance(value, str) and value in self.names:
            return value
        if not isinstance(value, bool | np.bool_):
            raise wrong(name, f"be {self.words}", repr(value))
        return bool(value)


@dataclass(frozen=True)
class Part:
    """An object, or what is short for it."""

    reader: str  #: module and function of abctree that make the object
    names: tuple[str, ...] = ()
    others: tuple[str, ...] = ("an object",)  #: in words, what it may be beside a name
    numbers: bool = False  #: whether a number or a list of numbers is short for one, too

    @property
    def words(self) -> str:
        """The rule."""
        return _one_of([*(f'"{name}"' for name in self.names), *self.others])

    @property
    def room(self) -> str:
        """The module that has the parts of this kind."""
        return f"abctree.{self.reader.partition(':')[0]}"

    def read(self, name: str, value: object) -> Any:  # noqa: ARG002 - the reader knows its name
        """Return the object."""
        return getattr(importlib.import_module(self.room), self.reader.partition(":")[2])(value)


def _one_of(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


# Defaults --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Derived:
    """A default that follows from d and from the settings above it in the table."""

    text: str
    value: Callable[[int, Named], Any]


def share(parts: int, least: int, most: int | None = None) -> Derived:
    """Return the default T / parts, between two numbers."""
    text = f"T/{parts}" if least == 1 else f"max({least}, T/{parts})"

    def value(_: int, s: Named) -> int:
        n: int = max(least, s["n_simulations"] // parts)
        return n if most is None else min(most, n)

    return Derived(text if most is None else f"min({most}, {text})", value)


def _unsaid(text: str) -> Derived:
    """What a method does without the setting, in words."""
    return Derived(text, lambda _, __: None)


def _required(_: int, __: Named) -> Any:
    raise wrong("n_simulations", "be a whole number", None)


def _utility(d: int, _: Named) -> Any:
    from abctree.tree.utilities import EffectiveSampleSize

    return EffectiveSampleSize(0.5 if d <= 2 else 0.65)


def _beliefs(_: int, s: Named) -> str:
    """A grid has no hierarchy worth following: its cells are flat arms."""
    return "global-rate" if _is_grid(s) else "multi-level"


def _map_beliefs(_: int, s: Named) -> str:
    """A grid is the paper's finite parameter space: flat arms with a prior of one each."""
    return "counts" if _is_grid(s) else "limited-shrinkage"


def _proposal(_: int, s: Named) -> str:
    """More than boxes, where draws that shape proposals are others than those weighted by them."""
    from abctree.tree.utilities import EffectiveSampleSize, ModelProbabilities

    n_folds = min(s["n_folds"], s["n_pilot"], s["n_simulations"] - 1)
    known = isinstance(s["utility"], EffectiveSampleSize | ModelProbabilities)
    plain = s["policy"] is None and known
    return "adaptive" if plain and n_folds > 1 and not _is_grid(s) else "boxes"


def _schedule(_: int, s: Named) -> str:
    """A median looks at one round, whose draws come from one proposal."""
    return "median" if s["proposal"] == ("boxes",) else "pooled"


def _is_grid(s: Named) -> bool:
    from abctree.tree.partitioners import Grid

    return isinstance(s["partitioner"], Grid)


#: Simulations that rejection begins at once, at most.
LARGEST_CHUNK = 16_384
_SHARE = share(100, 1, LARGEST_CHUNK)
_CHUNK = replace(_SHARE, text=f"{_SHARE.text}; T/10 if vectorised")
#: With more workers than this a block is begun ahead: 32 would wait a tenth of the time at T = 1e5,
#: and the gain over rejection is 2 ± 3 % lower (benchmarks/cluster.py).
MANY_WORKERS = 16
#: Of `rejection`: up to so many simulations all are kept, and of more the closest so many.
_KEEP_ALL, _KEEP = 1_000_000, 100_000


def _keep(_: int, s: Named) -> int | None:
    return None if s["n_simulations"] <= _KEEP_ALL else _KEEP


# The table -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """An argument that some methods have."""

    name: str
    kind: Kind
    about: str
    defaults: Named  #: by method; None is what the method says of it


def _row(name: str, kind: Kind, about: str, **defaults: Any) -> Setting:
    return Setting(name, kind, about, defaults)


def _in_all(name: str, kind: Kind, about: str, default: Any = None) -> Setting:
    return Setting(name, kind, about, dict.fromkeys(METHODS, default))


_PARTITIONER = Part(
    "tree.partitioners:as_partitioner", ("soft", "dyadic", "cart", "bart", "dynamic", "peaks")
)
_UTILITY = Part("tree.utilities:as_utility", ("ess", "omega1", "omega2", "omega3", "models"))
_SCHEDULE = Part(
    "tree.schedules:as_schedule",
    ("median", "adaptive", "geometric", "pooled"),
    ("a factor such as 0.9", "a decreasing list", "an object"),
    numbers=True,
)
_BELIEFS = Part(
    "tree.beliefs:as_beliefs", ("counts", "global-rate", "multi-level", "limited-shrinkage")
)
_POLICY = Part("tree.policies:as_policy", ("top-two", "thompson", "t3c"))
_KERNEL = Part(
    "proposals.perturbations:as_perturbation",
    ("twice-covariance", "componentwise", "silverman", "local"),
)

#: What steers each method, in the order in which it is resolved.
_OF_METHODS = (
    Setting(
        "n_simulations",
        Whole(),
        "T, the budget of simulations in all.",
        {**dict.fromkeys(METHODS, Derived("required", _required)), "map_tree": 20_000},
    ),
    _row("utility", _UTILITY, "What a proposal is optimised for.",
         abc_tree=Derived('"ess", exponent 0.5 for d ≤ 2, else 0.65', _utility)),
    _row("policy", _POLICY, "Bandit that seeks the best box; abc-tree: instead of the utility.",
         abc_tree=_unsaid("the utility's proposal"), map_tree="top-two"),
    _row("partitioner", _PARTITIONER, "Rule that cuts the parameter space.",
         abc_tree="soft", map_tree="peaks"),
    _row("beliefs", _BELIEFS, "How often the arms of a new partition are believed to be accepted.",
         abc_tree=Derived('"multi-level"; "global-rate" on a grid', _beliefs),
         map_tree=Derived('"limited-shrinkage"; "counts" on a grid', _map_beliefs)),
    _row("n_particles", Whole(), "Accepted draws of a population.", smc=share(50, 20, 1000)),
    _row("n_pilot", Whole(), "Prior draws of the pilot.",
         abc_tree=share(50, 100), map_tree=share(5, 100),
         smc=Derived("max(100, n_particles)", lambda _, s: max(100, s["n_particles"]))),
    _row("n_folds", Whole(), "Parts of the table that are learned from separately.",
         abc_tree=5, map_tree=1),
    _row("proposal", Names(("boxes", "thinned", "kernels"), "adaptive"), "What draws points.",
         abc_tree=Derived('"adaptive"; "boxes" on a grid, in one fold, with a policy or a utility '
                          'other than "ess" and "models"', _proposal)),
    _row("keep", Whole(), "Keep the closest N simulations, and answer by them.",
         rejection=Derived("all up to 10⁶, of more 10⁵", _keep)),
    _row("kernel", _KERNEL, "Steps from one population to the next.", smc="twice-covariance"),
    _row("schedule", _SCHEDULE, "How the tolerance falls: median, adaptive, a factor such as 0.9, "
         "or a list such as 2,1,0.5.",
         abc_tree=Derived('"pooled"; "median" if only boxes propose', _schedule),
         map_tree="median", smc="median"),
    _row("weights", Choice(("population", "mixture")), "Who answers: the last population, or all.",
         smc="population"),
    _row("min_ess", Real(), "Least effective sample size of a population.", smc=0.0),
    _row("space", Choice(("theta", "cube")), "Where steps are made.",
         smc=_unsaid('"theta"; "cube" where the prior has no density')),
    _row("quota", Whole(), "Acceptances that end a round.",
         abc_tree=share(100, 20), map_tree=share(10, 20)),
    _row("window", Choice(("extended", "rolling")),
         "Learn from all simulations, or the last round's.",
         abc_tree="extended", map_tree="extended"),
    _row("relabel", Choice(("next", "last")), "Tolerance at which the table is counted.",
         abc_tree="next", map_tree="next"),
    _row("block", Whole(), "Simulations between two updates of what is believed.",
         abc_tree=share(50, 20), map_tree=share(100, 20), smc=_unsaid("as many as are missing")),
    _row("chunk", Whole(), "Simulations begun at once.", rejection=_CHUNK),
    _row("lookahead", Whole(0), "Blocks begun before the oldest is back.",
         abc_tree=Derived(f"0; 1 for more than {MANY_WORKERS} workers", lambda _, __: 0),
         map_tree=0, rejection=1),
    _row("defensive", Real(0.0, 1.0), "Share of the prior in every proposal.",
         abc_tree=0.05, map_tree=0.05),
    _row("max_rounds", Whole(), "Most rounds.", abc_tree=None, map_tree=None, smc=None),
)  # fmt: skip
#: What every run has beside.
_OF_RUNS = (
    _row("preset", Choice(("published",)), "The settings of the paper.",
         abc_tree=None, map_tree=None),
    _in_all("rng", Whole(0), "Seed of all randomness; in Python also a Generator.",
            _unsaid("random")),
    _in_all("executor", Part("running.executors:as_executor",
                             ("serial", "threads", "processes", "ray"),
                             ("a number of workers", "an object")), "Who runs the simulator.",
            _unsaid("in this process, in threads if it releases the lock")),
    _in_all("stop", Part("running.stopping:as_stopping_rules", (),
                         ('a table such as {"seconds": 60, "epsilon": 0.1}', "rules")),
            "Reasons to end before the budget is spent."),
    _in_all("on_failure", Part("answers.failures:as_failure_policy", ("reject", "raise")),
            "Whether a failed simulation counts as rejected, or ends the run.", "reject"),
    _in_all("keep_summaries", Flag(("store",)), "Whether summaries are kept, for regression "
            "adjustment; in the run folder only, for runs longer than memory.",
            _unsaid("up to 64 numbers")),
)  # fmt: skip

#: By name.
SETTINGS: dict[str, Setting] = {row.name: row for row in (*_OF_METHODS, *_OF_RUNS)}
#: Arguments of every method that are no settings.
NO_SETTINGS = ("problem", "store", "progress")


def names_of(method: str) -> tuple[str, ...]:
    """Return the names of the settings that a method has."""
    return tuple(name for name, row in SETTINGS.items() if method in row.defaults)


def resolve(method: str, d: int, given: Named) -> NamedDict:
    """Return the settings of a method: defaults, where `given` has none or None."""
    s: NamedDict = {}
    for row in _OF_METHODS:
        if method in row.defaults:
            value = given.get(row.name)
            if value is None:
                default = row.defaults[method]
                value = default.value(d, s) if isinstance(default, Derived) else default
            s[row.name] = None if value is None else row.kind.read(row.name, value)
    return s
