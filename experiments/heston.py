"""The Heston model: the paper's figure "Heston model results", and the ε that methods reach.

    python -m experiments.heston --workers 16           everything, 10 repetitions
    python -m experiments.heston --quick                a small version in a temporary folder
    python -m experiments.heston --from-json            the picture again from stored numbers

The reference, the closest 1 000 of 1e10 prior draws, is read from ``--reference``.  The posterior
is broad, so MMD hardly ranks methods; the tolerance reached at equal effective sample sizes does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree import problems
from abctree.problems import volatility
from experiments import command, comparison
from experiments.scores import Judge

NAME = "heston"
LOW, HIGH = np.array([0.0, 0.0, 0.0, -1.0, 0.0]), np.array([10.0, 1.0, 1.0, 1.0, 1.0])


def _range(_: Judge) -> tuple[np.ndarray, np.ndarray]:
    return LOW, HIGH


SUBJECT = comparison.Subject(
    NAME,
    "heston()",
    problems.heston,
    comparison.judge_from_file("heston.npz", problems.heston, volatility.THETA_TRUE),
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
        lambda numbers: comparison.draw(numbers, ["ε", "MMD²", "TV", "NLP"]),
        tables,
    )


if __name__ == "__main__":
    main()
