"""The paragraph and the picture of a run: ``python -m examples.hare_lynx FOLDER``."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path

import abctree
from examples.hare_lynx import paragraph, picture, predict, problem


def main(argv: Sequence[str] | None = None) -> None:
    """Read the run in a folder, say what it means, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="what `abctree run --out FOLDER` wrote")
    folder = parser.parse_args(argv).folder
    result = abctree.load(folder, problem())
    posterior = result.posterior()
    prediction = predict(posterior, rng=result.root)
    said = textwrap.fill(paragraph(result, posterior, prediction), 88)
    (folder / "hare-lynx.txt").write_text(f"{said}\n", encoding="utf-8")
    print(f"\n{said}\n")
    picture(posterior, prediction).savefig(folder / "hare-lynx.png", dpi=130)
    print(f"Wrote hare-lynx.txt, hare-lynx.png to {folder}")


if __name__ == "__main__":
    main()
