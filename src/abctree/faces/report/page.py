"""The page of a run, put together: the one place that needs Jinja2."""

from __future__ import annotations

import io
import json
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from abctree import __version__
from abctree.answers.mode import ModeSummary
from abctree.answers.reading.fit import Fit
from abctree.answers.result import Result
from abctree.answers.summary import by_kind
from abctree.errors import AbctreeError, needed, warnings_kept
from abctree.faces import plots
from abctree.faces.report.drawn import pair_data, partition_data
from abctree.method import METHODS
from abctree.types import FloatArray, NamedDict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Repeat:
    """How a run is made again: a command and a file, where it was made by the command line."""

    command: str
    toml: str  #: of run.toml


def write(result: Result, path: str | os.PathLike[str], repeat: Repeat | None = None) -> None:
    """Write the page of a run; see `Result.report`."""
    Path(path).write_text(page(result, repeat), encoding="utf-8")


def check_installed() -> None:
    """Raise `MissingDependencyError` before anything is computed for a page."""
    for module in ("jinja2", "matplotlib"):
        needed(module, f"A report needs {module}", "abctree[report]")


def page(result: Result, repeat: Repeat | None = None) -> str:
    """The page of a run as HTML."""
    check_installed()
    import jinja2

    def file(name: str) -> str:
        return resources.files(__package__).joinpath(name).read_text("utf-8")

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(file("page.html")).render(
        **_said(result),
        repeat=repeat,
        css=file("page.css"),
        js=file("page.js"),
        data=_embedded(result),
    )


def _embedded(result: Result) -> str:
    """What the page's own pictures read, as JSON that can stand inside of a script element."""
    with warnings_kept():  # the verdicts have them
        found = {"pair": pair_data(result), "partitions": partition_data(result)}
    text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


# What it says, section by section -----------------------------------------------------------------

#: Summaries whose histograms are shown, those that miss most.
_HISTOGRAMS = 9
#: From so many summaries on they are shown as a series, too.
_SERIES = 4
#: Summaries whose spreads differ by less than this factor are drawn on one scale.
_ONE_SCALE = 30.0


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, with what it shows in words."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Section:
    """One section; empty lists where there is nothing of a kind."""

    title: str
    text: Sequence[str] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[Picture] = ()
    details: Sequence[tuple[str, str]] = ()  #: what is folded away, with its heading

    @property
    def key(self) -> str:
        """Its name in links."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def _said(result: Result) -> NamedDict:
    """Everything but the pair plot and how to repeat the run."""
    with warnings_kept():  # the verdicts have them
        summary = result.summary()
        if isinstance(summary, ModeSummary):
            verdicts, played = summary.mode.notes, summary.run
        else:
            verdicts, played = summary.verdicts, summary.run
        sections = [
            _guarded("The answer against ε", _tolerance, result),
            _guarded("Does it fit?", _fit, result),
            _guarded("Is it calibrated?", _calibration, result),
            _guarded("The run", _run, result),
            _guarded("Failures", _failures, result),
            _guarded("The mode", _mode, result),
        ]
    return {
        "title": ", ".join(result.problem.names),
        "verdicts": verdicts,
        "played": played,
        "answer": _answer(result),
        "sections": sections,
        "versions": f"abctree {__version__}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"Python {platform.python_version()} on {platform.system()}",
        "root": result.root,
        "method": result.method,
        "n_simulations": result.n_simulations,
    }


def _guarded(title: str, make: Callable[[str, Result], Section], result: Result) -> Section:
    """A section, or why there is none."""
    try:
        return make(title, result)
    except AbctreeError as error:
        return Section(title, [f"Not for this run: {error}"])


def _answer(result: Result) -> NamedDict:
    """The table of the answer, for who has no scripts; the page makes it again at each ε."""
    draws = result.answer()
    quantities, categories = by_kind(draws)
    rows = [(name, [*zip(*numbers, strict=True)]) for name, *numbers in quantities]
    for name, found in categories:
        for value, p, error in zip(*found, strict=True):
            rows.append((f"P({name} = {value:g})", [(p, error)]))
    reading = None if draws.reading is None else str(draws.reading)
    return {"reading": reading, "rows": rows}


def _tolerance(title: str, result: Result) -> Section:
    picture = _picture(
        plots.tolerance(result),
        "Mean and 90 % band of each parameter against the tolerance ε. Flat on the left: a smaller "
        "tolerance would not change the answer.",
    )
    return Section(title, pictures=[picture])


def _fit(title: str, result: Result) -> Section:
    found = result.fit()
    prior = _prior_summaries(result)
    observed = result.problem.observed_summary.ravel()
    pictures = []
    if len(observed) >= _SERIES:
        pictures.append(_series(observed, found))
    picture = _picture(
        _histograms(observed, found, prior),
        "Each observed summary (line) in what the model makes of posterior draws (filled)"
        + (" and of prior draws (outline)." if prior is not None else ".")
        + (" The worst come first." if len(observed) > 1 else ""),
    )
    return Section(title, [str(found)], pictures=[*pictures, picture])


def _series(observed: FloatArray, found: Fit) -> Picture:
    """All summaries side by side; in units of their spread where these are too different."""
    made, is_numbered = found.summary, all(map(str.isdecimal, found.names))
    middle, spread = (
        np.median(made, axis=0),
        np.ptp(np.quantile(made, [0.05, 0.95], axis=0), axis=0),
    )
    label = "summary"
    if spread.max() > _ONE_SCALE * spread[spread > 0.0].min(initial=spread.max()):
        unit = np.where(spread > 0.0, spread / 2.0, 1.0)
        observed, made = (observed - middle) / unit, (made - middle) / unit
        label = "summary, less its median,\nin half widths of its band"
    at = [*map(int, found.names)] if is_numbered else [*range(len(observed))]
    figure = plots.predictive(at, observed, made)
    figure.axes[0].set(xlabel="number of the summary", ylabel=label)
    return _picture(figure, "Observed summaries over what the model makes of posterior draws.")


def _prior_summaries(result: Result) -> FloatArray | None:
    """Summaries (n, q) of the pilot, which are of prior draws; None if they were not kept."""
    table = result.table
    summary = table.summary_of(table.round == 0)
    usable = np.isfinite(summary).all(axis=1)
    is_pilot = METHODS[result.method].keeps_all and np.count_nonzero(usable) > 1
    return summary[usable] if is_pilot else None


def _histograms(observed: FloatArray, found: Fit, prior: FloatArray | None) -> Figure:
    from abctree.faces.plots.canvas import DRAWS, INK, TRUTH, finished, new_figure, quieten

    made, shown = found.summary, np.argsort(-np.abs(found.misses), kind="stable")[:_HISTOGRAMS]
    n_columns = min(3, len(shown))
    n_rows = -(-len(shown) // n_columns)
    figure = new_figure(2.4 * n_columns, 1.5 * n_rows + 0.3)
    grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax in grid[len(shown) :]:
        ax.set_axis_off()
    for ax, i in zip(grid, shown, strict=False):
        ends = np.append(made[:, i], observed[i])
        if prior is not None:  # as much of the prior as its middle, or it would hide the rest
            ends = np.append(ends, np.quantile(prior[:, i], [0.1, 0.9]))
        edges = np.linspace(ends.min(), ends.max() + 1e-9 * (np.ptp(ends) or 1.0), 25)
        ax.hist(made[:, i], edges, density=True, color=DRAWS, alpha=0.45)
        if prior is not None and ((prior[:, i] >= edges[0]) & (prior[:, i] <= edges[-1])).any():
            ax.hist(prior[:, i], edges, density=True, histtype="step", color=INK, linewidth=0.9)
        ax.axvline(observed[i], color=TRUTH, linewidth=1.6)
        ax.set_title(f"summary {found.names[i]}", fontsize="small")
        ax.set_yticks([])
        quieten(ax)
    return finished(grid[0])


def _calibration(title: str, result: Result) -> Section:
    found = result.calibration()
    picture = _picture(
        plots.calibration(found),
        "Share of known parameters in intervals of every level: on the diagonal intervals hold "
        "what they say, below it they are too narrow.",
    )
    cells = ((found.cell, found.coverage), (found.raw_cell, found.raw_coverage))
    levels = (0.5, 0.9)
    rows = [
        [name, *(f"{coverage[level][j]:.2f}" for _, coverage in cells for level in levels)]
        for j, name in enumerate(found.names)
    ]
    heads = [f"{level:.0%}, {cell}" for cell, _ in cells for level in levels]
    text = [str(found).splitlines()[0].rstrip(":") + ".", str(found).splitlines()[-1]]
    return Section(title, text, ["", *heads], rows, [picture])


def _run(title: str, result: Result) -> Section:
    if not METHODS[result.method].has_rounds:
        return Section(title, ["Rejection has no rounds."])
    caption = "Tolerance, acceptance, effective sample size, evidence and seconds of each round."
    pictures = [_picture(plots.progress(result), caption)]
    if METHODS[result.method].cuts_boxes and result.problem.d > 1:
        caption = (
            "The boxes of the partition, round by round, darker where more is proposed, with the "
            "accepted draws as dots."
        )
        pictures.append(_picture(plots.partitions(result), caption))
    seconds = result.seconds_by_round or [float("nan")] * len(result.rounds)
    rows = [
        [str(p.index), f"{p.epsilon:.4g}", str(p.n_simulations), f"{p.acceptance_rate:.2%}",
         f"{p.ess:.0f}", str(result.evidence(p.epsilon)) if p.ess > 1.0 else "", f"{spent:.3g}"]
        for p, spent in zip(result.rounds[1:], seconds[1:], strict=True)
    ]  # fmt: skip
    head = ["round", "ε", "simulations", "accepted", "ESS", "evidence at ε", "seconds"]
    return Section(title, [f"The run ended because: {result.stopped_because}."], head, rows,
                   pictures)  # fmt: skip


def _failures(title: str, result: Result) -> Section:
    found = result.failures
    if not found.count:
        return Section(title, ["No simulation failed."])
    text = [f"{found.count} of {result.n_simulations} simulations failed.", *found.text()]
    rows = [[reason, str(count)] for reason, count in found.reasons.most_common(10)]
    details = [
        (f"Simulation {f.index}: {f.reason}", f"theta = {f.theta}\n{f.traceback or ''}")
        for f in found.first
    ]
    pictures = []
    if len(result.table) == result.n_simulations:
        pictures = [
            _picture(plots.failures(result), "Share of the simulations of each round that failed."),
            _picture(plots.failure_map(result), "Where simulations failed."),
        ]
    return Section(title, text, ["reason", "simulations"], rows, pictures, details)


def _mode(title: str, result: Result) -> Section:
    return Section(
        title, details=[("The highest point of the posterior", str(result.mode().summary()))]
    )


# Pictures ---------------------------------------------------------------------------------------


def _picture(figure: Figure, caption: str) -> Picture:
    """A figure as SVG that can stand in a page beside others: text stays text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "abctree"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Ids of groups, which nothing refers to, would be those of the next picture, too.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    return Picture(svg, caption)
