"""Pictures of partitions in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from abctree.answers.histogram.marginal import along
from abctree.answers.result import Result
from abctree.answers.run import check_is_run
from abctree.data import Partition, Round
from abctree.errors import ParameterError, wrong
from abctree.faces.plots.canvas import TRUTH, finished, fit_texts, grid_of_axes, one_axes, quieten
from abctree.keywords import checks_keywords
from abctree.numbers import check_rule
from abctree.protocols import Prior
from abctree.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Show = Literal["posterior", "proposal"]

#: Panels of a row that was not asked for in detail.
_PANELS = 5
#: Most accepted draws in a panel, and parameters of a slice that its title names.
_DOTS, _NAMED = 2000, 3


@checks_keywords
def partition(
    result: Result,
    round: int = -1,  # noqa: A002 - the word of the paper
    fold: int = 0,
    dims: tuple[str, str] | None = None,
    ax: Axes | None = None,
    coordinates: Literal["theta", "cube"] = "theta",
    *,
    show: Show = "posterior",
    draws: bool = False,
) -> Figure:
    """The boxes of one round, darker where the step-function posterior or the proposal is denser.

    In more than two dimensions this is the slice of the partition through the posterior mean (in
    the cube), and the title says where, if that are up to three numbers.

    Parameters
    ----------
    result : Result
        A run with at least two free parameters.
    round : int
        Which of ``result.rounds``; 0 is the pilot, -1 the last.
    fold : int
        Which of the folds' partitions.
    dims : two str, optional
        Parameters to show.  Default: the first two free ones.
    ax : matplotlib Axes, optional
        Default: of a new figure.
    coordinates : {"theta", "cube"}
        User units, or quantiles of the prior.  A parameter that is discrete or that belongs to a
        joint prior is drawn in the cube in either case, and its label says so.
    show : {"posterior", "proposal"}
        π(Ω_k) η_k over the volume of the box (Equation 7), or the density with which the round
        played the box, without that of kernels beside it.  Per volume in θ where both axes are in
        user units, else in the cube; also there where all boxes shown reach to infinity.
    draws : bool
        Whether the draws that the round accepted, in any fold, are shown as red dots; in more than
        two dimensions all of them are projected onto the slice.

    Raises
    ------
    ParameterError
        If the round, the fold, a parameter or an option is unknown, or there are not two
        dimensions to show.
    """
    check_is_run(result)
    n = len(result.rounds)
    if not -n <= round < n:
        raise wrong("round", f"be in {-n} .. {n - 1}", round)
    played = result.rounds[round]
    if not 0 <= fold < len(played.partitions):
        raise wrong("fold", f"be in 0 .. {len(played.partitions) - 1}", fold)
    check_rule("show", show, '"posterior" or "proposal"')
    check_rule("coordinates", coordinates, '"theta" or "cube"')
    sides = sides_of(result, dims, coordinates)
    ax = one_axes(ax, 4.2, 4.2)
    # Red is hard to see on black: behind dots the shades stop at a middle grey.
    _draw_boxes(ax, result, played, fold, sides, show, darkest=0.55 if draws else 0.9)
    if draws:
        across, up = accepted_of(result, played, sides)
        size = float(np.clip(900.0 / max(1, len(up)), 1.5, 9.0))
        ax.scatter(across, up, s=size, c=TRUTH, linewidths=0, alpha=0.8, zorder=3)
    x, y = sides
    ax.set(xlim=x.limits, ylim=y.limits, xlabel=x.label, ylabel=y.label)
    fit_texts([(ax, ax.xaxis.label), (ax, ax.yaxis.label)])
    quieten(ax)
    ax.set_title(_title(result, played, sides), fontsize="medium")
    return finished(ax)


@checks_keywords
def partitions(
    result: Result,
    rounds: Sequence[int] | None = None,
    fold: int = 0,
    dims: tuple[str, str] | None = None,
    axes: object = None,
    coordinates: Literal["theta", "cube"] = "theta",
    *,
    show: Show = "proposal",
) -> Figure:
    """A row of partitions over the rounds, the accepted draws as red dots (the paper's Figure 2).

    Parameters
    ----------
    result : Result
        A run with at least two free parameters.
    rounds : sequence of int, optional
        Which of ``result.rounds``.  Default: five, from the first to the last.
    fold, dims, coordinates, show
        As in `partition`.
    axes : array of matplotlib Axes, optional
        One for each round.  Default: of a new figure.

    Raises
    ------
    ParameterError
        As in `partition`; if `rounds` is empty; if `axes` has another number.
    """
    check_is_run(result)
    if rounds is None:  # the pilot is left out where there are others
        last = len(result.rounds) - 1
        first = min(1, last)
        rounds = np.unique(
            np.linspace(first, last, min(_PANELS, last - first + 1)).round()
        ).tolist()
    chosen = [int(r) for r in rounds]
    if not chosen:
        raise ParameterError("`rounds` must name at least one round, but is empty.")
    row = grid_of_axes(axes, (1, len(chosen)), (2.9 * len(chosen) + 0.4, 3.3))[0]
    for ax, index in zip(row, chosen, strict=True):
        partition(result, index, fold, dims, ax, coordinates, show=show, draws=True)
        if ax is not row[0]:
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
    fit_texts([(ax, ax.title) for ax in row])
    return finished(row[0])


# One side of the picture ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Side:
    """A dimension of the cube, and how it is drawn."""

    prior: Prior
    dim: int  #: of the cube
    column: int | None  #: of theta, in whose units it is drawn; None for the cube's own
    label: str
    limits: tuple[float, float]

    def place(self, u: FloatArray) -> FloatArray:
        """Cube coordinates (n,) as places on the axis (n,)."""
        return u if self.column is None else along(self.prior, self.column, self.dim, u)


def sides_of(result: Result, dims: tuple[str, str] | None, coordinates: str) -> tuple[Side, Side]:
    """The sides of a picture of two parameters."""
    prior = result.problem.prior
    if prior.d < 2:
        raise ParameterError(
            f"`result` must have two free parameters for a picture of boxes, but its problem has "
            f"{prior.d}. Plot result.histogram().marginal(name) instead."
        )
    column_of = columns_of_dims(result)
    dim_of = {prior.names[column]: dim for dim, column in column_of.items()}
    wanted = [0, 1]
    if dims is not None:
        if isinstance(dims, str) or len(dims) != 2 or len(set(dims) & set(dim_of)) != 2:
            raise ParameterError(
                f"`dims` must be two different names of {sorted(dim_of)}, the parameters that have "
                f"a dimension of the cube to themselves, but got {dims!r}."
            )
        wanted = [dim_of[name] for name in dims]
    x, y = (_side(prior, dim, column_of.get(dim), coordinates) for dim in wanted)
    return x, y


def columns_of_dims(result: Result) -> dict[int, int]:
    """The parameter that a dimension of the cube drives alone, for each that does."""
    histogram, names = result.histogram(), result.problem.prior.names
    column_of: dict[int, int] = {}
    for column, name in enumerate(names):
        dim = histogram.driver(name)
        if dim is not None:
            column_of.setdefault(dim, column)
    return column_of


def _side(prior: Prior, dim: int, column: int | None, coordinates: str) -> Side:
    if column is None:
        return Side(prior, dim, None, f"cube dimension {dim + 1}", (0.0, 1.0))
    name = prior.names[column]
    in_cube = Side(prior, dim, None, f"{name} (quantile of the prior)", (0.0, 1.0))
    side = Side(prior, dim, column, name, (0.0, 1.0))
    is_discrete = len(np.unique(side.place(np.linspace(0.005, 0.995, 500)))) < 250
    if coordinates == "cube" or is_discrete:
        return in_cube
    # The support of a bounded prior, the central 99.9 % of one with long tails.
    ends = side.place(np.array([0.0, 0.0005, 0.9995, 1.0])).tolist()
    is_bounded = ends[3] - ends[0] < 1.5 * (ends[2] - ends[1])
    return replace(side, limits=(ends[0], ends[3]) if is_bounded else (ends[1], ends[2]))


# What is drawn ----------------------------------------------------------------------------------


def _draw_boxes(
    ax: Axes,
    result: Result,
    played: Round,
    fold: int,
    sides: tuple[Side, Side],
    show: Show,
    darkest: float,
) -> None:
    (left, bottom, right, top), shown = slice_of(result, played, fold, sides, show)
    path = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import PowerNorm

    ax.add_collection(
        PolyCollection(
            list(path.transpose(2, 0, 1)),
            array=shown,
            cmap="Greys",
            # The square root of a density: the eye sees the shoulders, too.
            norm=PowerNorm(0.5, vmin=0.0, vmax=float(shown.max()) / darkest**2 or 1.0),
            edgecolors="#7d8a93",
            linewidths=float(np.clip(4.0 / np.sqrt(len(shown)), 0.08, 0.5)),
        )
    )


def slice_of(
    result: Result, played: Round, fold: int, sides: tuple[Side, Side], show: Show
) -> tuple[FloatArray, FloatArray]:
    """Left, bottom, right and top (4, K) of the boxes that are seen, and their densities (K,)."""
    measured = played.partitions[fold]
    in_theta = all(side.column is not None for side in sides)
    # The plane through the posterior mean cuts these, all of them in two dimensions.
    boxes, at = measured.boxes, _centre(result)
    others = [j for j in range(boxes.d) if j not in {side.dim for side in sides}]
    within = (boxes.lower[:, others] <= at[others]) & (at[others] < boxes.upper[:, others])
    cut = np.flatnonzero(within.all(axis=1))
    density = _density(played, fold, measured, cut, show, in_theta=in_theta)
    corners = [
        side.place(bound[cut, side.dim]) for bound in (boxes.lower, boxes.upper) for side in sides
    ]
    return np.array(corners), density[cut]


def _density(
    played: Round, fold: int, measured: Partition, cut: IntArray, show: Show, *, in_theta: bool
) -> FloatArray:
    """Mass over volume (K,), up to a constant; 0 in a box of infinite volume.

    The volume is in θ if it is asked for and finite in one of the boxes `cut`, else in the cube.
    """
    if show == "posterior":
        mass = measured.prior_mass * played.arms[fold].mean
    else:
        mixture = played.mixtures[fold]
        # The pilot has no proposal but the prior; later the newest layer is the round's own.
        newest = mixture.on_boxes(-1) if played.index > 0 else None
        relative = np.ones(len(measured)) if newest is None else newest.value
        mass = relative * measured.boxes.volume
    log_volume = np.log(measured.boxes.volume)
    # Boxes that are all without end have no density in θ to tell them apart.
    known = not np.isnan(measured.log_volume).any() and np.isfinite(measured.log_volume[cut]).any()
    if in_theta and known:
        log_volume = measured.log_volume
    # In units of the smallest box: volumes may be too small for a float.
    unit = float(log_volume.min())
    return np.asarray(mass * np.exp(unit - log_volume))


def _centre(result: Result) -> FloatArray:
    """The weighted mean of the last round's draws in the cube; the middle without draws."""
    table = result.table
    rows = table.distance < result.epsilon
    weight = result.weights()[rows]
    if not weight.sum() > 0.0:
        return np.full(table.cube.shape[1], 0.5)
    return np.asarray(weight @ table.cube[rows] / weight.sum())


def accepted_of(result: Result, played: Round, sides: tuple[Side, Side]) -> FloatArray:
    """(2, m) Where the draws lie that a round accepted, the last of them."""
    rows = played.first + np.flatnonzero(
        result.table.distance[played.first : played.last] < played.epsilon
    )
    rows = rows[-_DOTS:]
    return np.array([side.place(result.table.cube[rows, side.dim]) for side in sides])


def _title(result: Result, played: Round, sides: tuple[Side, Side]) -> str:
    title = f"round {played.index}, ε = {played.epsilon:.3g}" if played.index else "pilot"
    if result.problem.d == 2:
        return title
    prior, at = result.problem.prior, _centre(result)
    theta = prior.from_cube(at[None])[0]
    shown = {side.dim for side in sides}
    histogram = result.histogram()
    hidden = [
        f"{name} = {theta[i]:.3g}"
        for i, name in enumerate(prior.names)
        if histogram.driver(name) not in (shown | {None})
    ]
    few = ", ".join(hidden) if len(hidden) <= _NAMED else ""
    return title + "\nslice at " + (few or "the posterior mean")
