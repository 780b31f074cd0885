"""The Lotka-Volterra jump process: the paper's figure "ABC-Tree performance".

    python -m experiments.lotka_volterra --workers 16   everything, 10 repetitions
    python -m experiments.lotka_volterra --quick        a small version in a temporary folder
    python -m experiments.lotka_volterra --from-json    the picture again from stored numbers

The reference, the closest 1 000 of 2.5e9 prior draws, is read from ``--reference``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree import problems
from abctree.problems import predator_prey
from experiments import command, comparison
from experiments.scores import Judge

NAME = "lotka_volterra"


def _range(judge: Judge) -> tuple[np.ndarray, np.ndarray]:
    """Around the reference: the posterior fills a millionth of the prior."""
    low, high = judge.reference.min(axis=0), judge.reference.max(axis=0)
    room = 0.5 * (high - low)
    return np.maximum(low - room, 0.0), np.minimum(high + room, 1.0)


SUBJECT = comparison.Subject(
    NAME,
    "lotka_volterra()",
    problems.lotka_volterra,
    comparison.judge_from_file(
        "lotka_volterra.npz", problems.lotka_volterra, predator_prey.THETA_TRUE
    ),
    _range,
)


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
