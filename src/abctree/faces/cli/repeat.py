"""How a run of a folder is made again: the command, and a file of settings."""

from __future__ import annotations

import json
import shlex
from typing import Any

from abctree.faces.cli.folder import Note
from abctree.faces.cli.settings import DEFAULT, spelled
from abctree.faces.report import Repeat

#: How the answer is read, which is no setting of the run.
_READING = ("epsilon", "ess")


def repeat_of(note: Note) -> Repeat | None:
    """Of a run that the command line has made; None if it was made elsewhere."""
    if note.seed is None:
        return None
    said = {key: value for key, value in note.asked.items() if key not in _READING}
    return Repeat(command=_command(note, said), toml=_toml(note, said))


def _command(note: Note, said: dict[str, Any]) -> str:
    if "stop" in said:  # a table has no option
        return "abctree run --config run.toml"
    words = ["abctree", "run", note.problem, "--rng", str(note.seed)]
    if note.method != DEFAULT:
        words += ["--method", note.method]
    for name, value in said.items():
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: object) -> list[str]:
    flag = spelled(name)
    if isinstance(value, bool):
        return [flag, str(value).lower()]
    items = value if isinstance(value, list | tuple) else [value]
    return [flag, ",".join(str(item) for item in items)]


def _toml(note: Note, said: dict[str, Any]) -> str:
    stop = dict(said.get("stop", {}))
    if "seconds" in said:
        stop["seconds"] = said["seconds"]
    settings = {"method": note.method, **said, "rng": note.seed, "stop": stop}
    lines = [
        f"{name} = {_value(value)}"
        for name, value in settings.items()
        if name != "seconds" and (name != "stop" or stop)
    ]
    return "\n".join(["[problem]", f"name = {_value(note.problem)}", "[settings]", *lines])


def _value(value: object) -> str:
    """A value in TOML, which writes strings, numbers and lists as JSON does."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
