"""A user's code: its fingerprint, kept instead of it, and which code made which simulations.

A fingerprint is a hash of source text: of a function and those of its module that it calls by name,
or of a class.  With it go what is declared, the fields of dataclasses and the arguments of
`functools.partial`, and the data (numbers, texts, arrays and containers) that it names in defaults,
closures, attributes and the module, unless the text changes them itself.  Where a module is found
is no part of it: ``python m.py`` and an import of m.py are the same code.
docs/how-to/runs-that-survive.md says what is not seen.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time, timedelta
from itertools import pairwise
from numbers import Number
from pathlib import Path, PurePath
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from abctree.types import NamedDict

#: How deep closures, containers and fields are followed.
_DEPTH = 8
_SIMPLE = Number | str | bytes | np.generic | date | time | timedelta | range | PurePath | None
_CONTAINER = (dict, tuple, list, set, frozenset)
#: Names of what code changes while it runs, such as a counter or a cache.
_CHANGED = re.compile(
    r"\b(?:global|nonlocal)\s+([\w, ]+)"
    r"|\.(\w+)\s*(?:[^\w\s=<>!]{1,2}|<<|>>)?=(?!=)"  # .name = ..., .name += ...
    r"|^\s*(?:\w+\.)*(\w+)\[.*\]\s*(?:[^\w\s=<>!]{1,2}|<<|>>)?=(?!=)"  # name[...] = ...
    r"|(\w+)\.(?:add|append\w*|clear|discard|extend\w*|fill|insert|pop\w*|remove|reverse"
    r"|setdefault|sort|update)\("
    r"|\bout=\(?(?:\w+\.)*(\w+)",
    re.MULTILINE,
)
#: Where an object is made: what is set here is what it is.
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})


def fingerprint(thing: object) -> str:
    """Return a short text that changes with the code of a function or object."""
    digest = hashlib.sha256()
    try:
        for piece in _pieces(thing, ()):
            digest.update(repr(piece).encode() + b"\x00")
    finally:
        _source.cache_clear()  # files change, and functions are not ours to keep
    return digest.hexdigest()[:16]


def qualified_name(thing: object) -> str:
    """Return ``module.name`` of a function or of the class of an object."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    source = _function(thing) or (thing if hasattr(thing, "__qualname__") else type(thing))
    module = str(getattr(source, "__module__", None) or "builtins")
    if module == "__main__":
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else Path(file).stem if file else module
    return f"{module}.{source.__qualname__}"


def is_ours(thing: object) -> bool:
    """Whether the class or function is part of abctree, whose version is kept."""
    return qualified_name(thing).startswith("abctree.")


def _pieces(thing: object, path: tuple[int, ...]) -> Iterator[object]:  # noqa: C901 - a list of kinds
    """What a fingerprint is made of; `path` has the identities of what is being looked into."""
    if _is_plain(thing):
        yield sorted(map(repr, thing)) if isinstance(thing, frozenset) else thing
    elif _is_array(thing):
        yield from _array(thing, path)
    elif id(thing) not in path and len(path) < _DEPTH:
        path = (*path, id(thing))
        if isinstance(thing, dict):
            yield from _values({repr(k): v for k, v in thing.items() if _is_plain(k)}, path)
        elif isinstance(thing, tuple | list):
            yield from _values({f"{i:09}": item for i, item in enumerate(thing)}, path)
        elif isinstance(thing, set | frozenset):
            yield sorted(repr(item) for item in thing if _is_plain(item))
        elif isinstance(thing, functools.partial):
            yield from _values({"args": thing.args, "keys": thing.keywords, "of": thing.func}, path)
        elif (function := _function(thing)) is not None:
            yield from _code([function], path)
        elif inspect.ismethod(thing):
            yield thing.__func__.__name__
            yield from _pieces(thing.__self__, path)
        elif hasattr(thing, "__name__"):  # a class, or without a source
            yield thing.__name__, _text(thing)
        else:
            yield from _object(thing, path)


def _is_plain(thing: object) -> bool:
    """Whether it cannot change, and its text is the same in every process."""
    if isinstance(thing, tuple | frozenset):
        return all(map(_is_plain, thing))
    return isinstance(thing, _SIMPLE)


def _array(thing: object, path: tuple[int, ...]) -> Iterator[object]:
    array = thing if isinstance(thing, np.ndarray) else None
    with suppress(Exception):  # its numbers may be on another device
        array = np.asarray(thing) if array is None else array
    if array is not None:
        yield str(array.dtype), array.shape, b"" if array.dtype.hasobject else array.tobytes()
        yield from _pieces(array.tolist(), (*path, id(thing))) if array.dtype.hasobject else ()


def _is_array(thing: object) -> bool:
    """Whether it is an array, or what pandas, xarray and the like make."""
    return hasattr(type(thing), "__array__") and hasattr(type(thing), "shape")


def _is_data(thing: object) -> bool:
    return _is_plain(thing) or isinstance(thing, _CONTAINER) or _is_array(thing)


def _values(held: NamedDict, path: tuple[int, ...], near: str = "") -> Iterator[object]:
    """Named values; of objects neither declared, called nor of the module `near` the name only."""
    for name, value in sorted(held.items()):
        yield name
        is_near = type(value).__module__ == near
        if _is_data(value) or callable(value) or is_dataclass(value) or is_near:
            yield from _pieces(value, path)


def _code(functions: list[FunctionType], path: tuple[int, ...]) -> Iterator[object]:
    """Functions, those of their modules that they call by name, and the constants of all."""
    for function in functions:  # it grows
        called = dict.fromkeys(map(_function, _named_in(function).values()))
        near = (f for f in called if f and f.__globals__ is function.__globals__)
        functions += [f for f in near if f not in functions]
    texts = [_text(function) for function in functions]
    yield texts
    changed = _changed(texts)
    for function in functions:
        known = _is_data if _source(function) is not None else _is_plain
        for name, value in sorted(_named_in(function).items()):
            if name not in changed and (known(value) or _is_followed(function, name, value)):
                yield name
                yield from _pieces(value, path) if _function(value) not in functions else ()


def _is_followed(function: FunctionType, name: str, value: object) -> bool:
    """Whether a function's text goes on in an object that it names."""
    kind = value if inspect.isclass(value) else type(value)
    is_near = getattr(kind, "__module__", None) == function.__module__
    own = (*function.__code__.co_freevars, *function.__code__.co_varnames)
    return is_near or (name in own and (callable(value) or is_dataclass(value)))


def _named_in(function: FunctionType) -> NamedDict:
    """What a function finds by name: in its module, its defaults and its closure."""
    module = {} if is_ours(function) else function.__globals__
    names = (n for n in _names(function.__code__) if n in module and not n.startswith("__"))
    found = {name: module[name] for name in names}
    signature = inspect.signature(function, follow_wrapped=False)
    found |= {p.name: p.default for p in signature.parameters.values()}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    with suppress(ValueError):  # a cell that is not filled yet
        found.update((name, cell.cell_contents) for name, cell in cells)
    return {name: value for name, value in found.items() if value is not inspect.Parameter.empty}


def _names(code: CodeType) -> set[str]:
    inner = (_names(c) for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*inner)


def _object(thing: object, path: tuple[int, ...]) -> Iterator[object]:
    """The class of an object, and what the object was made with."""
    classes = [c for c in type(thing).__mro__ if c.__module__ == type(thing).__module__]
    texts = [_text(c) for c in classes]
    yield texts
    methods = [f for c in classes for f in map(_function, vars(c).values()) if f]
    methods = [f for f in methods if f.__name__ not in _MAKERS and _source(f) is not None]
    yield from _code(methods, path)
    changed = _changed(map(_text, methods))
    if is_dataclass(thing):
        held = {f.name: getattr(thing, f.name, None) for f in fields(thing) if f.init and f.compare}
    else:
        named = (n for c in type(thing).__mro__ for n in getattr(c, "__slots__", ()))
        held = {n: getattr(thing, n) for n in named if hasattr(thing, n)}
        own = getattr(thing, "__dict__", {})
        held |= {n: v for n, v in own.items() if not hasattr(type(thing), n)}
    held = {n: v for n, v in held.items() if n not in changed}
    yield from _values(held, path, type(thing).__module__)


def _changed(texts: Iterable[object]) -> set[str]:
    found = (match for text in texts for match in _CHANGED.findall(str(text)))
    return {name for groups in found for name in re.split(r"\W+", " ".join(groups))}


def _function(thing: object) -> FunctionType | None:
    """The function behind a method of a class, a cache or compiled code; None if there is none."""
    if isinstance(thing, staticmethod | classmethod):
        thing = thing.__func__
    elif isinstance(thing, property):
        thing = thing.fget
    for inside in ("py_func", "__wrapped__"):  # a module may hold anything: none of it is run
        if not inspect.isfunction(thing):
            thing = inspect.getattr_static(thing, inside, thing)
    return thing if inspect.isfunction(thing) else None


def _text(thing: object) -> object:
    """The source of a function or class, else its byte code; nothing of ours."""
    source = "" if is_ours(thing) else _source(thing)
    code = getattr(thing, "__code__", None)
    if source is not None or code is None:
        return source
    plain = [list(_pieces(c, ())) for c in code.co_consts if _is_plain(c)]
    return sys.version_info[:2], code.co_code, code.co_names, plain


@functools.cache  # a class is looked for in all of its file
def _source(thing: Any) -> str | None:
    with suppress(OSError, TypeError, SyntaxError, IndexError):  # typed at a prompt, for example
        if isinstance(thing, FunctionType) and thing.__name__ == "<lambda>":
            return _body(thing)
        # Of a decorated function itself, not of what is inside.
        return textwrap.dedent(inspect.getsource(getattr(thing, "__code__", thing))).strip()
    return None


def _body(function: FunctionType) -> str:
    """The expression of a lambda: its line may hold others."""
    code = function.__code__
    spots = [(a, c, b, d) for a, b, c, d in code.co_positions() if a and b and d and c is not None]
    (first, begin), (last, end) = min(s[:2] for s in spots), max(s[2:] for s in spots)
    lines = [line.encode() for line in inspect.findsource(function)[0][first - 1 : last]]
    lines[-1] = lines[-1][:end]
    return f"{code.co_varnames}: {lines[0][begin:].decode()}{b''.join(lines[1:]).decode()}"


# Which code made which simulations -------------------------------------------------------------


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


def unknown(
    then: Versions,
    now: Versions,
    since: str = "the run was made",
    remedy: str = "start a new run",
) -> tuple[str, ...]:
    """Return a sentence for each piece of today's code that made nothing of what was made then."""
    found = []
    for what in sorted({*then, *now}):
        before, after = then.get(what, (NOTHING,)), now.get(what, (NOTHING,))[-1]
        if after.fingerprint not in {version.fingerprint for version in before}:
            found.append(
                f"The {what} has changed since {since} ({_named(before[-1], after, 'now')}). What "
                f"was simulated is kept as it is. If the change matters, {remedy}."
            )
    return tuple(found)


def _named(before: Version, after: Version, when: str) -> str:
    if before.name == after.name:
        return f"it is {before.name}"
    return f"it was {before.name}, and is {after.name} {when}"
