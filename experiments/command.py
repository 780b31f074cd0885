"""What the commands of experiments and benchmarks share: options, processes, files, tables."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import abctree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
QUICK = Path(tempfile.gettempdir()) / "abctree-experiments"  #: where small versions are written


@dataclass(frozen=True)
class Options:
    """What a command was told."""

    quick: bool = False
    workers: int = 2
    seeds: int = 1
    first_seed: int = 1
    seconds: float = float("inf")  #: after which no further run is begun
    out: Path = ROOT
    from_json: Path | None = None
    folder: str = "experiments"  #: whose results these are
    reference: Path | None = None
    only: str | None = None  #: one method, whose runs join those that are stored

    def json(self, name: str) -> Path:
        """The file of these numbers."""
        return self.out / self.folder / "results" / f"{name}.json"


def parser(
    description: str, name: str, seeds: int, quick_seeds: int = 2, folder: str = "experiments"
) -> argparse.ArgumentParser:
    """Options of every command; `name` is that of the JSON."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.set_defaults(default_seeds=seeds, quick_seeds=quick_seeds, folder=folder)
    made.add_argument("--quick", action="store_true", help="a small version, in seconds")
    made.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    made.add_argument("--seeds", type=int, help=f"repetitions; default {seeds}")
    made.add_argument("--first-seed", type=int, default=1)
    made.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no run after these"
    )
    made.add_argument("--out", type=Path, help="folder to write to, in place of the repository")
    made.add_argument(
        "--from-json",
        type=Path,
        nargs="?",
        const=Options(folder=folder).json(name),
        help="pictures and tables again from stored numbers",
    )
    return made


def chosen(args: argparse.Namespace) -> Options:
    """What a parser made of the words."""
    return Options(
        quick=args.quick,
        workers=args.workers,
        seeds=args.seeds or (args.quick_seeds if args.quick else args.default_seeds),
        first_seed=args.first_seed,
        seconds=args.seconds,
        out=args.out or (QUICK if args.quick else ROOT),
        from_json=args.from_json,
        folder=args.folder,
        reference=getattr(args, "reference", None),
        only=getattr(args, "only", None),
    )


def options(
    description: str, name: str, seeds: int, quick_seeds: int = 2, argv: Sequence[str] | None = None
) -> Options:
    """Options of an experiment."""
    made = parser(description, name, seeds, quick_seeds)
    made.add_argument("--reference", type=Path, help="folder of the references' .npz files")
    made.add_argument("--only", metavar="METHOD", help="join the runs of one method to the JSON")
    return chosen(made.parse_args(argv))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave out what a run would warn of: the measures are about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        yield


# Processes --------------------------------------------------------------------------------------


#: Libraries ask these how many threads to start.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread() -> None:
    """Workers are as many as cores: none of them needs threads of its own."""
    for name in THREADS:
        os.environ[name] = "1"


def each(
    work: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    args: Options,
    *,
    tell: Callable[[tuple[Any, ...]], str] = str,
) -> list[tuple[tuple[Any, ...], Any]]:
    """Tasks with their results, in the order of the tasks; how many processes does not matter.

    After `args.seconds` no further task is begun, and the list is shorter.  So it is by the tasks
    that fail, whose errors are printed: one of hundreds should not cost the others.
    """
    one_thread()
    began = time.monotonic()
    done: dict[int, Any] = {}
    todo = list(enumerate(tasks))[::-1]
    with ProcessPoolExecutor(args.workers) as pool:
        running: dict[Future[Any], int] = {}
        while todo or running:
            late = time.monotonic() - began > args.seconds
            while todo and len(running) < args.workers and not late:
                i, task = todo.pop()
                running[pool.submit(_timed, work, task)] = i
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                i = running.pop(future)
                answer, seconds, error = future.result()
                print(f"  {tell(tasks[i])}: {error or f'{seconds:.1f} CPU s'}", flush=True)
                if error is None:
                    done[i] = answer
    if todo:
        print(f"  out of time: {len(todo)} of {len(tasks)} runs were not begun", flush=True)
    return [(tasks[i], done[i]) for i in sorted(done)]


def _timed(work: Callable[..., Any], task: tuple[Any, ...]) -> tuple[Any, float, str | None]:
    """The answer, the CPU seconds, and the traceback if there is no answer."""
    began = time.process_time()
    try:
        return work(*task), time.process_time() - began, None
    except Exception:  # noqa: BLE001 - whatever it is, it is printed
        return None, 0.0, traceback.format_exc()


# Files ------------------------------------------------------------------------------------------


def about(args: Options) -> dict[str, Any]:
    """Where numbers come from."""
    return {
        "seeds": [args.first_seed, args.first_seed + args.seeds - 1],
        "quick": args.quick,
        **versions(),
        "workers": args.workers,
    }


def versions() -> dict[str, Any]:
    """Of the packages, and the machine."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "abctree": abctree.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def joined(stored: dict[str, Any], new: dict[str, Any], part: str) -> dict[str, Any]:
    """New numbers over the stored ones; "again" says where those of the part come from."""
    again = {**stored.get("again", {}), part: new["about"]}
    return {**stored, **new, "about": stored["about"], "again": again}


def numbers_of(
    name: str,
    args: Options,
    measure: Callable[[Options], dict[str, Any] | None],
    join: Callable[[dict[str, Any], dict[str, Any], str], dict[str, Any]] = joined,
    *,
    keep: bool = True,
) -> dict[str, Any] | None:
    """Read the numbers, or measure and `keep` them as JSON; None if nothing can be measured."""
    if args.from_json is not None:
        return dict(read_json(args.from_json))
    # Read first: a file that is missing must not cost the runs.
    stored = {} if args.only is None else read_json(args.json(name))
    began = time.monotonic()
    measured = measure(args)
    if measured is None:
        return None
    numbers = {"about": about(args), **rounded(measured)}
    numbers["about"]["seconds"] = round(time.monotonic() - began, 1)
    if args.only is not None:
        numbers = join(stored, numbers, args.only)
    if keep:
        write_json(args.json(name), numbers)
    return numbers


def show(args: Options, pictures: Mapping[str, Any], tables: Sequence[str]) -> None:
    """Print the tables, and write the pictures where the documents look for them."""
    for table in tables:
        print(f"\n{table}", flush=True)
    for name, figure in pictures.items():
        path = args.out / "docs" / "images" / f"{name.replace('_', '-')}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=80)
        print(f"wrote {path}", flush=True)


def run(
    name: str,
    args: Options,
    measure: Callable[[Options], dict[str, Any] | None],
    draw: Callable[[dict[str, Any]], Any],
    tables: Callable[[dict[str, Any]], dict[str, str]],
) -> None:
    """Measure or read, draw the picture, print the tables."""
    numbers = numbers_of(name, args, measure)
    if numbers is not None:
        show(args, {name: draw(numbers)}, [*tables(numbers).values()])


def tabulate(
    name: str,
    args: Options,
    measure: Callable[[Options], dict[str, Any]],
    tables: Callable[[dict[str, Any]], dict[str, str]],
    join: Callable[[dict[str, Any], dict[str, Any], str], dict[str, Any]] = joined,
    *,
    keep: bool = True,
) -> None:
    """Measure or read, print the tables: as `run`, without a picture."""
    numbers = numbers_of(name, args, measure, join, keep=keep)
    if numbers is not None:
        show(args, {}, [*tables(numbers).values()])


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    return json.loads(path.read_text("utf-8"))


def write_json(path: Path, numbers: dict[str, Any]) -> None:
    """One line for each innermost list: short files, and differences that can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(numbers) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def _text(value: Any, indent: int = 0) -> str:
    flat = json.dumps(value)
    if not isinstance(value, dict | list) or len(flat) + indent <= 98 or _is_numbers(value):
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {_text(v, indent + 1)}" for k, v in value.items()]
        ends = "{}"
    else:
        parts, ends = [_text(v, indent + 1) for v in value], "[]"
    return ends[0] + "\n" + ",\n".join(pad + p for p in parts) + "\n" + " " * indent + ends[1]


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, int | float | None) for v in value)


def rounded(value: Any) -> Any:
    """The same with floats of five digits and plain types; nan and infinities become None."""
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(v) for v in value]
    if isinstance(value, np.integer | int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, np.floating | float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value


# Tables -----------------------------------------------------------------------------------------


def cell(values: Sequence[float | None], form: str = ".3g") -> str:
    """Mean ± standard error of what is there."""
    known = np.array([v for v in values if v is not None], dtype=float)
    if not len(known):
        return "–"
    if len(known) == 1:
        return number(known[0], form)
    error = known.std(ddof=1) / np.sqrt(len(known))
    missing = "" if len(known) == len(values) else f" ({len(known)} of {len(values)})"
    return f"{number(known.mean(), form)} ± {number(error, '.1g')}{missing}"


def number(value: float, form: str) -> str:
    """Rounded as by the form, but without an exponent where it can be: 400, not 4e+02."""
    return f"{float(format(value, form)):g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
