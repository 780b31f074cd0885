"""What code reads from its module, and what it changes while it is used, from its byte code.

A counter or a cache is no constant: it says how often a function was called, not which one it is.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

#: Methods by which a container or an array is changed in place.
_MUTATORS = frozenset({
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "fill", "insert",
    "pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update",
})  # fmt: skip
_BIND_VARIABLE = frozenset({"STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF"})
_BIND_ATTRIBUTE = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_STORE_ITEM = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_VARIABLE = _GLOBAL | {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
#: Where an object is made: what is set here is what it is.
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})


@dataclass(frozen=True)
class Changes:
    """Names of what functions bind anew, or change in place."""

    variables: frozenset[str]  #: of the module, or of a closure
    attributes: frozenset[str]  #: of any object
    arguments: frozenset[str]

    @classmethod
    def of(cls, functions: Iterable[FunctionType]) -> Changes:
        """What several functions change."""
        found = [_changes(list(_instructions(f.__code__))) for f in functions]
        return cls(*(frozenset().union(*(kinds[k] for kinds in found)) for k in range(3)))


def function_of(thing: Any) -> FunctionType | None:
    """The function behind a method of a class, or inside what numba compiled; None if none is."""
    if isinstance(thing, staticmethod | classmethod | MethodType):
        thing = thing.__func__
    elif isinstance(thing, property):
        thing = thing.fget
    if not inspect.isfunction(thing):  # a module may hold anything: none of its code is run
        thing = inspect.getattr_static(thing, "py_func", None)
    return thing if inspect.isfunction(thing) else None


def reads(function: FunctionType) -> list[str]:
    """Names that a function looks up in its module, sorted."""
    found = {i.argval for i in _instructions(function.__code__) if i.opname in _GLOBAL}
    return sorted(found)


def enclosed(function: FunctionType) -> list[tuple[Any, ...]]:
    """What the cells of a closure hold: nothing, if it is not set yet, or one thing."""
    held: list[tuple[Any, ...]] = []
    for cell in function.__closure__ or ():
        try:
            held.append((cell.cell_contents,))
        except ValueError:
            held.append(())
    return held


def callees(begin: Iterable[FunctionType], follow: Callable[[Any], bool]) -> list[FunctionType]:
    """Functions, and those of their modules that they call by name, directly or not.

    Parameters
    ----------
    begin : several functions
        Come first.
    follow : callable
        Which functions are looked into.
    """
    found = list(begin)
    for function in found:  # it grows
        if follow(function):
            held = function.__globals__
            things = [held[name] for name in reads(function) if name in held]
            things += [thing for cell in enclosed(function) for thing in cell]
            called = dict.fromkeys(map(function_of, things))
            found += [f for f in called if f and f.__globals__ is held and f not in found]
    return found


def methods_in_use(cls: type, begin: str) -> list[FunctionType]:
    """The method of a class that is called, and those that it may call; without it, all methods."""
    found = {name: function_of(inspect.getattr_static(cls, name, None)) for name in dir(cls)}
    methods = {name: function for name, function in found.items() if function is not None}
    if begin not in methods:
        return [f for name, f in sorted(methods.items()) if name not in _MAKERS]
    used = [name for name in dict.fromkeys((begin, "__call__")) if name in methods]
    for name in used:  # it grows
        code = methods[name].__code__
        named = {i.argval for i in _instructions(code) if i.opname in _ATTRIBUTE}
        used += [other for other in sorted(named & methods.keys()) if other not in used]
    return [methods[name] for name in used]


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _changes(found: list[dis.Instruction]) -> tuple[set[str], set[str], set[str]]:
    """Variables, attributes and arguments that are changed."""
    # In `a.b[i] = 1` and `a.b.append(1)` all of a, a.b and the whole begin at the same place.
    touched = {_begin(i) for i in found if _is_touch(i)} - {None}
    lines = {at[0] for at in touched if at is not None}
    changed = [i for i in found if _begin(i) in touched]
    # One instruction may load two arguments, and begins where the first of them does.
    pairs = [i for i in found if isinstance(i.argval, tuple) and (_begin(i) or (None,))[0] in lines]
    fast = [i.argval for i in changed if i.opname.startswith("LOAD_FAST")]
    return (
        {i.argval for i in found if i.opname in _BIND_VARIABLE}
        | {i.argval for i in changed if i.opname in _VARIABLE},
        {i.argval for i in found if i.opname in _BIND_ATTRIBUTE}
        | {i.argval for i in changed if i.opname in _ATTRIBUTE},
        {name for name in fast if isinstance(name, str)}
        | {name for i in pairs if i.opname.startswith("LOAD_FAST") for name in i.argval},
    )


def _is_touch(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    return name in _STORE_ITEM or (name in _ATTRIBUTE and instruction.argval in _MUTATORS)


def _begin(instruction: dis.Instruction) -> tuple[int, int] | None:
    at = instruction.positions
    if at is None or at.lineno is None or at.col_offset is None:
        return None
    return at.lineno, at.col_offset
