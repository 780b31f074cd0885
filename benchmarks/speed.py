"""The library's own time, beside that of an older commit.

    python -m benchmarks.speed                       against the commit of the stored table
    python -m benchmarks.speed --against COMMIT      or a folder that holds `src/abctree`
    python -m benchmarks.speed --rows scalar smc     some rows, printed and not kept
    python -m benchmarks.speed --large               and runs of 1e6 to 1e8 simulations, some hours
    python -m benchmarks.speed --quick               a look, in a temporary folder

One process of each version is up, on one thread, and has compiled its kernels; they run the same
case in turns, with the same seed, and answer with CPU seconds and a hash of the table.  Times are
medians over the repetitions, ratios are medians of the ratios of neighbours in time: other
processes on the machine slow down both.  "same" says whether all tables are equal, bit for bit.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from experiments import command

NAME = "speed"
#: The first commit with all methods.
AGAINST = "2bb4e5e"
CASES = Path(__file__).with_name("speed_cases.py")
#: Simulations that compile what a case needs.
WARM = 2_000


@dataclass(frozen=True)
class Row:
    """What is timed: a case of `speed_cases`, and by which factor it was to become faster."""

    name: str
    case: str
    n: int
    asked: float | None = None
    large: bool = False
    new: bool = False  #: the older version has no such case
    first: bool = False  #: in a process without compiled kernels: seconds, not of a simulation


ROWS = (
    Row("boxes, d = 2", "boxes, d = 2", 100_000, 1.5),
    Row("boxes, d = 5", "boxes, d = 5", 100_000, 1.5),
    Row("boxes, d = 2, T = 1e6", "boxes, d = 2", 1_000_000, 1.5, large=True),
    Row("boxes, d = 5, T = 1e6", "boxes, d = 5", 1_000_000, 1.5, large=True),
    Row("T = 1e3", "short", 20_000, 3.0),
    Row("scalar simulator in Python", "scalar", 50_000, 2.0),
    Row("boxes and kernels, d = 5", "kernels", 50_000, 3.0),
    Row("smc, weights by the mixture", "smc", 50_000, 4.0),
    Row("published, block = 1, 1024 cells", "published", 5_000, 10.0),
    Row("rejection", "rejection", 10_000_000),
    Row("rejection, T = 1e8", "rejection", 100_000_000, large=True),
    Row("its simulator alone", "bare", 10_000_000),
    Row("adaptive, d = 2", "adaptive, d = 2", 100_000, new=True),
    Row("adaptive, d = 5", "adaptive, d = 5", 100_000, new=True),
    Row("first, boxes", "boxes, d = 2", WARM, 1.67, first=True),
    Row("first, default", "default", WARM, 1.67, first=True),
    # How it grows.
    Row("T = 1e4", "boxes, d = 2", 10_000),
    Row("T = 1e7", "boxes, d = 2", 10_000_000, large=True),
    *(Row(f"{k} cells", f"{k} cells", 100_000) for k in (100, 1024, 10_000, 99_856)),
    *(Row(f"boxes, d = {d}", f"boxes, d = {d}", 100_000) for d in (3, 10, 20)),
)
GROWTH = [row.name for row in ROWS[-9:]]


class Version:
    """A process that times the cases of a script with the code of one version."""

    def __init__(self, sources: Path, cases: Path = CASES, **environment: str) -> None:
        threads = dict.fromkeys(command.THREADS, "1")
        self._where = sources, cases
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(cases)],
            env={**os.environ, **threads, "PYTHONPATH": str(sources), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._warm: set[str] = set()

    def time(self, case: str, n: int, seed: int) -> tuple[float, Any]:
        """CPU seconds, and what else the script answers: of `speed_cases`, a hash of the table."""
        if case not in self._warm:
            self._warm.add(case)
            self._ask(case, min(n, WARM), seed)
        seconds, answer = self._ask(case, n, seed)
        return float(seconds), answer

    def time_first(self, case: str, n: int, seed: int) -> tuple[float, Any]:
        """The same of another process of this version, which has to compile everything."""
        with (
            tempfile.TemporaryDirectory() as folder,
            Version(*self._where, NUMBA_CACHE_DIR=folder) as fresh,
        ):
            seconds, answer = fresh._ask(case, n, seed)
        return float(seconds), answer

    def _ask(self, *words: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{words} ended with {self._process.wait()}")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


@contextmanager
def sources_of(version: str) -> Iterator[Path]:
    """The folder `src` of a commit, copied, or of a folder that holds one."""
    if (there := Path(version) / "src").is_dir():
        yield there
        return
    words = ["git", "archive", version, "src/abctree"]
    archive = subprocess.run(words, cwd=command.ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder) / "src"


def measure(args: command.Options, against: str, rows: Sequence[Row]) -> dict[str, Any]:
    """All rows, in turns."""
    load = [os.getloadavg()[0]]
    with ExitStack() as stack:
        old = stack.enter_context(Version(stack.enter_context(sources_of(against))))
        new = stack.enter_context(Version(command.ROOT / "src"))
        lines = [line_of(row, old, new, args) for row in rows]
    return {"against": against, "load": [*load, os.getloadavg()[0]], "rows": lines}


def line_of(row: Row, old: Version, new: Version, args: command.Options) -> dict[str, Any]:
    """One row: the time of each repetition, and whether tables are equal.

    In microseconds a simulation; of a first run in seconds.
    """
    n = min(row.n, WARM) if args.quick else row.n
    each = 1.0 if row.first else 1e6 / n
    times: dict[str, list[float]] = {"old": [], "new": []}
    same = True
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        seconds, digest = _timed(new, row, n, seed)
        times["new"].append(each * seconds)
        if not row.new:
            seconds, other = _timed(old, row, n, seed)
            times["old"].append(each * seconds)
            same &= digest == other
    print(f"  {row.name}: {times}", flush=True)
    about = {"name": row.name, "T": n, "asked": row.asked, "same": same}
    return {**about, **times, **({"first": True} if row.first else {})}


def _timed(version: Version, row: Row, n: int, seed: int) -> tuple[float, Any]:
    return (version.time_first if row.first else version.time)(row.case, n, seed)


# Tables -----------------------------------------------------------------------------------------


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    """What was asked for, and how the time grows."""
    lines = {line["name"]: line for line in numbers["rows"] if "first" not in line}
    first = [line for line in numbers["rows"] if "first" in line]
    head = ["run", "T", f"at {numbers['against']}, µs", "now, µs", "times faster", "asked", "same"]
    found = {}
    for name, some in (
        ("asked", [line for key, line in lines.items() if key not in GROWTH]),
        ("growth", [line for key, line in lines.items() if key in GROWTH]),
    ):
        if some:
            found[f"{NAME}-{name}"] = command.markdown(head, [_cells(line) for line in some])
    if first:
        found[f"{NAME}-first"] = command.markdown(
            [word.replace("µs", "s") for word in head], [_cells(line) for line in first]
        )
    found[f"{NAME}-ratios"] = command.markdown(["ratio", "got", "asked"], _ratios(lines))
    found[f"{NAME}-load"] = load_line(numbers["load"], len(numbers["rows"][0]["new"]))
    return found


def load_line(load: Sequence[float], repetitions: int) -> str:
    """What the machine did beside."""
    first, last = load
    return (
        f"*Medians of {repetitions}; the load of the machine was {first:.2g} at the beginning and "
        f"{last:.2g} at the end.*"
    )


def _cells(line: dict[str, Any]) -> list[str]:
    new, old = line["new"], line["old"]
    gain = statistics.median(a / b for a, b in zip(old, new, strict=True)) if old else None
    return [
        line["name"],
        f"{line['T']:g}",
        f"{statistics.median(old):.3g}" if old else "",
        f"{statistics.median(new):.3g}",
        f"{gain:.2f}" if gain else "",
        f"{line['asked']:g}" if line["asked"] else "",
        ("yes" if line["same"] else "no") if old else "",
    ]


#: What is divided by what, and the most that it may be.
RATIOS = (
    ("rejection", "its simulator alone", 2.5),
    ("rejection, T = 1e8", "its simulator alone", 2.5),
    ("99856 cells", "100 cells", 12.0),
    ("T = 1e7", "boxes, d = 2", 1.3),
)


def _ratios(lines: dict[str, Any]) -> list[list[str]]:
    found = []
    for above, below, most in RATIOS:
        if above in lines and below in lines:
            got = statistics.median(lines[above]["new"]) / statistics.median(lines[below]["new"])
            found.append([f"{above} / {below}", f"{got:.2f}", f"at most {most:g}"])
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = command.parser(__doc__ or "", NAME, seeds=5, quick_seeds=1, folder="benchmarks")
    parser.add_argument("--against", default=AGAINST, help="a commit, or a folder with its src")
    parser.add_argument("--rows", nargs="*", choices=[row.name for row in ROWS])
    parser.add_argument("--large", action="store_true", help="and runs of 1e6 to 1e8")
    given = parser.parse_args(argv)
    args = command.chosen(given)
    rows = [
        row
        for row in ROWS
        if (row.name in given.rows if given.rows else given.large or not row.large)
        and not (row.first and args.quick)
    ]
    command.tabulate(
        NAME, args, lambda args: measure(args, given.against, rows), tables, keep=not given.rows
    )


if __name__ == "__main__":
    main()
