"""abctree beside pyABC, ELFI and sbi: time, tolerance and distance to the truth.

    python -m pip install '.[benchmark]'          the peers; those that are missing are left out
    python -m benchmarks.peers_speed              1e4, 1e5 and 1e6 simulations, ten minutes
    python -m benchmarks.peers_speed --quick      a look, in a temporary folder

Example 2 (two normals of different width in the plane), the same simulator for all: vectorised
where a library takes that, which is torch for sbi, and one point at a time in Python for pyABC.
Each library has a process of its own, on one thread, which has run the case once before; they run
the cases in turns, with the same seeds.  Times are CPU seconds from the call to the weighted draws,
simulator included.  What each is asked for is in `peers_speed_cases`.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from abctree.problems.truth import GaussianMixtureTruth
from benchmarks.speed import Version, load_line
from experiments import command

NAME = "peers_speed"
CASES = Path(__file__).with_name("peers_speed_cases.py")
#: Packages by the name that their cases begin with.
PACKAGES = {"abctree": "abctree", "pyABC": "pyabc", "ELFI": "elfi", "sbi": "sbi"}
BUDGETS, QUICK_BUDGETS = (10_000, 100_000), (2_000,)
METHODS = (
    "abctree, default",
    "abctree, boxes",
    "abctree, default, one at a time",
    "pyABC, ABCSMC, limit T/2",
    "pyABC, ABCSMC, limit T",
    "abctree, smc",
    "ELFI, SMC",
    "sbi, SMCABC",
    "abctree, rejection",
    "ELFI, Rejection",
    "sbi, MCABC",
)
#: Rejection of many simulations, and the simulator alone.
MANY, QUICK_MANY = 1_000_000, 20_000
REJECTIONS = {
    "abctree, rejection": "abctree, simulator",
    "ELFI, Rejection": "ELFI, simulator",
    "sbi, MCABC": "sbi, simulator",
}
Ask = Callable[[str, int, int], tuple[float, dict[str, Any]]]


def installed() -> dict[str, str]:
    """Version of each library that is there; says of the others how to install them."""
    found = {}
    for name, package in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            print(f"{name} is left out: python -m pip install {package}", flush=True)
        else:
            found[name] = version(package)
    return found


def library(case: str) -> str:
    return case.partition(", ")[0]


def measure(args: command.Options) -> dict[str, Any]:
    """All cases of the libraries that are installed, in turns."""
    versions = installed()
    load = [os.getloadavg()[0]]
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(Version(command.ROOT / "src", CASES)) for name in versions
        }

        def ask(case: str, n: int, seed: int) -> tuple[float, dict[str, Any]]:
            seconds, answer = processes[library(case)].time(case, n, seed)
            print(f"  {case}, T = {n:g}, seed {seed}: {seconds:.2f} CPU s", flush=True)
            return seconds, answer

        methods = [case for case in METHODS if library(case) in versions]
        rejections = {a: b for a, b in REJECTIONS.items() if library(a) in versions}
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        rows = []
        for n in QUICK_BUDGETS if args.quick else BUDGETS:
            rows += rows_of(ask, methods, n, seeds)
        many = many_rows(ask, rejections, QUICK_MANY if args.quick else MANY, seeds)
    load.append(os.getloadavg()[0])
    return {"versions": versions, "load": load, "rows": rows, "rejection": many}


def rows_of(ask: Ask, cases: Sequence[str], n: int, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Each case at one budget; the seeds are the outer loop, so that cases take turns."""
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in cases}
    for seed in seeds:
        for case in cases:
            runs[case].append(scores(*ask(case, n, seed)))
    return [{"case": case, "T": n, **columns(found)} for case, found in runs.items()]


def many_rows(
    ask: Ask, cases: Mapping[str, str], n: int, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Rejection, and right after it its simulator alone."""
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in cases}
    for seed in seeds:
        for case, simulator in cases.items():
            row = scores(*ask(case, n, seed))
            row["simulator, µs"] = 1e6 * ask(simulator, n, seed)[0] / n
            runs[case].append(row)
    return [{"case": case, "T": n, **columns(found)} for case, found in runs.items()]


def scores(seconds: float, answer: Mapping[str, Any]) -> dict[str, float]:
    """Of one run: time for each simulation that was made, and how good its draws are."""
    theta, weights = np.array(answer["theta"]), np.array(answer["weights"])
    shares = weights / weights.sum()
    return {
        "made": answer["made"],
        "µs": 1e6 * seconds / answer["made"],
        "ε": answer["epsilon"],
        "ESS": float(1.0 / (shares @ shares)),
        "TV20": GaussianMixtureTruth(2).tv20(theta, shares),
    }


def columns(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {key: [run[key] for run in runs] for key in runs[0]}


# Tables -----------------------------------------------------------------------------------------


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """Time and truth of each budget, many simulations of rejection, versions and load."""
    head = ["method", "simulations", "CPU µs a simulation", "ε", "ESS", "TV20"]
    found = {}
    for n in sorted({line["T"] for line in numbers["rows"]}):
        lines = [line for line in numbers["rows"] if line["T"] == n]
        found[f"{NAME}-{n}"] = command.markdown(head, [_cells(line) for line in lines])
    head = ["method", "CPU µs a simulation", "its simulator alone, µs", "ratio", "ε", "TV20"]
    found[f"{NAME}-rejection"] = command.markdown(
        head, [_rejection(line) for line in numbers["rejection"]]
    )
    named = ", ".join(f"{name} {number}" for name, number in numbers["versions"].items())
    line = load_line(numbers["load"], len(numbers["rows"][0]["µs"]))
    found[f"{NAME}-load"] = f"*{named}.*\n\n{line}"
    return found


def spread(values: Sequence[float], form: str = ".3g") -> str:
    """The median, and the range."""
    middle, low, high = (
        command.number(value, form)
        for value in (statistics.median(values), min(values), max(values))
    )
    return middle if low == high else f"{middle} ({low} to {high})"


def _cells(line: dict[str, Any]) -> list[str]:
    numbers = [spread(line["made"], ".6g")]
    return [line["case"], *numbers, *(spread(line[key]) for key in ("µs", "ε", "ESS", "TV20"))]


def _rejection(line: dict[str, Any]) -> list[str]:
    ratios = [a / b for a, b in zip(line["µs"], line["simulator, µs"], strict=True)]
    parts = (line["µs"], line["simulator, µs"], ratios, line["ε"], line["TV20"])
    return [line["case"], *map(spread, parts)]


def main(argv: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=3, quick_seeds=1, folder="benchmarks")
    command.tabulate(NAME, command.chosen(parser.parse_args(argv)), measure, tables)


if __name__ == "__main__":
    main()
