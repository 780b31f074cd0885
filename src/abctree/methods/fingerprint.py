"""Fingerprints of a user's code: what is kept instead of the code.

They tell whether a function is the one that a run was begun with.  They are of its source text, so
a new comment is a change; that of a lambda, or of a function without a source, is of its byte code.
With it go the functions of its module that it calls by name, and the numbers, texts, arrays and
containers of these that it finds in its closure, its defaults, its module and its object.  Not what
it changes itself: a fingerprint is the same before and after use, and in every process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np

from abctree.methods import fingerprint_1
from abctree.methods.bytecode import Changes, callees, enclosed, methods_in_use, reads
from abctree.methods.source import is_ours, named, source_of

#: Of fingerprints that are written.  Format 1 looks at less; a run that has it is compared in it.
FORMAT = 2
#: How deep closures, default values, containers and fields are followed.
_DEPTH = 8
#: Of an array of more bytes, only so many numbers are looked at, evenly spread.
_LARGE, _SAMPLE = 2**26, 2**16
_SIMPLE = bool | int | float | complex | str | bytes | None
_CONTAINER = (tuple, list, dict, set, frozenset)
#: Identities of what is being looked into: the way back ends there.
_Path = tuple[int, ...]


def fingerprint(thing: Any, fmt: int = FORMAT) -> str:
    """A short text that changes with the code of a function or object, and with its constants."""
    digest = hashlib.sha256()
    for piece in fingerprint_1.pieces(thing) if fmt == 1 else _pieces(thing, ()):
        digest.update(piece if isinstance(piece, bytes) else repr(piece).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:16]


def _pieces(thing: Any, path: _Path) -> Iterator[Any]:
    """What a fingerprint is made of."""
    if isinstance(thing, _SIMPLE):
        yield thing
    elif _is_array(thing):
        yield from (str(thing.dtype), thing.shape, _bytes_of(thing))
    elif id(thing) not in path and len(path) < _DEPTH:
        path = (*path, id(thing))
        if _is_container(thing):
            yield from _items(thing, path)
        else:
            yield named(thing)
            yield from _pieces_of_code(thing, path)


def _is_array(thing: Any) -> bool:
    return isinstance(thing, np.ndarray | np.generic) and not np.asarray(thing).dtype.hasobject


def _bytes_of(array: Any) -> bytes:
    some = array.flat[:: -(-array.size // _SAMPLE)] if array.nbytes > _LARGE else array
    return np.ascontiguousarray(some).tobytes()


def _is_container(thing: Any) -> bool:
    return isinstance(thing, _CONTAINER) and not callable(thing)


def _is_data(thing: Any) -> bool:
    return isinstance(thing, _SIMPLE) or _is_array(thing) or _is_container(thing)


def _is_constant(thing: Any) -> bool:
    """Whether it is looked into where it is found; other objects may be different in each run."""
    return _is_data(thing) or callable(thing) or is_dataclass(thing)


def _is_key(thing: Any) -> bool:
    """Whether its text is the same in every process."""
    if isinstance(thing, tuple):
        return all(_is_key(item) for item in thing)
    return isinstance(thing, _SIMPLE)


def _items(thing: Any, path: _Path) -> Iterator[Any]:
    """What is in a container, in an order that does not depend on the process."""
    yield type(thing).__name__, len(thing)
    if isinstance(thing, dict):
        keys = sorted((key for key in thing if _is_key(key)), key=repr)
        items: Iterable[Any] = [item for key in keys for item in (key, thing[key])]
    elif isinstance(thing, set | frozenset):
        items = sorted((item for item in thing if _is_key(item)), key=repr)
    else:
        items = thing
    for item in items:
        if _is_constant(item):
            yield from _pieces(item, path)


def _pieces_of_code(thing: Any, path: _Path) -> Iterator[Any]:
    if isinstance(thing, functools.partial):
        for part in (thing.args, thing.keywords, thing.func):
            yield from _pieces(part, path)
    elif hasattr(thing, "py_func"):
        yield from _pieces(thing.py_func, path)
    elif hasattr(thing, "cache_info") and hasattr(thing, "__wrapped__"):  # functools.cache
        yield from _pieces(thing.__wrapped__, path)
    elif inspect.ismethod(thing):
        yield from _pieces(thing.__func__, path)
        yield from _object(thing.__self__, getattr(thing.__func__, "__name__", ""), path)
    elif inspect.isfunction(thing):
        yield from _functions([thing], path)
    elif inspect.isclass(thing):
        yield source_of(thing)
    elif not inspect.isroutine(thing):
        yield from _object(thing, "__call__", path[:-1])


def _object(thing: Any, method: str, path: _Path) -> Iterator[Any]:
    """The class of an object of which a method is called, and what the object holds."""
    cls = thing if inspect.isclass(thing) else type(thing)
    yield source_of(cls)
    if cls is thing or id(thing) in path:
        return
    path = (*path, id(thing))
    methods = methods_in_use(cls, method)
    # What is inherited from another package changes with its versions.
    yield from _functions([f for f in methods if _package(f) == _package(cls)], path)
    yield from _named_values(_held(thing), Changes.of(methods).attributes, path)


def _package(thing: Any) -> str:
    return str(thing.__module__).partition(".")[0]


def _held(thing: Any) -> dict[str, Any]:
    """What an object was made with: not what it has computed since."""
    if is_dataclass(thing):
        return {f.name: getattr(thing, f.name, None) for f in fields(thing) if f.init}
    return {
        name: value
        for name, value in getattr(thing, "__dict__", {}).items()
        if not isinstance(
            inspect.getattr_static(type(thing), name, None), functools.cached_property
        )
    }


def _functions(begin: list[FunctionType], path: _Path) -> Iterator[Any]:
    """Functions, what they call in their module, and the constants of all."""
    found = callees(begin, lambda function: not is_ours(function))
    changes = Changes.of(found)
    for function in found:
        yield source_of(function)
        defaults = _defaults(function)
        fixed = {name for name, value in defaults.items() if isinstance(value, _SIMPLE)}
        yield from _named_values(defaults, changes.arguments - fixed, path)
        yield from _named_values(_closure(function), changes.variables, path)
        if not is_ours(function):
            yield from _named_values(_globals(function), changes.variables, path)


def _named_values(held: Mapping[str, Any], changed: frozenset[str], path: _Path) -> Iterator[Any]:
    for name, value in sorted(held.items()):
        if name not in changed and _is_constant(value):
            yield name
            yield from _pieces(value, path)


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Default values by the names of their arguments."""
    values = function.__defaults__ or ()
    code = function.__code__
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(function.__kwdefaults__ or {})}


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, enclosed(function), strict=True)
    return {name: held[0] for name, held in cells if held}


def _globals(function: FunctionType) -> dict[str, Any]:
    """Constants of its module that a function names; its own name, file and the like are not."""
    held = function.__globals__
    names = [name for name in reads(function) if name in held and not name.startswith("__")]
    return {name: held[name] for name in names if _is_data(held[name])}
