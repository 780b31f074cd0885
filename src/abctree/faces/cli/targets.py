"""PROBLEM on the command line: a ready-made one, or one of the user's."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree.errors import AbctreeError
from abctree.faces.cli.blame import blamed, one_line

if TYPE_CHECKING:
    from abctree.problem import Problem


@dataclass(frozen=True)
class Ready:
    """A ready-made problem: a function of `abctree.problems`, and a budget that suits it."""

    function: str
    n_simulations: int
    about: str


READY = {
    "gaussian-mixture": Ready("gaussian_mixture", 20_000, "two modes in two dimensions"),
    "banana": Ready("banana", 100_000, "four curved modes in five dimensions"),
    "lotka-volterra": Ready("lotka_volterra", 100_000, "predator and prey by nine summaries"),
    "heston": Ready("heston", 20_000, "stochastic volatility by seven summaries"),
    "gauss": Ready("gauss", 20_000, "a normal mean in two dimensions"),
}


def problem_of(name: str) -> Problem:
    """A ready-made problem, or one of the user's."""
    if name in READY:
        from abctree import problems

        made: Problem = getattr(problems, READY[name].function)()
        return made
    module, colon, attribute = name.rpartition(":")
    if not colon or not module or not attribute:
        raise click.UsageError(
            f"PROBLEM must be one of {', '.join(READY)}, or module:name, but got {name!r}."
        )
    _check_is_no_file(name, module, attribute)
    return _as_problem(name, _attribute(module, attribute))


def _check_is_no_file(name: str, module: str, attribute: str) -> None:
    """Say how a file is named as a module: workers, and later processes, import it by that name."""
    path = Path(module)
    if path.suffix != ".py" and path.name == module:
        return
    path = path.with_suffix("") if path.suffix == ".py" else path
    if path.is_absolute() or ".." in path.parts:
        how = f"Change to {path.parent} and write {path.name}:{attribute}"
    else:
        how = f"Write {'.'.join(path.parts)}:{attribute}"
    raise click.UsageError(f"PROBLEM must name a module, but got the file {name!r}. {how}.")


def _attribute(module: str, attribute: str) -> Any:
    import importlib

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise click.UsageError(
                f"There is no module {error.name!r} in {here} or among the installed ones."
            ) from error
        raise click.ClickException(blamed(f"Importing {module}", error)) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"{module} has no {attribute!r}.")
        found = getattr(found, part)
    return found


def _as_problem(name: str, found: object) -> Problem:
    from abctree.problem import Problem

    if callable(found) and not isinstance(found, Problem):
        try:
            found = found()
        except AbctreeError as error:
            raise click.ClickException(f"{name}: {one_line(error)}") from error
        except (Exception, SystemExit) as error:
            doing = f"Calling {name} without arguments"
            raise click.ClickException(blamed(doing, error)) from error
    if not isinstance(found, Problem):
        raise click.UsageError(
            f"{name} must be an abctree.Problem or a function that returns one, but got {found!r}."
        )
    return found
