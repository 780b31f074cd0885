"""`Arms`: what is believed of each box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.types import FloatArray


@dataclass(frozen=True, eq=False)
class Arms:
    """Beta(α_k, β_k) beliefs about the acceptance rate μ_k of each box (Section 3.1)."""

    alpha: FloatArray  #: (K,)
    beta: FloatArray  #: (K,)

    @property
    def mean(self) -> FloatArray:
        """(K,) η_k = α_k / (α_k + β_k), Algorithm 1 line 4; 0 where nothing is known."""
        total = self.alpha + self.beta
        return np.asarray(self.alpha / (total + (total == 0.0)))

    def __len__(self) -> int:
        return len(self.alpha)
