"""What to know of a run, and of the draws that are read."""

from __future__ import annotations

from collections import Counter

from abctree.answers.diagnostics import FAILURES, on_failures, on_uninformed
from abctree.answers.posterior import Posterior
from abctree.answers.run import Run
from abctree.answers.uninformed import uninformed
from abctree.problem.check import all_ties, out_of_reach

#: In the reason of a run that ended because nearly everything failed; it survives in the store.
HOPELESS = "simulations failed; the first:"


def run_notes(run: Run) -> tuple[str, ...]:
    """Sentences that hold at every tolerance, such as of failures; none for a healthy run."""
    said = [
        _on_failures(run),
        _on_early_end(run),
        _on_reach(run),
        _on_streams(run),
    ]
    return (*run.code_changes, *(sentence for sentence in said if sentence))


def notes_on(run: Run, draws: Posterior) -> tuple[str, ...]:
    """Sentences on the draws of a run that are read."""
    if only_ties(run):
        return ()  # which says as much of all parameters
    said = on_uninformed(draws, uninformed(draws))
    return () if said is None else (said,)


def only_ties(run: Run) -> bool:
    """Whether all simulations have the same distance; not of the closest ones only."""
    return run.n_made is None and all_ties(run.table.distance)


def _on_failures(run: Run) -> str | None:
    """The sentence of the summary, if it is one to worry about."""
    count, n = run.failures.count, run.n_simulations
    return on_failures(count, n) if count > FAILURES * n else None


def _on_reach(run: Run) -> str | None:
    if run.n_made is not None:
        return None  # the closest simulations do not tell how distances differ
    distance = run.table.distance
    if only_ties(run):
        return (
            f"All distances are equal ({distance.min():.4g}): nothing tells one parameter from "
            "another, and the posterior is the prior. Check that summary and distance use what "
            "the simulator returns, and that they are not too coarse."
        )
    return out_of_reach(distance, run.problem.observed_summary.size)


def _on_early_end(run: Run) -> str | None:
    if HOPELESS not in run.stopped_because:
        return None
    return (
        f"The run ended after {run.n_simulations} of {run.plan.n_simulations} simulations, "
        f"because nearly all of the last ones failed: {run.stopped_because.rstrip('.')}. "
        "See result.failures.first, and run again when the cause is gone."
    )


def _on_streams(run: Run) -> str | None:
    """Say whether simulations share their noise, or cannot be made again."""
    drawn = run.other_streams
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
