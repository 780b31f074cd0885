"""The linear-nonlinear encoding model: ten parameters, the paper's disabled figure.

    python -m experiments.encoding --workers 16         everything, 10 repetitions
    python -m experiments.encoding --quick              a small version in a temporary folder
    python -m experiments.encoding --from-json          the picture again from stored numbers

The likelihood is known, so that methods are judged by the true posterior (ε = 0): no rejection run
could reach it in ten dimensions.  Its draws are made here, by importance sampling from a
Student law around the mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from abctree import metrics, problems
from abctree.problems.encoding import NAMES, OBSERVED, THETA_TRUE, log_posterior
from experiments import command, comparison
from experiments.scores import Judge

NAME = "encoding"
#: Degrees of freedom of the proposal: heavier tails than the posterior's.
FREEDOM = 8.0


def posterior_draws(
    n: int, seed: int = 0, observed: np.ndarray = OBSERVED
) -> tuple[np.ndarray, float]:
    """Draws of the true posterior (n, 10), and the share of the proposals that they are worth."""
    best = minimize(lambda t: -log_posterior(t[None], observed)[0], np.zeros(len(NAMES))).x
    spread = np.linalg.inv(_hessian(best, observed))
    proposal = stats.multivariate_t(best, spread * 1.2, df=FREEDOM, seed=seed)
    theta = proposal.rvs(40 * n)
    log_weight = log_posterior(theta, observed) - proposal.logpdf(theta)
    weight = np.exp(log_weight - log_weight.max())
    rng = np.random.default_rng(seed)
    picked = rng.choice(len(theta), n, replace=False, p=weight / weight.sum())
    return theta[picked], metrics.ess(weight) / len(theta)


def _hessian(theta: np.ndarray, observed: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """Of minus the log-posterior, by central differences."""
    k = len(theta)
    unit = step * np.eye(k)
    points = [
        theta + a * unit[i] + b * unit[j]
        for i in range(k)
        for j in range(k)
        for a in (1, -1)
        for b in (1, -1)
    ]
    value = -log_posterior(np.array(points), observed).reshape(k, k, 2, 2)
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    return np.asarray((value * sign).sum(axis=(2, 3)) / (4.0 * step**2))


def _judge(args: command.Options) -> Judge:
    theta, _share = posterior_draws(200 if args.quick else 1000)
    return Judge(theta, THETA_TRUE)


def _range(judge: Judge) -> tuple[np.ndarray, np.ndarray]:
    mean, sd = judge.reference.mean(axis=0), judge.reference.std(axis=0)
    return mean - 5.0 * sd, mean + 5.0 * sd


SUBJECT = comparison.Subject(NAME, "linear_nonlinear()", problems.linear_nonlinear, _judge, _range)


def tables(numbers: dict) -> dict[str, str]:
    return comparison.tables(NAME, numbers)


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=10, argv=argv)
    command.run(
        NAME,
        args,
        lambda a: comparison.measure(SUBJECT, a),
        lambda numbers: comparison.draw(numbers, ["ε", "MMD²", "NLP"]),
        tables,
    )


if __name__ == "__main__":
    main()
