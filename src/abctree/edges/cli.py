"""The command line: ``abctree run PROBLEM``.

Heavy imports are inside the commands, so that ``abctree --help`` answers at once.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from abctree import __version__
from abctree.errors import AbctreeError, MissingDependencyError

if TYPE_CHECKING:
    from abctree.analysis.posterior import Posterior
    from abctree.analysis.result import Result
    from abctree.analysis.summary import Summary
    from abctree.data import Progress
    from abctree.edges.demo import Prediction
    from abctree.problem import Problem

#: Simulations for a problem of the user's own.
_N_SIMULATIONS = 10_000
#: Seconds between two states of the line on a terminal.
_REFRESH = 0.1
#: All that `run` ever writes.
_FILES = ("summary.txt", "summary.json", "posterior.csv", "posterior.png", "partition.png")


@dataclass(frozen=True)
class Ready:
    """A ready-made problem: a function of `abctree.problems`, and a budget that suits it."""

    function: str
    n_simulations: int
    about: str


READY = {
    "hare-lynx": Ready("hare_lynx", 150_000, "predator-prey rates from fur trade records"),
    "gaussian-mixture": Ready("gaussian_mixture", 20_000, "two modes in two dimensions"),
    "banana": Ready("banana", 100_000, "four curved modes in five dimensions"),
    "lotka-volterra": Ready("lotka_volterra", 100_000, "predator and prey by nine summaries"),
    "heston": Ready("heston", 20_000, "stochastic volatility by seven summaries"),
    "gauss": Ready("gauss", 20_000, "a normal mean in two dimensions"),
}

_EXAMPLES = """\b
Examples:
  abctree run hare-lynx --rng 1
  abctree run gaussian-mixture --n-simulations 50000 --preset published
  abctree run my_model:problem --seconds 600 --ess 500 --out runs/first

\b
Exit status: 0 success; 1 nothing accepted, or the run failed; 2 wrong usage.
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="abctree")
def main() -> None:
    """Posteriors from a prior and a simulator, with few simulations."""


def _run_help() -> str:
    listed = "\n".join(
        f"  {name:<17} {ready.about}, {ready.n_simulations} simulations"
        for name, ready in READY.items()
    )
    return (
        "Infer the parameters of PROBLEM, print the posterior, and write it to a directory.\n\n"
        f"PROBLEM is one of these, each with a budget by default:\n\n\b\n{listed}\n\n"
        "or module:name, where name is an abctree.Problem or a function that returns one. The "
        "module is looked for in the working directory first.\n\n"
        f"Writes {', '.join(_FILES[:-1])} and, in two dimensions, {_FILES[-1]}."
    )


@main.command(help=_run_help(), epilog=_EXAMPLES, short_help="Infer the parameters of a problem.")
@click.argument("problem")
@click.option(
    "-n",
    "--n-simulations",
    type=click.IntRange(min=2),
    metavar="N",
    help="Budget of simulations, spent exactly.",
)
@click.option(
    "--rng",
    type=click.IntRange(min=0),
    metavar="SEED",
    help="Seed of all randomness. The same seed gives the same run.  [default: random]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory to write to.  [default: NAME-output]",
)
@click.option("--force", is_flag=True, help="Replace the files of another problem's run in DIR.")
@click.option("--preset", type=click.Choice(["published"]), help="The settings of the paper.")
@click.option(
    "--partitioner",
    type=click.Choice(["soft", "dyadic", "cart"]),
    help="Rule that cuts the parameter space.",
)
@click.option(
    "--utility",
    type=click.Choice(["ess", "omega1", "omega2", "omega3"]),
    help="What a proposal is optimised for.",
)
@click.option(
    "--epsilon",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="E",
    help="Read the posterior at this tolerance.",
)
@click.option(
    "--ess",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="N",
    help="Read the posterior at the smallest tolerance with this effective sample size.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="S",
    help="Stop after so many seconds.",
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def run(
    problem: str,
    n_simulations: int | None,
    rng: int | None,
    out: Path | None,
    epsilon: float | None,
    ess: float | None,
    seconds: float | None,
    *,
    force: bool,
    quiet: bool,
    as_json: bool,
    **settings: str | None,
) -> None:
    """See `_run_help`."""
    if epsilon is not None and ess is not None:
        raise click.UsageError("--epsilon and --ess exclude each other. Drop one.")
    made = _problem(problem)
    directory = out or Path(f"{problem.rpartition(':')[2]}-output")
    former = _claim(directory, problem, force=force)
    ready = READY.get(problem)
    seed = _fresh_seed() if rng is None else rng
    budget = n_simulations or (ready.n_simulations if ready else _N_SIMULATIONS)
    asked: dict[str, Any] = {"n_simulations": budget, "seconds": seconds}
    asked |= {"epsilon": epsilon, "ess": ess, **settings}
    say = _silent if quiet else _to_stderr
    say(f"{problem}: {budget} simulations, seed {seed}")
    try:
        result = _sample(made, budget, seed, seconds, settings, quiet=quiet)
        answer = _Answer.of(problem, seed, asked, result, epsilon, ess)
        click.echo(_json(answer.to_dict()) if as_json else answer.text())
        written = answer.write(directory, former, say)
    except AbctreeError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{directory} cannot be written: {error}") from error
    replaced = ", replacing those of a former run" if former else ""
    say(f"Wrote {', '.join(written)} to {directory}{replaced}")
    if len(answer.posterior) == 0:
        raise click.ClickException(f"Nothing was accepted below epsilon {answer.epsilon:.4g}.")


def _silent(message: str) -> None:
    """Say nothing."""


def _to_stderr(message: str) -> None:
    click.echo(message, err=True)


def _fresh_seed() -> int:
    import secrets

    return secrets.randbits(32)


# The problem ------------------------------------------------------------------------------------


def _problem(name: str) -> Problem:
    """A ready-made problem, or one of the user's."""
    if name in READY:
        from abctree import problems

        made: Problem = getattr(problems, READY[name].function)()
        return made
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise click.UsageError(
            f"PROBLEM must be one of {', '.join(READY)}, or module:name, but got {name!r}."
        )
    return _as_problem(name, _attribute(module, attribute))


def _attribute(module: str, attribute: str) -> Any:
    import importlib

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise click.UsageError(
                f"There is no module {error.name!r} in {here} or among the installed ones."
            ) from error
        raise click.ClickException(_blame(f"Importing {module}", error)) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"{module} has no {attribute!r}.")
        found = getattr(found, part)
    return found


def _as_problem(name: str, found: Any) -> Problem:
    from abctree.problem import Problem

    if callable(found) and not isinstance(found, Problem):
        try:
            found = found()
        except AbctreeError as error:
            raise click.ClickException(f"{name}: {error}") from error
        except Exception as error:
            doing = f"Calling {name} without arguments"
            raise click.ClickException(_blame(doing, error)) from error
    if not isinstance(found, Problem):
        raise click.UsageError(
            f"{name} must be an abctree.Problem or a function that returns one, but got {found!r}."
        )
    return found


def _blame(doing: str, error: Exception) -> str:
    """What went wrong in the user's code, and where; the innermost line."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{doing} raised {type(error).__name__}: {error}{where}"


# The run ----------------------------------------------------------------------------------------


def _sample(
    problem: Problem,
    budget: int,
    seed: int,
    seconds: float | None,
    settings: dict[str, Any],
    *,
    quiet: bool,
) -> Result:
    from abctree.methods import abc_tree
    from abctree.parts.stopping import Seconds

    rules: list[Any] = [] if seconds is None else [Seconds(seconds)]
    watch = None if quiet else _watch(seconds)
    if isinstance(watch, _Line):
        rules.insert(0, watch)  # a rule that never stops sees every block, not only every round
    try:
        return abc_tree(
            problem, n_simulations=budget, rng=seed, stop=rules, progress=watch, **settings
        )
    finally:
        if isinstance(watch, _Line):
            watch.clear()


def _watch(seconds: float | None) -> _Log | _Line:
    return _Line(seconds) if sys.stderr.isatty() else _Log(seconds)


class _Log:
    """A line for every round, for files and pipes."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds

    def __call__(self, progress: Progress) -> None:
        click.echo(_state(progress, self.seconds), err=True)


class _Line:
    """One line that is written again and again, for terminals; also a rule that never stops."""

    every_block = True

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.shown = -1.0  #: seconds into the run when the line was last written

    def __call__(self, progress: Progress) -> None:
        import shutil

        room = shutil.get_terminal_size().columns - 1
        click.echo("\r\033[K" + _state(progress, self.seconds)[:room], nl=False, err=True)
        self.shown = progress.seconds

    def reason(self, progress: Progress) -> None:
        """No reason to stop, but a chance to show how far the run is."""
        if progress.seconds - self.shown >= _REFRESH:
            self(progress)

    def clear(self) -> None:
        """Leave an empty line."""
        if self.shown >= 0.0:
            click.echo("\r\033[K", nl=False, err=True)


def _state(progress: Progress, seconds: float | None) -> str:
    """A run on one line."""
    rate = progress.n_simulations / max(progress.seconds, 1e-9)
    left = (progress.budget - progress.n_simulations) / rate
    if seconds is not None:
        left = min(left, max(0.0, seconds - progress.seconds))
    played = [
        f"round {progress.round}",
        f"epsilon {progress.epsilon:.3g}",
        f"accepted {progress.acceptance_rate:.2%}",
        f"ESS {progress.ess:.0f}",
    ]
    parts = [
        *(played if progress.round else ["pilot"]),
        f"{progress.n_simulations} of {progress.budget}",
        f"{rate:.3g} a second",
        f"{progress.n_failures} failed",
        f"{_duration(left)} left",
    ]
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


# The answer -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Answer:
    """What is printed and written."""

    problem: str  #: as it was named on the command line
    seed: int
    asked: dict[str, Any]
    result: Result
    summary: Summary
    prediction: Prediction | None  #: of hare-lynx only
    story: str  #: the paragraph of hare-lynx

    @classmethod
    def of(
        cls,
        problem: str,
        seed: int,
        asked: dict[str, Any],
        result: Result,
        epsilon: float | None,
        ess: float | None,
    ) -> _Answer:
        summary = result.summary(epsilon=epsilon, ess=ess)
        prediction, story = None, ""
        if problem == "hare-lynx":
            from abctree.edges import demo

            prediction = demo.predict(summary.posterior, rng=seed)
            story = demo.paragraph(result, summary.posterior, prediction)
        return cls(problem, seed, asked, result, summary, prediction, story)

    @property
    def posterior(self) -> Posterior:
        return self.summary.posterior

    @property
    def epsilon(self) -> float:
        return self.posterior.epsilon

    def text(self) -> str:
        """The summary, and the paragraph if there is one."""
        import textwrap

        story = f"\n\n{textwrap.fill(self.story, 88)}" if self.story else ""
        return f"{self.summary}{story}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python objects, for JSON."""
        more: dict[str, Any] = {}
        if self.prediction is not None:
            more = {"prediction": self.prediction.to_dict(), "paragraph": self.story}
        return {
            "abctree": __version__,
            "problem": self.problem,
            "seed": self.seed,
            "settings": {name: value for name, value in self.asked.items() if value is not None},
            "stopped_because": self.result.stopped_because,
            "seconds": self.result.seconds,
            "n_failures": self.result.failures.count,
            "rounds": [
                {
                    "round": played.index,
                    "epsilon": played.epsilon,
                    "n_simulations": played.n_simulations,
                    "acceptance_rate": played.acceptance_rate,
                    "ess": played.ess,
                }
                for played in self.result.rounds[1:]
            ],
            **self.summary.to_dict(),
            **more,
        }

    def write(self, directory: Path, former: list[str], say: Any) -> list[str]:
        """Files for this run, in place of those of a former one; their names."""
        for name in former:
            (directory / name).unlink(missing_ok=True)
        (directory / "summary.json").write_text(_json(self.to_dict()) + "\n", encoding="utf-8")
        (directory / "summary.txt").write_text(self.text() + "\n", encoding="utf-8")
        _write_draws(directory / "posterior.csv", self.posterior)
        written = ["summary.txt", "summary.json", "posterior.csv"]
        try:
            written += self._pictures(directory)
        except MissingDependencyError as error:
            say(f"No pictures: {error}")
        return written

    def _pictures(self, directory: Path) -> list[str]:
        from abctree.edges import plots

        if self.prediction is None:
            figure = plots.pair(self.posterior)
        else:
            from abctree.edges import demo

            figure = demo.picture(self.posterior, self.prediction)
        figure.savefig(directory / "posterior.png", dpi=130)
        if self.result.problem.d != 2:
            return ["posterior.png"]
        plots.partitions(self.result).savefig(directory / "partition.png", dpi=130)
        return ["posterior.png", "partition.png"]


def _write_draws(path: Path, posterior: Posterior) -> None:
    """One row for each draw: parameters, normalised weight, distance."""
    import csv

    extra = [f"{name}_" if name in posterior.names else name for name in ("weight", "distance")]
    columns = [posterior.theta, posterior.weight[:, None], posterior.distance[:, None]]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*posterior.names, *extra])
        for row in zip(*(column.tolist() for column in columns), strict=True):
            writer.writerow([repr(value) for part in row for value in part])


def _json(value: Any) -> str:
    import json

    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _claim(directory: Path, problem: str, *, force: bool) -> list[str]:
    """Make the directory, before anything is simulated; the files of a former run in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        former = [name for name in _FILES if (directory / name).exists()]
        owner = _owner(directory) if former else problem
    except OSError as error:
        raise click.UsageError(f"--out {directory} cannot be used: {error.strerror}.") from error
    if owner != problem and not force:
        whose = f"of a run of {owner}" if owner else "of unknown origin"
        raise click.UsageError(
            f"--out {directory} holds {', '.join(former)} {whose}. Name another directory, or add "
            "--force to replace them."
        )
    return former


def _owner(directory: Path) -> str | None:
    """The problem whose run wrote the summary in a directory."""
    import json

    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    owner = summary.get("problem") if isinstance(summary, dict) and "abctree" in summary else None
    return owner if isinstance(owner, str) else None
