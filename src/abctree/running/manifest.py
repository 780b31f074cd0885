"""The manifest: what a run is, as JSON, and the run again from it.

Our own parts are written with their fields and made again.  A user's part is a name and a
fingerprint: the code itself is never stored, nothing is imported by name, and nothing is executed
that the user does not pass again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import platform
from collections.abc import Iterator
from dataclasses import asdict, astuple, fields, is_dataclass
from typing import Any

import numpy as np

from abctree.answers.failures import FailurePolicy, as_failure_policy
from abctree.errors import AbctreeError, ParameterError, StoreError, warn
from abctree.method import METHODS
from abctree.problem import Problem
from abctree.problem.by_name import OfArguments, OfNamedTheta
from abctree.problem.distances import FunctionDistance
from abctree.protocols import HasCubeDensity, StoppingRule
from abctree.running.fingerprint import (
    Version,
    Versions,
    continued,
    fingerprint,
    is_ours,
    qualified_name,
    unknown,
)
from abctree.running.settings import SETTINGS, Part
from abctree.running.spec import RunSpec, Seeds, complete
from abctree.running.stopping import as_stopping_rules
from abctree.types import Named, NamedDict

#: Settings that are objects; of a user's own, the name is written.
_PARTS = {name: row.kind for name, row in SETTINGS.items() if isinstance(row.kind, Part)}
#: Points at which a prior is compared.
_PROBES = 32


# Writing -------------------------------------------------------------------------------------


def manifest_of(spec: RunSpec, problem: Problem) -> NamedDict:
    """The spec and the problem as JSON."""
    own: NamedDict = {}
    return {
        "method": spec.method,
        "versions": versions(),
        "seeds": {"root": spec.seeds.root, "algorithm": list(spec.seeds.algorithm)},
        "settings": {k: _written_setting(v, k, own) for k, v in spec.settings.items()},
        "summary_size": spec.summary_size,
        "summaries_in_store": spec.summaries_in_store,
        "stop": [_written(rule, "stop", {}) for rule in spec.stop],
        "on_failure": asdict(spec.on_failure),
        "problem": written_problem(problem),
        "code": {
            what: [list(astuple(version)) for version in versions]
            for what, versions in (spec.code or code_of(problem, own)).items()
        },
    }


def own_parts(spec: RunSpec) -> NamedDict:
    """Parts of a user's own, by the keyword under which a folder asks for them again."""
    own: NamedDict = {}
    for keyword, value in spec.settings.items():
        _written_setting(value, keyword, own)
    return own


def versions() -> dict[str, str]:
    """What may change the numbers of a run."""
    return {
        "abctree": _version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _version() -> str:
    # By name: the top of the package imports what is above this module.
    return str(importlib.import_module("abctree").__version__)


def _written_setting(value: object, keyword: str, own: NamedDict) -> object:
    """A part, or a number or text that stands among the parts."""
    try:
        return _written_value(value, keyword, own)
    except TypeError:
        return _written(value, keyword, own)


def _written(part: Any, keyword: str, own: NamedDict) -> NamedDict:
    """A part with its fields if it is ours and they can be written, or its name.

    Those of which the name is written are put into `own`.
    """
    if _is_known(part):
        try:
            return {
                "part": type(part).__name__,
                "fields": {
                    f.name: _written_value(vars(part)[f.name], f.name, own)
                    for f in fields(part)
                    if f.init
                },
            }
        except TypeError:
            pass
    own[keyword] = part
    return {"own": qualified_name(part), "keyword": keyword}


def _written_value(value: object, keyword: str, own: NamedDict) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.generic):
        return _written_value(value.item(), keyword, own)
    if isinstance(value, tuple | list):
        return [_written_value(item, keyword, own) for item in value]
    if _is_known(value) or keyword in _PARTS:
        return _written(value, keyword, own)
    raise TypeError(type(value))


@functools.cache
def _known() -> dict[str, type]:
    """The parts that may be made from a manifest, by name."""
    modules = [importlib.import_module(part.room) for part in _PARTS.values()]
    found = (value for module in modules for value in vars(module).values())
    return {
        value.__name__: value
        for value in found
        if isinstance(value, type) and is_dataclass(value) and is_ours(value)
    }


def _is_known(part: object) -> bool:
    return _known().get(type(part).__name__) is type(part)


def written_problem(problem: Problem) -> NamedDict:
    """What of a problem is no code of the user's, as JSON."""
    form = problem.model.form
    return {
        "names": list(problem.names),
        "prior": {"text": repr(problem.prior), "probe": _probed(problem)},
        "observed": fingerprint((problem.observed_summary, form.keep if form else None)),
        "call": f"{problem.model.vectorized} in batches of {problem.unit}",
        "measure": _written_distance(problem.distance),
        "distance": "to be scaled by the pilot" if problem.needs_pilot else "as it is",
    }


def code_of(problem: Problem, own: Named) -> Versions:
    """The user's code as it is now; `own` has the parts by keyword."""
    code = {
        "simulator": problem.model.simulator,
        "summary": problem.model.summary,
        "distance": None if _written_distance(problem.distance) else problem.distance,
        "constraint": problem.constraint,
        **own,
    }
    found = {what: thing for what, thing in code.items() if thing is not None}
    return {what: (Version(0, _name(f), fingerprint(f)),) for what, f in found.items()}


def _name(thing: object) -> str:
    """What a user knows a function by."""
    if isinstance(thing, FunctionDistance | OfArguments | OfNamedTheta):
        thing = thing.function
    return qualified_name(thing)


def _written_distance(distance: object) -> str | None:
    """A distance of ours with its fields, as text; None if it is a user's code."""
    if isinstance(distance, FunctionDistance) or not (is_ours(distance) and is_dataclass(distance)):
        return None
    held = {f.name: vars(distance)[f.name] for f in fields(distance) if f.init}
    return f"{type(distance).__name__}({', '.join(f'{k}={_text(v)}' for k, v in held.items())})"


def _text(value: object) -> str:
    """Of a field; the same for 1, 1.0 and NumPy's 1."""
    if isinstance(value, bool | str | None):
        return repr(value)
    if isinstance(value, int | float | np.number):
        return f"{float(value):.17g}"
    kind = qualified_name(value)
    if isinstance(value, np.ndarray):
        kind = f"array of shape {value.shape}"
    return f"<{kind}, fingerprint {fingerprint(value)}>"


def _probed(problem: Problem) -> str:
    """A fingerprint of the prior: what it makes of points of the cube, and its density there."""
    cube = np.random.default_rng(0).random((_PROBES, problem.d))
    theta = np.ascontiguousarray(problem.prior.from_cube(cube), dtype="<f8")
    prior = problem.prior
    density = prior.cube_density(cube) if isinstance(prior, HasCubeDensity) else np.empty(0)
    return hashlib.sha256(theta.tobytes() + density.tobytes()).hexdigest()[:16]


# Reading -------------------------------------------------------------------------------------


def spec_of(manifest: Named, problem: Problem, given: Named, at: int | None) -> RunSpec:
    """The spec again, once the problem is found to be that of the run.

    `given` has a user's own parts by the names under which they were given to the run, and `stop`
    and `on_failure` if they are to be others than those of the manifest (None: the same).  With
    `at`, the simulations made so far, the run goes on with today's code; None: it is only read.
    """
    try:
        method = manifest["method"]
        if method not in METHODS:
            raise StoreError(
                f"The run is one of abctree.{method}, which abctree {_version()} cannot go on with."
            )
        _check_problem(manifest, problem)
        return _spec_of(manifest, problem, given, at)
    except AbctreeError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"The manifest of the run cannot be read ({type(error).__name__}: {error}). Perhaps it "
            "was written by another version of abctree."
        ) from error


def _spec_of(manifest: Named, problem: Problem, given: Named, at: int | None) -> RunSpec:
    written = manifest["settings"]
    own = _own_parts(written, given)
    held = {k: own[k] if k in own else _made_value(v, own) for k, v in written.items()}
    code = _versions_of(manifest["code"])
    if at is not None:
        replaced = {keyword: part for keyword, part in own.items() if keyword in code}
        code = continued(code, code_of(problem, replaced), at)
    seeds = Seeds(int(manifest["seeds"]["root"]), tuple(manifest["seeds"]["algorithm"]))
    return RunSpec(
        method=manifest["method"],
        settings=_settings_of(manifest["method"], problem.d, held),
        seeds=seeds,
        summary_size=int(manifest["summary_size"]),
        summaries_in_store=bool(manifest.get("summaries_in_store")),
        stop=_stop_of(manifest["stop"], given.get("stop")),
        on_failure=as_failure_policy(
            given.get("on_failure") or FailurePolicy(**manifest["on_failure"])
        ),
        code=code,
    )


def _settings_of(method: str, d: int, held: Named) -> NamedDict:
    """The settings of a run; one that has come since has its default."""
    budget = held["n_simulations"]  # a manifest without it is none
    settings = complete(method, d, {**held, "n_simulations": budget})
    later = sorted({*held} - {*settings, "milestones"})
    if later:
        raise ValueError(f"it has the settings {later}")
    return {**settings, **held}


def _versions_of(written: Named) -> Versions:
    return {what: tuple(Version(*version) for version in held) for what, held in written.items()}


def _stop_of(written: list[NamedDict], given: Any) -> tuple[StoppingRule, ...]:
    if given is not None:
        return as_stopping_rules(given)
    return tuple(_made(rule, {}) for rule in written)


def _made(written: Named, own: Named) -> Any:
    """A part from what `_written` made of it."""
    if "own" in written:
        return _own_part(written, own)
    known = _known()
    if written["part"] not in known:
        raise StoreError(
            f"The run uses the part {written['part']!r}, which abctree {_version()} does "
            "not have. Update abctree."
        )
    values = {name: _made_value(value, own) for name, value in written["fields"].items()}
    return known[written["part"]](**values)


def _made_value(value: object, own: Named) -> Any:
    if isinstance(value, dict):
        return _made(value, own)
    if isinstance(value, list):
        return tuple(_made_value(item, own) for item in value)
    return value


def _own_part(written: Named, own: Named) -> Any:
    keyword = written["keyword"]
    if keyword not in own:
        none = ", or stop=() for none" if keyword == "stop" else ""
        raise ParameterError(
            f"`{keyword}` must be given again, for it is {written['own']}, your own code, which a "
            f"run folder does not hold. Pass the same object that the run was begun with{none}."
        )
    return own[keyword]


def _own_parts(written: Named, given: Named) -> NamedDict:
    """The parts that are given; they must be those of the run, or the user's own."""
    places = dict(_places(written))
    own = {}
    for keyword, spec in given.items():
        if keyword in ("stop", "on_failure") or spec is None:
            continue
        if keyword not in places:
            raise ParameterError(
                f"`{keyword}` must be one of {sorted(places)}, the parts of the run, but got "
                f"{spec!r}. Other settings are in the folder and stay as they are: leave it out."
            )
        part = _PARTS.get(keyword)
        own[keyword] = spec if part is None else part.read(keyword, spec)
        then, now = places[keyword], _written(own[keyword], keyword, {})
        if "own" not in then and then != now:
            raise ParameterError(
                f"`{keyword}` must be that of the run, {_spelled(then)}, but got {spec!r}. "
                "Leave it out, or start a new run."
            )
    return own


def _places(written: Named) -> Iterator[tuple[str, Named]]:
    """The parts of a run by keyword, those inside others, too."""
    for keyword, part in written.items():
        if isinstance(part, dict):
            yield keyword, part
            yield from _places(part.get("fields", {}))


def _spelled(written: Named) -> str:
    words = ", ".join(f"{name}={value!r}" for name, value in written["fields"].items())
    return f"{written['part']}({words})"


# Comparing -----------------------------------------------------------------------------------


def unknown_code(manifest: Named, problem: Problem, parts: Named) -> tuple[str, ...]:
    """A sentence for each piece of today's code that made nothing of a run."""
    then = _versions_of(manifest["code"])
    own = {keyword: part for keyword, part in parts.items() if keyword in then}
    return unknown(then, code_of(problem, own))


def _check_problem(manifest: Named, problem: Problem) -> None:
    """Whether a problem is that of the run: all but its code must be."""
    then, now = manifest["problem"], written_problem(problem)
    if then["names"] != now["names"]:
        raise _other("parameters", ", ".join(then["names"]), ", ".join(now["names"]))
    if then["prior"]["probe"] != now["prior"]["probe"]:
        raise _other("prior", then["prior"]["text"], now["prior"]["text"])
    if then["observed"] != now["observed"]:
        raise _other("observation", f"one with the fingerprint {then['observed']}", now["observed"])
    if then["call"] != now["call"]:
        raise _other("way of calling the simulator", then["call"], now["call"])
    if then["measure"] != now["measure"]:  # one table cannot hold two distances
        before = then["measure"] or manifest["code"]["distance"][-1][1]
        raise _other("distance", before, now["measure"] or _name(problem.distance))
    if then["distance"] != now["distance"]:
        raise _other("distance", f"one {then['distance']}", f"one {now['distance']}")


def check_version(manifest: Named) -> None:
    """Say that a run goes on with another version of abctree."""
    then = manifest.get("versions", {}).get("abctree")
    if then != _version():
        warn(
            f"The run was begun with abctree {then} and goes on with {_version()}. What "
            "is simulated from here on may differ from what the older version would have done.",
        )


def _other(what: str, then: object, now: object) -> ParameterError:
    return ParameterError(
        f"`problem` must have the {what} of the run, {then}, but got {now}. Give the problem that "
        "the run was begun with, or start a new run."
    )
