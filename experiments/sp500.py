"""The Heston model on a year of the S&P 500: daily closes of 2018, with predictive checks.

    python -m experiments.sp500 --workers 2             the picture and the numbers
    python -m experiments.sp500 --quick                 a small version in a temporary folder
    python -m experiments.sp500 --from-json

The closes come with the package ``arch`` (``pip install abctree[experiments]``).  The model, its
seven summaries and the priors of κ, ρ and σ are the paper's; the variances ξ and ν0 have
log-uniform priors, since those of an index are a few hundredths and not U(0, 1).  Drift is the
risk-free rate, .02.  Four runs of 1e5 simulations each (four seeds) say how well the answer is
known, beside SMC-ABC and rejection.  A predictive p-value is the share of the data simulated from
posterior draws whose summary is above the observed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

import abctree
from experiments import command

NAME = "sp500"
YEAR = "2018"
BUDGET, QUICK_BUDGET = 100_000, 5_000
DT, RATE = 1 / 252, 0.02
SUMMARIES = (
    "mean r", "mean r²", "log sd r", "log sd r²", "autocorrelation of r², lag 1",
    "autocorrelation of r², lag 2", "correlation of r and r²",
)  # fmt: skip
METHODS = ("ABC-Tree", "ABC-Tree, boxes", "SMC-ABC", "rejection")


def log_returns(year: str = YEAR) -> np.ndarray:
    """(n,) Daily log returns of the closes of a year."""
    from arch.data import sp500

    close = sp500.load().loc[year, "Close"].to_numpy(dtype=float)
    return np.diff(np.log(close))


class Heston:
    """Log returns (n, steps) by Euler steps with full truncation, in NumPy."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def __call__(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        kappa, xi, v, rho, sigma = (np.array(column) for column in theta.T)
        other = np.sqrt(np.maximum(0.0, 1.0 - rho**2))
        returns = np.empty((len(theta), self.n_steps))
        for k in range(self.n_steps):
            positive = np.maximum(v, 0.0)
            noise = np.sqrt(positive * DT)
            a, b = rng.standard_normal((2, len(theta)))
            returns[:, k] = (RATE - 0.5 * positive) * DT + noise * a
            v = v + kappa * (xi - positive) * DT + sigma * noise * (rho * a + other * b)
        return returns


def summarise(r: np.ndarray) -> np.ndarray:
    """The paper's seven summaries of log returns: (n, steps) -> (n, 7)."""
    s = r**2
    here_r, here_s = (x - x.mean(axis=1, keepdims=True) for x in (r, s))
    var_r, var_s = (np.maximum((x**2).mean(axis=1), 1e-300) for x in (here_r, here_s))
    steps = r.shape[1]
    lags = [(here_s[:, k:] * here_s[:, :-k]).sum(axis=1) / (steps * var_s) for k in (1, 2)]
    cross = (here_r * here_s).mean(axis=1) / np.sqrt(var_r * var_s)
    return np.stack(
        [r.mean(axis=1), s.mean(axis=1), 0.5 * np.log(var_r), 0.5 * np.log(var_s), *lags, cross],
        axis=1,
    )


def problem(returns: np.ndarray) -> abctree.Problem:
    return abctree.Problem(
        prior={
            "kappa": (0.0, 10.0),
            "xi": stats.loguniform(0.001, 1.0),
            "nu0": stats.loguniform(0.001, 1.0),
            "rho": (-1.0, 1.0),
            "sigma": (0.0, 1.0),
        },
        simulator=Heston(len(returns)),
        observed=returns,
        summary=summarise,
        distance="mad",
        vectorized=True,
    )


def run(method: str, returns: np.ndarray, n: int, seed: int) -> Any:
    chosen = problem(returns)
    with command.quiet():
        if method == "rejection":
            return abctree.rejection(chosen, n_simulations=n, rng=seed)
        if method == "SMC-ABC":
            particles = min(1000, n // 20)
            return abctree.smc(
                chosen, n_simulations=n, n_particles=particles, kernel="silverman",
                weights="mixture", rng=seed,
            )  # fmt: skip
        proposal = "boxes" if method == "ABC-Tree, boxes" else "adaptive"
        return abctree.abc_tree(chosen, n_simulations=n, rng=seed, proposal=proposal)


def one_run(method: str, seed: int, n: int) -> dict[str, Any]:
    """The posterior of one run, and data predicted from it."""
    returns = log_returns()
    result = run(method, returns, n, seed)
    with command.quiet():
        draws = result.posterior(ess=1000 if n >= BUDGET else 100)
        adjusted = draws.adjusted("linear")
    answer: dict[str, Any] = {"epsilon": draws.epsilon, "ESS": draws.ess}
    observed = summarise(returns[None])[0]
    for label, chosen in (("raw", draws), ("adjusted", adjusted)):
        rng = np.random.default_rng(seed)
        theta = chosen.sample(1000, rng)
        replicated = summarise(Heston(len(returns))(theta, rng))
        answer[label] = {
            "mean": chosen.mean(),
            "sd": chosen.std(),
            "quantiles": chosen.quantile([0.05, 0.5, 0.95]).T,
            "predictive quantiles": np.quantile(replicated, [0.05, 0.5, 0.95], axis=0).T,
            "predictive p": (replicated > observed).mean(axis=0),
            "theta": theta[:200] if seed == 1 else [],
            "replicated": replicated[:200] if seed == 1 else [],
        }
    return answer


def measure(args: command.Options) -> dict[str, Any] | None:
    try:
        returns = log_returns()
    except ImportError:
        print("skipped sp500: `arch` is not installed. Run: pip install 'abctree[experiments]'")
        return None
    n = QUICK_BUDGET if args.quick else BUDGET
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [(method, seed, n) for seed in seeds for method in METHODS]
    done = command.each(one_run, tasks, args, tell=lambda task: f"{task[0]}, seed {task[1]}")
    settings = {
        "year": YEAR,
        "returns": len(returns),
        "simulations": n,
        "names": list(problem(returns).names),
        "summaries": SUMMARIES,
        "observed": summarise(returns[None])[0],
        "daily returns": returns,
    }
    runs: dict[str, list[Any]] = {method: [] for method in METHODS}
    for (method, seed, _), answer in done:
        runs[method].append({"seed": seed, **answer})
    return {"settings": settings, "runs": runs}


def tables(numbers: dict[str, Any]) -> dict[str, str]:
    settings, runs = numbers["settings"], numbers["runs"]
    names = settings["names"]
    head = ["posterior", "ε", "ESS", *(f"{name}, mean and sd" for name in names)]
    rows = []
    for method, found in runs.items():
        for form in ("raw", "adjusted"):
            cells = [
                f"{command.cell([r[form]['mean'][j] for r in found])} "
                f"(sd {np.mean([r[form]['sd'][j] for r in found]):.2g})"
                for j in range(len(names))
            ]
            label = method if form == "raw" else f"{method}, adjusted"
            epsilon, ess = (command.cell([r[key] for r in found]) for key in ("epsilon", "ESS"))
            rows.append([label, epsilon, ess, *cells])
    checks = []
    for k, summary in enumerate(settings["summaries"]):
        cells = [summary, f"{settings['observed'][k]:.3g}"]
        for form in ("raw", "adjusted"):
            of = [r[form] for r in runs["ABC-Tree"]]
            low, middle, high = np.mean([r["predictive quantiles"][k] for r in of], axis=0)
            cells.append(f"{middle:.3g} ({low:.3g} to {high:.3g})")
            cells.append(f"{np.mean([r['predictive p'][k] for r in of]):.2f}")
        checks.append(cells)
    return {
        NAME: command.markdown(head, rows),
        f"{NAME}-checks": command.markdown(
            ["summary", "observed", "predicted: median (5 to 95 %)", "p", "adjusted", "p"], checks
        ),
    }


def draw(numbers: dict[str, Any]) -> Figure:
    settings = numbers["settings"]
    first = numbers["runs"]["ABC-Tree"][0]
    figure = Figure(figsize=(14.0, 7.5), layout="constrained")
    top, middle, bottom = figure.subfigures(3, 1)
    ax = top.subplots(1, 1)
    ax.plot(100 * np.array(settings["daily returns"]), color="#3b4a54", lw=0.8)
    ax.set(ylabel="log return, %", xlabel=f"trading days of {settings['year']}")
    ax.spines[["top", "right"]].set_visible(False)
    histograms(middle, settings["names"], first, "theta", {})
    observed = dict(zip(settings["summaries"], settings["observed"], strict=True))
    histograms(bottom, settings["summaries"], first, "replicated", observed)
    return figure


def histograms(
    place: Any, names: Sequence[str], run: dict[str, Any], key: str, observed: dict[str, float]
) -> None:
    """Of the raw and the adjusted draws; a line where the data are."""
    for j, (ax, name) in enumerate(
        zip(np.atleast_1d(place.subplots(1, len(names))), names, strict=True)
    ):
        for form, colour in (("raw", "#9aa7b0"), ("adjusted", "#2458a6")):
            values = np.array(run[form][key], dtype=float)[:, j]
            ax.hist(values, bins=20, color=colour, alpha=0.5, density=True, label=form)
        if name in observed:
            ax.axvline(observed[name], color="#c0392b", lw=1.5)
        ax.set(yticks=[])
        ax.set_xlabel(name, fontsize="small")
        ax.spines[["top", "right", "left"]].set_visible(False)
    place.axes[0].legend(frameon=False, fontsize="x-small")


def main(argv: Sequence[str] | None = None) -> None:
    args = command.options(__doc__, NAME, seeds=4, quick_seeds=1, argv=argv)
    command.run(NAME, args, measure, draw, tables)


if __name__ == "__main__":
    main()
