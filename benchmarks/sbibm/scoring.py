"""Scores of stored draws: one process a number of parameters, all its networks at once."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from benchmarks.sbibm.tasks import TASKS, references

#: Most pairs that are trained together: enough to fill a GPU, and few enough that the largest
#: budgets, which come first, are done when time runs out.  A CPU gains nothing by many.
MOST_PAIRS = {"cuda": 420, "cpu": 7}
#: Seconds that a process is given beyond the limit to judge what it has.
_GRACE = 25.0


def stored(folder: Path) -> list[dict[str, Any]]:
    """The records of all draws in a folder, failures included."""
    records: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        records += json.loads(path.read_text())
    return records


def score(
    folder: Path, data: Path, device: str, limit: float, max_iter: int, threads: int = 1
) -> list[dict[str, Any]]:
    """Records with their C2ST, as far as the limit in seconds allows; a second call goes on."""
    records = stored(folder)
    began = time.monotonic()
    jobs = []
    context = multiprocessing.get_context("spawn")
    todo = [r for r in merged(folder, records) if not (r.get("converged") or "error" in r)]
    for p in sorted({TASKS[r["task"]] for r in todo}, reverse=True):
        mine = [r for r in todo if TASKS[r["task"]] == p]
        arguments = (folder, data, p, mine, device, limit, max_iter, threads)
        jobs.append(context.Process(target=_score_size, args=arguments))
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(max(0.1, limit + _GRACE - (time.monotonic() - began)))
        if job.is_alive():
            job.terminate()
    return merged(folder, records)


def merged(folder: Path, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with what has been scored of them so far."""
    nets: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for path in folder.glob("scores-*.jsonl"):
        for line in path.read_text().splitlines():
            try:
                net = json.loads(line)
            except json.JSONDecodeError:  # cut short in the middle of a line
                continue
            nets.setdefault(tuple(net["key"]), []).append(net)
    return [{**r, **_together(nets.get(_key(r), []))} for r in records]


def joined(numbers: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Numbers and those of an earlier call that they do not replace."""
    scored = {_key(pair) for pair in numbers["pairs"] if "c2st" in pair}
    kept = [pair for pair in earlier["pairs"] if _key(pair) not in scored]
    there = {_key(pair) for pair in kept}
    new = [pair for pair in numbers["pairs"] if _key(pair) not in there]
    about = [*earlier["about"], *numbers["about"]]
    pairs = sorted([*kept, *new], key=lambda p: (p["task"], p["observation"], p["simulations"]))
    return {"about": about, "pairs": pairs}


def _together(nets: list[dict[str, Any]]) -> dict[str, Any]:
    """Of five folds; fewer are no score."""
    latest = {net["fold"]: net for net in nets}
    if len(latest) < 5:
        return {}
    folds = [latest[f] for f in range(5)]
    return {
        "c2st": round(float(np.mean([net["accuracy"] for net in folds])), 5),
        "epochs": [net["epochs"] for net in folds],
        "converged": all(net["converged"] for net in folds),
    }


def _key(record: dict[str, Any]) -> tuple[Any, ...]:
    return (record["task"], record["observation"], record["simulations"], record["row"])


def _score_size(
    folder: Path,
    data: Path,
    p: int,
    records: list[dict[str, Any]],
    device: str,
    limit: float,
    max_iter: int,
    threads: int,
) -> None:
    """All pairs with p parameters, in a process of their own."""
    import torch

    began = time.monotonic()
    torch.set_num_threads(threads)
    with (folder / f"scores-{p}.jsonl").open("a") as out:
        for some in _chunks(records, MOST_PAIRS["cuda" if device.startswith("cuda") else "cpu"]):
            try:
                _score_some(folder, data, some, device, began + limit, max_iter, out)
            except Exception:  # noqa: BLE001  the next chunk goes on
                (folder / f"scores-{p}.error").write_text(traceback.format_exc())
            if time.monotonic() > began + limit:
                break
    print(f"scored p = {p} in {time.monotonic() - began:.0f} s", flush=True)


def _chunks(records: list[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """The largest budgets first, then the first observations, in parts of about one size."""
    ordered = sorted(records, key=lambda r: (-r["simulations"], r["observation"]))
    n = -(-len(ordered) // most)
    for part in np.array_split(np.arange(len(ordered)), max(1, n)):
        yield [ordered[i] for i in part]


def _score_some(
    folder: Path,
    data: Path,
    records: list[dict[str, Any]],
    device: str,
    deadline: float,
    max_iter: int,
    out: TextIO,
) -> None:
    from benchmarks.c2st_batched import c2st_batched

    if not records:
        return
    draws = np.stack([_draws(folder, r) for r in records])
    places = sorted({(r["task"], r["observation"]) for r in records})
    targets = np.stack([references(task, data)[o][: draws.shape[1]] for task, o in places])
    which = np.array([places.index((r["task"], r["observation"])) for r in records])
    c2st_batched(
        draws,
        targets,
        which,
        device=device,
        deadline=deadline,
        max_iter=max_iter,
        report=_writer(records, out),
    )


def _writer(
    records: list[dict[str, Any]], out: TextIO
) -> Callable[[int, int, float, int, bool], None]:
    """Writes one line for each network as it comes."""
    told = [time.monotonic()]

    def report(pair: int, fold: int, accuracy: float, epochs: int, converged: bool) -> None:  # noqa: FBT001
        net = {
            "key": _key(records[pair]),
            "fold": fold,
            "accuracy": round(accuracy, 6),
            "epochs": epochs,
            "converged": converged,
        }
        out.write(json.dumps(net) + "\n")
        if time.monotonic() > told[0] + 2.0:
            out.flush()
            told[0] = time.monotonic()

    return report


def _draws(folder: Path, record: dict[str, Any]) -> np.ndarray:
    name = f"{record['task']}-{record['observation']}-{record['simulations']}.npz"
    with np.load(folder / name) as found:
        return np.asarray(found[str(record["number"])])
