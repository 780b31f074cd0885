"""Theorem 1 by experiment: the regret of Algorithm 1 against T, K and γ, and the bound.

    python -m experiments.theorem1 --workers 16         everything, 10 repetitions
    python -m experiments.theorem1 --quick              a small version in a temporary folder
    python -m experiments.theorem1 --from-json          the picture again from stored numbers

K arms of equal prior mass have rates that rise evenly from γ to 3 γ.  Algorithm 1 plays ω¹ from
α = β = 1, one simulation at a time.  (The theorem plays every arm K γ⁻¹ log² T times first, which
for ten arms and γ = .1 is more than 1e5 simulations at T = 1e5; we do without.)  The bounds are
K² log²(T) / (γ T) above and K² / (γ T) below, up to constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import abctree
from experiments import command
from experiments.watching import Losses, Proposal

NAME = "theorem1"
BUDGET, QUICK_BUDGET = 10_000, 1_000
ARMS, QUICK_ARMS = (5, 10, 20, 50, 100), (5, 20)
GAMMAS, QUICK_GAMMAS = (0.05, 0.1, 0.2), (0.1, 0.2)
PILOT = 2


def rates(k: int, gamma: float) -> np.ndarray:
    return np.linspace(gamma, 3.0 * gamma, k)


@dataclass(frozen=True)
class Coins:
    """One Bernoulli arm for each of K equal intervals of (0, 1): 0 is a success."""

    rate: np.ndarray

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        k = len(self.rate)
        arm = np.minimum((theta[:, 0] * k).astype(int), k - 1)
        return np.where(rng.random(len(theta)) < self.rate[arm], 0.0, 1.0)[:, None]


def checkpoints(n: int) -> list[int]:
    return [int(t) for t in np.unique(np.round(np.geomspace(n / 50, n - PILOT, 12)))]


def one_run(k: int, gamma: float, seed: int, n: int) -> dict[str, list[float]]:
    rate = rates(k, gamma)
    omega1 = abctree.PosteriorMatch()
    watched = Losses(Proposal(omega1), rate, np.full(k, 1.0 / k), {"ω¹": omega1}, checkpoints(n))
    with command.quiet():
        abctree.abc_tree(
            abctree.Problem({"u": (0.0, 1.0)}, Coins(rate), [0.0], vectorized=True),
            n_simulations=n,
            rng=seed,
            partitioner=abctree.Grid(k),
            policy=watched,
            beliefs=abctree.Counts(1, 1),
            schedule=[0.5],
            n_folds=1,
            n_pilot=PILOT,
            quota=n,
            block=1,
        )
    return {
        "T": [kept["n"] for kept in watched.kept],
        "regret": [kept["regret"]["ω¹"] for kept in watched.kept],
        "loss": [kept["loss"]["ω¹"] for kept in watched.kept],
    }


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of log y on log x by least squares."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def measure(args: command.Options) -> dict[str, Any]:
    n = QUICK_BUDGET if args.quick else BUDGET
    arms, gammas = (QUICK_ARMS, QUICK_GAMMAS) if args.quick else (ARMS, GAMMAS)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(k, gamma, seed, n) for seed in seeds for k in arms for gamma in gammas]
    done = command.each(one_run, tasks, args, tell=lambda t: f"K = {t[0]}, γ = {t[1]}, seed {t[2]}")
    games = []
    for k in arms:
        for gamma in gammas:
            runs = [answer for (a, b, *_), answer in done if (a, b) == (k, gamma)]
            regret = np.array([run["regret"] for run in runs])
            loss = np.array([run["loss"] for run in runs])
            games.append(
                {
                    "K": k,
                    "gamma": gamma,
                    "repetitions": len(runs),
                    "T": runs[0]["T"],
                    "regret": regret.mean(axis=0),
                    "error": regret.std(axis=0, ddof=1) / np.sqrt(len(runs)),
                    "loss": loss.mean(axis=0),
                }
            )
    settings = {"rates": "evenly from γ to 3 γ", "utility": "ω¹", "beliefs": "Beta(1, 1)"}
    return {"settings": settings, "games": games, "exponents": exponents(games)}


def exponents(games: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Of the regret in T (second half of the checkpoints), in K and in γ (at the last one)."""
    in_t = [exponent(g["T"][-6:], g["regret"][-6:]) for g in games]
    loss_in_t = [exponent(g["T"][-6:], g["loss"][-6:]) for g in games]
    arms, gammas = (sorted({g[key] for g in games}) for key in ("K", "gamma"))
    last = {(g["K"], g["gamma"]): g["regret"][-1] for g in games}
    in_k = [exponent(arms, [last[k, gamma] for k in arms]) for gamma in gammas]
    in_gamma = [exponent(gammas, [last[k, gamma] for gamma in gammas]) for k in arms]
    return {"T": in_t, "T, last proposal": loss_in_t, "K": in_k, "γ": in_gamma}


def bounds(game: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower bound of Theorem 1 without their constants."""
    t = np.array(game["T"], dtype=float)
    lower = game["K"] ** 2 / (game["gamma"] * t)
    return lower * np.log(t) ** 2, lower


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    head = ["K", "γ", "regret at the end", "R T · mean rate", "R over K² log²T / (γ T)"]
    rows = []
    for game in numbers["games"]:
        last, t = game["regret"][-1], game["T"][-1]
        rows.append(
            [
                str(game["K"]),
                f"{game['gamma']:g}",
                f"{last:.3g} ± {game['error'][-1]:.1g}",
                f"{last * t * 2.0 * game['gamma']:.3g}",
                f"{last / bounds(game)[0][-1]:.2g}",
            ]
        )
    fitted = [
        [f"in {name}", f"{np.mean(v):.2f}", f"{min(v):.2f} to {max(v):.2f}", expected]
        for (name, v), expected in zip(
            numbers["exponents"].items(), ["−1, and 2 in log T", "−1", "2", "−1"], strict=True
        )
    ]
    return {
        NAME: command.markdown(head, rows),
        f"{NAME}-exponents": command.markdown(
            ["exponent of the regret", "mean", "range over the games", "of the bound"], fitted
        ),
    }


def draw(numbers: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(12.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    games = numbers["games"]
    gammas = sorted({g["gamma"] for g in games})
    shades = ["#9dc3e6", "#5b9bd5", "#2458a6", "#173a6e", "#0b1f3d"]
    middle = gammas[len(gammas) // 2]
    for game, colour in zip([g for g in games if g["gamma"] == middle], shades, strict=False):
        left.plot(game["T"], game["regret"], color=colour, label=f"K = {game['K']}")
        left.plot(game["T"], bounds(game)[1], color=colour, ls=":", lw=0.8)
    left.set(xscale="log", yscale="log", xlabel="T", ylabel="regret, ω¹")
    left.set_title(f"γ = {middle:g}; dotted: K² / (γ T)", fontsize="medium")
    for gamma, colour in zip(gammas, shades[::2], strict=False):
        chosen = [g for g in games if g["gamma"] == gamma]
        right.errorbar(
            [g["K"] for g in chosen],
            [g["regret"][-1] for g in chosen],
            [g["error"][-1] for g in chosen],
            color=colour,
            marker="o",
            label=f"γ = {gamma:g}",
        )
    right.set(xscale="log", yscale="log", xlabel="K", ylabel=f"regret at T = {games[0]['T'][-1]}")
    for ax in (left, right):
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=10, argv=argv)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
