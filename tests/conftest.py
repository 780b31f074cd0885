"""Shared pieces of the tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Numba compiles inside the first example of a property: no deadline.
settings.register_profile(
    "abctree", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("abctree")


@pytest.fixture
def rng():
    return np.random.default_rng(20_240_607)


def z_score(estimates, truth):
    """How many standard errors the mean of replicates is from the truth."""
    estimates = np.asarray(estimates, dtype=float)
    return (estimates.mean() - truth) / (estimates.std(ddof=1) / np.sqrt(len(estimates)))
