r"""Utilities ω of a proposal, through the proposal q* that maximises each (Equation 8).

Every one has the form ``q_k ∝ π_k f(η_k; c)`` with at most one scalar c.  Notation: π_k the prior
mass of a box, η_k its acceptance rate, p_k ∝ π_k η_k its posterior mass, a = Σ q_k η_k the
acceptance rate of a proposal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are imported when they are used

from abctree.kernels import compiled
from abctree.keywords import checks_keywords, part_named
from abctree.numbers import ruled
from abctree.protocols import Utility
from abctree.types import FloatArray

#: Weight of a model in `ModelProbabilities`.
_LEAST_WEIGHT = 0.01


def _normalised(q: FloatArray, prior_mass: FloatArray) -> FloatArray:
    """q as probabilities, in its own memory; the prior where nothing has any weight yet."""
    total = compiled.normalise(q)
    return q if 0.0 < total < np.inf else prior_mass


@checks_keywords
@dataclass(frozen=True)
class PosteriorMatch:
    """ω¹ = −‖q − p‖², maximised by ``q_k ∝ π_k η_k`` (Equation 9).

    Its effective sample size per simulation is exactly that of rejection,
    ``Σ p_k π_k / q_k = 1``: the higher acceptance is paid back in the variance of the weights.
    """

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """q* (K,) from η (K,) and π(Ω_k) (K,)."""
        return _normalised(prior_mass * eta, prior_mass)


@checks_keywords
@dataclass(frozen=True)
class SamplingEfficiency:
    """ω² = a / Σ(p_k π_k / q_k), the sampling efficiency of Alsing, Wandelt and Feeney (2018).

    Maximised by ``q_k ∝ π_k √(η_k / (2a − η_k))``, 0 where η_k = 0, with a the root of
    ``Σ (a − η_k) π_k √(η_k / (2a − η_k))``, which increases on (η_max / 2, η_max]
    (supplement, implicit equation of q*).

    Parameters
    ----------
    clip : float
        Least value of ``(2a − η_k) / a``: keeps one noisy arm from taking the whole proposal.
    """

    clip: float = 1e-3

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """q* (K,) from η (K,) and π(Ω_k) (K,)."""
        played = (eta > 0.0) & (prior_mass > 0.0)
        if not played.any():
            return prior_mass
        rate, mass = eta[played], prior_mass[played]
        top = float(rate.max())
        # In units of the largest rate the root lies in (1/2, 1].
        rate = rate / top

        def shape(a: float) -> FloatArray:
            return np.asarray(mass * np.sqrt(rate / np.maximum(2.0 * a - rate, self.clip * a)))

        def slope(a: float) -> float:
            return float(np.sum((a - rate) * shape(a)))

        low = 0.5 * (1.0 + 1e-12)
        a = 1.0 if slope(1.0) <= 0.0 else low
        if slope(low) < 0.0 < slope(1.0):
            a = float(scipy.optimize.brentq(slope, low, 1.0, xtol=1e-14))
        q = np.zeros_like(prior_mass)
        q[played] = shape(a)
        return _normalised(q, prior_mass)


@checks_keywords
@dataclass(frozen=True)
class AcceptanceMinusDivergence:
    """ω³ = log a − KL(q ‖ p), after Filippi et al. (2013) (Equation 16).

    Maximised by ``q_k ∝ p_k exp(η_k / a)`` with a the root of ``a = h(a)``,
    ``h(a) = Σ p η e^{η/a} / Σ p e^{η/a}``; h decreases, so the root in [E_p η, η_max] is unique.
    """

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """q* (K,) from η (K,) and π(Ω_k) (K,)."""
        p = prior_mass * eta
        top = float(eta.max())
        if not p.sum() > 0.0:
            return prior_mass
        p = p / p.sum()
        rate = eta / top

        def tilted(a: float) -> FloatArray:
            return np.asarray(p * np.exp((rate - 1.0) / a))

        def excess(a: float) -> float:
            w = tilted(a)
            return a - float(np.sum(w * rate) / np.sum(w))

        low = float(np.sum(p * rate))
        a = (
            low
            if excess(low) >= 0.0
            else float(scipy.optimize.brentq(excess, low, 1.0 + 1e-12, xtol=1e-14))
        )
        return _normalised(tilted(a), prior_mass)


@checks_keywords
@dataclass(frozen=True)
class EffectiveSampleSize:
    """Kish's effective sample size per simulation, Z / Σ(p_k π_k / q_k); not in the paper.

    Maximised by ``q_k ∝ π_k √η_k``.  The dial ``q_k ∝ π_k η_k^gamma`` has this at ½ and
    `PosteriorMatch` at 1; values between press on to small ε, which pays in three or more
    dimensions.

    Parameters
    ----------
    gamma : float
        Exponent in [0, 1]; 0 is the prior.
    """

    gamma: float = ruled(0.5, "in [0, 1]")

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """q* (K,) from η (K,) and π(Ω_k) (K,)."""
        return _normalised(prior_mass * eta**self.gamma, prior_mass)


@checks_keywords
@dataclass(frozen=True)
class ModelProbabilities:
    """−Σ_m Var(p̂_m), of the estimated probabilities of the models of `abctree.Models`.

    With T draws of q the evidence ``Z_m = Σ_{k in m} π_k η_k`` of a model, its prior included, has
    the variance ``(1/T) Σ_{k in m} π_k² η_k / q_k``.  As ``∂p_j/∂Z_m = (δ_jm − p_j)/Σ Z``, the sum
    of the variances of all p̂_j is that of the Z_m weighted by ``c_m = Σ_j (δ_jm − p_j)²``, and is
    smallest for ``q_k ∝ π_k √(c_m η_k)``: the less probable models are looked at more.  Of two
    models it is the variance of the log Bayes factor, too.  Not in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> ModelProbabilities().model_weights(np.array([0.03, 0.01])).round(3)  # p = (3/4, 1/4)
    array([0.111, 1.   ])
    """

    def optimal_proposal(self, eta: FloatArray, prior_mass: FloatArray) -> FloatArray:
        """q* (K,) from c η (K,) and π(Ω_k) (K,)."""
        return _normalised(prior_mass * np.sqrt(eta), prior_mass)

    def value(self, q: FloatArray, eta: FloatArray, prior_mass: FloatArray) -> float:
        """ω from q (K,), c η (K,) and π(Ω_k) (K,), in units of (Σ Z)²/T."""
        some = eta > 0.0
        with np.errstate(divide="ignore"):
            return -float(np.sum(prior_mass[some] ** 2 * eta[some] / q[some]))

    def model_weights(self, evidence: FloatArray) -> FloatArray:
        """c (m,) over the largest; at least 0.01, for a model may only seem to have no rival."""
        total = evidence.sum()
        p = evidence / total if total > 0.0 else np.full(len(evidence), 1.0 / len(evidence))
        c = 1.0 - 2.0 * p + p @ p
        return np.asarray(np.maximum(c / c.max(), _LEAST_WEIGHT))


_BY_NAME: dict[str, type[Utility]] = {
    "omega1": PosteriorMatch,
    "omega2": SamplingEfficiency,
    "omega3": AcceptanceMinusDivergence,
    "ess": EffectiveSampleSize,
    "models": ModelProbabilities,
}


def as_utility(spec: str | Utility) -> Utility:
    """A utility from its short name, or as it is."""
    return part_named("utility", spec, _BY_NAME, "optimal_proposal(eta, prior_mass)")
