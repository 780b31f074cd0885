"""The paper that plots are drawn on: figures, colours, numbers as text."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from abctree.errors import ParameterError, needed
from abctree.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

#: Axes in rows and columns.
Grid: TypeAlias = NDArray[np.object_]

INK = "#26323b"  #: text-like lines
DRAWS = "#2f6f9f"  #: the posterior
TRUTH = "#c9482b"  #: what was observed or is true
FAINT = "#9aa7b0"
SERIES = (DRAWS, "#d98b2b", "#3f8f5f", "#8a5aa5", "#6b7780")  #: several posteriors

#: Width of a letter, as a share of the size of the font, and the smallest size.
_LETTER, _SMALLEST = 0.6, 4.5
#: Ticks of a panel whose labels have at most so many letters, and of one with longer labels.
_FEW_TICKS, _FEWER_TICKS, _LONG = 4, 2, 5
#: Most letters of a name in a legend.
_LONGEST = 30
#: A log axis that spans more than this factor has powers of ten alone.
_DECADES = 20.0
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def new_figure(width: float, height: float) -> Figure:
    """A figure of a size in inches that no window and no global state knows of."""
    kind = needed("matplotlib.figure", "Plots need matplotlib", "abctree[plots]").Figure
    _show_in_notebook(kind)
    made: Figure = kind(figsize=(width, height), layout="constrained")
    return made


def _show_in_notebook(kind: type[Figure]) -> None:
    """Tell a notebook how figures are shown, where nobody has, as ``%matplotlib inline`` does."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if find is None else find()
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    if not any(kind in formatter.type_printers for formatter in formatters.values()):
        formatters["image/png"].for_type(kind, _png)


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def one_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def grid_of_axes(
    axes: object, shape: tuple[int, int], size: tuple[float, float] | None = None
) -> Grid:
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


def finished(ax: Axes) -> Figure:
    """The figure of some axes, where what is no mathematics stands as it is written."""
    from matplotlib.mathtext import MathTextParser

    figure, parser = figure_of(ax), MathTextParser("path")
    for text in _texts(figure):
        try:  # a name may hold dollars, which would begin a formula
            for line in text.get_text().split("\n"):
                if "$" in line:
                    parser.parse(line)
        except ValueError:
            text.set_parse_math(False)
    return figure


def _texts(artist: Artist) -> Iterator[Text]:
    """All texts but those of ticks, which are numbers and are made when they are drawn."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    if isinstance(artist, Text):
        yield artist
    for part in [artist.label] if isinstance(artist, Axis) else artist.get_children():
        yield from _texts(part)


def legend_name(name: str) -> str:
    """A name as a legend has it: a long one loses its middle, or it would leave no room.

    Matplotlib leaves out what begins with an underscore; the blank before it says otherwise.
    """
    short = _shortened(name, _LONGEST)
    return f" {short}" if short.startswith("_") else short


def _shortened(text: str, most: int) -> str:
    half = max(1, most // 2)
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


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


def short_ticks(
    axis: Axis, limits: tuple[float, float], *, is_log: bool = False, is_whole: bool = False
) -> str:
    """Few ticks with short labels; what the label of the axis is to say of their unit.

    Numbers below 1e-3 or above 1e5 are in units of a power of ten.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = limits
    if is_log:
        write = _power_of_ten if high > _DECADES * low else "{:g}".format
        axis.set_major_locator(FixedLocator(_log_ticks(low, high)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
        axis.set_minor_locator(NullLocator())
        return ""
    largest = max(abs(low), abs(high))
    power = int(np.floor(np.log10(largest))) if largest > 0.0 else 0
    power = power if not -3 <= power < 5 else 0
    unit = 10.0**power

    def label(value: float, _: object = None) -> str:
        return f"{value / unit:.6g}"

    ticks = MaxNLocator(_FEW_TICKS).tick_values(low, high)
    is_long = max(len(label(value)) for value in ticks) > _LONG
    n = _FEWER_TICKS if is_long else _FEW_TICKS
    axis.set_major_locator(MaxNLocator(n, integer=is_whole and not power))
    axis.set_major_formatter(FuncFormatter(label))
    return f"  ({_power_of_ten(unit)})" if power else ""


def _log_ticks(low: float, high: float) -> list[float]:
    """Few powers of ten between two ends; of ends that are near 1, 2 and 5 times these."""
    from matplotlib.ticker import MaxNLocator

    first, last = int(np.ceil(np.log10(low))), int(np.floor(np.log10(high)))
    if high > _DECADES * low:
        step = -(-(last - first + 1) // _FEW_TICKS)
        return [10.0**power for power in range(first, last + 1, step)]
    steps = [m * 10.0**power for power in range(first - 1, last + 1) for m in (1, 2, 5)]
    ticks = [tick for tick in steps if low <= tick <= high]
    if len(ticks) < 2:
        ticks = list(MaxNLocator(_FEWER_TICKS).tick_values(low, high))
    return ticks


def _power_of_ten(value: float) -> str:
    return "10" + str(round(np.log10(value))).translate(_SUPERSCRIPT)


def fit_texts(texts: Sequence[tuple[Axes, Text]]) -> None:
    """Make titles or labels so small, all of them alike, that none is longer than its axes.

    What nobody could read then loses its middle.
    """
    size = min((text.get_fontsize() for _, text in texts), default=0.0)
    for ax, text in texts:
        lines, box = text.get_text().split("\n"), ax.get_window_extent()
        room = (box.width if text.get_rotation() == 0.0 else box.height) / figure_of(ax).dpi * 72.0
        most = int(room / (_LETTER * _SMALLEST))
        text.set_text("\n".join(_shortened(line, most) for line in lines))
        size = min(size, room / (_LETTER * max(1, *map(len, lines))))
    for _, text in texts:
        text.set_fontsize(max(size, _SMALLEST))


def legend_above(ax: Axes) -> None:
    """A legend of one row above the axes, where it hides nothing."""
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, frameon=False, fontsize="small",
        borderaxespad=0.1,
    )  # fmt: skip


def legend_beside(grid: Grid, handles: Sequence[Artist], *, own: bool) -> None:
    """A legend where a pair plot is empty, above its diagonal; of one panel below it."""
    style = {"handles": list(handles), "frameon": False, "fontsize": "small"}
    if len(grid) > 1:
        grid[0, -1].legend(loc="upper right", **style)
    elif own:
        figure_of(grid[0, 0]).legend(loc="outside lower center", ncols=2, **style)
    else:
        grid[0, 0].legend(loc="best", **style)


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
    if decimals > 6 or abs(value) >= 1e6 or (decimals > 4 and abs(value) < 1e-3):
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
