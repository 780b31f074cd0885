"""Masked digits and a deep generative model: the figures and claims of the paper's Section 4.

    python -m experiments.digits --quick                 all parts small, in a temporary folder
    python -m experiments.digits reference --workers 16  the closest 1 000 of 1e8 prior draws
    python -m experiments.digits posterior --workers 16  ten repetitions of each method (also ω)
    python -m experiments.digits leaves map --workers 16 10 against 1 000 leaves; posterior modes
    python -m experiments.digits map --only published    one kind of modes, over the stored one
    python -m experiments.digits tutorial                the picture of docs/tutorials/digits.md
    python -m experiments.digits --from-json             pictures and tables from stored numbers
    python -m experiments.digits posterior --from-json --umap   maps by UMAP (extra ``umap``)

Observations are pictures that the generators draw, of which the last nine rows are seen; no MNIST
and no torch are needed.  The distance to a digit is that of the distribution over the ten digits,
each draw named by its ten nearest codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import abctree
from abctree.tree import inner_loop
from examples.digits import digit_generator, digits
from experiments import command, digits_modes, digits_pictures
from experiments.curves import Known, known_after
from experiments.methods import METHODS, play

DIGIT, D = 0, 5
BUDGET, QUICK_BUDGET = 100_000, 5_000
TARGET = 1000.0  #: effective sample size at which answers are compared
BINS = 20  #: of the simulations, for acceptance over simulations
#: The methods of Section 4, and the utilities of its supplement.
CHOSEN = (
    "rejection",
    "SMC-ABC, 2 cov, 0.9 ε, N = 1000",
    "SMC-ABC, Silverman, median, N = 1000",
    "ABC-Tree, published, ω¹",
    "ABC-Tree, published, ω²",
    "ABC-Tree, published, ω³",
    "ABC-Tree, default",
    "ABC-Tree, boxes",
    "ABC-Tree, kernels",
)
QUICK = ("rejection", "SMC-ABC, 2 cov, 0.9 ε, N = 1000", "ABC-Tree, default")
#: One of each kind, whose draws are kept for the pictures.
SHOWN = (
    "rejection",
    "SMC-ABC, 2 cov, 0.9 ε, N = 1000",
    "ABC-Tree, published, ω¹",
    "ABC-Tree, default",
)
#: What is kept of a run beside its answers.
RUN_KEYS = ("rounds", "seconds", "simulator seconds", "bandit seconds", "acceptance")
PARTS = ("reference", "posterior", "leaves", "map", "tutorial")


# The reference ----------------------------------------------------------------------------------

REFERENCE_TASKS, REFERENCE_EACH = 100, 1_000_000


def reference_task(seed: int, n: int, keep: int) -> tuple[np.ndarray, np.ndarray]:
    """The closest of n prior draws."""
    run = abctree.rejection(digits(DIGIT, d=D), n_simulations=n, keep=keep, rng=[2026, seed])
    return np.array(run.table.theta), np.array(run.table.distance)


def make_reference(args: command.Options) -> dict[str, np.ndarray]:
    """The closest of all, put together from the closest of each part."""
    n_tasks, each, keep = REFERENCE_TASKS, REFERENCE_EACH, 1000
    if args.quick:
        n_tasks, each, keep = 4, 50_000, 200
    tasks = [(i, each, keep) for i in range(n_tasks)]
    done = command.each(reference_task, tasks, args, tell=lambda task: f"reference {task[0]}")
    theta = np.concatenate([part[0] for _, part in done])
    distance = np.concatenate([part[1] for _, part in done])
    closest = np.argsort(distance, kind="stable")[:keep]
    return {
        "theta": theta[closest].astype(np.float32),
        "distance": distance[closest].astype(np.float32),
        "n_simulations": np.array(len(done) * each),
    }


def reference_file(out: Path) -> Path:
    return out / "experiments" / "results" / "digits_reference.npz"


def reference(args: command.Options) -> None:
    path = reference_file(args.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    found = make_reference(args)
    np.savez_compressed(path, **found)
    print(
        f"wrote {path}: closest {len(found['theta'])} of {int(found['n_simulations'])}, "
        f"ε = {found['distance'][-1]:.4f}, {time.monotonic() - began:.0f} s"
    )


def read_reference(args: command.Options) -> dict[str, np.ndarray]:
    """The committed file, or that of a quick run."""
    own = reference_file(args.out)
    path = own if own.exists() else reference_file(command.ROOT)
    if not path.exists():
        raise SystemExit(f"{path} does not exist: run `python -m experiments.digits reference`.")
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


# The posterior ----------------------------------------------------------------------------------


class Clocked:
    """A simulator that looks at the clock."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self.inner, self.seconds = inner, 0.0

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> Any:
        began = time.process_time()
        answer = self.inner(theta, rng)
        self.seconds += time.process_time() - began
        return answer


@contextmanager
def bandit_clock() -> Iterator[list[float]]:
    """CPU seconds of Algorithm 1 without the simulator: choosing boxes, drawing, beliefs."""
    spent = [0.0]

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def timed_work(*args: Any) -> Any:
            began = time.process_time()
            answer = work(*args)
            spent[0] += time.process_time() - began
            return answer

        return timed_work

    own = inner_loop.pull_arms, inner_loop.update_beliefs
    inner_loop.pull_arms, inner_loop.update_beliefs = map(timed, own)
    try:
        yield spent
    finally:
        inner_loop.pull_arms, inner_loop.update_beliefs = own


def clocked(problem: Any) -> tuple[Any, Clocked]:
    clock = Clocked(problem.model.simulator)
    return abctree.Problem(problem.prior, clock, problem.observed, vectorized=True), clock


@cache
def warm_up() -> None:
    """Compile and import before a clock runs."""
    for label in ("rejection", "SMC-ABC, 2 cov, 0.9 ε, N = 1000", "ABC-Tree, default"):
        play(METHODS[label], digits(DIGIT, d=D), 3000, 0)
    play(METHODS["ABC-Tree, published, ω¹"], digits(DIGIT, d=D), 3000, 0)


def posterior_task(
    label: str, seed: int, n: int, shares: np.ndarray, levels: Sequence[float], evidence: float
) -> dict[str, Any]:
    """All readings of one run: over simulations, at the end, and the time it took.

    `levels` are tolerances, that of the reference first; `evidence` is the prior mass below it.
    """
    warm_up()
    method = METHODS[label]
    problem, clock = clocked(digits(DIGIT, d=D))
    began = time.process_time()
    with bandit_clock() as bandit:
        result = play(method, problem, n, seed)
    seconds = time.process_time() - began
    readings = {}
    points = checkpoints(n)
    for reading in method.readings:
        found = [read(known, shares, levels[0]) for known in known_after(result, reading, points)]
        last, draws = found[-1]
        keys = ("made", "ε", "ESS", "TV", "ε at ESS", "ESS there", "TV there")
        entry: dict[str, Any] = {
            "curve": {key: [row.get(key) for row, _ in found] for key in keys},
            "final": last,
        }
        if draws is not None:
            entry["shares"] = digit_generator(D).shares(draws.theta, draws.weights)
            if seed == 1 and reading == method.readings[0]:
                entry["draws"] = draws.sample(1000, rng=0)
        if reading != "population":
            with command.quiet():
                ratio = result.evidence(levels[0]).estimate / evidence
            entry["evidence"] = ratio - 1.0 if method.kind != "smc" else None
        readings[digits_pictures.named(label, reading)] = entry
    return {
        "readings": readings,
        "acceptance": acceptance(result.table.distance, levels),
        "rounds": len(result.rounds) - 1,
        "seconds": seconds,
        "simulator seconds": clock.seconds,
        "bandit seconds": bandit[0],
    }


def read(known: Known | None, shares: np.ndarray, floor: float) -> tuple[dict[str, float], Any]:
    """What was known, at the reference's ε or the smallest above it with enough draws.

    Enough is an effective sample size of 1 000, or 1 % of the simulations so far if that is less.
    Below the reference's ε the posterior is another one, and no distance to it would be fair.
    "There" is at the reference's ε, however few draws that leaves.
    """
    if known is None:
        return {}, None
    draws = known.posterior(max(20.0, min(TARGET, known.n / 100)))
    reached = draws.epsilon
    there = replace(known, epsilon=floor).posterior()
    if draws.epsilon < floor:
        draws = there
    if not draws.weights.sum() > 0.0:
        return {}, None
    row = {"made": known.n, "ε": draws.epsilon, "ESS": draws.ess, "TV": apart(draws, shares)}
    row["ε at ESS"] = reached
    if there.weights.sum() > 0.0:
        row |= {"ESS there": there.ess, "TV there": apart(there, shares)}
    return row, draws


def apart(draws: Any, shares: np.ndarray) -> float:
    """Total variation of the distributions over the digits."""
    own = digit_generator(D).shares(draws.theta, draws.weights)
    return float(abctree.metrics.total_variation(own, shares))


def checkpoints(n: int) -> list[int]:
    return [int(t) for t in np.unique(np.round(np.geomspace(n / 40, n, 14)))]


def acceptance(distance: np.ndarray, levels: Sequence[float]) -> list[list[float]]:
    """Share of the simulations of each bin, in the order they were made, below each level."""
    bins = np.array_split(np.asarray(distance), BINS)
    return [[float((part < level).mean()) for part in bins] for level in levels]


def posterior(args: command.Options) -> dict[str, Any]:
    known = read_reference(args)
    generator = digit_generator(D)
    shares = generator.shares(known["theta"].astype(float))
    n = QUICK_BUDGET if args.quick else BUDGET
    levels = [float(known["distance"][-1]), 2.0, 2.5]  # the first is the reference's ε
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    chosen = [c for c in (QUICK if args.quick else CHOSEN) if args.only in (None, c)]
    evidence = len(known["theta"]) / int(known["n_simulations"])
    tasks = [(label, seed, n, shares, levels, evidence) for seed in seeds for label in chosen]
    done = command.each(posterior_task, tasks, args, tell=lambda t: f"{t[0]}, seed {t[1]}")
    draws = {"reference": known["theta"]}
    methods: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for (label, seed, *_), run in done:
        runs.setdefault(label, []).append({key: run[key] for key in RUN_KEYS})
        for name, entry in run["readings"].items():
            sample = entry.pop("draws", None)
            if sample is not None and label in SHOWN:
                draws[name] = sample
            methods.setdefault(name, []).append({"seed": seed, **entry})
    if args.only is not None:
        stored = command.read_json(args.json("digits_posterior"))
        methods, runs = stored["methods"] | methods, stored["runs"] | runs
        draws = read_draws(draws_file(args.out).parent) | draws
    write_draws(args.out, draws)
    halves = np.array_split(np.random.default_rng(0).permutation(known["theta"].astype(float)), 2)
    split = abctree.metrics.total_variation(*(generator.shares(half) for half in halves))
    return {
        "settings": {
            "problem": f"digits({DIGIT}, d={D})",
            "simulations": n,
            "checkpoints": checkpoints(n),
            "levels": levels,
            "theta_true": generator.typical(DIGIT),
        },
        "reference": {
            "simulations": int(known["n_simulations"]),
            "draws": len(known["theta"]),
            "epsilon": float(known["distance"][-1]),
            "shares": shares,
            "TV of its halves": split,
        },
        "methods": methods,
        "runs": runs,
    }


def draws_file(out: Path) -> Path:
    return out / "experiments" / "results" / "digits_draws.npz"


def write_draws(out: Path, draws: dict[str, np.ndarray]) -> None:
    """1 000 draws of each method, for the pictures."""
    path = draws_file(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"draws_{i}": np.asarray(d, dtype=np.float16) for i, d in enumerate(draws.values())}
    np.savez_compressed(path, names=np.array(list(draws)), **arrays)
    print(f"wrote {path}")


def read_draws(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / "digits_draws.npz") as file:
        return {str(name): file[f"draws_{i}"].astype(float) for i, name in enumerate(file["names"])}


# The command ------------------------------------------------------------------------------------


def numbers_for(
    name: str, args: command.Options, measure: Callable[[command.Options], dict[str, Any]]
) -> dict[str, Any] | None:
    """Measure and write, or read from the folder of the stored ones; None if it has none."""
    if args.from_json is None:
        return command.numbers_of(name, args, measure)
    path = args.from_json / f"{name}.json"
    return command.read_json(path) if path.exists() else None


def options(argv: Sequence[str]) -> tuple[list[str], command.Options]:
    """Parts, which come first, and the options of all experiments."""
    parts = []
    rest = [word for word in argv if word != "--umap"]
    while rest and not rest[0].startswith("-"):
        parts.append(rest.pop(0))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise SystemExit(f"unknown part {unknown[0]!r}: choose from {', '.join(PARTS)}")
    from_json = "--from-json" in rest
    args = command.options(__doc__, "digits", seeds=10, argv=rest)
    if from_json:  # here it is a folder: there are several files
        place = args.from_json or command.RESULTS
        folder = place if place.is_dir() else place.parent
        args = replace(args, from_json=folder)
    if not parts:
        parts = [part for part in PARTS if part != "reference" or (args.quick and not from_json)]
    return parts, args


def main(argv: Sequence[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    parts, args = options(words)
    if "reference" in parts:
        reference(args)
    if "posterior" in parts:
        numbers = numbers_for("digits_posterior", args, posterior)
        if numbers:
            where = args.from_json or args.out / "experiments" / "results"
            draws = read_draws(where)
            pictures = digits_pictures.posterior(numbers, draws, umap="--umap" in words)
            command.show(args, pictures, digits_pictures.posterior_tables(numbers))
    if "leaves" in parts:
        numbers = numbers_for("digits_leaves", args, digits_modes.leaves)
        if numbers:
            command.show(
                args,
                {"digits-leaves": digits_pictures.leaves(numbers)},
                [digits_pictures.leaves_table(numbers)],
            )
    if "map" in parts:
        numbers = numbers_for("digits_map", digits_modes.repeated(args), digits_modes.modes)
        if numbers:
            command.show(
                args, digits_pictures.modes(numbers), [digits_pictures.modes_table(numbers)]
            )
    if "tutorial" in parts:
        command.show(args, {"digits-tutorial": digits_pictures.tutorial()}, [])


if __name__ == "__main__":
    main()
