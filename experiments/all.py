"""All experiments, one after the other, each in a process of its own.

    python -m experiments.all --quick               small versions of all, in a temporary folder
    python -m experiments.all --workers 16          everything; hours of CPU time
    python -m experiments.all --only heston finite

One whose extra is missing is skipped, and says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Experiment:
    """A module of this folder."""

    name: str
    needs: tuple[str, ...] = ()  #: packages beside matplotlib


EXPERIMENTS = (
    Experiment("progression"),
    Experiment("thinning"),
    Experiment("finite"),
    Experiment("theorem1"),
    Experiment("fixed_grid"),
    Experiment("partitions", needs=("stochtree",)),
    Experiment("fifty_arms"),
    Experiment("theorem2"),
    Experiment("map_example2"),
    Experiment("digits"),
    Experiment("heston"),
    Experiment("lotka_volterra"),
    Experiment("encoding"),
    Experiment("complexity"),
    Experiment("sp500", needs=("arch",)),
)
#: Commands of this folder that are no experiments of their own.
PREPARATIONS = ("train_digits",)


def reason_to_skip(experiment: Experiment) -> str | None:
    """Why it cannot run here, or None."""
    if not (Path(__file__).parent / f"{experiment.name}.py").exists():
        return "it is not there"
    missing = [p for p in ("matplotlib", *experiment.needs) if importlib.util.find_spec(p) is None]
    if missing:
        return f"needs {', '.join(missing)}: pip install 'abctree[experiments]'"
    return None


def command_of(experiment: Experiment, args: argparse.Namespace) -> list[str]:
    words = [sys.executable, "-m", f"experiments.{experiment.name}"]
    words += ["--quick"] if args.quick else []
    words += ["--out", str(args.out)] if args.out else []
    words += ["--reference", str(args.reference)] if args.reference else []
    return [*words, "--workers", str(args.workers)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--only", nargs="*", choices=[e.name for e in EXPERIMENTS])
    args = parser.parse_args(argv)
    failed = []
    for experiment in EXPERIMENTS:
        if args.only and experiment.name not in args.only:
            continue
        why = reason_to_skip(experiment)
        if why is not None:
            print(f"== {experiment.name}: skipped, {why}", flush=True)
            continue
        print(f"== {experiment.name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command_of(experiment, args), check=False).returncode
        print(f"== {experiment.name}: {time.monotonic() - began:.0f} s, exit {code}", flush=True)
        failed += [experiment.name] if code else []
    print(f"failed: {', '.join(failed)}" if failed else "all done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
