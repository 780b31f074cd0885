"""A very long rejection run, the reference of problems without a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abctree import ParameterError


@dataclass(frozen=True)
class RejectionReference:
    """The closest draws of a very long rejection run, for problems without a closed form."""

    theta: np.ndarray  #: (n, d), sorted by distance
    distance: np.ndarray  #: (n,)
    n_simulations: int  #: prior draws the run made
    names: tuple[str, ...]
    observed_summary: np.ndarray  #: (m,)
    scale: np.ndarray  #: (m,) what the summaries are divided by
    theta_true: np.ndarray  #: (d,)

    def closest(self, n: int) -> np.ndarray:
        """The n closest draws (n, d), an approximate sample of the posterior."""
        if not 0 <= n <= len(self.theta):
            raise ParameterError(f"`n` must be between 0 and {len(self.theta)}, but got {n}.")
        return self.theta[:n]

    def evidence(self, epsilon: float) -> float:
        """P(distance < ε) as the share of the run's draws; its relative error is 1/√(draws below).

        Raises
        ------
        ParameterError
            If ε is above the largest distance kept: the run does not know the share there.
        """
        if not 0.0 <= epsilon <= self.distance[-1]:
            raise ParameterError(
                f"`epsilon` must be at most {self.distance[-1]:.6g}, the largest distance that the "
                f"reference keeps, but got {epsilon}. Choose a smaller one."
            )
        return float(np.searchsorted(self.distance, epsilon)) / self.n_simulations


def load_reference(path: Path) -> RejectionReference:
    """The reference run stored in an npz file.

    Parameters
    ----------
    path : Path
        A file with ``theta``, ``distance``, ``n_simulations``, ``names``, ``observed_summary``,
        ``scale`` and ``theta_true``.  The repository has none.

    Returns
    -------
    RejectionReference
        Its draws sorted by distance.

    Raises
    ------
    ParameterError
        If an array is missing.
    """
    with np.load(path, allow_pickle=False) as stored:
        data: dict[str, Any] = {name: stored[name] for name in stored.files}
    missing = sorted(set(RejectionReference.__dataclass_fields__) - set(data))
    if missing:
        raise ParameterError(f"`path` must hold {missing}, but {path} does not. Check the file.")
    order = np.argsort(data["distance"], kind="stable")
    return RejectionReference(
        theta=data["theta"][order],
        distance=data["distance"][order],
        n_simulations=int(data["n_simulations"]),
        names=tuple(str(name) for name in data["names"]),
        observed_summary=data["observed_summary"],
        scale=data["scale"],
        theta_true=data["theta_true"],
    )
