"""An answer that a regression has moved beyond all accepted draws says so."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import stats

import abctree

N_DATA = 50
PRIOR = {"last": (-0.95, 0.95), "spread": (0.2, 3.0)}


def series(theta, rng):
    """Numbers that remember the one before; of what spread is not known."""
    x = theta[:, 1:] * rng.standard_normal((len(theta), N_DATA))
    x[:, 0] /= np.sqrt(1.0 - theta[:, 0] ** 2)
    for i in range(1, N_DATA):
        x[:, i] += theta[:, 0] * x[:, i - 1]
    return x


def moments(x):
    """The numbers that the likelihood depends on."""
    ends = x[..., 0] ** 2 + x[..., -1] ** 2
    inner = np.square(x[..., 1:-1]).sum(axis=-1)
    return np.stack([ends, inner, (x[..., 1:] * x[..., :-1]).sum(axis=-1)], axis=-1)


def exact_moments(x):
    """Mean and standard deviation of the spread, by quadrature of the likelihood."""
    last, spread = (
        low + (high - low) * (np.arange(200) + 0.5) / 200 for low, high in PRIOR.values()
    )
    last = last[:, None]
    log = stats.norm.logpdf(x[0], 0.0, spread / np.sqrt(1.0 - last**2))
    for before, now in pairwise(x):
        log += stats.norm.logpdf(now, last * before, spread)
    mass = np.exp(log - log.max()).sum(axis=0)
    mass /= mass.sum()
    mean = mass @ spread
    return mean, np.sqrt(mass @ spread**2 - mean**2)


def test_an_answer_beyond_all_accepted_draws_says_so():
    """Fifty raw numbers; in the twin the three that say all of them, and all answers are right."""
    told, off = [], []
    for seed in range(3):
        observed = series(np.array([[0.6, 1.0]]), np.random.default_rng([3, seed]))[0]
        mean, spread = exact_moments(observed)
        for summary in (None, moments):
            problem = abctree.Problem(PRIOR, series, observed, summary=summary, vectorized=True)
            result = abctree.abc_tree(problem, n_simulations=2000, rng=seed, proposal="boxes")
            told.append("Hardly any accepted draw" in str(result.summary()))
            off.append(abs(result.answer().mean()[1] - mean) / spread)
    told, off = np.reshape(told, (3, 2)), np.reshape(off, (3, 2))
    assert np.array_equal(told, off > 1.5)  # one of raw numbers is read by local summaries, well
    assert told[:, 0].sum() == 2
    assert off[:, 1].max() < 1.0
