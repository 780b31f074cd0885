"""Train the two digit generators that `examples.digits` brings (needs the extra ``train``).

    python -m experiments.train_digits --mnist PATH           both nets, some five CPU minutes
    python -m experiments.train_digits --mnist PATH --quick   two epochs, in a temporary folder

PATH is what `examples.digits.load_mnist` takes, or an .npz with ``x_train``, ``y_train``,
``x_test`` and ``y_test``.  Writes ``examples/digits/data/digits_d{2,5}.npz`` (weights and codes of
10 000 training images, float16) and ``experiments/results/digits_training.json``.

A label-conditioned Wasserstein autoencoder (Tolstikhin et al., ICLR 2018): the squared error of
the reconstruction, plus 30 times the mean over the digits c of MMD²(Q(x) | y = c, N(mu_c, 1.2² I)).
The centres mu_c are fixed: ten on a circle of radius 7.5 for d = 2, and ±4 e_i for d = 5.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from examples.digits import load_mnist
from experiments import command

SEED = 20260
HIDDEN = (512, 256)
BATCH = 500  #: 50 of each digit
EPOCHS = 30
PEAK_RATE = 2e-3
PENALTY = 30.0
SPREAD = 1.2  #: standard deviation of the codes of one digit
SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
HALF_WIDTH = {2: 12.0, 5: 8.0}  #: of the prior's box
N_CODES = 10_000  #: training images whose codes are shipped


def centres(d: int) -> np.ndarray:
    """Where the codes of the ten digits are to lie, (10, d)."""
    if d == 2:
        angle = 2.0 * np.pi * np.arange(10) / 10.0
        return 7.5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    axes = np.concatenate([np.eye(5), -np.eye(5)])
    return 4.0 * axes


def network(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def kernel(x: torch.Tensor, y: torch.Tensor, d: int) -> torch.Tensor:
    """Inverse multiquadratic kernels over seven scales, summed: (10, n, d) -> (10, n, n)."""
    square = ((x[:, :, None] - y[:, None]) ** 2).sum(-1)
    base = 2.0 * d * SPREAD**2
    return sum(s * base / (s * base + square) for s in SCALES)


def mmd2(x: torch.Tensor, y: torch.Tensor, d: int) -> torch.Tensor:
    """Unbiased MMD² of two samples of each digit, (10, n, d) each: its mean over the digits."""
    n = x.shape[1]
    off = 1.0 - torch.eye(n)
    within = ((kernel(x, x, d) + kernel(y, y, d)) * off).sum((1, 2)) / (n * (n - 1))
    return (within - 2.0 * kernel(x, y, d).mean((1, 2))).mean()


def balanced_batches(
    label: np.ndarray, n_batches: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Rows of batches, digit by digit, each with as many of every digit."""
    each = BATCH // 10
    columns = []
    for c in range(10):
        rows = np.flatnonzero(label == c)
        need = each * n_batches
        order = np.concatenate([rng.permutation(rows) for _ in range(-(-need // len(rows)))])
        columns.append(order[:need].reshape(n_batches, each))
    return list(np.stack(columns, axis=1).reshape(n_batches, BATCH))


def train(d: int, x: np.ndarray, y: np.ndarray, epochs: int) -> tuple[Any, Any, dict[str, float]]:
    torch.manual_seed(SEED + d)
    rng = np.random.default_rng(SEED + d)
    encoder = network((784, *HIDDEN, d))
    decoder = nn.Sequential(*network((d, *HIDDEN[::-1], 784)), nn.Sigmoid())
    parameters = [*encoder.parameters(), *decoder.parameters()]
    n_batches = len(x) // BATCH
    optimiser = torch.optim.Adam(parameters)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=PEAK_RATE, total_steps=epochs * n_batches
    )
    pixels = torch.from_numpy(x)
    mu = torch.from_numpy(centres(d).astype(np.float32))[:, None]
    last: dict[str, float] = {}
    for epoch in range(epochs):
        sums = np.zeros(2)
        for rows in balanced_batches(y, n_batches, rng):
            batch = pixels[torch.from_numpy(rows)]
            code = encoder(batch)
            error = ((decoder(code) - batch) ** 2).sum(1).mean()
            wanted = mu + SPREAD * torch.randn(10, BATCH // 10, d)
            penalty = mmd2(code.reshape(10, BATCH // 10, d), wanted, d)
            optimiser.zero_grad()
            (error + PENALTY * penalty).backward()
            optimiser.step()
            schedule.step()
            sums += error.item(), penalty.item()
        last = {"squared_error": sums[0] / n_batches, "mmd2": sums[1] / n_batches}
        print(f"d={d} epoch {epoch + 1}: {last}", flush=True)
    return encoder, decoder, last


def halves(encoder: Any, decoder: Any) -> dict[str, np.ndarray]:
    """Weights as float16, named as `examples.digits` reads them."""
    arrays = {}
    for name, net in (("encoder", encoder), ("decoder", decoder)):
        layers = [layer for layer in net if isinstance(layer, nn.Linear)]
        for i, layer in enumerate(layers):
            arrays[f"{name}_weight_{i}"] = layer.weight.detach().numpy().T.astype(np.float16)
            arrays[f"{name}_bias_{i}"] = layer.bias.detach().numpy().astype(np.float16)
    return arrays


def rounded(net: Any) -> None:
    """Round the weights to what is shipped, so that the numbers below are those of the package."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(parameter.half().float())


def accuracy(codes: np.ndarray, label: np.ndarray, test: np.ndarray, truth: np.ndarray) -> float:
    return float(KNeighborsClassifier(10).fit(codes, label).score(test, truth))


def measure(
    d: int, encoder: Any, decoder: Any, data: dict[str, np.ndarray]
) -> tuple[dict[str, float], np.ndarray]:
    """Numbers of the rounded net, and the codes of all training images."""
    with torch.no_grad():
        codes = encoder(torch.from_numpy(data["x_train"])).numpy()
        x_test = torch.from_numpy(data["x_test"])
        test = encoder(x_test)
        error = float(((decoder(test) - x_test) ** 2).sum(1).mean())
        test = test.numpy()
    few, labels = codes[:N_CODES].astype(np.float16).astype(np.float64), data["y_train"]
    return {
        "test_squared_error": error,
        "knn_accuracy_60000_codes": accuracy(codes, labels, test, data["y_test"]),
        "knn_accuracy_10000_codes": accuracy(few, labels[:N_CODES], test, data["y_test"]),
        "codes_in_box": float((np.abs(codes) <= HALF_WIDTH[d]).all(axis=1).mean()),
    }, codes


def read(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as file:
            data = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    else:
        train_set, test_set = load_mnist(path), load_mnist(path, split="test")
        data = {
            "x_train": train_set.images, "y_train": train_set.labels,
            "x_test": test_set.images, "y_test": test_set.labels,
        }  # fmt: skip
    for name in ("x_train", "x_test"):
        x = data[name].reshape(-1, 784)
        data[name] = (x / 255.0 if x.dtype == np.uint8 else x).astype(np.float32)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mnist", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="two epochs, in a temporary folder")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    out = args.out or (command.QUICK if args.quick else command.ROOT)
    epochs = 2 if args.quick else EPOCHS
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    data = read(args.mnist)
    folder = out / "examples" / "digits" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    nets = {}
    for d in (2, 5):
        began = time.process_time()
        encoder, decoder, last = train(d, data["x_train"], data["y_train"], epochs)
        seconds = time.process_time() - began
        rounded(encoder)
        rounded(decoder)
        numbers, codes = measure(d, encoder, decoder, data)
        arrays = halves(encoder, decoder)
        arrays["codes"] = codes[:N_CODES].astype(np.float16)
        arrays["labels"] = data["y_train"][:N_CODES].astype(np.uint8)
        path = folder / f"digits_d{d}.npz"
        np.savez_compressed(path, **arrays)
        nets[f"d={d}"] = {
            **last, **numbers, "cpu_seconds": seconds, "bytes": path.stat().st_size,
            "seed": SEED + d,
        }  # fmt: skip
        print(f"wrote {path}: {nets[f'd={d}']}", flush=True)
    about = {**command.versions(), "torch": torch.__version__}
    settings = {
        "hidden": HIDDEN, "batch": BATCH, "epochs": epochs, "peak_rate": PEAK_RATE,
        "penalty": PENALTY, "spread": SPREAD, "scales": SCALES,
    }  # fmt: skip
    path = command.Options(out=out).json("digits_training")
    command.write_json(path, {"about": about, "settings": settings, "nets": nets})


if __name__ == "__main__":
    main()
