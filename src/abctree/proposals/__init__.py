"""What draws points of the cube and knows its density."""

from abctree.proposals.points import (
    Points,
    Source,
    best_shares,
    density_of,
    draw_allowed,
    draw_from,
    draw_in_arms,
    draw_points,
)
from abctree.proposals.proposal import Blend, OnBoxes, Proposal, UniformCube, pick
from abctree.proposals.students import CubeKernels, Students, fit_students, log_odds
from abctree.proposals.thinned import (
    Regressions,
    RootRate,
    Surrogate,
    Thinned,
    fit_surrogate,
    fit_thinned,
)

__all__ = [
    "Blend",
    "CubeKernels",
    "OnBoxes",
    "Points",
    "Proposal",
    "Regressions",
    "RootRate",
    "Source",
    "Students",
    "Surrogate",
    "Thinned",
    "UniformCube",
    "best_shares",
    "density_of",
    "draw_allowed",
    "draw_from",
    "draw_in_arms",
    "draw_points",
    "fit_students",
    "fit_surrogate",
    "fit_thinned",
    "log_odds",
    "pick",
]
