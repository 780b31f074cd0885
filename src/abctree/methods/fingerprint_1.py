"""Fingerprints of format 1, which the first runs hold.

It does not look at whole numbers, containers and None in closures, at what objects hold that are no
dataclasses, and at modules.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from abctree.methods.source import named, source_of

#: How deep closures, default values and fields are followed.
_DEPTH = 4


def pieces(thing: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """What a fingerprint is made of."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        yield thing
    elif isinstance(thing, np.ndarray | np.generic) and not np.asarray(thing).dtype.hasobject:
        yield from (str(thing.dtype), thing.shape, np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, tuple | frozenset):
        yield type(thing).__name__, len(thing)
        for item in thing if isinstance(thing, tuple) else sorted(thing, key=repr):
            yield from pieces(item, depth)
    elif depth > 0:
        yield named(thing)
        yield from _pieces_of_code(thing, depth - 1)


def _pieces_of_code(thing: Any, depth: int) -> Iterator[Any]:
    if isinstance(thing, functools.partial):
        yield from pieces(thing.args, depth)
        yield from pieces(tuple(sorted(thing.keywords.items())), depth)
        yield from pieces(thing.func, depth)
    elif hasattr(thing, "py_func"):
        yield from pieces(thing.py_func, depth)
    elif inspect.ismethod(thing):
        yield from pieces(thing.__func__, depth)
        yield from pieces(thing.__self__, depth)
    elif inspect.isfunction(thing):
        yield source_of(thing)
        yield from _constants(thing, depth)
    elif not inspect.isroutine(thing):
        yield source_of(thing if inspect.isclass(thing) else type(thing))
        if is_dataclass(thing) and not inspect.isclass(thing):
            for field in fields(thing):
                if field.init:
                    yield field.name
                    yield from pieces(getattr(thing, field.name, None), depth)


def _constants(function: Any, depth: int) -> Iterator[Any]:
    """Default values, and what a closure holds; not what may change while the function is used."""
    yield from pieces(function.__defaults__, depth)
    yield from pieces(tuple(sorted((function.__kwdefaults__ or {}).items())), depth)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if callable(held) or isinstance(held, bool | float | complex | str | bytes | np.ndarray):
            yield from pieces(held, depth)
