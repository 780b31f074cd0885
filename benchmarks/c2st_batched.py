"""C2ST of many pairs at once: `benchmarks.c2st` with all networks of one shape trained together.

The computation is that of scikit-learn's MLPClassifier, step by step: the same initial weights,
the same shuffles and folds (they depend on the seed and the number of draws only, so all networks
share them), Adam, mini-batches of 200, an L2 penalty of 1e-4, and the end of training of each
network when its loss has not fallen by 1e-4 for 10 epochs.  What differs is rounding (float32 on a
GPU) and that the penalty's part of the loss is taken at the end of an epoch.  Needs torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold

FOLDS = 5
_BATCH = 200
_ALPHA = 1e-4
_RATE, _BETA1, _BETA2, _TINY = 1e-3, 0.9, 0.999, 1e-8
_TOL, _PATIENCE = 1e-4, 10
#: Batches that are gathered at once.
_GATHER = 10
#: Networks that are judged at once.
_JUDGED = 128
#: The active networks are packed when fewer than this share of them are still in training.
_PACK = 0.85

#: Called with the number of a pair, its fold, accuracy, epochs, and whether training had ended.
Report = Callable[[int, int, float, int, bool], None]


@dataclass(frozen=True)
class Scores:
    """What came of m pairs."""

    accuracy: np.ndarray  #: (m, 5)
    epochs: np.ndarray  #: (m, 5)
    converged: np.ndarray  #: (m, 5) False where the epochs or the time ended the training

    @property
    def mean(self) -> np.ndarray:
        """(m,) Mean over the folds: the C2ST."""
        return self.accuracy.mean(axis=1)


def c2st_batched(
    draws: np.ndarray,
    references: np.ndarray,
    which: np.ndarray | None = None,
    seed: int = 1,
    *,
    max_iter: int = 10_000,
    device: str = "cpu",
    double: bool = False,
    deadline: float = float("inf"),
    report: Report | None = None,
) -> Scores:
    """C2ST of m pairs of samples of one shape.

    Parameters
    ----------
    draws : (m, n, p) array
        Samples without weights.
    references : (r, n, p) array
        What they are told from.
    which : (m,) array of int, optional
        The reference of each sample; by default the r = m of the same number.
    seed : int
        Of the classifiers and of the folds.
    max_iter : int
        Most epochs.
    device : str
        As torch names it.
    double : bool
        Whether to compute in float64.
    deadline : float
        A `time.monotonic` after which networks are judged as they are.
    report : callable, optional
        Told of each network when it has been judged.
    """
    which = np.arange(len(draws)) if which is None else np.asarray(which)
    if draws.shape[1:] != references.shape[1:]:
        raise ValueError(
            f"`draws` and `references` must have one shape (n, p), but got {draws.shape[1:]} and "
            f"{references.shape[1:]}."
        )
    if not (np.isfinite(draws).all() and np.isfinite(references).all()):
        raise ValueError("`draws` and `references` must be finite.")
    kind = {"device": torch.device(device), "dtype": torch.float64 if double else torch.float32}
    return _Training(draws, references, which, seed, kind).run(max_iter, deadline, report)


class _Training:
    """Networks in training, and the data of all pairs."""

    def __init__(
        self,
        draws: np.ndarray,
        references: np.ndarray,
        which: np.ndarray,
        seed: int,
        kind: dict[str, Any],
    ) -> None:
        self.kind = kind
        m, n, p = draws.shape
        self.m, self.n, self.p = m, n, p
        exact = references.astype(float)
        mean, sd = exact.mean(axis=1), exact.std(axis=1)
        sd = np.where(sd > 0.0, sd, 1.0)
        # One row a point: the draws of all pairs, then all references.
        rows = [(draws[i] - mean[k]) / sd[k] for i, k in enumerate(which)]
        rows += [(r - mean[k]) / sd[k] for k, r in enumerate(references)]
        self.data = torch.cat([torch.as_tensor(r, **self.kind) for r in rows])
        self.first_draw = self._index(np.arange(m) * n)
        self.first_reference = self._index((m + which) * n)
        folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(2 * n)))
        sizes = {len(train) for train, _ in folds}
        if len(sizes) > 1:
            raise ValueError(f"Twice the number of draws must divide by {FOLDS}, but got {n}.")
        self.train = self._index(np.stack([train for train, _ in folds]))
        self.test = self._index(np.stack([test for _, test in folds]))
        self.rng = np.random.RandomState(seed)  # the stream that scikit-learn has
        self.order = np.arange(self.train.shape[1])
        self.pair = self._index(np.repeat(np.arange(m), FOLDS))
        self.fold = self._index(np.tile(np.arange(FOLDS), m))
        self.net = _Nets(len(self.pair), p, 10 * p, self.rng, self.kind)
        self.best = torch.full((len(self.pair),), float("inf"), **self.kind)
        self.stale = torch.zeros(len(self.pair), device=self.kind["device"])

    def _index(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.int64, device=self.kind["device"])

    def run(self, max_iter: int, deadline: float, report: Report | None) -> Scores:
        scores = Scores(
            np.full((self.m, FOLDS), np.nan),
            np.zeros((self.m, FOLDS), dtype=int),
            np.zeros((self.m, FOLDS), dtype=bool),
        )
        live = torch.ones(len(self.pair), dtype=torch.bool, device=self.kind["device"])
        n_live = len(live)
        for epoch in range(1, max_iter + 1):
            loss = self._epoch()
            self.stale = torch.where(loss > self.best - _TOL, self.stale + 1, 0.0)
            self.best = torch.minimum(self.best, loss)
            ended = live & (self.stale > _PATIENCE)
            late = time.monotonic() > deadline or epoch == max_iter
            done = live if late else ended
            numbers = torch.nonzero(done).ravel()
            if len(numbers):
                converged = ended[numbers].cpu().numpy()
                self._judge(numbers, epoch, converged, scores, report)
                live = live & ~done
                n_live -= len(numbers)
            if n_live == 0:
                break
            if n_live < _PACK * len(live):
                live = self._pack(torch.nonzero(live).ravel())
        return scores

    def _epoch(self) -> torch.Tensor:
        """Every batch once; the loss (k,) of each network, as met on the way."""
        mixed = np.arange(len(self.order))
        self.rng.shuffle(mixed)
        self.order = self.order[mixed]
        train = self.train[:, self._index(self.order)]
        total = torch.zeros(len(self.pair), **self.kind)
        size = min(_BATCH, train.shape[1])
        for start in range(0, train.shape[1], size * _GATHER):
            x, y = self._gather(train[:, start : start + size * _GATHER])
            logit = torch.empty_like(y)
            for a in range(0, y.shape[1], size):
                part = slice(a, min(a + size, y.shape[1]))
                self.net.step(x[:, part], y[:, part], logit[:, part])
            total += (torch.nn.functional.softplus(logit) - y * logit).sum(dim=1)
        batches = -(-train.shape[1] // size)
        penalty = 0.5 * _ALPHA * self.net.square() * batches / train.shape[1]
        return total / train.shape[1] + penalty

    def _gather(
        self, rows: torch.Tensor, of: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Points and labels of rows (5, b) of each fold, for networks `of` (k,), or all."""
        pair, fold = (self.pair, self.fold) if of is None else (self.pair[of], self.fold[of])
        labels = (rows >= self.n).to(self.kind["dtype"])
        mine = rows[fold]
        is_reference = mine >= self.n
        at = torch.where(
            is_reference,
            mine - self.n + self.first_reference[pair][:, None],
            mine + self.first_draw[pair][:, None],
        )
        x = torch.index_select(self.data, 0, at.ravel()).view(*at.shape, self.p)
        return x, labels[fold]

    def _judge(
        self,
        numbers: torch.Tensor,
        epoch: int,
        converged: np.ndarray,
        scores: Scores,
        report: Report | None,
    ) -> None:
        for start in range(0, len(numbers), _JUDGED):
            of = numbers[start : start + _JUDGED]
            x, y = self._gather(self.test, of)
            right = ((self.net.logit(x, of) > 0.0) == (y > 0.5)).double().mean(dim=1).cpu().numpy()
            pairs, folds = self.pair[of].cpu().numpy(), self.fold[of].cpu().numpy()
            ended = converged[start : start + _JUDGED]
            scores.accuracy[pairs, folds] = right
            scores.epochs[pairs, folds] = epoch
            scores.converged[pairs, folds] = ended
            if report is not None:
                for i, f, r, e in zip(pairs, folds, right, ended, strict=True):
                    report(int(i), int(f), float(r), epoch, bool(e))

    def _pack(self, kept: torch.Tensor) -> torch.Tensor:
        self.net = self.net.only(kept)
        self.pair, self.fold = self.pair[kept], self.fold[kept]
        self.best, self.stale = self.best[kept], self.stale[kept]
        return torch.ones(len(kept), dtype=torch.bool, device=self.kind["device"])


class _Nets:
    """k networks p -> h -> h -> 1, their gradients, and the moments of Adam.

    All numbers of a kind lie in one vector, in blocks W1, W2, W3, b1, b2, b3 of all networks, so
    that a step of Adam is a few operations.
    """

    def __init__(
        self, k: int, p: int, h: int, rng: np.random.RandomState, kind: dict[str, Any]
    ) -> None:
        self.k, self.p, self.h, self.kind, self.steps = k, p, h, kind, 0
        coefs, intercepts = [], []
        for a, b in ((p, h), (h, h), (h, 1)):
            bound = np.sqrt(6.0 / (a + b))
            coefs.append(rng.uniform(-bound, bound, (a, b)))
            intercepts.append(rng.uniform(-bound, bound, (1, b)))
        start = [torch.as_tensor(v, **kind).expand(k, -1, -1) for v in coefs + intercepts]
        self._own(torch.cat([v.reshape(-1) for v in start]))
        self.first = torch.zeros_like(self.value)
        self.second = torch.zeros_like(self.value)

    def _own(self, value: torch.Tensor) -> None:
        self.value, self.grad = value, torch.zeros_like(value)
        self.w = self._blocks(self.value)
        self.g = self._blocks(self.grad)
        self.n_coefs = self.k * (self.p * self.h + self.h * self.h + self.h)

    def _blocks(self, flat: torch.Tensor) -> list[torch.Tensor]:
        p, h, at, blocks = self.p, self.h, 0, []
        for a, b in ((p, h), (h, h), (h, 1), (1, h), (1, h), (1, 1)):
            blocks.append(flat[at : at + self.k * a * b].view(self.k, a, b))
            at += self.k * a * b
        return blocks

    def only(self, kept: torch.Tensor) -> _Nets:
        """The networks of these numbers."""

        def packed(flat: torch.Tensor) -> torch.Tensor:
            return torch.cat([block[kept].reshape(-1) for block in self._blocks(flat)])

        new = object.__new__(_Nets)
        new.k, new.p, new.h, new.kind, new.steps = len(kept), self.p, self.h, self.kind, self.steps
        new.first, new.second = packed(self.first), packed(self.second)
        new._own(packed(self.value))
        return new

    def square(self) -> torch.Tensor:
        """(k,) Sum of the squares of the weights, without intercepts."""
        return sum((w * w).sum(dim=(1, 2)) for w in self.w[:3])

    def logit(self, x: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        """Points (k', b, p) of networks `of` (k',) -> (k', b)."""
        w1, w2, w3, b1, b2, b3 = (block[of] for block in self.w)
        hidden = torch.baddbmm(b1, x, w1).relu_()
        hidden = torch.baddbmm(b2, hidden, w2).relu_()
        return torch.baddbmm(b3, hidden, w3)[:, :, 0]

    def step(self, x: torch.Tensor, y: torch.Tensor, logit: torch.Tensor) -> None:
        """One step of Adam on a batch (k, b, p) with labels (k, b); fills the logits (k, b)."""
        masked = torch.ops.aten.threshold_backward
        w1, w2, w3, b1, b2, b3 = self.w
        g1, g2, g3, c1, c2, c3 = self.g
        first = torch.baddbmm(b1, x, w1).relu_()
        second = torch.baddbmm(b2, first, w2).relu_()
        out = torch.baddbmm(b3, second, w3)
        logit.copy_(out[:, :, 0])
        delta = torch.sigmoid(out).sub_(y[:, :, None]).div_(y.shape[1])
        torch.bmm(second.mT, delta, out=g3)
        torch.sum(delta, dim=1, keepdim=True, out=c3)
        delta = masked(delta * w3.mT, second, 0.0)
        torch.bmm(first.mT, delta, out=g2)
        torch.sum(delta, dim=1, keepdim=True, out=c2)
        delta = masked(torch.bmm(delta, w2.mT), first, 0.0)
        torch.bmm(x.mT, delta, out=g1)
        torch.sum(delta, dim=1, keepdim=True, out=c1)
        self.grad[: self.n_coefs].add_(self.value[: self.n_coefs], alpha=_ALPHA / y.shape[1])
        self._adam()

    def _adam(self) -> None:
        self.steps += 1
        t = self.steps
        rate = _RATE * np.sqrt(1.0 - _BETA2**t) / (1.0 - _BETA1**t)
        self.first.lerp_(self.grad, 1.0 - _BETA1)
        self.second.mul_(_BETA2).addcmul_(self.grad, self.grad, value=1.0 - _BETA2)
        self.value.addcdiv_(self.first, self.second.sqrt().add_(_TINY), value=-float(rate))
