"""Wrong keywords are told the right ones, and a wrong `rng` is named, in all that is public."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import abctree
from abctree import ParameterError
from abctree.answers import StepPosterior
from abctree.keywords import _FOREIGN, _MEANT, checks_keywords, checks_keywords_of_methods
from abctree.problems import gauss
from abctree.problems.truth import BananaTruth, GaussianMixtureTruth, GaussTruth

_MODULES = (abctree, abctree.bandits, abctree.metrics, abctree.plots, abctree.problems)
_MODULES = (*_MODULES, abctree.stopping, abctree.testing)
#: Records that only the library makes, a simulator that is never called, a plain function of data.
_NOT_CALLED = {"Climb", "History", "Progress", "elsewhere", "ess"}


def public():
    """Functions and classes that a user calls, by name."""
    found = {}
    for module in _MODULES:
        for name in module.__all__:
            thing = getattr(module, name)
            broken = isinstance(thing, type) and issubclass(thing, Exception | Warning)
            if callable(thing) and not broken and name not in _NOT_CALLED:
                found[name] = thing
    for name in ("to_csv", "to_npz", "to_arviz"):
        found[name] = getattr(abctree.export, name)
    for name in ("Minkowski", "Scaled", "Mahalanobis", "Wasserstein"):
        found[name] = getattr(abctree.distances, name)
    return found


PUBLIC = public()
#: Which hand on keywords that are not theirs.
_OF_OTHERS = {"RayPool", "Session", "calibrate", "load", "resume"}


def test_the_list_of_public_names_is_not_empty():
    assert len(PUBLIC) > 80


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - _OF_OTHERS))
def test_an_unknown_keyword_is_told_what_there_is(name):
    with pytest.raises(ParameterError, match=rf"`{name}` has no argument `zzz`\. It takes \w+"):
        PUBLIC[name](zzz=1)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_keywords_are_checked_without_a_change_of_the_signature(name):
    thing = PUBLIC[name]
    assert pickle.loads(pickle.dumps(thing)) is thing
    signature = inspect.signature(thing)
    assert "kwargs" not in signature.parameters
    assert thing.__doc__
    assert thing.__module__.startswith("abctree.")
    assert thing.__module__ != "abctree.keywords"


@pytest.fixture(scope="module")
def problem():
    return gauss(2)


@pytest.fixture(scope="module")
def result(problem):
    return abctree.abc_tree(problem, n_simulations=500, rng=1, max_rounds=2)


METHODS = {
    "abc_tree": abctree.abc_tree, "map_tree": abctree.map_tree, "smc": abctree.smc,
    "rejection": abctree.rejection, "Session": abctree.Session,
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("seed", "rng"),
        ("random_state", "rng"),
        ("rnd", "rng"),
        ("n_sims", "n_simulations"),
        ("num_simulations", "n_simulations"),
        ("num_samples", "n_simulations"),
        ("n_simulatons", "n_simulations"),
        ("budget", "n_simulations"),
        ("max_time", 'stop={"seconds":60}'),
        ("epsilon", 'stop={"epsilon":0.1}'),
        ("on_failures", "on_failure"),
    ],
)
def test_a_method_tells_the_keyword_that_is_meant(method, word, right, problem):
    with pytest.raises(ParameterError) as caught:
        METHODS[method](problem, **{"n_simulations": 500, word: 1})
    assert f"Did you mean `{right}`?" in str(caught.value)


def test_a_wrong_word_is_told_before_what_is_missing_for_it(problem):
    for method in METHODS.values():
        with pytest.raises(ParameterError, match=r"`n_sims`\. Did you mean `n_simulations`\?"):
            method(problem, n_sims=500)


@pytest.mark.parametrize(
    ("name", "word", "right"),
    [
        ("Problem", "x_o", "observed"),
        ("Problem", "model", "simulator"),
        ("Problem", "vectorised", "vectorized"),
        ("Problem", "summary_statistics", "summary"),
        ("Problem", "distance_function", "distance"),
        ("Problem", "constraints", "constraint"),
        ("Problem", "ptform", "prior_transform"),
        ("smc", "population_size", "n_particles"),
        ("smc", "max_nr_populations", "max_rounds"),
        ("rejection", "quantile", "keep"),
        ("abc_tree", "n_jobs", "executor"),
        ("abc_tree", "n", "n_simulations"),
        ("abc_tree", "batch_size", "block"),
        ("abc_tree", "verbose", "progress"),
        ("Processes", "num_workers", "n_workers"),
        ("Cart", "max_leafs", "max_leaves"),
        ("to_arviz", "num_samples", "n"),
        ("hoo", "n_iter", "budget"),
        ("thompson_sampling", "seed", "rng"),
    ],
)
def test_a_foreign_or_misspelt_keyword_is_told_the_right_one(name, word, right):
    with pytest.raises(ParameterError, match=rf"`{name}` has no argument `{word}`.*`{right}`\?"):
        PUBLIC[name](**{word: 1})


@pytest.mark.parametrize(
    ("method", "word", "right"),
    [
        ("sample", "num_samples", "n"),
        ("sample", "size", "n"),
        ("sample", "seed", "rng"),
        ("resample", "random_state", "rng"),
        ("hdi", "hdi_prob", "mass"),
        ("quantile", "probs", "q"),
    ],
)
def test_a_posterior_tells_the_keyword_that_is_meant(method, word, right, result):
    posterior = result.posterior(epsilon=2.0)
    with pytest.raises(ParameterError, match=rf"`{method}` has no .*`{word}`.*mean `{right}`\?"):
        getattr(posterior, method)(**{word: 1})


def test_other_answers_tell_the_keyword_that_is_meant(result, problem, tmp_path):
    with pytest.raises(ParameterError, match=r"`tolerance`\. Did you mean `epsilon`\?"):
        result.posterior(tolerance=1.0)
    with pytest.raises(ParameterError, match=r"`eps`\. Did you mean `epsilon`\?"):
        result.evidence(eps=1.0)
    with pytest.raises(ParameterError, match=r"`seed`\. Did you mean `rng`\?"):
        result.histogram().sample(3, seed=1)
    with pytest.raises(ParameterError, match=r"`seed`\. Did you mean `rng`\?"):
        problem.check(seed=1)
    with pytest.raises(ParameterError, match=r"`prob`\. Did you mean `level`\?"):
        result.evidence().interval(prob=0.9)
    with pytest.raises(ParameterError, match=r"`n_sims`\. Did you mean `n_simulations`\?"):
        abctree.resume(tmp_path, problem, n_sims=600)
    with pytest.raises(ParameterError, match=r"`axis`\. It takes none\."):
        result.posterior(epsilon=2.0).mean(axis=0)


def test_an_argument_by_position_is_told_its_name(problem, result):
    with pytest.raises(ParameterError, match=r"takes 1 .*, but got 3\. Write n_simulations=300\."):
        abctree.abc_tree(problem, 300, 3)
    with pytest.raises(ParameterError, match=r"`Threads` takes 1 .*, but got 2\. Write chunk=3\."):
        abctree.Threads(2, 3)
    with pytest.raises(ParameterError, match=r"`mean` takes 0 arguments .*, but got 1\. Leave"):
        result.posterior(epsilon=2.0).mean(0)


def test_a_word_that_is_foreign_here_is_not_taken_for_another_argument():
    """ "seed" is spelt nearly like "observed"."""
    with pytest.raises(ParameterError, match=r"no argument `seed`\. It takes prior, simulator"):
        abctree.Problem(seed=1)


def test_every_foreign_word_has_one_meaning():
    assert len(_MEANT) == sum(len(words.split()) for words in _FOREIGN)


def test_right_keywords_and_defaults_arrive():
    @checks_keywords
    def function(a, /, b, *, c=3):
        return a, b, c

    assert function(1, b=2) == (1, 2, 3)
    assert function(1, 2, c=4) == (1, 2, 4)
    with pytest.raises(TypeError, match="missing"):
        function(1)

    @checks_keywords_of_methods
    class Thing:
        def __init__(self, a=1):
            self.a = a

        def plus(self, b=2):
            return self.a + b

    assert Thing(a=2).plus(b=3) == 5
    with pytest.raises(ParameterError, match=r"`plus` has no argument `bb`. Did you mean `b`"):
        Thing().plus(bb=1)


# rng --------------------------------------------------------------------------------------------


WRONG = ["x", -1, 1.5, True, float("nan"), [1, "x"], object(), {"seed": 1}, [-1]]


def callers(problem, result):
    """Everything public that takes an rng."""
    posterior = result.posterior(epsilon=2.0)
    found = {
        name: lambda rng, method=method: method(problem, n_simulations=500, rng=rng)
        for name, method in METHODS.items()
    }
    found |= {
        "check": problem.check,
        "sample": lambda rng: posterior.sample(3, rng=rng),
        "smooth": lambda rng: posterior.sample(3, rng=rng, smooth=True),
        "resample": lambda rng: posterior.resample(3, rng=rng),
        "histogram": lambda rng: result.histogram().sample(3, rng=rng),
        "ucb": lambda rng: abctree.bandits.ucb([0.1, 0.2], 5, rng=rng),
        "uniform": lambda rng: abctree.bandits.uniform([0.1, 0.2], 5, rng=rng),
        "top_two": lambda rng: abctree.bandits.top_two([0.1, 0.2], 5, rng=rng),
        "thompson": lambda rng: abctree.bandits.thompson_sampling([0.1, 0.2], 5, rng=rng),
        "check_prior": lambda rng: abctree.testing.check_prior(problem.prior, rng=rng),
        "check_utility": lambda rng: abctree.testing.check_utility(
            abctree.EffectiveSampleSize(), rng=rng
        ),
        "check_partitioner": lambda rng: abctree.testing.check_partitioner(abctree.Cart(), rng=rng),
    }
    for truth in (GaussTruth(2), GaussianMixtureTruth(2), BananaTruth()):
        found[type(truth).__name__] = lambda rng, truth=truth: truth.draws(3, 1.0, rng=rng)
    return found


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: type(value).__name__)
def test_a_wrong_rng_is_named(wrong, problem, result):
    for name, call in callers(problem, result).items():
        with pytest.raises(ParameterError, match="`rng` must be None, a whole number") as caught:
            call(wrong)
        assert caught.value, name


def test_a_wrong_rng_of_arviz_is_named(result):
    pytest.importorskip("arviz")
    with pytest.raises(ParameterError, match="`rng` must be None"):
        abctree.export.to_arviz(result.posterior(epsilon=2.0), rng="x")


def test_all_that_numpy_takes_is_an_rng(result):
    posterior = result.posterior(epsilon=2.0)
    kinds = [None, 7, np.int64(7), np.random.SeedSequence(7), np.random.PCG64(7), [7, 8]]
    for rng in [*kinds, np.random.default_rng(7)]:
        assert posterior.sample(3, rng=rng).shape == (3, 2)
    assert isinstance(result.histogram(), StepPosterior)


# Rules of fields --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: abctree.Geometric(1.0), "`factor` must be in (0, 1), but got 1.0."),
        (lambda: abctree.Geometric(start=0), "`start` must be in (0, 1], but got 0."),
        (lambda: abctree.Cart(max_depth=0),
         "`max_depth` must be a whole number of at least 1 or None, but got 0."),
        (lambda: abctree.Cart(max_leaves=None),
         "`max_leaves` must be a whole number of at least 1, but got None."),
        (lambda: abctree.Dyadic(n_splits=2.5),
         "`n_splits` must be a whole number of at least 1 or None, but got 2.5."),
        (lambda: abctree.DynamicTree(n_particles=60.5),
         "`n_particles` must be a whole number of at least 1, but got 60.5."),
        (lambda: abctree.Counts(np.nan), "`alpha` must be at least 0, but got nan."),
        (lambda: abctree.GlobalRate("1"), "`strength` must be positive, but got '1'."),
        (lambda: abctree.GlobalRate(strength=True), "`strength` must be positive, but got True."),
        (lambda: abctree.MultiLevel(ratio=np.float64(1)), "`ratio` must be above 1, but got 1.0."),
        (lambda: abctree.TopTwo("adaptiv"),
         "`b` must be in (0, 1] or \"adaptive\", but got 'adaptiv'. Try 0.5."),
        (lambda: abctree.Dyadic(pick="full"),
         "`pick` must be \"fullest\" or \"modal\", but got 'full'."),
        (lambda: abctree.External(["echo"], seed_bits=1.5),
         "`seed_bits` must be a whole number in [1, 63], but got 1.5."),
    ],
)  # fmt: skip
def test_a_field_that_breaks_its_rule_is_told_the_rule_and_the_value(make, says):
    with pytest.raises(abctree.ParameterError) as caught:
        make()
    assert str(caught.value) == says


def test_a_field_may_lie_on_a_border_that_belongs_to_its_rule():
    kept = (
        abctree.Geometric(start=1), abctree.Cart(max_depth=None), abctree.Counts(0, np.float32(0)),
        abctree.TopTwo("adaptive"), abctree.TopTwo(np.array(1.0)),
        abctree.distances.Minkowski(np.inf),
        abctree.External(["echo"], seed_bits=63),
    )  # fmt: skip
    assert repr(kept[0]) == "Geometric(factor=0.9, start=1)"


def test_a_whole_number_that_is_written_with_a_point_is_one():
    assert repr(abctree.Cart(max_leaves=1e3)) == repr(abctree.Cart(max_leaves=1000))
    made = abctree.T3C(n_draws=np.float64(16))
    assert (made.n_draws, type(made.n_draws)) == (16, int)
