"""The page of a run, put together: the one place that needs Jinja2."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from abctree.answers.result import Result
from abctree.errors import needed, warnings_kept
from abctree.faces.report import contents
from abctree.faces.report.drawn import pair_data, partition_data


@dataclass(frozen=True)
class Repeat:
    """How a run is made again: a command and a file, where it was made by the command line."""

    command: str
    toml: str  #: of run.toml


def write(result: Result, path: str | os.PathLike[str], repeat: Repeat | None = None) -> None:
    """Write the page of a run; see `Result.report`."""
    Path(path).write_text(page(result, repeat), encoding="utf-8")


def check_installed() -> None:
    """Raise `MissingDependencyError` before anything is computed for a page."""
    for module in ("jinja2", "matplotlib"):
        needed(module, f"A report needs {module}", "abctree[report]")


def page(result: Result, repeat: Repeat | None = None) -> str:
    """The page of a run as HTML."""
    check_installed()
    import jinja2

    def file(name: str) -> str:
        return resources.files(__package__).joinpath(name).read_text("utf-8")

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    said: dict[str, Any] = contents.of(result)
    return environment.from_string(file("page.html")).render(
        **said, repeat=repeat, css=file("page.css"), js=file("page.js"), data=_embedded(result)
    )


def _embedded(result: Result) -> str:
    """What the page's own pictures read, as JSON that can stand inside of a script element."""
    with warnings_kept():  # the verdicts have them
        found = {"pair": pair_data(result), "partitions": partition_data(result)}
    text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
