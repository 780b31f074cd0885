"""The paper that plots are drawn on: figures, colours, numbers as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from abctree.errors import MissingDependencyError, ParameterError
from abctree.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK = "#26323b"  #: text-like lines
DRAWS = "#2f6f9f"  #: the posterior
TRUTH = "#c9482b"  #: what was observed or is true
FAINT = "#9aa7b0"

_INSTALL = "Plots need matplotlib, which is not installed. Run: pip install abctree[plots]"


def new_figure(width: float, height: float) -> Figure:
    """A figure of a size in inches that no window and no global state knows of."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(_INSTALL) from error
    return Figure(figsize=(width, height), layout="constrained")


def one_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def grid_of_axes(
    axes: object, shape: tuple[int, int], size: tuple[float, float] | None = None
) -> NDArray[np.object_]:
    """The axes given as an array of this shape, or those of a new figure of this size in inches.

    By default the size suits as many parameters as there are rows.
    """
    if axes is None:
        side = max(3.2, min(14.0, 1.0 + 1.75 * shape[0]))
        return new_figure(*(size or (side, side))).subplots(*shape, squeeze=False)
    given = np.asarray(axes, dtype=object)
    if given.size != shape[0] * shape[1]:
        raise ParameterError(
            f"`axes` must be {shape[0]} x {shape[1]} axes, but got shape {given.shape}. "
            f"Make it with matplotlib.pyplot.subplots({shape[0]}, {shape[1]})."
        )
    return given.reshape(shape)


def figure_of(ax: Axes) -> Figure:
    """The outermost figure of some axes."""
    figure: Any = ax.figure
    while getattr(figure, "figure", None) not in (None, figure):
        figure = figure.figure
    found: Figure = figure
    return found


def quieten(ax: Axes) -> None:
    """Axes with nothing but what tells something."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")


def plain_ticks(axis: Axis) -> None:
    """Ticks at 1, 2 and 5 of each decade, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def widened(limits: tuple[float, float], value: float) -> tuple[float, float]:
    """The limits of an axis, such that a value is not on an edge; nan changes nothing."""
    if not np.isfinite(value):
        return limits
    room = 0.05 * (max(limits[1], value) - min(limits[0], value))
    return min(limits[0], value - room), max(limits[1], value + room)


def number(value: float, spread: float) -> str:
    """A number to two digits of its spread, as in 0.552 for a spread of 0.034."""
    if not np.isfinite(value):
        return str(value)
    if not (np.isfinite(spread) and spread > 0.0):
        return f"{value:.3g}"
    decimals = 1 - int(np.floor(np.log10(spread)))
    value = round(value, max(0, decimals)) + 0.0  # no "-0.0"
    if decimals > 6 or abs(value) >= 1e6:
        digits = int(np.clip(np.log10(max(abs(value), spread) / spread) + 2.0, 2, 12))
        return f"{value:.{digits}g}"
    return f"{value:.{max(0, decimals)}f}"


def check_parallel(name: str, n: int, wanted: int, of: str) -> None:
    """Raise `ParameterError` unless two arrays that go together have equally many rows."""
    if n != wanted:
        raise ParameterError(f"`{name}` must have {wanted} {of}, but got {n}. They go in pairs.")


def is_whole(value: FloatArray) -> BoolArray:
    """Where numbers are whole."""
    return np.asarray(value == np.round(value))
