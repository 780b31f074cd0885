"""Where code is from, and its text."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType
from typing import Any

_OURS = "abctree."


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


def source_of(thing: Any) -> Any:
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
