"""What is known of the narrow ridges, against accepted prior draws."""

from __future__ import annotations

import numpy as np
import pytest

import abctree
from experiments.ridge import Ridge


@pytest.mark.parametrize(
    ("ridge", "epsilon"), [(Ridge(2, 0.99), 1.5), (Ridge(6, 0.95), 6.0), (Ridge(3, None), 2.5)]
)
def test_exact_draws_and_evidence_are_those_of_rejection(ridge, epsilon):
    run = abctree.rejection(ridge.problem(), n_simulations=200_000, rng=1)
    accepted = run.posterior(epsilon=epsilon)
    n = len(accepted)
    assert n > 300
    exact = ridge.draws(4000, epsilon, np.random.default_rng(2))
    z = (n / run.n_simulations / ridge.evidence(epsilon) - 1.0) * np.sqrt(n)
    assert abs(z) < 4.0

    def differs(draws):
        """The largest difference of means and of mean squares, in standard errors."""
        worst = 0.0
        for power in (1, 2):
            one, other = accepted.theta**power, draws**power
            error = np.sqrt(one.var(axis=0) / n + other.var(axis=0) / len(other))
            worst = max(worst, np.abs((one.mean(axis=0) - other.mean(axis=0)) / error).max())
        return worst

    assert differs(exact) < 4.5
    assert differs(ridge.draws(4000, 0.5 * epsilon, np.random.default_rng(2))) > 4.5  # twin
