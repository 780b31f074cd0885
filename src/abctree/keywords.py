"""What a word means: a keyword that a function does not have, a name, that of a part."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from abctree.errors import ParameterError, wrong

T = TypeVar("T", bound=Callable[..., Any])
P = TypeVar("P")

#: Words of other libraries and what they are here; of several, the first that a function has.
_FOREIGN = {
    "seed random_state random_seed seeds generator key prng rngs np_random": "rng",
    "n_sims num_sims nsims n_sim num_simulations n_simulation n_samples num_samples nsamples "
    "budget max_simulations max_nr_simulations maxiter n_iter n_calls n_evals sample_size size "
    "draws n_draws num_draws samples count N n": "n_simulations n budget",
    "eps tol tolerance threshold minimum_epsilon max_distance epsilon": (
        'epsilon stop={"epsilon":0.1}'
    ),
    "n_eff target_ess effective_sample_size ess": 'ess stop={"ess":300}',
    "min_acceptance_rate acceptance_rate": 'stop={"acceptance_rate":0.01}',
    "x_o x_obs xobs y_obs obs observation observations observed_data obs_data data y x": "observed",
    "model models sim simulate sim_fn forward simulator_fn func fun f": "simulator function",
    "priors parameters parameter_priors parameter_prior params": "prior",
    "distance_function distance_fn discrepancy metric dist": "distance",
    "summaries summary_statistics summary_statistic summary_stats summary_fn sumstats sum_stat "
    "statistics stats": "summary",
    "n_jobs num_workers workers n_cores cores n_procs n_processes processes num_cpus cpus jobs "
    "pool client sampler parallel threads backend": "executor n_workers workers",
    "show_progress show_progress_bars progress_bar progressbar verbose callback pbar": "progress",
    "folder directory dir output output_dir out db database filename file save_to checkpoint "
    "path": "store path",
    "population_size pop_size population particles num_particles n_population": "n_particles",
    "num_rounds n_rounds rounds max_nr_populations max_populations n_populations generations "
    "n_generations num_generations": "max_rounds",
    "max_time max_seconds timeout time_limit walltime max_walltime seconds": (
        'stop={"seconds":60} seconds'
    ),
    "constraints feasible condition": "constraint",
    "vectorised vectorize vectorise batched vmap": "vectorized",
    "chunk_size batch batch_size": "batch_size chunk block",
    "accept n_accept n_keep num_keep top quantile": "keep",
    "ptform transform": "prior_transform",
    "param_names parameter_names labels var_names columns": "names",
    "hdi_prob credible_mass prob ci alpha credibility confidence": "mass level",
    "quantiles probs levels percentiles": "q",
    "adjust adjustment regression": "method",
}
_MEANT = {word: ours for words, ours in _FOREIGN.items() for word in words.split()}


def checks_keywords(target: T) -> T:
    """Decorate a function or a class: a keyword that it does not have is a `ParameterError`.

    So is what is given by position and has a name only, and a field of a dataclass that breaks its
    rule, see `abctree.numbers.ruled`.  Signatures and types stay as they are.
    """
    if isinstance(target, type):
        rules = _rules(target)
        # By setattr: mypy wants no assignment to a method, and a frozen record takes it, too.
        setattr(target, "__init__", _checked(vars(target)["__init__"], target.__name__, rules))  # noqa: B010
        return target
    checked: T = _checked(target, target.__name__)
    return checked


def checks_keywords_of_methods(target: T) -> T:
    """Decorate a class as `checks_keywords` does, and its public methods."""
    for name, member in list(vars(target).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(target, name, _checked(member, name))
    return checks_keywords(target) if "__init__" in vars(target) else target


def _rules(kind: type) -> dict[str, tuple[str, str]]:
    """The rule of each field of a dataclass that has one, and the advice with it."""
    own = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    return {f.name: f.metadata["rule"] for f in own if "rule" in f.metadata}


def _checked(function: Any, name: str, rules: Mapping[str, tuple[str, str]] | None = None) -> Any:
    every = inspect.signature(function).parameters.values()
    parameters = [p for p in every if p.name != "self"]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    check = check_keywords if len(known) == len(parameters) else _check_foreign
    positional = [p for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    any_number = any(p.kind is p.VAR_POSITIONAL for p in every)
    n_positional = sys.maxsize if any_number else len(positional)
    n_self = len(every) - len(parameters)
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check(name, kwargs, known)
        if len(args) > n_positional:
            _refuse_positions(name, args[n_positional:], n_positional - n_self, by_name)
        answer = function(*args, **kwargs)
        if rules:
            from abctree.numbers import check_rule  # it imports NumPy

            for field, rule in rules.items():
                value = vars(args[0])[field]
                check_rule(field, value, *rule)
                if "whole" in rule[0] and value is not None:  # 1e3 counts as well as 1000
                    object.__setattr__(args[0], field, int(value))
        return answer

    return call


def _refuse_positions(function: str, rest: Sequence[Any], n: int, names: Sequence[str]) -> None:
    """Say which keyword the first argument beyond those by position is, if there is one."""
    advice = f"Write {names[0]}={reprlib.repr(rest[0])}." if names else "Leave the rest away."
    raise ParameterError(
        f"`{function}` takes {n} argument{'s' * (n != 1)} by position, but got {n + len(rest)}. "
        f"{advice}"
    )


def check_keywords(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise `ParameterError` at the first keyword that is not known; say which one was meant."""
    for word in given:
        if word not in known:
            ours = meant(word, known)
            there = f"It takes {', '.join(known)}." if known else "It takes none."
            raise _unknown(function, word, f"Did you mean `{ours}`?" if ours else there)


def _check_foreign(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Of a function that takes other keywords, too: refuse one that can only mean a known one."""
    for word in given:
        ours = None if word in known else meant(word, known, 0.85)
        if ours is not None:
            raise _unknown(function, word, f"Did you mean `{ours}`?")


def _unknown(function: str, word: str, advice: str) -> ParameterError:
    return ParameterError(f"`{function}` has no argument `{word}`. {advice}")


def meant(word: str, names: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Which of the names is meant: by the table of foreign words, or the nearest in spelling."""
    near = difflib.get_close_matches(word, _MEANT, 1, 0.9)
    ours = [ours for foreign in near for ours in _MEANT[foreign].split()]
    found = [name for name in ours if name.partition("=")[0] in names]
    found = found or difflib.get_close_matches(word.lower(), names, 1, max(cutoff, 0.8 * len(near)))
    return found[0] if found else None


def place_of(name: str, names: Sequence[str]) -> int:
    """The place of a name among some, or a `ParameterError`."""
    if name not in names:
        raise wrong("name", f"be one of {', '.join(names)}", repr(name))
    return names.index(name)


def part_named(
    argument: str, spec: str | P, named: Mapping[str, Callable[[], P]], method: str, hint: str = ""
) -> P:
    """Return the part that a short name stands for, or a part as it is.

    A `ParameterError` if the name is none of `named`, or the part lacks the method, whose call is
    `method`.
    """
    if isinstance(spec, str):
        if spec in named:
            return named[spec]()
    elif hasattr(spec, method.partition("(")[0]):
        return spec
    raise ParameterError(
        f"`{argument}` must be one of {sorted(named)} or an object with a method `{method}`, "
        f"but got {spec!r}. {hint}".rstrip()
    )
