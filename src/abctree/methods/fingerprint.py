"""Fingerprints of a user's code: what is kept instead of the code.

They tell whether a function is the one that a run was begun with.  They are of its source text, so
a new comment is a change; that of a lambda, or of a function without a source, is of its byte code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any

import numpy as np

#: How deep closures, default values and fields are followed.
_DEPTH = 4
_OURS = "abctree."


def fingerprint(thing: Any) -> str:
    """A short text that changes with the code of a function or object, and with its constants."""
    digest = hashlib.sha256()
    for piece in _pieces(thing, _DEPTH):
        digest.update(piece if isinstance(piece, bytes) else repr(piece).encode())
        digest.update(b"\x00")
    return digest.hexdigest()[:16]


def named(thing: Any) -> str:
    """Where a function or the class of an object is defined: ``module.name``."""
    thing = _unwrapped(thing)
    source = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{getattr(source, '__module__', None) or 'builtins'}.{source.__qualname__}"


def is_ours(thing: Any) -> bool:
    """Whether the class or function is part of abctree."""
    return named(thing).startswith(_OURS)


def _unwrapped(thing: Any) -> Any:
    """The function inside a partial, or inside what numba compiled."""
    while True:
        if isinstance(thing, functools.partial):
            thing = thing.func
        elif hasattr(thing, "py_func"):
            thing = thing.py_func
        else:
            return thing


def _pieces(thing: Any, depth: int) -> Iterator[Any]:
    """What a fingerprint is made of."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        yield thing
    elif isinstance(thing, np.ndarray | np.generic) and not np.asarray(thing).dtype.hasobject:
        yield from (str(thing.dtype), thing.shape, np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, tuple | frozenset):
        yield type(thing).__name__, len(thing)
        for item in thing if isinstance(thing, tuple) else sorted(thing, key=repr):
            yield from _pieces(item, depth)
    elif depth > 0:
        yield named(thing)
        yield from _pieces_of_code(thing, depth - 1)


def _pieces_of_code(thing: Any, depth: int) -> Iterator[Any]:
    if isinstance(thing, functools.partial):
        yield from _pieces(thing.args, depth)
        yield from _pieces(tuple(sorted(thing.keywords.items())), depth)
        yield from _pieces(thing.func, depth)
    elif hasattr(thing, "py_func"):
        yield from _pieces(thing.py_func, depth)
    elif inspect.ismethod(thing):
        yield from _pieces(thing.__func__, depth)
        yield from _pieces(thing.__self__, depth)
    elif inspect.isfunction(thing):
        yield _source(thing)
        yield from _constants(thing, depth)
    elif not inspect.isroutine(thing):
        yield _source(thing if inspect.isclass(thing) else type(thing))
        if is_dataclass(thing) and not inspect.isclass(thing):
            for field in fields(thing):
                if field.init:
                    yield field.name
                    yield from _pieces(getattr(thing, field.name, None), depth)


def _constants(function: Any, depth: int) -> Iterator[Any]:
    """Default values, and what a closure holds; not what may change while the function is used."""
    yield from _pieces(function.__defaults__, depth)
    yield from _pieces(tuple(sorted((function.__kwdefaults__ or {}).items())), depth)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if callable(held) or isinstance(held, bool | float | complex | str | bytes | np.ndarray):
            yield from _pieces(held, depth)


def _source(thing: Any) -> Any:
    """The text of a function or class, or its byte code."""
    if is_ours(thing):
        return ""  # the version of abctree is kept, too
    if getattr(thing, "__name__", "") != "<lambda>":  # else the text is that of the whole line
        with contextlib.suppress(Exception):  # typed at a prompt, or its file has changed
            return textwrap.dedent(inspect.getsource(thing)).strip()
    parts = vars(thing).values() if inspect.isclass(thing) else [thing]
    codes = [part.__code__ for part in parts if hasattr(part, "__code__")]
    return sys.version_info[:2], [list(_code(code)) for code in codes]


def _code(code: CodeType) -> Iterator[Any]:
    yield code.co_code
    yield code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):  # its order is not the same in every process
            yield sorted(map(repr, constant))
        else:
            yield repr(constant)
