"""Settings on the command line and in its files, made from the table of settings."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree.errors import AbctreeError
from abctree.faces.cli.options import Decorator, together
from abctree.keywords import meant
from abctree.method import METHODS
from abctree.running.settings import (
    NO_SETTINGS,
    SETTINGS,
    Choice,
    Flag,
    Kind,
    Names,
    Part,
    Real,
    Whole,
    names_of,
)

if TYPE_CHECKING:  # it imports NumPy
    from abctree.types import NamedDict

DEFAULT = "abc-tree"
#: What the commands have options of their own for.
_APART = ("n_simulations", "rng", "executor", "stop")


def function_of(method: str) -> str:
    """Return the name of a method in Python."""
    return method.replace("-", "_")


def method_of(function: str) -> str:
    """Return the name of a method on the command line."""
    return function.replace("_", "-")


#: The methods by their names on the command line.
NAMES = tuple(method_of(name) for name in METHODS)


def spelled(name: str) -> str:
    """Return the option of a setting."""
    return "--" + name.replace("_", "-")


def settings_of(method: str) -> tuple[str, ...]:
    """Return the names of the settings of a method, named as on the command line."""
    return names_of(function_of(method))


def _option(name: str) -> Decorator:
    """The option of a setting, which says who has it."""
    row, flag = SETTINGS[name], spelled(name)
    owners = ", ".join(method_of(method) for method in row.defaults)
    kind = row.kind
    type_, metavar = _as_flag(kind) if isinstance(kind, Flag) else _as_option(kind)
    return click.option(
        flag,
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
        case Real(least, below):
            return click.FloatRange(least, below, max_open=True), "X"
        case Part(numbers=True):
            return as_numbers, "RULE"
        case Names():
            return as_names, "NAMES"
        case Choice(names) | Part(names=names):
            return click.Choice(names), None
    return None, None


def _as_flag(kind: Flag) -> tuple[Any, str | None]:
    """What reads yes, no, or one of some names, and what stands for it in the help."""

    def read(text: str) -> bool | str:
        return text if text in kind.names else bool(click.BOOL.convert(text, None, None))

    return read, "|".join(("true", "false", *kind.names))


def as_names(text: str) -> str | list[str]:
    """Return a list if there is a comma, else one name."""
    names = text.split(",")
    return names if len(names) > 1 else text


def as_numbers(text: str) -> str | float | list[float]:
    """Return a list if there is a comma, a number if it is one, else the name of a rule."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        if "," not in text:
            return text
        said = f"{text!r} is no list of numbers, such as 2,1,0.5."
        raise click.BadParameter(said) from None
    return numbers if len(numbers) > 1 else numbers[0]


#: An option for each setting.
of_methods = together(*(_option(name) for name in SETTINGS if name not in _APART))


def check_has(name: str, method: str, spell: Callable[[str], str]) -> None:
    """Refuse a setting that another method has, in one sentence."""
    has = settings_of(method)
    if name in has or name not in SETTINGS:
        return
    own = ", ".join(spell(s) for s in has if len(SETTINGS[s].defaults) < len(METHODS))
    raise click.UsageError(f"{spell(name)} is not a setting of {method}, which has {own}.")


def check_reading(given: NamedDict, method: str) -> None:
    """Refuse two answers to one question, and what the method cannot answer."""
    if given.get("epsilon") is not None and given.get("ess") is not None:
        raise click.UsageError("--epsilon and --ess exclude each other. Drop one.")
    if given.get("ess") is not None and METHODS[function_of(method)].seeks_mode:
        raise click.UsageError(
            "--ess reads a posterior, and this is a run of map-tree. Use --epsilon."
        )


# In files -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """What a file says; nothing if there is none."""

    problem: str | None = None
    method: str = DEFAULT
    settings: NamedDict = field(default_factory=dict)


def read_config(path: Path, method: str | None = None) -> Config:
    """The problem, the method and the arguments of the method, of a TOML file.

    A method that is given wins over that of the file.  What is wrong is a `click.UsageError`.
    """
    try:
        return _read(tomllib.loads(path.read_text(encoding="utf-8-sig")), method)
    except (ValueError, OSError) as error:
        raise click.UsageError(f"--config {path} cannot be read: {error}") from error
    except click.UsageError as error:
        raise click.UsageError(f"--config {path}: {error.message}") from error


def _read(found: NamedDict, method: str | None) -> Config:
    _check_names(found, ("problem", "settings"), "a table")
    for name, table in found.items():
        if not isinstance(table, dict):
            raise click.UsageError(f"{name} must be a table, [{name}].")
    problem, settings = found.get("problem", {}), found.get("settings", {})
    _check_names(problem, ("name",), "a key of [problem]")
    name, named = problem.get("name"), settings.pop("method", DEFAULT)
    if name is not None and not isinstance(name, str):
        raise click.UsageError(f"problem.name must be a string, got {name!r}.")
    if not isinstance(named, str) or method_of(named) not in NAMES:
        raise click.UsageError(f"method must be one of {', '.join(NAMES)}, but got {named!r}.")
    method = method or method_of(named)
    for setting in settings:
        if setting in NO_SETTINGS:
            advice = f"Call abctree.{function_of(method)} for it."
            raise click.UsageError(f"{setting!r} cannot be set in a file. {advice}")
        check_has(setting, method, repr)
    _check_names(settings, ("method", *settings_of(method)), "a key of [settings]")
    for key, value in settings.items():
        try:
            SETTINGS[key].kind.read(key, value)
        except AbctreeError as error:
            raise click.UsageError(f"{key} = {value!r}: {error}") from error
    return Config(name, method, settings)


def _check_names(given: NamedDict, known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            ours = meant(name, known)
            advice = f"Did you mean {ours}?" if ours else f"There is {', '.join(known)}."
            raise click.UsageError(f"{name!r} is not {what}. {advice}")
