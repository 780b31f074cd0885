"""Coordinates in which a skewed likelihood is nearly quadratic, as log θ is for a scale.

The mode is where π P is largest in θ, in whatever coordinates that point is looked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abctree.answers.mode.average import fit_window
from abctree.answers.mode.fit import Fit, Rows, Window, within
from abctree.types import FloatArray

#: Rates that are tried: log(1 + rate z) / rate takes 3 · rate off a third derivative.
_RATES = (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6)
#: A coordinate is bent where that gains so much in log-evidence; what is not known of the rate adds
#: a share to the variance.
_GAIN, _UNSURE = 3.0, 1.3


@dataclass(frozen=True, eq=False)
class Bend:
    """Each coordinate x as centre + size · log(1 + rate z) / rate, z = (x − centre) / size."""

    centre: FloatArray  #: (r,)
    size: FloatArray  #: (r,)
    rate: FloatArray  #: (r,) 0 leaves a coordinate as it is

    def bent(self, x: FloatArray) -> FloatArray:
        """(..., r) -> (..., r)."""
        z = (x - self.centre) / self.size
        rate = np.where(self.rate == 0.0, 1.0, self.rate)
        log = np.log(np.maximum(1.0 + rate * z, 0.02)) / rate
        return np.asarray(self.centre + self.size * np.where(self.rate == 0.0, z, log))

    def rows(self, rows: Rows) -> Rows:
        """Rows of a table in these coordinates."""
        return replace(
            rows, x=self.bent(rows.x), lower=self.bent(rows.lower), upper=self.bent(rows.upper)
        )

    def straight(self, fit: Fit, prior_spread: FloatArray) -> Fit:
        """A fit in these coordinates, back in those of x."""
        w = (fit.peak - self.centre) / self.size
        slope = np.exp(self.rate * w)
        rate = np.where(self.rate == 0.0, 1.0, self.rate)
        z = np.where(self.rate == 0.0, w, np.expm1(self.rate * w) / rate)
        both = np.outer(slope, slope)
        return replace(
            fit,
            peak=self.centre + self.size * z,
            covariance=fit.covariance * both,
            spread=within(fit.spread * both, prior_spread),
        )


def fit_peak(climbed: Window) -> Fit:
    """Fit the peak that a window is around, in coordinates that suit its rows."""
    size = np.sqrt(np.diag(climbed.spread))
    bend = Bend(climbed.centre, size, np.zeros(len(size)))
    x = climbed.centre + climbed.z @ climbed.root.T
    least = climbed.quadratic_evidence(x) + _GAIN
    every = np.ones(len(size), dtype=bool)
    for which in (every, *np.diag(every)):  # all alike first: parameters are often of one kind
        tried = [replace(bend, rate=np.where(which, rate, bend.rate)) for rate in _RATES]
        evidence = [climbed.quadratic_evidence(one.bent(x)) for one in tried]
        if max(evidence) > least:
            bend = tried[int(np.argmax(evidence))]
            least = max(evidence) + _GAIN
    rows = bend.rows(climbed.rows)
    window = Window.of(rows, climbed.epsilon, climbed.centre, climbed.spread)
    if window is None:  # too few of the rows are left
        return fit_window(climbed)
    skewed = bool(bend.rate.any())
    fit = bend.straight(fit_window(window, skewed=skewed), climbed.rows.prior_spread)
    return replace(fit, covariance=_UNSURE * fit.covariance) if skewed else fit
