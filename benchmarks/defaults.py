"""What each default is worth: settings of `abc_tree`, beside boxes, changed alone, on two normals.

    python -m benchmarks.defaults             the table of docs/explanation/defaults.md
    python -m benchmarks.defaults --quick     two settings, two seeds

Two normals of different width, in five and in two dimensions.  The error of the evidence is
relative to the exact one; h is the honest gain over rejection, on exact draws of the ε-posterior;
the ESS is in units of that of rejection, T · Z.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

import abctree
from abctree.problems import gaussian_mixture
from abctree.problems.truth import GaussianMixtureTruth
from experiments import command
from experiments.scores import honest_gain

NAME = "defaults"
#: d -> T and ε.
CASES = {5: (20_000, 2.0), 2: (10_000, 1.0)}
#: Exact draws that a proposal is judged on.
DRAWS = 4_000


@dataclass(frozen=True)
class Change:
    """A row of the table: what is given to `abc_tree` beside problem, budget and seed."""

    label: str
    given: dict[str, Any] = field(default_factory=dict)
    weights: Literal["round", "draw"] | None = None
    #: Settings that are fractions of T.
    shares: dict[str, int] = field(default_factory=dict)

    def settings(self, n_simulations: int) -> dict[str, Any]:
        """Arguments of `abc_tree` for this budget."""
        shares = {k: n_simulations // part for k, part in self.shares.items()}
        return {"proposal": "boxes", **self.given, **shares}


#: As many rounds as the paper's B = 1 000 gives at T = 1e5, in tolerable time.
_PUBLISHED = {"quota": 100, "block": 50}


def changes() -> tuple[Change, ...]:
    """All rows, made anew in each process."""
    soft = abctree.SoftTree
    published = {"preset": "published"}
    counts = abctree.Counts
    return (
        Change('`proposal="boxes"`'),
        Change("`n_folds=1`", {"n_folds": 1}),
        Change("`n_folds=2`", {"n_folds": 2}),
        Change("`n_folds=10`", {"n_folds": 10}),
        Change('`partitioner="cart"`', {"partitioner": "cart"}),
        Change('`partitioner="cart", n_folds=1`', {"partitioner": "cart", "n_folds": 1}),
        Change('`partitioner="dyadic"`', {"partitioner": "dyadic"}),
        Change('`utility="omega1"`', {"utility": "omega1"}),
        Change('`utility="omega2"`', {"utility": "omega2"}),
        Change('`utility="omega3"`', {"utility": "omega3"}),
        Change("`EffectiveSampleSize(0.5)`", {"utility": abctree.EffectiveSampleSize(0.5)}),
        Change("`EffectiveSampleSize(0.75)`", {"utility": abctree.EffectiveSampleSize(0.75)}),
        Change("`beliefs=Counts(1, 1)`", {"beliefs": counts(1, 1)}),
        Change("`beliefs=Counts(0, 0)`", {"beliefs": counts(0, 0)}),
        Change("`MultiLevel(strength=1.0)`", {"beliefs": abctree.MultiLevel(strength=1.0)}),
        Change('`relabel="last"`', {"relabel": "last"}),
        Change("`schedule=0.9`", {"schedule": 0.9}),
        Change('`window="rolling"`', {"window": "rolling"}),
        Change("`defensive=0.0`", {"defensive": 0.0}),
        Change("`defensive=0.2`", {"defensive": 0.2}),
        Change('`proposal="adaptive"`', {"proposal": "adaptive"}),
        Change("`n_pilot=T//5`", shares={"n_pilot": 5}),
        Change("`quota=T//20`", shares={"quota": 20}),
        Change("`block=T//10`", shares={"block": 10}),
        Change("`block=T//500`", shares={"block": 500}),
        Change("`SoftTree(reach=1.0)`", {"partitioner": soft(reach=1.0)}),
        Change("`SoftTree(min_rows=10)`", {"partitioner": soft(min_rows=10)}),
        Change("`SoftTree(min_rows=50)`", {"partitioner": soft(min_rows=50)}),
        Change("`SoftTree(boxes_per_root=4.0)`", {"partitioner": soft(boxes_per_root=4.0)}),
        Change("`SoftTree(boxes_per_root=16.0)`", {"partitioner": soft(boxes_per_root=16.0)}),
        Change('`weights="round"`', weights="round"),
        Change('`weights="draw"`', weights="draw"),
        Change("*published*", published, shares=_PUBLISHED),
        Change(
            "*published*, `defensive=0.05`", {**published, "defensive": 0.05}, shares=_PUBLISHED
        ),
        Change(
            "*published*, `beliefs=Counts(1, 1)`",
            {**published, "beliefs": counts(1, 1)},
            shares=_PUBLISHED,
        ),
    )


def one(d: int, label: str, seed: int) -> list[float]:
    """Error of the evidence, honest gain, and ESS over that of rejection."""
    change = next(c for c in changes() if c.label == label)
    n_simulations, epsilon = CASES[d]
    truth = GaussianMixtureTruth(d)
    draws, z = truth.draws(DRAWS, epsilon, rng=0), truth.evidence(epsilon)
    run = abctree.abc_tree(
        gaussian_mixture(d),
        n_simulations=n_simulations,
        rng=seed,
        **change.settings(n_simulations),
    )
    ess = run.posterior(epsilon=epsilon, weights=change.weights).ess / (n_simulations * z)
    error = run.evidence(epsilon, change.weights).estimate / z - 1.0
    return [error, honest_gain(run, draws), ess]


def measure(args: command.Options) -> dict[str, Any]:
    labels = [c.label for c in changes() if args.only in (None, c.label)]
    if args.quick:
        labels = labels[:2]
    # Seed by seed: a run that is cut short has something of every row.
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(d, label, seed) for seed in seeds for label in labels for d in CASES]
    runs: dict[str, dict[str, list[list[float]]]] = {}
    for (d, label, _), found in command.each(one, tasks, args):
        runs.setdefault(label, {}).setdefault(str(d), []).append(found)
    return {"runs": runs}


def join(stored: dict[str, Any], new: dict[str, Any], label: str) -> dict[str, Any]:
    """The runs of one row among the stored ones."""
    return command.joined(stored, new, label) | {"runs": stored["runs"] | new["runs"]}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["setting"]
    for d in CASES:
        head += [f"d = {d}: error of Z, %", "h", "ESS"]
    rows = []
    for label, found in numbers["runs"].items():
        cells = [label]
        for d in CASES:
            error, gain, ess = zip(*found[str(d)], strict=True)
            cells += [_cell([100.0 * e for e in error], "+.1f", ".1f")]
            cells += [_cell(gain, ".2f", ".2f"), _cell(ess, ".2f", ".2f")]
        rows.append(cells)
    return {"settings": command.markdown(head, rows)}


def _cell(values: Any, form: str, error_form: str) -> str:
    """Mean ± standard error, with digits enough to compare the rows of a column."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):{form}} ± {error:{error_form}}"


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=40)
    command.tabulate(NAME, args, measure, tables, join)


if __name__ == "__main__":
    main()
