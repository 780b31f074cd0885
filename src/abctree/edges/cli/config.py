"""Settings from a TOML file: its tables, the names in them, and their types."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

_NUMBER = (int, float)
#: Arguments of `abctree.abc_tree` that can be written in a file, and how.
_SETTINGS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(
        ("n_simulations", "rng", "quota", "n_pilot", "n_folds", "block", "lookahead", "max_rounds"),
        ((int,), "a whole number"),
    ),
    **dict.fromkeys(
        ("partitioner", "utility", "window", "relabel", "preset", "on_failure"),
        ((str,), "a string"),
    ),
    "schedule": ((str, *_NUMBER, list), "a string, a number or a list of numbers"),
    "defensive": (_NUMBER, "a number"),
    "keep_summaries": ((bool,), "true or false"),
    "executor": ((int, str), "a number of workers, or a string"),
    "stop": ((dict,), "a table such as { seconds = 60, epsilon = 0.1 }"),
}
#: Arguments that take objects, or that the command line decides.
_NOT_HERE = ("problem", "beliefs", "policy", "store", "progress")


def read_config(path: Path) -> tuple[str | None, dict[str, Any]]:
    """The name of the problem, and the arguments of `abctree.abc_tree`, of a TOML file.

    Raises
    ------
    click.UsageError
        If it is no TOML, or a table or key is unknown or of the wrong type.
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
    _check_names(path, settings, tuple(_SETTINGS), "a key of [settings]")
    for key, value in settings.items():
        _check_type(path, key, value)
    return name, settings


def _check_names(path: Path, given: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name in _NOT_HERE and what.endswith("[settings]"):
            raise click.UsageError(
                f"--config {path}: {name!r} cannot be set in a file. Call abctree.abc_tree for it."
            )
        if name not in known:
            raise click.UsageError(
                f"--config {path}: {name!r} is not {what}. There is {', '.join(known)}."
            )


def _check_type(path: Path, key: str, value: Any) -> None:
    kinds, words = _SETTINGS[key]
    # True is an int in Python, but not in a file of settings.
    fits = isinstance(value, kinds) and (not isinstance(value, bool) or kinds == (bool,))
    items = list(value.values()) if isinstance(value, dict) else value
    if fits and (not isinstance(items, list) or all(_is_number(item) for item in items)):
        return
    raise click.UsageError(f"--config {path}: {key} must be {words}, but got {value!r}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)
