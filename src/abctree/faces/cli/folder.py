"""The output folder: whose run is in it, what was asked for, and its run store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from abctree import __version__
from abctree.faces.cli.settings import DEFAULT, NAMES, function_of, method_of

#: What is written for people and programs, the run store aside.
FILES = (
    "summary.txt",
    "summary.csv",
    "summary.json",
    "posterior.csv",
    "posterior.png",
    "mode.csv",
    "mode.png",
    "partition.png",
    "predictive.png",
    "progress.png",
    "failures.png",
    "report.html",
)
#: Written before the first simulation, so that a killed run is known by it.
_NOTE = "run.json"
#: `run.lock` stays: removing it would let two processes in at once.
_STORE = "run.journal"
#: What an error calls parts of a manifest; the others are settings.
_WORDS = {
    "seeds": "seed",
    "n_simulations": "budget",
    "problem": "code of the problem",
    "versions": "version of abctree, NumPy or Python",
    "code": "code of the problem",
}


@dataclass(frozen=True)
class Note:
    """What a folder remembers of its run, beside the store."""

    problem: str  #: as it was named on the command line
    seed: int | None  #: None if the run was not begun here
    asked: dict[str, Any] = field(default_factory=dict)  #: settings that were given
    method: str = DEFAULT  #: by its name on the command line; that of the store is right, if any

    def write(self, directory: Path) -> None:
        """Remember it in a folder."""
        said = {
            "abctree": __version__,
            "problem": self.problem,
            "method": function_of(self.method),
            "seed": self.seed,
            "settings": self.asked,
        }
        text = to_json(said)
        (directory / _NOTE).write_text(text + "\n", encoding="utf-8")

    @property
    def title(self) -> str:
        """What an error calls the run."""
        kind = "run" if self.method == DEFAULT else f"{self.method} run"
        return f"{kind} of {self.problem}"

    @classmethod
    def read(cls, directory: Path) -> Note | None:
        """That of a folder, or None if it holds none that can be read."""
        try:
            said = json.loads((directory / _NOTE).read_text(encoding="utf-8"))
            method = method_of(said.get("method", function_of(DEFAULT)))
            note = cls(said["problem"], said["seed"], said["settings"], method)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        kinds = ((note.problem, str), (note.seed, int | None), (note.asked, dict))
        valid = all(isinstance(value, kind) for value, kind in kinds) and note.method in NAMES
        return note if valid else None


def named(directory: Path) -> str:
    """A folder as it is named from here."""
    here = Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory)


def claim(
    directory: Path, new: Note, planned: Mapping[str, Any] | None, *, force: bool
) -> list[str]:
    """Make the folder, before anything is simulated; the names of a former run's files in it.

    `planned` is the manifest of what is to be run; None if it is to have no store.  Without `force`
    it is refused where something would be lost: all but a run of which this one is a repetition.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        former = [name for name in (_NOTE, *FILES, _STORE) if (directory / name).exists()]
    except OSError as error:
        raise click.UsageError(
            f"--out {named(directory)} cannot be used: {error.strerror}."
        ) from error
    if not former or force:
        return former
    owner = Note.read(directory)
    if owner is None or owner.title != new.title:
        whose = f"of a {owner.title}" if owner else "of unknown origin"
        raise click.UsageError(
            f"--out {named(directory)} holds {', '.join(former)} {whose}. Name another directory, "
            "or add --force to replace them."
        )
    if _STORE in former:
        _check_repeats_store(directory, new, planned)
    elif former != [_NOTE] and owner != new:  # else there is nothing to lose
        raise _finished(directory, new, "seed or settings")
    return former


def _check_repeats_store(directory: Path, new: Note, planned: Mapping[str, Any] | None) -> None:
    """Refuse to replace simulations that the new run would not make again."""
    from abctree.errors import StoreError
    from abctree.running.ledger import Ledger

    try:
        ledger = Ledger.read(directory)
    except StoreError as error:
        raise click.UsageError(f"{error} Or add --force to replace it.") from error
    kept, n = ledger.manifest or {}, ledger.n_simulations
    only_failures = ledger.holds_failures_only
    budget = kept.get("settings", {}).get("n_simulations", n)
    if only_failures and n < budget:
        raise click.UsageError(
            f"--out {named(directory)} holds failures only: all {n} simulations of a {new.title} "
            "failed. To start anew, mend what failed and add --force, or name another directory."
        )
    if 0 < n < budget:
        raise click.UsageError(
            f"--out {named(directory)} holds an unfinished {new.title}: {n} of {budget} "
            f"simulations. Go on with it by: abctree resume {named(directory)}. Or name another "
            "directory, or add --force to replace it."
        )
    differing = _differing(kept, planned)
    if n > 0 and differing:
        raise _finished(directory, new, " and ".join(differing))


def _differing(kept: Mapping[str, Any], planned: Mapping[str, Any] | None) -> list[str]:
    """In what a new run is not the one that is kept; nothing if it gives the same."""
    if planned is None:
        return ["store"]
    now = json.loads(json.dumps(planned))  # as it would be read again
    one, two = ({**made, **made.get("settings", {}), "settings": None} for made in (kept, now))
    keys = [key for key in (*two, *one) if one.get(key) != two.get(key)]
    return list(dict.fromkeys(_WORDS.get(key, "settings") for key in keys))


def _finished(directory: Path, new: Note, differing: str) -> click.UsageError:
    return click.UsageError(
        f"--out {named(directory)} holds a finished {new.title}, from which this one differs in "
        f"{differing}. Name another directory, or add --force to replace it."
    )


def clear(directory: Path) -> None:
    """Remove the files of a former run, unless another process is at work on it."""
    former = [directory / name for name in (_NOTE, *FILES, _STORE)]
    if not any(file.exists() for file in former):
        return
    from abctree.running.journal import FolderLock
    from abctree.running.predictions import FOLDER

    lock = FolderLock(directory)
    try:
        for file in (*former, *(directory / FOLDER).glob("*.jsonl")):
            file.unlink(missing_ok=True)
    finally:
        lock.release()


def to_json(value: Any) -> str:
    """JSON with null for numbers that it does not have."""
    from abctree.numbers import plain  # which needs numpy: `--help` does without

    return json.dumps(plain(value), indent=2, allow_nan=False)
