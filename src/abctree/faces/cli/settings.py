"""Settings on the command line and in its files, made from the table of settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from abctree.faces.cli.options import Command, Decorator
from abctree.method import METHODS
from abctree.running.settings import (
    SETTINGS,
    Choice,
    Flag,
    Kind,
    Names,
    Number,
    Part,
    Whole,
    names_of,
)

DEFAULT = "abc-tree"
NUMBER = (int, float)
#: What the commands have options of their own for.
_APART = ("n_simulations", "rng", "executor", "stop")
Types = tuple[type, ...]
#: What may stand in a file by the kind, else a string; see `in_files`.
_OF_KINDS: dict[type[Kind], tuple[Types, Types, str]] = {
    Whole: ((int,), (), "a whole number"),
    Number: (NUMBER, (), "a number"),
    Flag: ((bool,), (), "true or false"),
    Names: ((str, list), (str,), "a string or a list of strings"),
}
#: The same where it is not what the kind says.
_IN_FILES: dict[str, tuple[Types, Types, str]] = {
    "executor": ((int, str), (), "a number of workers, or a string"),
    "stop": ((dict,), NUMBER, "a table such as { seconds = 60, epsilon = 0.1 }"),
}


def function_of(method: str) -> str:
    """Return the name of a method in Python."""
    return method.replace("-", "_")


def method_of(function: str) -> str:
    """Return the name of a method on the command line."""
    return function.replace("_", "-")


#: The methods by their names on the command line.
NAMES = tuple(method_of(name) for name in METHODS)


def settings_of(method: str) -> tuple[str, ...]:
    """Return the names of the settings of a method, named as on the command line."""
    return names_of(function_of(method))


def of_methods(function: Command) -> Command:
    """Put an option for each setting on a command."""
    for name in reversed(SETTINGS):
        if name not in _APART:
            function = _option(name)(function)
    return function


def _option(name: str) -> Decorator:
    """The option of a setting, which says who has it."""
    row, flag = SETTINGS[name], spelled(name)
    owners = ", ".join(method_of(method) for method in row.defaults)
    type_, metavar = _as_option(row.kind)
    return click.option(
        f"{flag}/--no-{flag[2:]}" if isinstance(row.kind, Flag) else flag,
        type=type_,
        default=None,
        metavar=metavar,
        help=row.about + ("" if len(row.defaults) == len(METHODS) else f"  [{owners}]"),
    )


def _as_option(kind: Kind) -> tuple[Any, str | None]:
    """The type of click, and what stands for a value in the help."""
    match kind:
        case Whole(least):
            return click.IntRange(min=least), "N"
        case Number(least, below):
            return click.FloatRange(least, below, max_open=True), "X"
        case Part(numbers=True):
            return as_numbers, "RULE"
        case Names():
            return as_names, "NAMES"
        case Choice(names) | Part(names=names):
            return click.Choice(names), None
    return None, None


def as_names(text: str) -> str | list[str]:
    """Return a list if there is a comma, else one name."""
    names = text.split(",")
    return names if len(names) > 1 else text


def as_numbers(text: str) -> str | float | list[float]:
    """Return a list if there is a comma, a number if it is one, else the name of a rule.

    Raises
    ------
    click.BadParameter
        If a list has something else than numbers.
    """
    parts = [_number(part) for part in text.split(",")]
    numbers = [part for part in parts if part is not None]
    if len(parts) == 1:
        return numbers[0] if numbers else text
    if len(numbers) < len(parts):
        raise click.BadParameter(f"{text!r} is no list of numbers, such as 2,1,0.5.")
    return numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def in_files(name: str) -> tuple[Types, Types, str]:
    """Return the types of a setting and of its items in a file, and what an error calls them."""
    kind = SETTINGS[name].kind
    if isinstance(kind, Part) and kind.numbers:
        return (str, *NUMBER, list), NUMBER, "a string, a number or a list of numbers"
    return _IN_FILES.get(name) or _OF_KINDS.get(type(kind), ((str,), (), "a string"))


def spelled(name: str) -> str:
    """Return the option of a setting."""
    return "--" + name.replace("_", "-")


def refusal(name: str, method: str, spell: Callable[[str], str]) -> str | None:
    """Why a method cannot be given a setting that another has, in one sentence; None if it can."""
    has = settings_of(method)
    if name in has or name not in SETTINGS:
        return None
    own = [spell(s) for s in has if len(SETTINGS[s].defaults) < len(METHODS)]
    return f"{spell(name)} is not a setting of {method}, which has {', '.join(own)}."
