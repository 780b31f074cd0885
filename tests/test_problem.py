"""`Problem`: what it takes, what it refuses, and what its dry run says."""

from __future__ import annotations

import decimal
import re
import time

import numpy as np
import pytest

import abctree
from abctree import SimulatorError, problems
from examples.digits import digits

PRIOR = {"m": (-5.0, 5.0)}


def noisy(theta, rng):
    return theta[0] + 0.05 * rng.normal()


# The observation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "observed",
    [
        np.ma.array([1.0, 1.1, 0.9, -999.0], mask=[0, 0, 0, 1]),
        np.ma.masked,
        np.array([1 + 2j]),
        1 + 0j,
        "1.5",
        b"1.5",
        ["1.5", "2"],
        np.datetime64("2024-01-01"),
        np.array([3], dtype="m8[s]"),
        10**400,
        [10**400, 1],
        10**5000,  # too long to be written
        [[1.0], [2.0, 3.0]],
        {"a": "1.0"},
        object(),
        [1.0, None],
        [1.0, np.nan],
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_observation_that_is_not_real_numbers_is_refused_in_one_sentence(observed):
    with pytest.raises(abctree.ParameterError, match="`observed` must be") as caught:
        abctree.Problem(PRIOR, noisy, observed)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_summary_sees_the_mask_of_the_observation(vectorized):
    observed = np.ma.array([1.0, 1.1, 0.9, -999.0], mask=[0, 0, 0, 1])
    made = abctree.Problem(
        PRIOR, noisy, observed, summary=lambda x: x.mean(axis=-1), vectorized=vectorized,
        missing="summary",
    )  # fmt: skip
    assert made.observed_summary == pytest.approx(1.0)
    # The twin: without its mask the last number is one like the others.
    bare = abctree.Problem(
        PRIOR, noisy, observed.data, summary=lambda x: x.mean(axis=-1), vectorized=vectorized
    )
    assert bare.observed_summary == pytest.approx(-249.0)


@pytest.mark.parametrize(
    "observed",
    [3, True, [1, 2], np.float32(0.5), np.ma.array([1.0, 2.0]), [decimal.Decimal("0.5"), 2]],
    ids=repr,
)
def test_all_kinds_of_real_numbers_are_observations_and_stay_the_user_s(observed):
    made = abctree.Problem(PRIOR, noisy, observed)
    np.testing.assert_array_equal(made.observed_summary, np.array(observed, dtype=float))
    assert not made.observed_summary.flags.writeable


def test_the_observation_is_copied():
    mine = np.zeros(2)
    made = abctree.Problem(PRIOR, noisy, mine)
    mine[0] = 7.0
    assert made.observed_summary[0] == 0.0


def test_a_summary_that_works_in_place_changes_no_data():
    def middle(x):
        x.sort()
        return x[1]

    data = np.array([3.0, 1.0, 2.0])
    problem = abctree.Problem(PRIOR, lambda theta, rng: rng.normal(size=3), data, summary=middle)
    data[0] = 7.0  # nor does what is done to them later
    assert data.tolist() == [7.0, 1.0, 2.0]
    assert problem.observed.tolist() == [3.0, 1.0, 2.0]
    assert problem.observed_summary == 2.0


# Simulations of varying size --------------------------------------------------------------------


def varying(theta, rng):
    return rng.normal(theta[0], 1.0, size=rng.integers(1, 20))


def test_samples_of_varying_size_are_failures_that_say_what_to_do():
    made = abctree.Problem(PRIOR, varying, np.ones(4), distance="energy")
    result = abctree.abc_tree(made, n_simulations=300, rng=1)
    assert result.failures.count > 200
    assert all("give a `summary` of fixed size" in reason for reason in result.failures.reasons)


@pytest.mark.parametrize("distance", ["energy", "wasserstein"])
def test_quantiles_make_samples_of_varying_size_comparable(distance):
    levels = (np.arange(8) + 0.5) / 8
    made = abctree.Problem(
        PRIOR, varying, np.ones(4), distance=distance, summary=lambda x: np.quantile(x, levels)
    )
    result = abctree.abc_tree(made, n_simulations=2000, rng=1, proposal="boxes")
    assert result.failures.count == 0
    assert abs(result.posterior().mean()[0] - 1.0) < 0.5


# Answers of another shape -----------------------------------------------------------------------


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    ("returned", "observed", "words"),
    [
        ((1,), (), "Return the number itself, as float(x), or give `observed`"),
        ((1, 1), (), "Return the number itself, as float(x), or give `observed`"),
        ((), (1,), "Reshape what it returns, or give `observed` in the shape"),
        ((3, 1), (3,), "Reshape what it returns, or give `observed` in the shape"),
        ((1, 3), (3,), "Reshape what it returns, or give `observed` in the shape"),
        ((3,), (1, 3), "Reshape what it returns, or give `observed` in the shape"),
        ((2, 3), (3, 2), "Return the transpose, x.T"),
        ((4,), (3,), "For data of varying size give a `summary` of fixed size"),
        ((2,), (), "For data of varying size give a `summary` of fixed size"),
    ],
)
def test_an_answer_of_another_shape_is_told_what_to_do(returned, observed, words, vectorized):
    def simulate(theta, rng):
        return rng.normal(size=(len(theta), *returned) if vectorized else returned)

    if vectorized and words.startswith("Return"):
        words = "Reshape what it returns" if observed == () else "give a `summary` of fixed size"
    made = abctree.Problem(PRIOR, simulate, np.zeros(observed), vectorized=vectorized)
    for call in (made.check, lambda: abctree.abc_tree(made, n_simulations=300, rng=1)):
        with pytest.raises(SimulatorError, match=re.escape(words)):
            call()


def test_rows_and_columns_of_a_batch_that_are_swapped_are_told_to_be_transposed():
    made = abctree.Problem(
        PRIOR, lambda theta, rng: rng.normal(size=(3, len(theta))), np.zeros(3), vectorized=True
    )
    with pytest.raises(SimulatorError, match="Return the transpose"):
        abctree.abc_tree(made, n_simulations=300, rng=1)


@pytest.mark.parametrize("nothing", [np.nan, np.array(np.nan), float("inf"), None], ids=repr)
@pytest.mark.parametrize("observed", [np.zeros(3), np.zeros((2, 2)), np.zeros(1)], ids=np.shape)
def test_a_scalar_nan_is_a_failed_simulation_as_none_is(nothing, observed):
    """As is None; the first five may all fail, where an array of a wrong shape ends the run."""

    def simulate(theta, rng):
        return nothing if theta[0] < 0.7 else theta[0] + rng.normal(size=observed.shape)

    made = abctree.Problem({"a": (0.0, 1.0)}, simulate, observed)
    result = abctree.abc_tree(made, n_simulations=300, rng=1, proposal="boxes")
    assert 50 < result.failures.count < 200
    (reason,) = result.failures.reasons
    assert reason == f"NothingError: simulator returned {nothing}"
    always = abctree.Problem(PRIOR, lambda theta, rng: nothing, observed)
    with pytest.raises(SimulatorError, match=f"simulator returned {nothing}"):
        abctree.abc_tree(always, n_simulations=300, rng=1)


# An observation out of reach --------------------------------------------------------------------


def noise(size, scale=100.0):
    def simulate(theta, rng):
        return theta[0] + scale * rng.normal(size=size)

    return simulate


#: Problems whose observation a simulator can produce, those of the library and some of pure noise.
ORDINARY = {
    "gauss": lambda: problems.gauss(2),
    "gauss 5": lambda: problems.gauss(5),
    "gaussian_mixture 2": lambda: problems.gaussian_mixture(2),
    "gaussian_mixture 5": lambda: problems.gaussian_mixture(5),
    "banana": problems.banana,
    "finite_normal": problems.finite_normal,
    "lotka_volterra": problems.lotka_volterra,
    "heston": problems.heston,
    "linear_nonlinear": problems.linear_nonlinear,
    "digits": digits,
    "noise": lambda: abctree.Problem(PRIOR, noise(300), noise(300)([1.0], rng_of(0))),
    "noise, mad": lambda: abctree.Problem(
        PRIOR, noise(300), noise(300)([1.0], rng_of(0)), distance="mad"
    ),
    "noise in one summary": lambda: abctree.Problem(
        PRIOR, noise(300), 0.0, summary=lambda x: np.linalg.norm(x) if np.ndim(x) else x
    ),
    "nearly always the same": lambda: abctree.Problem(
        PRIOR, lambda theta, rng: 100.0 * (theta[0] > 4.9) + rng.normal() * 1e-6, 100.0
    ),
}
#: What no parameter makes.
OUT_OF_REACH = {
    "far": lambda: abctree.Problem(PRIOR, lambda theta, rng: rng.random(), 1000.0),
    "one of two": lambda: abctree.Problem(PRIOR, lambda theta, rng: rng.random(2), [0.5, 1000.0]),
    "in per cent": lambda: abctree.Problem(
        {"p": (0.0, 1.0)}, lambda theta, rng: rng.binomial(20, theta[0]) / 20, 55.0
    ),
    "vectorized": lambda: abctree.Problem(
        PRIOR, lambda theta, rng: rng.random((len(theta), 1)), [1000.0], vectorized=True
    ),
}


def rng_of(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_observation_is_within_reach(name):
    made = ORDINARY[name]()
    for seed in range(5):
        assert not any("anywhere near" in w for w in made.check(rng=seed).warnings)
    result = abctree.abc_tree(made, n_simulations=1000, rng=0, proposal="boxes")
    assert not any("anywhere near" in w for w in result.warnings)


@pytest.mark.parametrize(
    "name",
    [
        "far",
        *(pytest.param(name, marks=pytest.mark.slow) for name in OUT_OF_REACH if name != "far"),
    ],
)
def test_an_observation_out_of_reach_is_said_by_the_dry_run_and_by_the_result(name):
    made = OUT_OF_REACH[name]()
    report = made.check(rng=0)
    assert any("anywhere near" in w for w in report.warnings)
    assert report.n_calls > 500
    for method in (abctree.abc_tree, abctree.smc, abctree.map_tree):
        result = method(made, n_simulations=1000, rng=0)
        assert any("anywhere near" in w for w in result.warnings)
        assert "anywhere near" in str(result.summary())
        assert any("anywhere near" in w for w in result.mode().notes)


def test_the_dry_run_looks_again_only_where_draws_are_cheap(monkeypatch):
    made = OUT_OF_REACH["far"]()
    monkeypatch.setattr(abctree.problem.check, "_PATIENCE", 0.0)
    report = made.check(rng=0)
    assert report.n_calls == 12
    assert not any("anywhere near" in w for w in report.warnings)


def test_few_draws_of_a_prior_that_mostly_makes_the_same_data_look_out_of_reach(monkeypatch):
    """The twin: what the second look of the dry run is for."""
    monkeypatch.setattr(abctree.problem.check, "_MORE_DRAWS", 10)
    made = problems.lotka_volterra()
    said = [any("anywhere near" in w for w in made.check(rng=seed).warnings) for seed in range(10)]
    assert any(said)


def test_the_dry_run_sees_rows_that_share_their_randomness():
    def check(simulator):
        return abctree.Problem(PRIOR, simulator, 1.0, vectorized=True).check(rng=0)

    shared = check(lambda theta, rng: theta[:, 0] + rng.normal())
    assert any("they share their randomness" in w for w in shared.warnings)
    # The twins: noise of each row, and counts, of which many are alike.
    assert check(lambda theta, rng: theta[:, 0] + rng.normal(size=len(theta))).ok
    coins = abctree.Problem(PRIOR, lambda t, rng: rng.random(len(t)) < 0.5, 1.0, vectorized=True)
    assert sum("share" in str(coins.check(rng=seed)) for seed in range(50)) <= 3


def test_the_dry_run_sees_rows_that_are_mixed_up():
    def is_told(simulator, vectorized):
        made = abctree.Problem(PRIOR, simulator, 1.0, vectorized=vectorized)
        return "rows are mixed up" in str(made.check(rng=0))

    def noise(seeds):
        return np.array([np.random.default_rng(seed).normal() for seed in seeds])

    assert is_told(lambda theta, rng: theta[::-1, 0], vectorized=True)
    assert is_told(lambda theta, seeds: np.sort(theta[:, 0] + noise(seeds)), vectorized="seeds")
    # The twins: each row for itself, and what nobody can know.
    assert not is_told(lambda theta, rng: theta[:, 0], vectorized=True)
    assert not is_told(lambda theta, seeds: theta[:, 0] + noise(seeds), vectorized="seeds")
    assert not is_told(
        lambda theta, rng: theta[:, 0] + rng.normal(size=len(theta)), vectorized=True
    )


@pytest.mark.parametrize("name", ["summary", "distance"])
def test_a_scale_that_is_taken_from_the_rows_of_a_call_is_refused(name):
    """The same simulation would be near in one call and far in another."""
    noisy_rows = lambda theta, rng: theta + rng.normal(size=(len(theta), 2))  # noqa: E731
    refused = {
        "summary": lambda x: (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9),
        "distance": lambda x, y: np.linalg.norm((x - y) / x.std(axis=0), axis=1),
    }
    allowed = {
        "summary": lambda x: np.sort(x, axis=1),
        "distance": lambda x, y: np.linalg.norm((x - y) / (1.0 + np.abs(y)), axis=1),
    }
    abctree.Problem(PRIOR, noisy_rows, [1.0, 2.0], vectorized=True, **{name: allowed[name]})
    with pytest.raises(abctree.ParameterError, match=f"`{name}` must make the same of a row"):
        abctree.Problem(PRIOR, noisy_rows, [1.0, 2.0], vectorized=True, **{name: refused[name]})


# Other arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["a", 10.5, 0, None, True, np.nan])
def test_batch_size_is_a_whole_number(value):
    with pytest.raises(abctree.ParameterError, match="`batch_size` must be a whole number"):
        abctree.Problem(PRIOR, noisy, 1.0, batch_size=value)
    assert abctree.Problem(PRIOR, noisy, 1.0, vectorized=True, batch_size=10.0).unit == 10


@pytest.mark.parametrize("names", ["ab", "m"])
def test_names_are_not_one_text(names):
    with pytest.raises(abctree.ParameterError, match="`names` must be a sequence of names"):
        abctree.Problem(prior_transform=lambda u: u, names=names, simulator=noisy, observed=1.0)
    made = abctree.Problem(
        prior_transform=lambda u: u, names=list(names), simulator=noisy, observed=1.0
    )
    assert made.names == tuple(names)
    with pytest.raises(
        abctree.ParameterError, match="`names` must be given with `prior_transform`"
    ):
        abctree.Problem(PRIOR, noisy, 1.0, names=["other"])


# Messages that name what to change ---------------------------------------------------------------


def square(constraint=None, prior=None):
    return abctree.Problem(
        prior or {"a": (0.0, 1.0), "b": (0.0, 1.0)}, lambda theta, rng: theta[0], 0.5,
        constraint=constraint,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["random", "of other rows"])
def test_a_constraint_that_says_two_things_of_a_row_is_refused(kind):
    def constraint(t):
        if kind == "random":
            return np.random.default_rng().random(len(t["a"])) < 0.5
        return t["a"] < np.median(t["a"]) + 0.1 * np.sign(len(t["a"]) - 100)

    with pytest.raises(abctree.ParameterError, match="`constraint` must say the same of a row"):
        abctree.abc_tree(square(constraint), n_simulations=200, rng=1)


@pytest.mark.slow
def test_a_constraint_that_leaves_next_to_nothing_is_named():
    corner = square(lambda t: (t["a"] < 1e-3) & (t["b"] < 2e-3))
    with pytest.raises(abctree.ParameterError, match="`constraint` must leave more of the prior"):
        _ = corner.region.normaliser
    # The twins: a larger corner is measured, and a peak of the prior is not the constraint's fault.
    large = square(lambda t: (t["a"] < 1e-2) & (t["b"] < 2e-2))
    assert large.region.normaliser[0] == pytest.approx(2e-4, rel=0.2)
    peak = abctree.DensityPrior(
        lambda theta: -0.5 * (((theta - 0.5) / 1e-4) ** 2).sum(axis=1),
        bounds={"a": (0.0, 1.0), "b": (0.0, 1.0)},
    )
    with pytest.raises(abctree.ParameterError, match="`prior` must spread"):
        _ = square(lambda t: t["a"] < 2.0, peak).region.normaliser


@pytest.mark.parametrize("size", [64, 65])
def test_an_adjustment_without_summaries_names_the_setting_that_keeps_them(size):
    made = abctree.Problem(PRIOR, noise(size, 1.0), np.zeros(size))
    posterior = abctree.abc_tree(made, n_simulations=1500, rng=0, proposal="boxes").posterior(
        ess=200.0
    )
    if size <= 64:
        assert posterior.summary.shape[1] == size
        return
    with pytest.raises(abctree.ParameterError, match="keep_summaries=True"):
        posterior.adjusted()
    kept = abctree.abc_tree(made, n_simulations=1500, rng=0, proposal="boxes", keep_summaries=True)
    assert kept.posterior(ess=200.0).adjusted().is_adjusted


# What the dry run times, and where warnings point ---------------------------------------------


class CompilesFirst:
    """Takes long when it is first called, as what is compiled then."""

    is_compiled = False

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, theta, rng_or_seeds):
        if not self.is_compiled:
            time.sleep(self.seconds)
        self.is_compiled = True
        seed = getattr(rng_or_seeds, "normal", lambda size: rng_or_seeds[:, None] % 97 / 97.0)
        return theta + seed(size=theta.shape)


@pytest.mark.parametrize("vectorized", [False, True, "seeds"])
def test_check_does_not_count_the_first_call_which_may_compile(vectorized):
    # More than once, for a busy machine may be slow at any call.
    for _ in range(5):
        made = abctree.Problem(PRIOR, CompilesFirst(0.3), [0.5], vectorized=vectorized)
        report = made.check(1)
        if report.seconds < 0.03:  # a tenth of what compiling took: the mean of ten calls
            break
    assert report.seconds < 0.03
    assert "the first call took" in str(report)
    # The twin: now it is compiled.
    assert any("the first call took" not in str(made.check(1)) for _ in range(5))


def test_check_counts_what_every_call_takes():
    def slow(theta, rng):
        time.sleep(0.004)
        return theta + rng.normal(size=1)

    assert 0.004 < abctree.Problem(PRIOR, slow, [0.5]).check(1).seconds < 0.3


def constant_beside(theta, rng):
    return np.array([theta[0] + rng.normal(), 7.0])


@pytest.mark.parametrize(
    "warned",
    [
        lambda p: abctree.abc_tree(p, n_simulations=100, rng=1),
        lambda p: abctree.rejection(p, n_simulations=100, rng=1),
        lambda p: abctree.smc(p, n_simulations=100, rng=1),
        lambda p: p.check(1),
        lambda p: p.distance.fitted(np.ones((9, 2))),
        lambda p: abctree.abc_tree(problems.gauss(2), n_simulations=99, rng=1).posterior(ess=1e6),
        lambda p: abctree.abc_tree(problems.gauss(2), n_simulations=99, rng=1).posterior(1e-9),
        lambda p: abctree.rejection(problems.gauss(2), n_simulations=1, rng=1).answer(),
    ],
)
def test_warnings_point_at_the_line_of_the_user(warned):
    p = abctree.Problem(PRIOR, constant_beside, [0.5, 7.0], distance="std")
    with pytest.warns(abctree.AbctreeWarning) as caught:
        warned(p)
    assert {w.filename for w in caught} == {__file__}


# The stream of a simulation ---------------------------------------------------------------------


def stream(index):
    return np.random.Generator(np.random.Philox(key=np.array([5, index], dtype=np.uint64)))


def simulated(simulate, n=40):
    made = abctree.Problem(PRIOR, simulate, 0.0)
    return made.simulate(np.zeros((n, 1)), np.arange(n), 5).summary


def test_a_simulation_draws_from_the_stream_of_its_number():
    def simulate(theta, rng):  # whole numbers of 32 bits leave the other half for the next
        return rng.normal() + rng.integers(100, dtype=np.uint32)

    np.testing.assert_array_equal(
        simulated(simulate), [simulate(None, stream(i)) for i in range(40)]
    )


@pytest.mark.parametrize(
    "kept",
    [
        lambda rng: rng,
        lambda rng: np.random.Generator(rng.bit_generator),
        lambda rng: [rng.random],
        lambda rng: (value for value in [rng] * 3),
    ],
    ids=["itself", "its bits", "a method", "a frame"],
)
def test_a_generator_that_a_simulator_keeps_goes_on_by_itself(kept, monkeypatch):
    def drawn(what):
        what = what[0]() if isinstance(what, list) else what
        what = next(what) if not isinstance(what, float | np.random.Generator) else what
        return what if isinstance(what, float) else what.random()

    def simulate(theta, rng):
        held.append(kept(rng))
        return drawn(held[len(held) // 2])

    def expected(n):
        own = [stream(i) for i in range(n)]
        return [own[(i + 1) // 2].random() for i in range(n)]

    held = []
    np.testing.assert_array_equal(simulated(simulate), expected(40))
    # The twin that must fail: who holds it is not asked.
    monkeypatch.setattr("abctree.streams.Generators._references", lambda *_: 0)
    held.clear()
    assert (simulated(simulate) != expected(40)).any()


def test_a_generator_that_nobody_keeps_serves_again():
    """To make one takes longer than many a simulation."""
    which = []
    simulated(lambda theta, rng: which.append(id(rng)) or 0.0)
    assert len(which) == 40
    assert len(set(which)) == 1


def test_the_seed_sequence_of_a_generator_tells_its_key_and_that_of_no_other():
    def simulate(theta, rng):
        seeds.append(rng.bit_generator.seed_seq)
        return 0.0

    seeds = []
    simulated(simulate)
    assert [tuple(s.generate_state(2)) for s in seeds] == [(5, i) for i in range(40)]


def test_a_simulator_may_spawn_generators_of_its_own():
    def simulate(theta, rng):
        first, second = rng.spawn(2)
        (third,) = rng.spawn(1)
        return [first.normal(), second.normal(), third.normal(), rng.normal()]

    made = abctree.Problem(PRIOR, simulate, [0.0] * 4)
    together = made.simulate(np.zeros((40, 1)), np.arange(40), 5).summary
    assert len(np.unique(together)) == together.size == 160
    alone = made.simulate(np.zeros((1, 1)), np.array([17]), 5).summary  # as in another process
    np.testing.assert_array_equal(alone, together[17:18])
