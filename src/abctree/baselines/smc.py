"""Population Monte Carlo ABC (Beaumont, Cornuet, Marin and Robert 2009).

A population is simulated until enough draws are closer than its tolerance.  The next one is
proposed from it, a weighted particle and a step, at a lower tolerance; its draws are weighted by
``π(θ) / Σ_j W_j K(θ | θ_j)``.

Points outside the support of the prior, or refused by the constraint, are drawn again and cost no
simulation.  They are counted: the share that is refused is what the proposal's density inside
falls short of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from abctree.data import (
    Arms,
    Boxes,
    Mixture,
    Partition,
    Plan,
    Round,
    Simulations,
    Table,
    effective_sample_size,
)
from abctree.problem import Problem
from abctree.proposals.coordinates import Coordinates
from abctree.proposals.kernel_mixture import FAR, Particles
from abctree.proposals.perturbations import KernelDensity, Perturbation
from abctree.proposals.points import Points, draw_allowed, draw_points
from abctree.proposals.proposal import OnBoxes
from abctree.protocols import Schedule
from abctree.tree.game import Course
from abctree.tree.schedules import Explicit
from abctree.types import BoolArray, FloatArray, IntArray

_NOWHERE = (
    "`constraint` must leave some room around the particles, but refused {n} steps in a row. "
    "Reparametrise, or use a kernel with smaller steps."
)


@dataclass(frozen=True)
class SmcRules:
    """The parts that the algorithm is parametrised by."""

    perturbation: Perturbation  #: K
    schedule: Schedule  #: tolerances
    coordinates: Coordinates
    min_ess: float  #: a population grows until its effective sample size is this


#: What the populations of a run share; the table holds the pilot.
SmcRun: TypeAlias = Course[SmcRules]


@dataclass
class Population:
    """A population while it is simulated; its rows go to the table when it is over."""

    epsilon: float
    #: Points, the log of their proposal relative to the cube (n,), and what came of them.
    blocks: list[tuple[Points, FloatArray, Simulations]] = field(default_factory=list)
    interrupted: bool = False  #: by Ctrl-C

    @property
    def n(self) -> int:
        """Simulations."""
        return sum(len(log_ratio) for _, log_ratio, _ in self.blocks)

    @property
    def n_drawn(self) -> int:
        """Points drawn, refused ones included."""
        return sum(points.n_drawn for points, _, _ in self.blocks)


def populations(run: SmcRun, n_prior: float) -> Iterator[Round]:
    """Populations until the budget is spent, or a list of tolerances ends.

    Where no tolerance is lower because all accepted distances are equal, the last population is
    proposed from these draws, at the same tolerance, and takes the rest of the budget.

    The table holds the pilot's prior draws, which belong to the first population; for them
    `n_prior` points were drawn, refused ones included.  A population that the budget or a stopping
    rule cuts short has fewer accepted draws, and the tolerance that these have.
    """
    table, plan = run.table, run.plan
    epsilon: float | None = run.rules.schedule.first(table.distance)
    mixture = Mixture(float(n_prior))
    whole = run.problem.region.measure(Boxes.whole(run.problem.d))
    proposal: Particles | None = None
    quota = float(plan.quota)
    t = 1
    while epsilon is not None:
        begin = len(table)
        population = _play(run, proposal, epsilon, quota)
        _record(run, population, t)
        mixture = _with(mixture, proposal, population.n_drawn)
        played = _round(run, whole, mixture, population, t, begin)
        yield played
        accepted = accepted_of(table, t, epsilon)
        t += 1
        spent = len(table) >= plan.n_simulations
        most = plan.max_rounds is not None and t > plan.max_rounds
        if played.interrupted or spent or most or not len(accepted):
            return
        weight = weights(table)[accepted]
        proposal = _learn(run, accepted, weight, proposal)
        distance = table.distance[accepted]
        lower = run.rules.schedule.next(epsilon, distance, weight)
        if lower is None and _is_floor(run.rules.schedule, distance):
            lower, quota = epsilon, float("inf")
        epsilon = lower
        if run.stop():  # no population that nobody begins
            return


def _is_floor(schedule: Schedule, distance: FloatArray) -> bool:
    """Whether the tolerance accepts only what is nearest, and no list of tolerances has ended."""
    return not isinstance(schedule, Explicit) and distance.min() == distance.max()


def members(table: Table, t: int) -> BoolArray:
    """Find the rows (n,) of population t; the pilot belongs to the first."""
    return np.asarray(table.round <= 1 if t == 1 else table.round == t)


def accepted_of(table: Table, t: int, epsilon: float) -> IntArray:
    """Rows of population t that are closer than ε."""
    return np.flatnonzero(members(table, t) & (table.distance < epsilon))


def weights(table: Table) -> FloatArray:
    """Raw weights (n,) of draws by the proposal of their own population."""
    return np.asarray(table.prior_weight / table.proposal)


def _play(run: SmcRun, proposal: Particles | None, epsilon: float, quota: float) -> Population:
    """Simulate until so many draws are closer and weigh evenly enough, or the budget is spent."""
    population = Population(epsilon)
    table, plan = run.table, run.plan
    earlier = np.empty(0, dtype=np.int64)
    if proposal is None:
        earlier = accepted_of(table, 1, epsilon)
    weight = weights(table)[earlier]
    made = len(table) if proposal is None else 0
    while len(table) + population.n < plan.n_simulations and not run.stop():
        missing = _missing(weight, quota, run.rules.min_ess)
        if missing <= 0.0:
            break
        begun = len(table) + population.n
        n = min(_block(plan, missing, len(weight), made), plan.goal(begun) - begun)
        points, log_ratio = draw(run.problem, proposal, run.rules.coordinates, n, run.rng)
        try:
            done = run.simulate(points.theta, begun + np.arange(n))()
        except KeyboardInterrupt:
            population.interrupted = True  # what was simulated before is a shorter population
            break
        population.blocks.append((points, log_ratio, done))
        made += n
        close = done.distance < epsilon
        prior = run.problem.region.weight(points.cube[close])
        weight = np.append(weight, prior * np.exp(-log_ratio[close]))
    return population


def _missing(weight: FloatArray, quota: float, min_ess: float) -> float:
    """About how many acceptances a population still needs."""
    ess = effective_sample_size(weight)
    short = (min_ess - ess) * len(weight) / ess if 0.0 < ess < min_ess else 0.0
    return max(quota - len(weight), short)


def _block(plan: Plan, missing: float, accepted: int, made: int) -> int:
    """Simulations to begin: about as many as the missing acceptances take, and not many more.

    Small enough at the end that a population is hardly larger than asked for.
    """
    if plan.block > 0:
        return plan.block
    rate = (accepted + 1.0) / (made + 2.0)
    return int(np.clip(0.9 * missing / rate, max(8, plan.quota // 20), 2 * plan.quota + 100))


def draw(
    problem: Problem,
    proposal: Particles | None,
    coordinates: Coordinates,
    n: int,
    rng: np.random.Generator,
) -> tuple[Points, FloatArray]:
    """n points that prior and constraint allow, and the log of their proposal to the cube (n,)."""
    if proposal is None:
        prior = OnBoxes(Boxes.whole(problem.d), np.ones(1))
        return draw_points(problem, prior, n, rng), np.zeros(n)
    n_proposed = 0

    def propose(want: int) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        nonlocal n_proposed
        n_proposed += want
        z = proposal.kernels.draw(want, rng)
        return z, *coordinates.theta(z), np.arange(n_proposed - want, n_proposed) + 1

    def allowed(z: FloatArray, theta: FloatArray, log_base: FloatArray, _: IntArray) -> BoolArray:
        # Outside the support theta means nothing, and the constraint is not asked.
        rows = np.flatnonzero(log_base > -np.inf)
        rows = rows[problem.region.feasible(theta[rows])]
        if problem.region.has_density:
            rows = rows[problem.region.weight(coordinates.cube(z[rows], theta[rows])) > 0.0]
        kept = np.zeros(len(z), dtype=bool)
        kept[rows] = True
        return kept

    (z, theta, log_base, looked), _ = draw_allowed(propose, allowed, n, _NOWHERE)
    log_ratio = np.clip(proposal.kernels.log_density(z) - log_base, -FAR, FAR)
    return Points(coordinates.cube(z, theta), theta, looked, int(looked[-1])), log_ratio


def _record(run: SmcRun, population: Population, t: int) -> None:
    """The rows of a population, now that the share of refused points is known."""
    if not population.blocks:
        return
    points, log_ratio, done = zip(*population.blocks, strict=True)
    cube = np.concatenate([p.cube for p in points])
    joined = Simulations.join([*done])
    share = population.n / population.n_drawn
    run.table.append(
        cube=cube,
        theta=np.concatenate([p.theta for p in points]),
        distance=joined.distance,
        proposal=np.exp(np.concatenate(log_ratio)) / share,
        prior_weight=run.problem.region.weight(cube),
        arm=0,
        round=t,
        fold=0,
        denominator=np.nan,  # known when weights by the mixture are asked for
        summary=joined.summary,
    )


def _with(mixture: Mixture, proposal: Particles | None, n_drawn: int) -> Mixture:
    """The mixture with one more population; the first draws from the prior, as the pilot does."""
    if proposal is None:
        return replace(mixture, n_prior=mixture.n_prior + n_drawn)
    return mixture.plus((float(n_drawn), proposal))


def _round(
    run: SmcRun,
    whole: Partition,
    mixture: Mixture,
    population: Population,
    t: int,
    begin: int,
) -> Round:
    table = run.table
    accepted = accepted_of(table, t, population.epsilon)
    made = np.count_nonzero(members(table, t))
    return Round(
        index=t,
        epsilon=population.epsilon,
        partitions=(whole,),
        arms=(Arms(np.array([1.0 * len(accepted)]), np.array([1.0 * made - len(accepted)])),),
        mixtures=(mixture,),
        first=begin,
        last=len(table),
        n_accepted=int(np.count_nonzero(table.distance[begin:] < population.epsilon)),
        ess=effective_sample_size(weights(table)[accepted]),
        rng_state=dict(run.rng.bit_generator.state),
        interrupted=population.interrupted,
    )


def _learn(
    run: SmcRun, accepted: IntArray, weight: FloatArray, last: Particles | None
) -> Particles:
    """The proposal of the next population from the accepted draws of this one."""
    chart, table = run.rules.coordinates, run.table
    z = chart.of(table.theta[accepted], table.cube[accepted])
    # Where all particles agree: the scale of the population before, at first of the prior draws.
    scale = _pilot_scale(run) if last is None else last.kernels.scale
    density = KernelDensity.of(z, weight, run.rules.perturbation, chart.is_lattice, scale)
    return Particles(density, chart, run.problem.prior, accepted)


def _pilot_scale(run: SmcRun) -> FloatArray:
    pilot = slice(run.plan.n_pilot)
    z = run.rules.coordinates.of(run.table.theta[pilot], run.table.cube[pilot])
    scale = z.std(axis=0)
    return np.asarray(np.where(scale > 0.0, scale, np.maximum(np.abs(z[0]), 1.0)))
