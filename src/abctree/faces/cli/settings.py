"""The settings of all methods: how each may be written in a file, and its option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from abctree.faces.cli.methods import COMMON, METHODS

NUMBER = (int, float)


def as_schedule(text: str) -> str | float | list[float]:
    """A list if there is a comma, a number if it is one, else the name of a rule.

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


@dataclass(frozen=True)
class Setting:
    """An argument that some methods have."""

    kinds: tuple[type, ...]  #: that a file may have
    words: str  #: what an error calls them
    about: str = ""  #: help of its option; without one, it has no option of its own here
    type: Any = None  #: of its option
    metavar: str | None = None

    def option(self, name: str) -> Callable[[Any], Any]:
        """Its option, which says who has it."""
        flag = spelled(name)
        owners = [method for method, face in METHODS.items() if name in face.settings]
        whose = "" if len(owners) == len(METHODS) else f"  [{', '.join(owners)}]"
        return click.option(
            f"{flag}/--no-{flag[2:]}" if self.kinds == (bool,) else flag,
            type=self.type,
            default=None,
            metavar=self.metavar,
            help=self.about + whose,
        )


def spelled(name: str) -> str:
    """The option of a setting."""
    return "--" + name.replace("_", "-")


def _whole(about: str, least: int = 1) -> Setting:
    return Setting((int,), "a whole number", about, click.IntRange(min=least), "N")


def _share(about: str) -> Setting:
    return Setting(NUMBER, "a number", about, click.FloatRange(0.0, 1.0, max_open=True), "X")


def _one_of(about: str, *names: str) -> Setting:
    return Setting((str,), "a string", about, click.Choice(names))


#: By the name of the argument.
SETTINGS = {
    "n_simulations": Setting((int,), "a whole number"),
    "rng": Setting((int,), "a whole number"),
    "executor": Setting((int, str), "a number of workers, or a string"),
    "stop": Setting((dict,), "a table such as { seconds = 60, epsilon = 0.1 }"),
    "preset": _one_of("The settings of the paper.", "published"),
    "partitioner": _one_of(
        "Rule that cuts the parameter space.",
        *("soft", "dyadic", "cart", "bart", "dynamic", "peaks"),
    ),
    "utility": _one_of("What a proposal is optimised for.", "ess", "omega1", "omega2", "omega3"),
    "policy": _one_of("Bandit that seeks the best box.", "top-two", "thompson", "t3c"),
    "n_particles": _whole("Accepted draws of a population."),
    "keep": _whole("Keep the closest N simulations, and answer by them."),
    "kernel": _one_of(
        "Steps from one population to the next.",
        *("twice-covariance", "componentwise", "silverman", "local"),
    ),
    "schedule": Setting(
        (str, *NUMBER, list),
        "a string, a number or a list of numbers",
        "How the tolerance falls: median, adaptive, a factor such as 0.9, or a list such as "
        "2,1,0.5.",
        as_schedule,
        "RULE",
    ),
    "weights": _one_of("Who answers: the last population, or all.", "population", "mixture"),
    "min_ess": Setting(
        NUMBER,
        "a number",
        "Least effective sample size of a population.",
        click.FloatRange(min=0.0),
        "X",
    ),
    "space": _one_of("Where steps are made.", "theta", "cube"),
    "quota": _whole("Acceptances that end a round."),
    "n_pilot": _whole("Prior draws of the pilot."),
    "n_folds": _whole("Parts of the table that are learned from separately."),
    "window": _one_of("Learn from all simulations, or the last round's.", "extended", "rolling"),
    "relabel": _one_of("Tolerance at which the table is counted.", "next", "last"),
    "block": _whole("Simulations between two updates of what is believed."),
    "chunk": _whole("Simulations begun at once."),
    "lookahead": _whole("Blocks begun before the oldest is back.", least=0),
    "defensive": _share("Share of the prior in every proposal."),
    "kernels": Setting(
        (bool,), "true or false", "Whether kernels around accepted draws propose beside the boxes."
    ),
    "max_rounds": _whole("Most rounds."),
    "on_failure": _one_of(
        "Whether a failed simulation counts as rejected, or ends the run.", "reject", "raise"
    ),
    "keep_summaries": Setting(
        (bool,), "true or false", "Whether summaries are kept, for regression adjustment."
    ),
}


def of_methods(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each setting that has one."""
    for name, setting in reversed(SETTINGS.items()):
        if setting.about:
            function = setting.option(name)(function)
    return function


def refusal(name: str, method: str, spell: Callable[[str], str]) -> str | None:
    """Why a method cannot be given a setting that another has, in one sentence; None if it can."""
    has = METHODS[method].settings
    if name in has or not any(name in face.settings for face in METHODS.values()):
        return None
    others = ", ".join(spell(setting) for setting in has if setting not in COMMON)
    return f"{spell(name)} is not a setting of {method}, which has {others}."
