"""One module for each figure of the paper that is redrawn: ``python -m experiments.<name>``.

Each uses the public API only, and writes a picture to ``docs/images`` and its numbers to
``experiments/results``.  ``--quick`` makes a small version in a temporary folder, in seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import abctree

ROOT = Path(__file__).resolve().parents[1]


def arguments(description: str) -> argparse.Namespace:
    """What every experiment may be told: ``--quick``, ``--out FOLDER``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small version, in seconds")
    parser.add_argument("--out", type=Path, help="folder to write to, in place of the repository")
    args = parser.parse_args()
    if args.out is None:
        args.out = Path(tempfile.gettempdir()) / "abctree-experiments" if args.quick else ROOT
    return args


def write(out: Path, name: str, figure: Any, numbers: dict[str, Any]) -> None:
    """A picture and its numbers, where the documents look for them."""
    picture = out / "docs" / "images" / f"{name.replace('_', '-')}.png"
    table = out / "experiments" / "results" / f"{name}.json"
    for path in (picture, table):
        path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=80)
    about = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "abctree": abctree.__version__,
    }
    table.write_text(json.dumps({"about": about, **numbers}, indent=1) + "\n")
    print(f"wrote {picture}\nwrote {table}")
