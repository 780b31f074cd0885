"""`Summary`: a run in one screen of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from abctree.answers.diagnostics import notes_on, run_notes, verdicts
from abctree.answers.evidence import Evidence
from abctree.answers.mode import Mode, ModeSummary
from abctree.answers.posterior import Posterior
from abctree.answers.run import Run
from abctree.answers.weighted import Probabilities
from abctree.errors import warnings_kept
from abctree.markup import page, paragraphs, table
from abctree.types import FloatArray, NamedDict

#: Quantiles of the table, by their names in JSON.
QUANTILES = {"5": 0.05, "50": 0.5, "95": 0.95}
_HEADS = ("mean", "sd", *(f"{q} %" for q in QUANTILES))
#: Probabilities in a line.
_COLUMNS = 5
_WHAT_IT_IS = "±: one Monte Carlo standard error, how far a number is off because draws are few"
#: Reasons of failures that are listed.
_REASONS = 3


class _Block(NamedTuple):
    """Numbers of some parameters, with their errors."""

    heads: tuple[str, ...]
    rows: list[tuple[str, FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Means, standard deviations, quantiles, and verdicts in plain words; print it."""

    posterior: Posterior
    evidence: Evidence
    run: tuple[str, ...]  #: what was done
    verdicts: tuple[str, ...]  #: what it is good for
    n_prior_draws: float  #: see `Result.n_prior_draws`

    def __str__(self) -> str:
        return "\n".join([*self.run, "", *self._table(), "", *self.verdicts])

    def __repr__(self) -> str:
        return f"Summary({self.posterior!r}; print it)"

    def _repr_html_(self) -> str:
        numbers = [
            table(("", *block.heads), ((name, *_with_errors(v, e)) for name, v, e in block.rows))
            for block in self._blocks
        ]
        return page(*numbers, *paragraphs([_WHAT_IT_IS, *self.verdicts, *self.run]))

    def _table(self) -> list[str]:
        width = max(9, *(len(name) for name in self.posterior.names))
        lines = []
        for block in self._blocks:
            lines.append(" " * width + "".join(f"{head:>12}" for head in block.heads))
            for name, value, error in block.rows:
                lines.append(f"{name:<{width}}" + "".join(f"{v:>12.4g}" for v in value))
                lines.append(" " * width + "".join(f"{f'± {e:.1g}':>12}" for e in error))
        return [*lines, _WHAT_IT_IS]

    @property
    def _blocks(self) -> list[_Block]:
        """Means, deviations and quantiles of the quantities; probabilities of each category."""
        quantities, categories = by_kind(self.posterior)
        blocks = [_Block(_HEADS, quantities)] if quantities else []
        for name, found in categories:
            for k in range(0, len(found.values), _COLUMNS):
                some = slice(k, k + _COLUMNS)
                heads = tuple(f"P({value:g})" for value in found.values[some])
                row = (name, found.probability[some], found.mcse[some])
                blocks.append(_Block(heads, [row]))
        return blocks

    @property
    def estimates(self) -> FloatArray:
        """(p, 5) Mean, standard deviation, and the quantiles of 5, 50 and 95 %.

        Of a `Categorical` parameter they are those of its numbers; `Posterior.probabilities` are
        what it is summarised by.
        """
        return estimates_of(self.posterior)

    @property
    def errors(self) -> FloatArray:
        """(p, 5) Their Monte Carlo standard errors, `Posterior.mcse`."""
        return errors_of(self.posterior)

    def to_dict(self) -> NamedDict:
        """The same numbers as plain Python objects, for JSON."""
        draws, z = self.posterior, self.evidence
        quantities, categories = by_kind(draws)
        found = {
            name: {**_named(value.tolist()), "mcse": _named(error.tolist())}
            for name, value, error in quantities
        } | {name: _probabilities(known) for name, known in categories}
        return {
            "parameters": {name: found[name] for name in draws.names},
            "epsilon": draws.epsilon,
            "summaries": draws.summaries,
            "ess": draws.ess,
            "n_draws": len(draws),
            "largest_weight": draws.largest_weight,
            "reading": None if draws.reading is None else str(draws.reading),
            "evidence": z.estimate,
            "evidence_epsilon": z.epsilon,
            "evidence_standard_error": z.standard_error,
            "evidence_interval": list(z.interval(0.95)),
            "n_prior_draws": self.n_prior_draws,
            "n_simulations": draws.n_simulations,
            "run": list(self.run),
            "verdicts": list(self.verdicts),
        }


def _named(row: list[float]) -> NamedDict:
    """The columns of the table by name."""
    mean, sd, *quantiles = row
    return {"mean": mean, "sd": sd, "quantiles": dict(zip(QUANTILES, quantiles, strict=True))}


def _probabilities(found: Probabilities) -> NamedDict:
    """Probabilities by the values, as text."""
    values = [f"{value:g}" for value in found.values]
    numbers = (found.probability.tolist(), found.mcse.tolist())
    probability, error = (dict(zip(values, row, strict=True)) for row in numbers)
    return {"probabilities": probability, "mcse": {"probabilities": error}}


def _with_errors(value: FloatArray, error: FloatArray) -> Iterator[str]:
    return (f"{v:.4g} ± {e:.1g}" for v, e in zip(value, error, strict=True))


def estimates_of(draws: Posterior) -> FloatArray:
    """(p, 5) Mean, standard deviation, and the quantiles of draws."""
    return np.column_stack([draws.mean(), draws.std(), draws.quantile(list(QUANTILES.values())).T])


def errors_of(draws: Posterior) -> FloatArray:
    """(p, 5) Monte Carlo standard errors of `estimates_of`."""
    quantiles = [draws.mcse("quantile", prob) for prob in QUANTILES.values()]
    return np.column_stack([draws.mcse(), draws.mcse("std"), *quantiles])


def by_kind(
    draws: Posterior,
) -> tuple[list[tuple[str, FloatArray, FloatArray]], list[tuple[str, Probabilities]]]:
    """Quantities with their estimates and errors (5,), and categories with their probabilities."""
    named = {draws.names[category.column] for category in draws.categories}
    rows = zip(draws.names, estimates_of(draws), errors_of(draws), strict=True)
    quantities = [row for row in rows if row[0] not in named]
    return quantities, [(n, draws.probabilities(n)) for n in draws.names if n in named]


def summarise(
    run: Run,
    read: Callable[[], Posterior],
    tell: Callable[[], list[str]] = list,
) -> Summary:
    """The summary of a run by draws that are read; what `tell` says stands with the verdicts.

    Of an answer, evidence and notes are those of the draws as they are.
    """
    notes: list[str] = []
    with warnings_kept(notes):
        draws, notes_of_answer = read(), tell()
        raw = draws if draws.reading is None else run.posterior()
    notes += [*notes_of_answer, *run_notes(run), *notes_on(run, raw, draws)]
    z = run.evidence(raw.epsilon)
    alarm = run.bias_alarm(raw.epsilon)
    said = verdicts(draws, z, failures=run.failures.count, alarm=alarm)
    said += [note for note in notes if note not in said]
    there = "this epsilon" if z.epsilon == draws.epsilon else f"epsilon {z.epsilon:.4g}"
    told = (
        _played(run),
        f"{len(draws)} draws at {draws.tolerance}, "
        f"effective sample size {draws.ess:.0f}; the last round was played at {run.epsilon:.4g}",
        *([str(draws.reading)] if draws.reading else []),
        f"evidence {z} at {there}",
        f"{run.n_prior_draws:.0f} prior draws: a mode that holds less than "
        f"{3.0 / max(run.n_prior_draws, 3.0):.2g} of the prior can have been missed",
        *_failed(run),
    )
    return Summary(draws, z, told, tuple(said), run.n_prior_draws)


def summarise_mode(run: Run, mode: Mode) -> ModeSummary:
    """The summary of a run by its mode."""
    return replace(mode.summary(), run=(_played(run), *_failed(run)))


def _played(run: Run) -> str:
    if run.seconds == 0.0:
        return f"{run.n_simulations} simulations; {run.stopped_because}"
    rate = float(f"{run.n_simulations / max(run.seconds, 1e-9):.3g}")
    return (
        f"{run.n_simulations} simulations in {len(run.rounds) - 1} rounds and "
        f"{run.seconds:.3g} s ({rate:.10g} a second); {run.stopped_because}"
    )


def _failed(run: Run) -> list[str]:
    reasons = run.failures.reasons.most_common(_REASONS)
    return [*(f"{count} failed: {reason}" for reason, count in reasons), *run.failures.text()]
