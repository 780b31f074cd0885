"""Distances: closed forms, invariances, and rows that fail alone."""

from __future__ import annotations

import functools
import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

import abctree
from abctree import AbctreeWarning, ParameterError, SimulatorError
from abctree.distances import (
    Energy,
    Euclidean,
    FunctionDistance,
    Mahalanobis,
    Minkowski,
    Scaled,
    Wasserstein,
)

VECTOR = [
    Euclidean(),
    Minkowski(1.0),
    Minkowski(3.0),
    Minkowski(np.inf),
    Scaled("mad", scale=np.array([1.0, 2.0, 3.0])),
    Mahalanobis(np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.1], [0.0, 0.1, 3.0]])),
]
SAMPLE = [Energy(), Wasserstein(), Wasserstein(2.0)]


def pilot(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)) @ np.array([[1, 0, 0], [0.5, 2, 0], [0.1, -1, 0.3]])


# Norms ------------------------------------------------------------------------------------------


def test_euclidean_is_the_hypotenuse():
    assert Euclidean()([[3.0, 4.0], [6.0, 9.0]], [0.0, 1.0]) == pytest.approx([18**0.5, 10.0])


def test_euclidean_flattens_arrays_and_takes_scalars():
    rng = np.random.default_rng(0)
    s, o = rng.normal(size=(7, 2, 3)), rng.normal(size=(2, 3))
    expected = [np.linalg.norm(row - o) for row in s]
    assert Euclidean()(s, o) == pytest.approx(expected)
    assert Euclidean()(np.array([1.0, -2.0]), 1.0) == pytest.approx([0.0, 3.0])


def test_distances_of_no_rows_are_empty():
    for distance in VECTOR:
        assert distance(np.empty((0, 3)), np.zeros(3)).shape == (0,)
    for distance in SAMPLE:
        assert distance(np.empty((0, 4)), np.zeros(3)).shape == (0,)
        assert distance(np.empty((0, 4, 2)), np.zeros((3, 2))).shape == (0,)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, np.inf])
def test_minkowski_is_the_p_norm(p):
    rng = np.random.default_rng(1)
    s, o = rng.normal(size=(20, 4)), rng.normal(size=4)
    metric = {"metric": "chebyshev"} if np.isinf(p) else {"metric": "minkowski", "p": p}
    assert Minkowski(p)(s, o) == pytest.approx(cdist(s, o[None], **metric)[:, 0])


def test_minkowski_does_not_overflow_at_a_high_power():
    assert Minkowski(50.0)([[1e10, 1e9], [0.0, 0.0]], [0.0, 0.0]) == pytest.approx([1e10, 0.0])


@pytest.mark.parametrize("p", [0.5, np.nan, -1.0])
def test_minkowski_refuses_an_order_below_one(p):
    with pytest.raises(ParameterError, match="`p` must be at least 1"):
        Minkowski(p)


@pytest.mark.parametrize("distance", VECTOR, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vector_distance_spoils_only_the_row_that_is_not_finite(distance, bad):
    s = pilot(10)
    clean = distance(s, np.zeros(3))
    broken = s.copy()
    broken[4, 1] = bad
    answer = distance(broken, np.zeros(3))
    assert not np.isfinite(answer[4])
    others = np.delete(np.arange(10), 4)
    assert answer[others] == pytest.approx(clean[others], rel=1e-14)


@pytest.mark.parametrize("m", [1, 3, 7, 8, 20])
@pytest.mark.parametrize("distance", [Euclidean(), Minkowski(1.0), Scaled(scale=[0.3])], ids=repr)
def test_distance_of_a_row_does_not_depend_on_the_rows_beside_it(distance, m):
    if isinstance(distance, Scaled):
        distance = Scaled(scale=np.linspace(0.1, 3.0, m))
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, m)), rng.normal(size=m)
    alone = [distance(row[None], y)[0] for row in x]
    np.testing.assert_array_equal(distance(x, y), alone)


@pytest.mark.parametrize("m", [1, 3, 7, 8, 20, 20_000])
def test_euclidean_rounds_as_numpy_does(m):
    """In a worker without numba there is nothing else."""
    abctree.rejection(abctree.problems.gauss(1), n_simulations=100, rng=1)  # numba is loaded
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(1, m)), rng.normal(size=m)
    np.testing.assert_array_equal(Euclidean()(x, y), np.sqrt(np.einsum("ij,ij->i", x - y, x - y)))


def test_euclidean_is_silent_on_infinite_differences_and_overflow():
    s = np.array([[np.inf, 0.0], [1e300, 1e300], [1.0, 0.0]])
    answer = Euclidean()(s, np.array([np.inf, 0.0]))
    assert not np.isfinite(answer).any()
    assert Euclidean()(s, np.zeros(2))[1:] == pytest.approx([np.inf, 1.0])


@pytest.mark.parametrize("distance", VECTOR, ids=repr)
def test_vector_distance_names_the_shapes_that_disagree(distance):
    with pytest.raises(SimulatorError, match=r"shape \(n, 3\).*\(5, 2\)"):
        distance(np.zeros((5, 2)), np.zeros(3))


# Scaled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["mad", "std"])
def test_scaled_does_not_change_with_the_units(by):
    s, unit = pilot(), np.array([1e-13, 1.0, 1e9])
    observed = np.array([0.3, -1.0, 0.2])
    plain = Scaled(by).fitted(s)(s, observed)
    assert Scaled(by).fitted(s * unit)(s * unit, observed * unit) == pytest.approx(plain)
    # The twin: an unscaled distance does change.
    assert Euclidean()(s * unit, observed * unit) != pytest.approx(
        Euclidean()(s, observed), rel=0.1
    )


def test_scaled_mad_is_the_sd_of_normal_summaries():
    s = np.random.default_rng(2).normal(scale=[1.0, 5.0], size=(100_000, 2))
    # sd of the MAD estimate is 1.17 sd / sqrt(n)
    assert Scaled("mad").fitted(s).scale == pytest.approx([1.0, 5.0], rel=4 * 1.17 / 100_000**0.5)


def test_scaled_mad_withstands_wild_simulations_and_std_does_not():
    s = pilot()
    wild = s.copy()
    wild[:5] *= 1e6
    mad, std = Scaled("mad"), Scaled("std")
    assert mad.fitted(wild).scale == pytest.approx(mad.fitted(s).scale, rel=0.05)
    assert std.fitted(wild).scale != pytest.approx(std.fitted(s).scale, rel=0.05)


def test_scaled_ignores_rows_that_are_not_finite():
    s = pilot()
    broken = np.concatenate([s, [[np.nan, 0, 0], [0, np.inf, 0]]])
    for by in ("mad", "std"):
        assert Scaled(by).fitted(broken).scale == pytest.approx(Scaled(by).fitted(s).scale)


def test_scaled_names_a_summary_that_never_varies():
    s = pilot()
    s[:, 1] = 0.1
    with pytest.warns(AbctreeWarning, match=r"summary 1 \(counting from 0\): never varies"):
        fitted = Scaled("std").fitted(s)
    assert fitted.scale[1] == 1.0
    assert fitted.scale[[0, 2]] == pytest.approx(s[:, [0, 2]].std(axis=0))


def test_scaled_uses_the_sd_where_most_values_are_equal():
    s = pilot()
    s[:400, 2] = 0.0
    with pytest.warns(AbctreeWarning, match=r"summary 2 .*more than half"):
        fitted = Scaled("mad").fitted(s)
    assert fitted.scale[2] == pytest.approx(s[:, 2].std())


def test_scaled_takes_any_order_and_shape():
    s = pilot(60).reshape(20, 3, 3)
    fitted = Scaled("std", p=1.0).fitted(s)
    expected = (np.abs(s - s[0]) / s.std(axis=0)).sum(axis=(1, 2))
    assert fitted(s, s[0]) == pytest.approx(expected)


@pytest.mark.parametrize("distance", [Scaled("mad"), Scaled("std"), Mahalanobis()])
def test_fitted_distance_refuses_to_work_unfitted_or_on_failures_only(distance):
    assert not distance.is_fitted
    with pytest.raises(ParameterError, match="fitted before use"):
        distance(pilot(5), np.zeros(3))
    with pytest.raises(SimulatorError, match="finite summaries"):
        distance.fitted(np.full((5, 3), np.nan))
    fitted = distance.fitted(pilot())
    assert fitted.is_fitted
    assert fitted.fitted(100 * pilot()) is fitted  # never recalibrated
    with pytest.raises(SimulatorError, match="scaled for 3 summaries, but got 2"):
        fitted(np.zeros((4, 2)), np.zeros(2))


def test_scaled_refuses_bad_settings():
    with pytest.raises(ParameterError, match="`by` must be"):
        Scaled("iqr")
    with pytest.raises(ParameterError, match="`scale` must be positive"):
        Scaled(scale=np.array([1.0, 0.0]))


# Mahalanobis ------------------------------------------------------------------------------------


def test_mahalanobis_is_the_quadratic_form():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    s, o = np.random.default_rng(3).normal(size=(9, 2)), np.array([0.1, 0.2])
    expected = [np.sqrt((r - o) @ np.linalg.inv(cov) @ (r - o)) for r in s]
    assert Mahalanobis(cov)(s, o) == pytest.approx(expected)


def test_mahalanobis_does_not_change_under_a_linear_map():
    s, o = pilot(), np.array([0.3, -1.0, 0.2])
    mix = np.array([[1e-6, 0.0, 3e-6], [0.0, 1e5, -2e5], [1.0, 1.0, 2.0]]).T
    plain = Mahalanobis().fitted(s)(s, o)
    assert Mahalanobis().fitted(s @ mix)(s @ mix, o @ mix) == pytest.approx(plain, rel=1e-4)
    # The twin: scaling alone is not enough.
    scaled = Scaled("std")
    assert scaled.fitted(s @ mix)(s @ mix, o @ mix) != pytest.approx(
        scaled.fitted(s)(s, o), rel=0.1
    )


def test_mahalanobis_is_chi_squared_on_normal_summaries():
    s = pilot(20_000, seed=4)
    squared = Mahalanobis().fitted(s)(s, s.mean(axis=0)) ** 2
    assert stats.kstest(squared, "chi2", args=(3,)).pvalue > 1e-3
    assert stats.kstest(squared, "chi2", args=(2,)).pvalue < 1e-6


def test_mahalanobis_ignores_directions_that_the_covariance_does_not_know():
    s = pilot()[:, :2]
    dependent = np.column_stack([s, s.sum(axis=1)])
    with pytest.warns(AbctreeWarning, match="numerical rank 2"):
        fitted = Mahalanobis().fitted(dependent)
    expected = Mahalanobis().fitted(s)(s, np.zeros(2))
    assert fitted(dependent, np.zeros(3)) == pytest.approx(expected, rel=1e-6)


def test_mahalanobis_gives_variance_one_to_a_summary_that_never_varies():
    s = pilot()
    s[:, 2] = 7.0
    with pytest.warns(AbctreeWarning, match="summary 2 .*never varies"):
        fitted = Mahalanobis().fitted(s)
    assert fitted([[0.0, 0.0, 9.0]], [0.0, 0.0, 7.0]) == pytest.approx([2.0])


@pytest.mark.parametrize(
    ("cov", "rule"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (np.array([[0.0, 0.0], [0.0, 1.0]]), "positive variances"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "negative eigenvalues"),
    ],
)
def test_mahalanobis_refuses_what_is_no_covariance(cov, rule):
    with pytest.raises(ParameterError, match=rule):
        Mahalanobis(cov)


# Samples ----------------------------------------------------------------------------------------


def test_energy_agrees_with_scipy_on_samples_of_different_sizes():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(6, 11)), rng.normal(0.5, 2.0, size=17)
    assert Energy()(x, y) == pytest.approx([stats.energy_distance(row, y) for row in x])


def test_energy_of_two_points_is_the_root_of_twice_their_distance():
    x, y = np.array([[[3.0, 4.0]]]), np.array([[0.0, 0.0]])
    assert Energy()(x, y) == pytest.approx([np.sqrt(2 * 5.0)])


def test_energy_of_vectors_on_a_line_is_that_of_numbers():
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(4, 9)), rng.normal(size=7)
    u = np.array([0.6, 0.0, 0.8])
    assert Energy()(x[:, :, None] * u, y[:, None] * u) == pytest.approx(Energy()(x, y))


def test_wasserstein_agrees_with_scipy_on_samples_of_different_sizes():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(6, 12)), rng.normal(0.5, 2.0, size=18)
    assert Wasserstein()(x, y) == pytest.approx([stats.wasserstein_distance(r, y) for r in x])


def test_wasserstein_of_order_two_is_the_distance_of_sorted_values():
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(5, 10)), rng.normal(size=10)
    expected = np.sqrt(np.mean((np.sort(x, axis=1) - np.sort(y)) ** 2, axis=1))
    assert Wasserstein(2.0)(x, y) == pytest.approx(expected)
    # Each observation twice is the same law.
    assert Wasserstein(2.0)(x, np.repeat(y, 2)) == pytest.approx(expected)


def test_sliced_wasserstein_of_a_shift_is_its_mean_projection():
    rng = np.random.default_rng(9)
    y, shift = rng.normal(size=(15, 2)), np.array([3.0, -4.0])
    distance = Wasserstein(1.0, n_directions=4000)
    answer = distance((y + shift)[None], y)[0]
    # E|u . c| = 2 |c| / pi on the circle; sd of |cos| is .308
    assert answer == pytest.approx(5.0 * 2.0 / np.pi, abs=4 * 5.0 * 0.308 / 4000**0.5)
    assert distance((y + shift)[None], y)[0] == answer  # the directions are fixed


@pytest.mark.parametrize("distance", SAMPLE, ids=repr)
@pytest.mark.parametrize("shape", [(12,), (12, 2)])
def test_sample_distance_ignores_the_order_of_observations(distance, shape):
    rng = np.random.default_rng(10)
    x, y = rng.normal(size=(3, *shape)), rng.normal(size=shape)
    order = rng.permutation(12)
    assert distance(x[:, order], y) == pytest.approx(distance(x, y))
    assert distance(y[order][None], y) == pytest.approx([0.0], abs=1e-7)
    assert (distance(x, y) > 0.05).all()
    # The twin: a distance of vectors does not.
    assert Euclidean()(x[:, order], y) != pytest.approx(Euclidean()(x, y), rel=1e-3)


@pytest.mark.parametrize("distance", SAMPLE, ids=repr)
@pytest.mark.parametrize("shape", [(12,), (12, 2)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_sample_distance_spoils_only_the_row_that_is_not_finite(distance, shape, bad):
    rng = np.random.default_rng(11)
    x, y = rng.normal(size=(3, *shape)), rng.normal(size=shape)
    clean = distance(x, y)
    x[1, 3:5] = bad
    answer = distance(x, y)
    assert not np.isfinite(answer[1])
    assert answer[[0, 2]] == pytest.approx(clean[[0, 2]])


@pytest.mark.parametrize("distance", SAMPLE, ids=repr)
def test_sample_distance_names_the_shapes_that_disagree(distance):
    with pytest.raises(SimulatorError, match=r"\(4, 5, 2\) and \(6, 3\)"):
        distance(np.zeros((4, 5, 2)), np.zeros((6, 3)))
    with pytest.raises(SimulatorError, match="none of them empty"):
        distance(np.zeros((4, 0)), np.zeros(3))


def test_wasserstein_refuses_bad_settings():
    with pytest.raises(ParameterError, match=r"`p` must be in \[1, inf\), but got inf"):
        Wasserstein(np.inf)
    with pytest.raises(ParameterError, match="`n_directions` must be a whole number of at least 1"):
        Wasserstein(n_directions=0)


# Names and functions ----------------------------------------------------------------------------


def absolute(s, o):
    return np.abs(s - o).sum()


def as_distance(spec, **given):
    return abctree.Problem({"a": (0.0, 1.0)}, max, np.zeros(3), distance=spec, **given).distance


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("euclidean", Euclidean),
        ("manhattan", Minkowski),
        ("chebyshev", Minkowski),
        ("mad", Scaled),
        ("std", Scaled),
        ("mahalanobis", Mahalanobis),
        ("energy", Energy),
        ("wasserstein", Wasserstein),
    ],
)
def test_as_distance_knows_names_and_pickles(name, kind):
    distance = as_distance(name)
    assert isinstance(distance, kind)
    copy = pickle.loads(pickle.dumps(distance))
    assert isinstance(copy, kind)
    assert as_distance(distance) is distance


def test_as_distance_names_mean_what_they_say():
    s, o = np.array([[3.0, -4.0]]), np.zeros(2)
    for name, expected in (("euclidean", 5.0), ("manhattan", 7.0), ("chebyshev", 4.0)):
        assert as_distance(name)(s, o) == pytest.approx([expected])
    assert as_distance("std").by == "std"
    assert as_distance("mad").by == "mad"


def test_fitted_distances_give_the_same_after_a_pickle():
    s = pilot()
    for name in ("mad", "mahalanobis"):
        fitted = as_distance(name).fitted(s)
        assert np.array_equal(pickle.loads(pickle.dumps(fitted))(s, s[0]), fitted(s, s[0]))


def test_as_distance_takes_functions_of_one_pair_or_of_a_batch():
    s, o = pilot(6), np.ones(3)
    expected = Minkowski(1.0)(s, o)
    one = as_distance(absolute)
    assert isinstance(one, FunctionDistance)
    assert one(s, o) == pytest.approx(expected)
    assert as_distance(functools.partial(absolute))(s, o) == pytest.approx(expected)
    batch = as_distance(lambda s, o: np.abs(s - o).sum(axis=1), vectorized=True)
    assert batch(s, o) == pytest.approx(expected)


def test_as_distance_returns_a_callable_object_as_it_is():
    class Mine:
        def __call__(self, simulated, observed):
            return np.zeros(len(simulated))

    mine = Mine()
    assert as_distance(mine) is mine


def test_function_distance_shows_a_wrong_shape():
    with pytest.raises(SimulatorError, match=r"returned shape \(\) for 6 simulations"):
        as_distance(absolute, vectorized=True)(pilot(6), np.zeros(3))
    with pytest.raises(SimulatorError, match=r"returned shape \(3,\) for one simulation"):
        as_distance(lambda s, o: s - o)(pilot(6), np.zeros(3))
    with pytest.raises(SimulatorError, match="must return numbers, but returned 'far'"):
        as_distance(lambda s, o: "far")(pilot(6), np.zeros(3))


@pytest.mark.parametrize("spec", ["euclid", 3, None, Euclidean])
def test_as_distance_refuses_what_is_no_distance(spec):
    with pytest.raises(ParameterError, match="`distance` must be"):
        as_distance(spec)


def test_fitting_good_pilots_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("mad", "std", "mahalanobis"):
            as_distance(name).fitted(pilot())


def in_place(simulated, observed):
    simulated -= observed
    return np.abs(simulated).max(axis=-1)


def pure(simulated, observed):
    return np.abs(simulated - observed).max(axis=-1)


class InPlace:
    def __call__(self, simulated, observed):
        return in_place(simulated, observed)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("distance", [in_place, InPlace()])
def test_a_distance_that_writes_into_what_it_is_given_changes_no_summary(distance, vectorized):
    def simulate(theta, rng):
        return theta + rng.normal(0.0, 0.1, theta.shape)

    prior = {"a": (0.0, 4.0), "b": (0.0, 4.0)}
    plain, other = (
        abctree.rejection(
            abctree.Problem(prior, simulate, [2.0, 3.0], distance=of, vectorized=vectorized),
            n_simulations=300,
            rng=1,
        )
        for of in (pure, distance)
    )
    np.testing.assert_array_equal(other.table.summary, plain.table.summary)
    np.testing.assert_array_equal(other.answer().theta, plain.answer().theta)
