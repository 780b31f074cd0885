"""Theorem 2, looked at: how fast the probability of naming the wrong arm falls.

    python -m experiments.theorem2 --workers 4     about 20 CPU minutes
    python -m experiments.theorem2 --quick
    python -m experiments.theorem2 --from-json     draw the picture again

Two exponents are at issue.  Russo (2016), whose theorem the paper's proof cites, is about the
*posterior* probability that another arm is the best, which falls as exp(−T Γ) in every run:
``Γ_ψ = min_k min_x ψ_1 kl(μ_1, x) + ψ_k kl(μ_k, x)`` for shares ψ of the pulls, the largest over ψ
is the oracle's Γ*, and top-two with b = ½ has the largest with ψ_1 = ½, at least Γ*/2.  The paper
states it of the *frequency* of wrong answers, whose exponent for fixed shares has the divergences
the other way round (Glynn and Juneja 2004) and for adaptive rules need not be either.  Both are
measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import optimize, special

from abctree import bandits
from experiments import command

NAME = "theorem2"
MU = np.array([0.6, 0.45, 0.4, 0.3, 0.2])
CHECKPOINTS = [50, 100, 150, 200, 300, 400, 500, 600, 700, 800]
GAMES = 1_000  #: in one task
#: Pulls at which posterior probabilities are worked out.
LONG = [500, 1_000, 2_000, 4_000, 6_000, 8_000, 10_000]
RULES = {
    "thompson": "Thompson",
    "top-two": "top-two, b = ½",
    "top-two-adaptive": "top-two, b adaptive",
    "t3c": "T3C",
    "uniform": "uniform at random",
    "oracle": "oracle's shares",
}


# Exponents --------------------------------------------------------------------------------------


def kl(p: float, q: float) -> float:
    return float(special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q))


def exponent(share: np.ndarray, *, posterior: bool) -> float:
    """Of the posterior probability of another arm, or of the frequency of a wrong answer."""

    def cost(k: int, x: float) -> float:
        if posterior:
            return share[0] * kl(MU[0], x) + share[k] * kl(MU[k], x)
        return share[0] * kl(x, MU[0]) + share[k] * kl(x, MU[k])

    return min(
        float(
            optimize.minimize_scalar(
                lambda x, k=k: cost(k, x), bounds=(MU[k], MU[0]), method="bounded"
            ).fun
        )
        for k in range(1, len(MU))
    )


def best_shares(*, posterior: bool, first: float | None = None) -> np.ndarray:
    """The shares of the largest exponent, perhaps with that of the best arm given."""

    def shares(z: np.ndarray) -> np.ndarray:
        if first is None:
            return np.asarray(special.softmax(z))
        return np.concatenate([[first], (1.0 - first) * special.softmax(z)])

    start = np.zeros(len(MU) - (first is not None))
    found = start
    for _ in range(3):  # the objective has kinks: begin again where the simplex got stuck
        found = optimize.minimize(
            lambda z: -exponent(shares(z), posterior=posterior), found, method="Nelder-Mead",
            options={"xatol": 1e-6, "fatol": 1e-10, "maxiter": 4_000},
        ).x  # fmt: skip
    return shares(found)


def exponents() -> dict[str, Any]:
    oracle = best_shares(posterior=True)
    frequent = best_shares(posterior=False)
    uniform = np.full(len(MU), 1.0 / len(MU))
    half = best_shares(posterior=True, first=0.5)
    return {
        "oracle shares": oracle,
        "oracle shares, frequency": frequent,
        "posterior": {
            "oracle": exponent(oracle, posterior=True),
            "top-two, b = ½": exponent(half, posterior=True),
            "uniform": exponent(uniform, posterior=True),
        },
        "frequency": {
            "oracle": exponent(frequent, posterior=False),
            "uniform": exponent(uniform, posterior=False),
        },
    }


# Games ------------------------------------------------------------------------------------------


def wrong(rule: str, shares: list[float], seed: int) -> list[int]:
    """Of a thousand games, those that name a wrong arm at each checkpoint."""
    how: Any = shares if rule == "oracle" else rule
    right = bandits.identified(how, MU, CHECKPOINTS, GAMES, rng=seed)
    return [GAMES - int(n) for n in right]


def posterior_errors(rule: str, seed: int) -> list[float]:
    """Log of the posterior probability that another arm is better, at the long checkpoints."""
    game = _game(rule, LONG[-1], seed)
    return [_log_error(game.arm[:n], game.reward[:n]) for n in LONG]


def _game(rule: str, budget: int, seed: int) -> bandits.History:
    if rule == "uniform":
        return bandits.uniform(MU, budget, rng=seed)
    if rule == "thompson":
        return bandits.thompson_sampling(MU, budget, rng=seed)
    if rule == "t3c":
        return bandits.top_two(MU, budget, challenger="transport", rng=seed)
    return bandits.top_two(MU, budget, b="adaptive" if "adaptive" in rule else 0.5, rng=seed)


def _log_error(arm: np.ndarray, reward: np.ndarray) -> float:
    """Log of Σ_k P(η_k > η_1) under Beta beliefs, by quadrature on the logit scale."""
    t = np.linspace(-6.0, 6.0, 6_001)
    density = []
    for k in range(len(MU)):
        a, b = 1.0 + reward[arm == k].sum(), 1.0 + (1 - reward[arm == k]).sum()
        log = a * special.log_expit(t) + b * special.log_expit(-t) - special.betaln(a, b)
        density.append(log + np.log(t[1] - t[0]))
    above = [np.logaddexp.accumulate(log[::-1])[::-1] for log in density]
    pairs = [special.logsumexp(density[0] + above[k]) for k in range(1, len(MU))]
    return float(special.logsumexp(pairs))


def work(what: str, *how: Any) -> Any:
    return wrong(*how) if what == "wrong" else posterior_errors(*how)


def measure(args: command.Options) -> dict[str, Any]:
    theory = exponents()
    shares = list(theory["oracle shares, frequency"] / theory["oracle shares, frequency"].sum())
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    few = seeds[: max(2, args.seeds // 10)]
    tasks: list[tuple[Any, ...]] = [("wrong", rule, shares, s) for rule in RULES for s in seeds]
    tasks += [("posterior", rule, s) for rule in RULES if rule != "oracle" for s in few]
    counts: dict[str, Any] = {rule: [0, np.zeros(len(CHECKPOINTS), dtype=int)] for rule in RULES}
    logs: dict[str, Any] = {}
    for (what, rule, *_), answer in command.each(work, tasks, args, tell=lambda t: f"{t[:2]}"):
        if what == "wrong":
            counts[rule] = [counts[rule][0] + GAMES, counts[rule][1] + answer]
        else:
            logs.setdefault(rule, []).append(answer)
    return {
        "rates": MU,
        "theory": theory,
        "checkpoints": CHECKPOINTS,
        "wrong": counts,
        "long": LONG,
        "log posterior error": logs,
        "slopes": slopes(counts, logs),
    }


def slopes(counts: dict[str, Any], logs: dict[str, Any]) -> dict[str, Any]:
    """−d log P / dT over the later half, by weighted least squares; with standard errors."""
    found: dict[str, Any] = {}
    late = np.array(CHECKPOINTS) >= CHECKPOINTS[-1] / 2
    for rule, (n, number) in counts.items():
        k = np.array(number, dtype=float)[late]
        at = np.array(CHECKPOINTS, dtype=float)[late]
        use = k >= 5
        if use.sum() < 2:
            continue
        # The same games are judged at all checkpoints: the error is a little too small.
        line, cov = np.polyfit(
            at[use], np.log(k[use] / n), 1, w=np.sqrt(k[use]), cov="unscaled"
        )  # fmt: skip
        found[rule] = {"frequency": [-line[0], float(np.sqrt(cov[0, 0]))]}
    for rule, runs in logs.items():
        rate = -(np.array(runs)[:, -1] - np.array(runs)[:, 2]) / (LONG[-1] - LONG[2])
        error = rate.std(ddof=1) / np.sqrt(len(rate)) if len(rate) > 1 else np.nan
        found.setdefault(rule, {})["posterior"] = [float(rate.mean()), float(error)]
    return found


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    def shown(pair: Any) -> str:
        return "–" if pair is None or pair[0] is None else f"{pair[0]:.4f} ± {pair[1] or 0:.4f}"

    rows = [
        [RULES[rule], shown(s.get("frequency")), shown(s.get("posterior"))]
        for rule, s in numbers["slopes"].items()
    ]
    theory = numbers["theory"]
    names = dict.fromkeys([*theory["frequency"], *theory["posterior"]])
    for name in names:
        cells = [theory[kind].get(name) for kind in ("frequency", "posterior")]
        rows.append([f"theory: {name}", *("–" if c is None else f"{c:.4f}" for c in cells)])
    head = ["rule", "−d log P(wrong) / dT", "−d log posterior error / dT"]
    return {"slopes": command.markdown(head, rows)}


def draw(numbers: dict[str, Any]) -> Figure:
    """Log-probabilities against simulations, with the slopes that theory says."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    at = np.array(numbers["checkpoints"])
    for rule, (n, number) in numbers["wrong"].items():
        k = np.array(number, dtype=float)
        left.plot(at[k > 0], k[k > 0] / max(1, n), marker=".", label=RULES[rule])
    left.set(yscale="log", xlabel="simulations", ylabel="frequency of a wrong answer")
    left.legend(fontsize="small")
    long = np.array(numbers["long"])
    for rule, runs in numbers["log posterior error"].items():
        right.plot(long, np.mean(runs, axis=0), marker=".", label=RULES[rule])
    for name, rate in numbers["theory"]["posterior"].items():
        right.plot(long, -rate * long, "--", color="#9aa7b0", lw=0.9)
        right.annotate(name, (long[-1], -rate * long[-1]), fontsize="x-small", ha="right")
    right.set(xlabel="simulations", ylabel="log posterior probability of another arm")
    return figure


def main() -> None:
    args = command.options(__doc__ or "", NAME, seeds=100, quick_seeds=1)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
