"""The tables of the documents, written between their markers from the stored numbers.

    python -m benchmarks.report            write them
    python -m benchmarks.report --check    say whether the documents are what would be written

A marker ``<!-- table: NAME -->`` opens a table and ``<!-- end -->`` closes it.  What stands between
is replaced by the table of that name, or by a line that says that there are no numbers yet.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import settings
from experiments import command
from experiments.all import EXPERIMENTS
from experiments.command import ROOT

DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "docs" / "yardsticks.md",
    ROOT / "docs" / "speed.md",
    ROOT / "docs" / "how-to" / "on-a-cluster.md",
    ROOT / "docs" / "reproduction.md",
    ROOT / "docs" / "explanation" / "defaults.md",
    ROOT / "docs" / "explanation" / "errors.md",
    ROOT / "docs" / "explanation" / "how-it-works.md",
    ROOT / "docs" / "explanation" / "map-tree.md",
    ROOT / "docs" / "explanation" / "readings.md",
    ROOT / "docs" / "explanation" / "digits-experiment.md",
)
#: Modules with tables in them that are no experiments of one JSON, and where their numbers are.
OTHERS = {
    "yardsticks": ("benchmarks.yardsticks", ROOT / "benchmarks" / "results" / "yardsticks.json"),
    "peers": ("benchmarks.peers", ROOT / "benchmarks" / "results" / "peers.json"),
    "speed": ("benchmarks.speed", ROOT / "benchmarks" / "results" / "speed.json"),
    "peers_speed": (
        "benchmarks.peers_speed",
        ROOT / "benchmarks" / "results" / "peers_speed.json",
    ),
    "cluster": ("benchmarks.cluster", ROOT / "benchmarks" / "results" / "cluster.json"),
    "defaults": ("benchmarks.defaults", command.RESULTS / "defaults.json"),
    "errors": ("benchmarks.errors", command.RESULTS / "errors.json"),
    "map_modes": ("benchmarks.map_modes", command.RESULTS / "map_modes.json"),
    "readings": ("benchmarks.readings", command.RESULTS / "readings.json"),
    "calibrations": ("benchmarks.calibrations", command.RESULTS / "calibrations.json"),
    "intervals": ("benchmarks.intervals", command.RESULTS / "intervals.json"),
    "fits": ("benchmarks.fits", command.RESULTS / "fits.json"),
    "models": ("benchmarks.models", command.RESULTS / "models.json"),
    "bandit_cost": ("benchmarks.bandit_cost", command.RESULTS / "bandit_cost.json"),
    "digits_posterior": ("experiments.digits_pictures", command.RESULTS / "digits_posterior.json"),
    "digits_leaves": ("experiments.digits_pictures", command.RESULTS / "digits_leaves.json"),
    "digits_map": ("experiments.digits_pictures", command.RESULTS / "digits_map.json"),
}
TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MISSING = "*No numbers yet.*"


# Tables -----------------------------------------------------------------------------------------


def all_tables() -> dict[str, str]:
    """Every table that there are numbers for, and a line on where they come from."""
    found = settings.tables()
    for experiment in EXPERIMENTS:
        path = command.RESULTS / f"{experiment.name}.json"
        make = maker(experiment.name) if path.exists() else None
        if make is not None:
            found |= told(experiment.name, json.loads(path.read_text("utf-8")), make)
    for name, (module, path) in OTHERS.items():
        if path.exists():
            make = importlib.import_module(module).tables
            found |= told(name, json.loads(path.read_text("utf-8")), make)
    return found


def maker(name: str) -> Callable[[dict[str, Any]], dict[str, str]] | None:
    if importlib.util.find_spec(f"experiments.{name}") is None:
        return None
    return getattr(importlib.import_module(f"experiments.{name}"), "tables", None)


def told(
    name: str, numbers: dict[str, Any], make: Callable[[dict[str, Any]], dict[str, str]]
) -> dict[str, str]:
    """The tables, each under a name that begins with the module's."""
    own = {k if k.startswith(name) else f"{name}-{k}": v for k, v in make(numbers).items()}
    lines = [source(numbers.get("about", {}))]
    lines += [f"{part}: {source(about)}" for part, about in numbers.get("again", {}).items()]
    own[f"{name}-source"] = "\n\n".join(lines)
    return own


def source(about: dict[str, Any]) -> str:
    """One line: seeds, versions, machine."""
    parts = []
    if "seeds" in about:
        first, last = about["seeds"]
        parts.append(f"seed {first}" if first == last else f"seeds {first} to {last}")
    parts += [f"{key} {about[key]}" for key in ("python", "numpy", "abctree") if key in about]
    if about.get("cpus"):
        parts.append(f"{about.get('machine', '')} with {about['cpus']} cores".strip())
    return f"*{', '.join(parts)}.*" if parts else MISSING


def written(text: str, found: dict[str, str]) -> str:
    """The document with its tables."""

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}{found.get(match[2], MISSING)}\n{match[3]}"

    return TABLE.sub(fill, text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--documents", type=Path, nargs="+", default=DOCUMENTS)
    args = parser.parse_args(argv)
    found = all_tables()
    stale = 0
    for document in args.documents:
        old = document.read_text("utf-8")
        new = written(old, found)
        stale += old != new
        if old != new and not args.check:
            document.write_text(new, encoding="utf-8")
            print(f"wrote {document}")
    if args.check:
        print("out of date: run python -m benchmarks.report" if stale else "up to date")
    return stale if args.check else 0


if __name__ == "__main__":
    sys.exit(main())
