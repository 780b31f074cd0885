"""Which code made which simulations of a run: what is remembered when it changes on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Version:
    """A piece of the user's code from a simulation on."""

    at: int  #: simulations that were made before it came
    name: str
    fingerprint: str


#: Of each piece of the user's code, the first version and those that came after it.
Versions = Mapping[str, tuple[Version, ...]]
NOTHING = Version(0, "nothing", "")


def continued(then: Versions, now: Versions, at: int) -> Versions:
    """Return the versions of a run that goes on with the code of today after `at` simulations."""
    return {
        what: _with(then.get(what, (NOTHING,)), now.get(what, (NOTHING,))[-1], at)
        for what in sorted({*then, *now})
    }


def _with(versions: tuple[Version, ...], now: Version, at: int) -> tuple[Version, ...]:
    used = tuple(v for v in versions if v.at < at)  # the others made no simulation
    if used and used[-1].fingerprint == now.fingerprint:
        return used
    return (*used, Version(at if used else 0, now.name, now.fingerprint))


def changes(code: Versions, n: int) -> tuple[str, ...]:
    """Return a sentence for each change before simulation n."""
    return tuple(
        f"The {what} has changed after {after.at} simulations ({_named(before, after, 'since')}). "
        "What was simulated before is kept as it is, and counts like what the new code makes. If "
        "the change matters, start a new run."
        for what, versions in code.items()
        for before, after in pairwise(versions)
        if after.at < n
    )


def unknown(then: Versions, now: Versions) -> tuple[str, ...]:
    """Return a sentence for each piece of today's code that made nothing of a run."""
    found = []
    for what in sorted({*then, *now}):
        before, after = then.get(what, (NOTHING,)), now.get(what, (NOTHING,))[-1]
        if after.fingerprint not in {version.fingerprint for version in before}:
            found.append(
                f"The {what} has changed since the run was made "
                f"({_named(before[-1], after, 'now')}). What was simulated is kept as it is. If "
                "the change matters, start a new run."
            )
    return tuple(found)


def _named(before: Version, after: Version, when: str) -> str:
    if before.name == after.name:
        return f"it is {before.name}"
    return f"it was {before.name}, and is {after.name} {when}"
