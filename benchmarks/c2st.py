"""C2ST: how well a classifier tells draws from a reference; 0.5 is as good as the reference.

    python -m benchmarks.c2st draws.npy reference.npy     two arrays (n, p)

The definition of Lueckmann et al. (2021), so that numbers can stand beside the published ones: both
samples are standardised by the mean and the standard deviation of the reference; a scikit-learn
MLPClassifier (two hidden layers of 10 p units, relu, adam, at most 10 000 iterations) is judged by
its accuracy in 5-fold cross-validation; as many draws as reference draws.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

FOLDS = 5


def c2st(
    draws: np.ndarray, reference: np.ndarray, seed: int = 1, *, max_iter: int = 10_000
) -> float:
    """Accuracy of the classifier, in [0, 1] and around 0.5 for equal laws.

    Parameters
    ----------
    draws, reference : (n, p) arrays
        Without weights, of one length.
    seed : int
        Of the classifier and of the folds.
    max_iter : int
        Of the classifier; fewer are quicker and no longer the published definition.

    Raises
    ------
    ValueError
        If shapes differ, or values are not finite.
    """
    draws, reference = np.asarray(draws, dtype=float), np.asarray(reference, dtype=float)
    if draws.ndim != 2 or draws.shape != reference.shape:
        raise ValueError(
            f"`draws` and `reference` must have one shape (n, p), but got {draws.shape} and "
            f"{reference.shape}. Resample the draws to the length of the reference."
        )
    if not (np.isfinite(draws).all() and np.isfinite(reference).all()):
        raise ValueError("`draws` and `reference` must be finite.")
    mean, sd = reference.mean(axis=0), reference.std(axis=0)
    sd = np.where(sd > 0.0, sd, 1.0)
    data = np.concatenate([(draws - mean) / sd, (reference - mean) / sd])
    label = np.repeat([0, 1], len(draws))
    width = 10 * draws.shape[1]
    classifier = MLPClassifier(
        hidden_layer_sizes=(width, width),
        activation="relu",
        solver="adam",
        max_iter=max_iter,
        random_state=seed,
    )
    folds = KFold(n_splits=FOLDS, shuffle=True, random_state=seed)
    return float(cross_val_score(classifier, data, label, cv=folds, scoring="accuracy").mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("draws", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{c2st(np.load(args.draws), np.load(args.reference), args.seed):.4f}")


if __name__ == "__main__":
    main()
