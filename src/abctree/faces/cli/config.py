"""Settings from a TOML file: its tables, the names in them, and their types."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from abctree.faces.cli.settings import (
    DEFAULT,
    NAMES,
    function_of,
    in_files,
    method_of,
    refusal,
    settings_of,
)
from abctree.keywords import meant
from abctree.running.settings import NO_SETTINGS

if TYPE_CHECKING:  # it imports NumPy
    from abctree.types import NamedDict


@dataclass(frozen=True)
class Config:
    """What a file says; nothing if there is none."""

    problem: str | None = None
    method: str = DEFAULT
    settings: NamedDict = field(default_factory=dict)


def read_config(path: Path, method: str | None = None) -> Config:
    """The problem, the method and the arguments of the method, of a TOML file.

    A method that is given wins over that of the file.

    Raises
    ------
    click.UsageError
        If it is no TOML, or a table or key is unknown or of the wrong type, or the method does not
        have a setting.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise click.UsageError(f"--config {path} cannot be read: {error}") from error
    _check_names(path, found, ("problem", "settings"), "a table")
    for name, table in found.items():
        if not isinstance(table, dict):
            raise click.UsageError(f"--config {path}: {name} must be a table, [{name}].")
    problem, settings = found.get("problem", {}), found.get("settings", {})
    _check_names(path, problem, ("name",), "a key of [problem]")
    name = problem.get("name")
    if name is not None and not isinstance(name, str):
        raise click.UsageError(f"--config {path}: problem.name must be a string, got {name!r}.")
    named = _method(path, settings.pop("method", DEFAULT))
    method = method or named
    _check_settings(path, settings, method)
    return Config(name, method, settings)


def _method(path: Path, named: object) -> str:
    method = method_of(named) if isinstance(named, str) else named
    if method not in NAMES:
        raise click.UsageError(
            f"--config {path}: method must be one of {', '.join(NAMES)}, but got {named!r}."
        )
    return str(method)


def _check_settings(path: Path, settings: NamedDict, method: str) -> None:
    for name in settings:
        if name in NO_SETTINGS:
            raise click.UsageError(
                f"--config {path}: {name!r} cannot be set in a file. Call "
                f"abctree.{function_of(method)} for it."
            )
        why = refusal(name, method, repr)
        if why is not None:
            raise click.UsageError(f"--config {path}: {why}")
    known = ("method", *settings_of(method))
    _check_names(path, settings, known, "a key of [settings]")
    for key, value in settings.items():
        _check_type(path, key, value)


def _check_names(path: Path, given: NamedDict, known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            ours = meant(name, known)
            advice = f"Did you mean {ours}?" if ours else f"There is {', '.join(known)}."
            raise click.UsageError(f"--config {path}: {name!r} is not {what}. {advice}")


def _check_type(path: Path, key: str, value: object) -> None:
    kinds, of_items, words = in_files(key)
    items = list(value.values()) if isinstance(value, dict) else value
    several = items if isinstance(items, list) else []
    if not _fits(value, kinds) or not all(_fits(item, of_items) for item in several):
        raise click.UsageError(f"--config {path}: {key} must be {words}, but got {value!r}.")


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether it is one of these; True is an int in Python, but not in a file of settings."""
    return isinstance(value, kinds) and (not isinstance(value, bool) or kinds == (bool,))
