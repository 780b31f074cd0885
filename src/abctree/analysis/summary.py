"""`Summary`: a run in one screen of text."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from abctree.analysis.diagnostics import verdicts
from abctree.analysis.evidence import Evidence
from abctree.analysis.posterior import Posterior
from abctree.errors import AbctreeWarning

if TYPE_CHECKING:
    from abctree.analysis.result import Result

#: Reasons of failures that are listed.
_REASONS = 3


@dataclass(frozen=True, eq=False)
class Summary:
    """Means, standard deviations, quantiles, and verdicts in plain words; print it."""

    posterior: Posterior
    evidence: Evidence
    run: tuple[str, ...]  #: what was done
    verdicts: tuple[str, ...]  #: what it is good for

    def __str__(self) -> str:
        return "\n".join([*self.run, "", *self._table(), "", *self.verdicts])

    def _table(self) -> list[str]:
        draws = self.posterior
        columns = [draws.mean(), draws.std(), *draws.quantile([0.05, 0.5, 0.95])]
        width = max(9, *(len(name) for name in draws.names))
        head = f"{'':<{width}}" + "".join(f"{h:>12}" for h in ("mean", "sd", "5 %", "50 %", "95 %"))
        rows = [
            f"{name:<{width}}" + "".join(f"{column[j]:>12.4g}" for column in columns)
            for j, name in enumerate(draws.names)
        ]
        return [head, *rows]

    def to_dict(self) -> dict[str, Any]:
        """The same numbers as plain Python objects, for JSON."""
        draws = self.posterior
        quantile = draws.quantile([0.05, 0.5, 0.95])
        mean, std = draws.mean(), draws.std()
        return {
            "parameters": {
                name: {
                    "mean": float(mean[j]),
                    "sd": float(std[j]),
                    "quantiles": {
                        q: float(v) for q, v in zip(("5", "50", "95"), quantile[:, j], strict=True)
                    },
                }
                for j, name in enumerate(draws.names)
            },
            "epsilon": draws.epsilon,
            "ess": draws.ess,
            "n_draws": len(draws),
            "largest_weight": draws.largest_weight,
            "evidence": self.evidence.estimate,
            "evidence_standard_error": self.evidence.standard_error,
            "n_simulations": draws.n_simulations,
            "run": list(self.run),
            "verdicts": list(self.verdicts),
        }


def summarise(result: Result, epsilon: float | None, ess: float | None) -> Summary:
    """The summary of a run at a tolerance or an effective sample size."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AbctreeWarning)
        draws = result.posterior(epsilon=epsilon, ess=ess)
    notes = [str(w.message) for w in caught if issubclass(w.category, AbctreeWarning)]
    z = result.evidence(draws.epsilon)
    alarm = result.bias_alarm(draws.epsilon)
    said = verdicts(draws, z, failures=result.failures.count, alarm=alarm)
    notes += result.run_notes
    return Summary(draws, z, tuple(_run(result, draws, z)), (*said, *_new(notes, said)))


def _run(result: Result, draws: Posterior, z: Evidence) -> list[str]:
    rate = result.n_simulations / max(result.seconds, 1e-9)
    lines = [
        f"{result.n_simulations} simulations in {len(result.rounds) - 1} rounds and "
        f"{result.seconds:.3g} s ({rate:.3g} a second); {result.stopped_because}",
        f"{len(draws)} draws at epsilon {draws.epsilon:.4g}, "
        f"effective sample size {draws.ess:.0f}; the last round was played at {result.epsilon:.4g}",
        f"evidence {z.estimate:.3g} ± {z.standard_error:.1g} at this epsilon",
    ]
    for reason, count in result.failures.reasons.most_common(_REASONS):
        lines.append(f"{count} failed: {reason}")
    return [*lines, *result.failures.text()]


def _new(notes: list[str], said: list[str]) -> list[str]:
    """Warnings that no verdict repeats."""
    return [note for note in notes if note not in said]
