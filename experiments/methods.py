"""The methods that are compared, each a run of the same problem, table and result.

SMC-ABC stands in several settings, for which one is best depends on the problem: the steps of
Beaumont et al. (2009) or those of a kernel density estimate, two tolerance rules, three sizes of
the population.  A run of it is read twice: the last whole population by its own weights, as
published, and all populations by the mixture of their proposals.  The steps of Beaumont et al.
stand for SMC-ABC as published and are read as published; benchmarks/peers.py reads them both ways.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import abctree
from experiments import command

Reading = Literal["closest", "draw", "mixture", "population"]

#: The budget that the settings below are for; smaller runs scale particles and quota down.
BUDGET = 100_000


@dataclass(frozen=True)
class Method:
    """How to make a run, and how to read it."""

    kind: Literal["rejection", "smc", "tree"]
    readings: tuple[Reading, ...]
    settings: dict[str, Any] = field(default_factory=dict)


def smc(kernel: str, schedule: str | float, particles: int, *, mixture: bool = True) -> Method:
    """A setting of SMC-ABC.  Its mixture costs ten times the run, and is read where asked for."""
    readings: tuple[Reading, ...] = ("population", "mixture") if mixture else ("population",)
    settings = {"kernel": kernel, "schedule": schedule, "n_particles": particles}
    return Method("smc", readings, settings)


def published(utility: str, block: int = 10) -> Method:
    """The paper's settings.  Blocks of ten simulations, to save time; the paper's are of one."""
    return Method("tree", ("draw",), {"preset": "published", "utility": utility, "block": block})


METHODS: dict[str, Method] = {
    "rejection": Method("rejection", ("closest",)),
    "SMC-ABC, 2 cov, 0.9 ε, N = 1000": smc("twice-covariance", 0.9, 1000, mixture=False),
    "SMC-ABC, 2 cov, median, N = 1000": smc("twice-covariance", "median", 1000, mixture=False),
    "SMC-ABC, Silverman, 0.9 ε, N = 1000": smc("silverman", 0.9, 1000),
    "SMC-ABC, Silverman, median, N = 1000": smc("silverman", "median", 1000),
    "SMC-ABC, Silverman, median, N = 300": smc("silverman", "median", 300),
    "SMC-ABC, Silverman, median, N = 100": smc("silverman", "median", 100),
    "SMC-ABC, local, median, N = 300": smc("local", "median", 300),
    "ABC-Tree, published, ω¹": published("omega1"),
    "ABC-Tree, published, ω²": published("omega2"),
    "ABC-Tree, published, ω³": published("omega3"),
    "ABC-Tree, default": Method("tree", ("mixture",)),
    "ABC-Tree, boxes": Method("tree", ("mixture",), {"proposal": "boxes"}),
    "ABC-Tree, kernels": Method(
        "tree", ("mixture",), {"proposal": ["boxes", "kernels"], "schedule": "median"}
    ),
}


def play(method: Method, problem: Any, n: int, seed: int) -> Any:
    """One run of exactly n simulations."""
    share = min(1.0, n / BUDGET)
    settings = dict(method.settings)
    with command.quiet():
        if method.kind == "rejection":
            return abctree.rejection(problem, n_simulations=n, rng=seed)
        if method.kind == "smc":
            settings["n_particles"] = max(20, int(share * settings["n_particles"]))
            return abctree.smc(problem, n_simulations=n, rng=seed, **settings)
        if settings.get("preset") == "published" and share < 1.0:
            settings["quota"] = max(20, int(1000 * share))
        return abctree.abc_tree(problem, n_simulations=n, rng=seed, **settings)
