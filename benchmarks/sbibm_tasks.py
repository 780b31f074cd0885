"""The ten tasks of sbibm, by the published protocol and by ours: C2ST beside the published numbers.

    python -m benchmarks.sbibm_tasks --data DATA --workers 16 --draws DIR   run, keep the draws
    python -m benchmarks.sbibm_tasks --data DATA --score DIR --device cuda --json OUT.json
    python -m benchmarks.sbibm_tasks --data DATA --tables                   tables of docs/sbibm.md

Both of the first may be given at once.  The folder of draws takes about a gigabyte and may be
deleted after the scores; what is kept is the JSON.  `--data` is the folder with the observations,
reference draws and published numbers.  `--limit-seconds` ends either step in an orderly way: what
is missing is missing in the JSON, and a second call with the same folder goes on with the rest.
`--score DIR --add` keeps what the JSON has of other units.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import abctree
from benchmarks.sbibm import methods, scoring, tables
from benchmarks.sbibm.tasks import N_OBSERVATIONS, TASKS

RESULTS = Path(__file__).parent / "results" / "sbibm.json"
PAGE = Path(__file__).parent.parent / "docs" / "sbibm.md"
#: From the slowest.
ORDER = ("lotka_volterra", "lotka_volterra_log", "sir")

Unit = tuple[str, int, int]


def units(args: argparse.Namespace) -> list[Unit]:
    """(task, observation, budget): the costly ones first, so that the last ones are short."""
    names = sorted(args.tasks, key=lambda name: (name not in ORDER, -TASKS[name]))
    return [
        (name, o, budget)
        for budget in sorted(args.budgets, reverse=True)
        for name in names
        for o in range(args.observations)
    ]


def draw_one(unit: Unit, data: Path, folder: Path, n: int, *, only_answer: bool) -> str:
    """Measure one unit and write its draws and their records."""
    name, observation, budget = unit
    found = methods.measure(name, observation, budget, data, n, only_answer=only_answer)
    records, arrays = [], {}
    for number, row in enumerate(found):
        place = {"task": name, "observation": observation, "simulations": budget}
        records.append({**place, "row": row.row, "number": number, **row.about})
        if row.draws is not None:
            arrays[str(number)] = row.draws
    stem = folder / f"{name}-{observation}-{budget}"
    np.savez(stem.with_suffix(".npz"), **arrays)
    # Written last: a unit counts as done when its records are there.
    stem.with_suffix(".json").write_text(json.dumps(records))
    failed = [r["error"] for r in records if "error" in r]
    return "; ".join(failed)


def draw_all(args: argparse.Namespace) -> None:
    """All units over the workers, until the limit."""
    args.draws.mkdir(parents=True, exist_ok=True)
    todo = [u for u in units(args) if not (args.draws / f"{u[0]}-{u[1]}-{u[2]}.json").exists()]
    began = time.monotonic()
    if todo and args.workers > 1:
        _compile(args)
        print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
    # Forked after compiling, so that no worker compiles again; one thread each.
    context = multiprocessing.get_context("fork")
    pool = concurrent.futures.ProcessPoolExecutor(args.workers, context, threadpool_limits, (1,))
    with pool:
        one = partial(draw_one, only_answer=args.only_answer)
        jobs = {pool.submit(one, u, args.data, args.draws, args.n): u for u in todo}
        left = args.limit_seconds - (time.monotonic() - began)
        try:
            for k, job in enumerate(concurrent.futures.as_completed(jobs, max(left, 1.0)), 1):
                trouble = str(job.exception() or job.result())
                if trouble or k % 30 == 0:
                    at = f"{time.monotonic() - began:.0f} s, {k} of {len(jobs)}"
                    print(f"{at}: {jobs[job]} {trouble}", flush=True)
        except concurrent.futures.TimeoutError:
            print("the limit is reached: no further runs are begun", flush=True)
            pool.shutdown(wait=True, cancel_futures=True)
    print(f"drawn in {time.monotonic() - began:.0f} s", flush=True)


def _compile(args: argparse.Namespace) -> None:
    """Every kernel once, in this process."""
    for name in args.tasks:
        methods.measure(name, 0, 600, args.data, 50)


def about(args: argparse.Namespace) -> dict[str, Any]:
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions["abctree"] = abctree.__version__
    try:
        import torch
    except ImportError:
        device = "none"
    else:
        versions["torch"] = torch.__version__
        is_gpu = args.device.startswith("cuda") and torch.cuda.is_available()
        device = torch.cuda.get_device_name() if is_gpu else args.device
    return {
        "first_seed": methods.FIRST_SEED,
        "draws": args.n,
        "observations": args.observations,
        "versions": versions,
        "device": device,
        "cpu_count": os.cpu_count(),
        "workers": args.workers,
    }


def score_all(args: argparse.Namespace) -> None:
    began = time.monotonic()
    threads = 1 if args.device.startswith("cuda") else args.threads
    records = scoring.score(
        args.score, args.data, args.device, args.limit_seconds, args.max_iter, threads
    )
    args.json.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"about": [about(args)], "pairs": records}
    if args.add and args.json.exists():
        numbers = scoring.joined(numbers, json.loads(args.json.read_text()))
    lines = ",\n".join(json.dumps(r) for r in numbers["pairs"])
    head = json.dumps(numbers["about"])
    args.json.write_text(f'{{"about": {head},\n"pairs": [\n{lines}\n]}}\n')
    done = sum("c2st" in r for r in records)
    ended = sum(r.get("converged", False) for r in records)
    print(
        f"{done} of {len(records)} pairs scored ({ended} trained to the end) in "
        f"{time.monotonic() - began:.0f} s -> {args.json}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of sbibm's observations")
    parser.add_argument("--draws", type=Path, help="folder for the draws: run the methods")
    parser.add_argument("--score", type=Path, help="folder of draws: score them")
    parser.add_argument("--tables", action="store_true", help="write the tables of docs/sbibm.md")
    parser.add_argument("--add", action="store_true", help="to the scores that the JSON has")
    parser.add_argument("--only-answer", action="store_true", help="run what answer() is of")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU, a process")
    parser.add_argument("--limit-seconds", type=float, default=1e6)
    parser.add_argument("--max-iter", type=int, default=10_000, help="most epochs of a classifier")
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--budgets", nargs="*", type=int, default=list(methods.BUDGETS))
    parser.add_argument("--observations", type=int, default=N_OBSERVATIONS)
    parser.add_argument("--n", type=int, default=methods.N_DRAWS, help="draws that are compared")
    parser.add_argument("--quick", action="store_true", help="a small look at every step")
    args = parser.parse_args()
    if args.quick:
        args.budgets, args.observations, args.n, args.max_iter = [1_000], 1, 500, 30
    if args.draws is not None:
        draw_all(args)
    if args.score is not None:
        score_all(args)
    if args.tables:
        tables.write(args.json, args.data, args.page)


if __name__ == "__main__":
    main()
