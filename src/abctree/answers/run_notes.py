"""What to know of a run itself, whichever way and at whatever tolerance it is read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from abctree.answers.diagnostics import FAILURES, on_failures
from abctree.problem.reach import all_ties, out_of_reach

if TYPE_CHECKING:
    from abctree.answers.result import Result

#: In the reason of a run that ended because nearly everything failed; it survives in the store.
HOPELESS = "simulations failed; the first:"


def run_notes(result: Result) -> tuple[str, ...]:
    """Sentences; none for a healthy run."""
    said = [
        _on_failures(result),
        _on_early_end(result),
        _on_reach(result),
        _on_streams(result),
    ]
    return (*result.code_changes, *(sentence for sentence in said if sentence))


def only_ties(result: Result) -> bool:
    """Whether all simulations have the same distance; not of the closest ones only."""
    return result.n_made is None and all_ties(result.table.distance)


def _on_failures(result: Result) -> str | None:
    """The sentence of the summary, if it is one to worry about."""
    count, n = result.failures.count, result.n_simulations
    return on_failures(count, n) if count > FAILURES * n else None


def _on_reach(result: Result) -> str | None:
    if result.n_made is not None:
        return None  # the closest simulations do not tell how distances differ
    distance = result.table.distance
    if only_ties(result):
        return (
            f"All distances are equal ({distance.min():.4g}): nothing tells one parameter from "
            "another, and the posterior is the prior. Check that summary and distance use what "
            "the simulator returns, and that they are not too coarse."
        )
    return out_of_reach(distance, result.problem.observed_summary.size)


def _on_early_end(result: Result) -> str | None:
    if HOPELESS not in result.stopped_because:
        return None
    return (
        f"The run ended after {result.n_simulations} of {result.plan.n_simulations} simulations, "
        f"because nearly all of the last ones failed: {result.stopped_because.rstrip('.')}. "
        "See result.failures.first, and run again when the cause is gone."
    )


def _on_streams(result: Result) -> str | None:
    """Whether simulations share their noise, or cannot be made again."""
    drawn = result.other_streams
    if not drawn:
        return None
    advice = "Draw all of them from the generator that the simulator is given"
    # Two processes come to the same state only if they draw the same numbers.
    begun = Counter((stream.name, stream.state) for stream in drawn)
    if repeated := {name for (name, _), n in begun.items() if n > 1}:
        return (
            f"Simulations of several processes repeat each other's noise: the simulator draws "
            f"random numbers from {_listed(repeated)}, and they drew the same ones, at other "
            f"parameters. The posterior cannot be trusted. {advice}, and run again."
        )
    names = _listed({stream.name for stream in drawn})
    seeded = _listed({stream.name for stream in drawn if stream.state == str(stream.process)})
    how = f" Worker processes gave {seeded} a seed for each task, so that none repeats another."
    return (
        f"The simulator draws random numbers from {names}: the same seed need not give the same "
        f"run.{how if seeded else ''} {advice}."
    )


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(names))
