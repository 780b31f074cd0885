"""The group of commands, and the options that several of them share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click

from abctree import __version__
from abctree.keywords import meant

#: What click makes a command of, and what puts options on it.
Command: TypeAlias = Callable[..., object]
Decorator: TypeAlias = Callable[[Command], Command]
ABOVE_0 = click.FloatRange(min=0.0, min_open=True)


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """A path as it is seen from here: a module of the user's, and a simulator, may go elsewhere."""
    return None if path is None else path.absolute()


def written(flag: str, name: str, metavar: str, words: str, *, required: bool = False) -> Decorator:
    """The option of a file or a directory to write to."""
    kind = click.Path(path_type=Path, file_okay=metavar != "DIR", dir_okay=metavar != "FILE")
    return click.option(
        flag, name, type=kind, callback=absolute, metavar=metavar, help=words, required=required
    )


def as_bytes(text: str) -> float:
    """A number of bytes from a number with a unit: G or GB for 10⁹, GiB for 2³⁰."""
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
seed: Decorator = click.option(
    "--rng",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of all randomness. The same seed gives the same run.  [default: random]",
)
#: How a run is made, whoever makes it.
making = together(
    click.option("--seconds", type=ABOVE_0, metavar="S", help="Stop after so many seconds."),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="K",
        help="Worker processes for the simulator. They never change the result.  [default: none]",
    ),
    click.option(
        "--memory",
        type=as_bytes,
        metavar="SIZE",
        help="Bytes for each worker process, such as 500M, 2G or 2GiB, on Linux: one that holds "
        "half of them is replaced, and a simulation that needs more has failed. Goes with "
        "--workers.",
    ),
    click.option("--quiet", is_flag=True, help="No progress on stderr."),
)
live: Decorator = click.option(
    "--live",
    is_flag=True,
    help="Show the page of the run while it goes on, at an address of this machine that is "
    "printed, with a button that does what Ctrl-C does.",
)
as_json: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print the summary as JSON."
)
reading = together(
    click.option("--epsilon", type=ABOVE_0, metavar="E", help="Read the answer at this tolerance."),
    click.option(
        "--ess",
        type=ABOVE_0,
        metavar="N",
        help="Read the answer at the smallest tolerance with this effective sample size.",
    ),
)
#: Which run, and how it is read.
of_folder = together(
    click.argument(
        "directory",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        callback=absolute,
    ),
    click.option(
        "--problem",
        metavar="PROBLEM",
        help="The problem of the run, as for abctree run.  [default: as DIR remembers it]",
    ),
    reading,
)


# The group ---------------------------------------------------------------------------------------

EXAMPLES = """\b
Examples:
  abctree check my_model:problem
  abctree run lotka-volterra --rng 1
  abctree run gaussian-mixture --n-simulations 50000 --preset published
  abctree run my_model:problem --seconds 600 --workers 4 --memory 2G --out runs/first
  abctree run my_model:problem --method map-tree --out runs/mode
  abctree run my_model:problem --method rejection -n 1000000 --keep 1000
  abctree run --config run.toml --out runs/second
  abctree resume runs/first --n-simulations 200000
  abctree summary runs/first --ess 500
  abctree plot runs/first
  abctree report runs/first
  abctree export runs/first --to first.npz

\b
Exit status: 0 success; 1 nothing accepted, the run failed, or a check found something; 2 wrong
usage.
"""


class _Command(click.Command):
    """A command that knows which of its options another library's word means."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As of any command."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            word = error.option_name.lstrip("-").replace("-", "_")
            ours = meant(word, [str(param.name) for param in self.params])
            if ours is None:
                raise
            said = (
                f"No such option {error.option_name!r}. Did you mean '--{ours.replace('_', '-')}'?"
            )
            raise click.NoSuchOption(error.option_name, said, ctx=ctx) from error


class _Group(click.Group):
    command_class = _Command


@click.group(cls=_Group, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="abctree")
def main() -> None:
    """Posteriors from a prior and a simulator, with few simulations."""
