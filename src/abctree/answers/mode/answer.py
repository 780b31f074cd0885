"""`Mode`: where the posterior is highest, how well that is known, and what else came close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from abctree.answers.run import Run
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords_of_methods
from abctree.markup import listed, page, paragraphs, table, title
from abctree.numbers import check_rule, plain
from abctree.types import FloatArray, NamedDict


@dataclass(frozen=True, eq=False)
class Candidate:
    """A mode, perhaps not the highest."""

    theta: FloatArray  #: (p,)
    density: float  #: ε-posterior density relative to that of the best candidate; 1 for the best
    acceptance: float  #: acceptance rate there, at the tolerance of the answer
    n_accepted: int  #: accepted simulations that it rests on
    covariance: FloatArray | None = None  #: (p, p) of the error of `theta`; None if unknown
    spread: FloatArray | None = None  #: (p, p) of the ε-posterior around it, if it is elliptic
    shape: str = "unclear"  #: "peak", "border", "flat", "value" or "unclear"


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of an ε-posterior, how well it is known, and its rivals."""

    theta: FloatArray  #: (p,) nan if nothing was accepted
    covariance: FloatArray | None  #: (p, p) of the error of `theta`; None where it is not elliptic
    candidates: tuple[Candidate, ...]  #: the best first
    estimates: dict[str, FloatArray]  #: "quadratic", "kernel", "box", each (p,); nan for none
    epsilon: float  #: tolerance of the answer
    box: tuple[FloatArray, FloatArray] | None  #: corners (p,), (p,) of the best box, if known
    names: tuple[str, ...]
    n_simulations: int
    n_accepted: int  #: simulations below `epsilon`
    notes: tuple[str, ...]  #: what to know, in plain words
    run: Run | None = field(default=None, repr=False)  #: whose mode it is; not kept in a pickle

    def __getstate__(self) -> NamedDict:
        return {**self.__dict__, "run": None}

    @property
    def spread(self) -> FloatArray | None:
        """(p, p) Covariance of the ε-posterior around the mode, for a normal approximation."""
        return self.candidates[0].spread if self.candidates else None

    @property
    def standard_error(self) -> FloatArray:
        """(p,) Standard errors of `theta`; nan where there is none."""
        return _sd(self.covariance, len(self.theta))

    def contains(self, theta: Sequence[float] | FloatArray, level: float = 0.9) -> bool:
        """Whether a point is in the error ellipse of a level.

        Coordinates that are known without error (fixed, discrete, on a border) are not compared.

        Raises
        ------
        ParameterError
            If there is no ellipse, or `level` is not in (0, 1).
        """
        check_rule("level", level, "in (0, 1)", "Try 0.9.")
        if self.covariance is None:
            raise ParameterError(
                "`covariance` must be known for an ellipse, but is None: " + " ".join(self.notes)
            )
        known = np.diag(self.covariance) > 0.0
        sd = self.standard_error[known]
        z = (np.asarray(theta, dtype=np.float64) - self.theta)[known] / sd
        # Where parameters sum to one, say, they vary in fewer directions than there are.
        correlation = self.covariance[np.ix_(known, known)] / np.outer(sd, sd)
        square = z @ np.linalg.pinv(correlation, 1e-9, hermitian=True) @ z
        rank = np.linalg.matrix_rank(correlation, rtol=1e-9, hermitian=True)
        return bool(square <= special.chdtri(rank, 1.0 - level))

    def summary(self) -> ModeSummary:
        """The mode, its error, its rivals and what to know; print it."""
        return ModeSummary(self)

    def __repr__(self) -> str:
        point = [f"{n}={v:.4g}" for n, v in zip(self.names, self.theta, strict=True)]
        return f"Mode({listed(point)}; epsilon {self.epsilon:.4g})"

    def _repr_html_(self) -> str:
        rows = zip(self.names, self.theta, self.standard_error, strict=True)
        shown = table(("", "mode", "std. error"), ((n, f"{v:.5g}", f"{e:.2g}") for n, v, e in rows))
        return page(title(repr(self)), shown, *paragraphs(self.notes))


@dataclass(frozen=True, eq=False, repr=False)
class ModeSummary:
    """A mode in one screen of text; print it."""

    mode: Mode
    run: tuple[str, ...] = ()  #: what was done

    def __str__(self) -> str:
        mode, estimates = self.mode, self.mode.estimates
        columns = {
            "mode": mode.theta, "std. error": mode.standard_error,
            "posterior sd": _sd(mode.spread, len(mode.theta)),
            "kernel": estimates["kernel"], "box": estimates["box"],
        }  # fmt: skip
        width, others = max(9, *map(len, mode.names)), mode.candidates[1:]
        lines = [
            *self.run, f"posterior mode at epsilon {mode.epsilon:.4g}: {mode.n_accepted} of "
            f"{mode.n_simulations} simulations accepted", "",
            " " * width + "".join(f"{head:>14}" for head in columns),
        ]  # fmt: skip
        for name, *values in zip(mode.names, *columns.values(), strict=True):
            lines.append(f"{name:<{width}}" + "".join(f"{value:>14.5g}" for value in values))
        if others:
            lines += ["", "other candidates, with their density relative to the mode"]
        at = (", ".join(f"{value:.5g}" for value in other.theta) for other in others)
        lines += [f"  {c.density:>8.3g}  at ({x})" for c, x in zip(others, at, strict=True)]
        return "\n".join([*lines, "", *mode.notes])

    def __repr__(self) -> str:
        return f"ModeSummary({self.mode!r}; print it)"

    def _repr_html_(self) -> str:
        return self.mode._repr_html_()

    def to_dict(self) -> NamedDict:
        """The same numbers as plain Python objects, for JSON; nan as None."""
        mode, known = self.mode, vars(self.mode)
        kept = "covariance", "estimates", "box", "epsilon", "n_simulations", "n_accepted", "notes"
        numbers = {
            "theta": dict(zip(mode.names, mode.theta, strict=True)),
            "standard_error": dict(zip(mode.names, mode.standard_error, strict=True)),
            "candidates": [
                {"theta": c.theta, "density": c.density, "shape": c.shape} for c in mode.candidates
            ],
        }
        return dict(plain({**numbers, **{name: known[name] for name in kept}}))


def _sd(covariance: FloatArray | None, p: int) -> FloatArray:
    """(p,) Standard deviations; nan where there is no covariance."""
    return np.full(p, np.nan) if covariance is None else np.sqrt(np.diag(covariance))
