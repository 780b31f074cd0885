"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click

#: Puts options on a command.
#: What click makes a command of.
Command: TypeAlias = Callable[..., object]
Decorator: TypeAlias = Callable[[Command], Command]


def as_bytes(text: str) -> float:
    """A number of bytes from a number with a unit: G or GB for 10⁹, GiB for 2³⁰.

    Raises
    ------
    click.BadParameter
        If it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\d+)?) *(?:([kmgt])(i?))?b?", text, re.IGNORECASE)
    if found:
        number, unit, binary = found.groups()
        power = " kmgt".index(unit.lower()) if unit else 0
        size = float(number) * float(1024 if binary else 1000) ** power
        if 1.0 <= size < float("inf"):
            return size
    raise click.BadParameter(f"{text!r} is no size, such as 500M, 2G or 2GiB.")


budget: Decorator = click.option(
    "-n",
    "--n-simulations",
    type=click.IntRange(min=2),
    metavar="N",
    help="Budget of simulations in all, spent exactly.",
)
seconds: Decorator = click.option(
    "--seconds",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="S",
    help="Stop after so many seconds.",
)
workers: Decorator = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="K",
    help="Worker processes for the simulator. They never change the result.  [default: none]",
)
memory: Decorator = click.option(
    "--memory",
    type=as_bytes,
    metavar="SIZE",
    help="Bytes for each worker process, such as 500M, 2G or 2GiB, on Linux: one that holds half "
    "of them is replaced, and a simulation that needs more has failed. Goes with --workers.",
)
quiet: Decorator = click.option("--quiet", is_flag=True, help="No progress on stderr.")
as_json: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON."
)
other_problem: Decorator = click.option(
    "--problem",
    metavar="PROBLEM",
    help="The problem of the run, as for abctree run.  [default: as DIR remembers it]",
)
folder: Decorator = click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)


def reading(function: Command) -> Command:
    """``--epsilon`` or ``--ess``."""
    for flag, metavar, words in (
        ("--ess", "N", "the smallest tolerance with this effective sample size"),
        ("--epsilon", "E", "this tolerance"),
    ):
        function = click.option(
            flag,
            type=click.FloatRange(min=0.0, min_open=True),
            metavar=metavar,
            help=f"Read the answer at {words}.",
        )(function)
    return function
