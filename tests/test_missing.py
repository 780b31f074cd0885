"""Missing values of the observation: refused with the remedy, or left out of every distance."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import abctree
from abctree import distances

PRIOR = {"a": (-5.0, 5.0)}
SCALES = np.array([1.0, 2.0, 3.0, 4.0])
FULL = np.array([1.0, 2.0, 3.0, 4.0])
GONE = 2  #: the entry that is missing
KEPT = [0, 1, 3]


def module(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")


def nan():
    return np.where(np.arange(4) == GONE, np.nan, FULL)


def masked():
    return np.ma.array(FULL, mask=np.arange(4) == GONE)


def none():
    return np.array([1.0, 2.0, None, 4.0], dtype=object)


def listed():
    return [1.0, 2.0, None, 4.0]


def na():
    return module("pandas").array([1.0, 2.0, None, 4.0], dtype="Float64")


def series():
    pd = module("pandas")
    return pd.Series([1, 2, pd.NA, 4], index=[*"abcd"], dtype="Int64")


def nat():
    pd = module("pandas")
    return np.array([1.0, 2.0, pd.NaT, 4.0], dtype=object)


def data_array():
    return module("xarray").DataArray(nan(), dims="x", coords={"x": [*"abcd"]})


def held():
    return dict(zip("abcd", nan().tolist(), strict=True))


def held_none():
    return {**held(), "c": None}


OBSERVED = [nan, masked, none, listed, na, series, nat, data_array, held, held_none]


def simulate(theta, rng):
    return theta[0] * SCALES + 0.1 * rng.normal(size=4)


def broken(theta, rng, bad=(GONE,)):
    """nan where the observation has nothing."""
    x = simulate(theta, rng)
    x[list(bad)] = np.nan
    return x


def posterior(problem, n=1000, **kwargs):
    return abctree.rejection(problem, n_simulations=n, keep=30, rng=1, **kwargs)


@pytest.mark.parametrize("make", OBSERVED)
def test_missing_values_are_refused_with_the_remedy(make):
    with pytest.raises(abctree.ParameterError, match="1 of its values is missing") as caught:
        abctree.Problem(PRIOR, simulate, make())
    assert 'Write missing="ignore"' in str(caught.value)
    assert "summary" not in str(caught.value)


@pytest.mark.parametrize("make", OBSERVED)
@pytest.mark.parametrize("simulator", [simulate, broken])
def test_missing_values_are_left_out(make, simulator):
    made = abctree.Problem(PRIOR, simulator, make(), missing="ignore")
    np.testing.assert_array_equal(made.observed_summary, FULL[KEPT])
    result = posterior(made, 200)
    assert result.failures.count == 0
    # It is the run in which nobody spoke of the entry.
    without = abctree.Problem(PRIOR, lambda t, r: simulate(t, r)[KEPT], FULL[KEPT])
    np.testing.assert_array_equal(posterior(without, 200).table.distance, result.table.distance)


def test_nan_elsewhere_stays_a_failure():
    half = partial(broken, bad=(1,))
    made = abctree.Problem(
        PRIOR, lambda t, r: (broken if t[0] > 0 else half)(t, r), nan(), missing="ignore"
    )
    result = posterior(made)
    assert 300 < result.failures.count < 700
    assert [*result.failures.reasons] == ["simulator returned nan or inf"]
    for number in (np.inf, -np.inf):
        with pytest.raises(abctree.ParameterError, match="are inf"):
            abctree.Problem(PRIOR, simulate, [1.0, np.nan, number, 4.0], missing="ignore")


def test_nothing_is_left_out_where_nothing_is_missing():
    for missing in ("refuse", "ignore", "summary"):
        made = abctree.Problem(PRIOR, simulate, FULL, missing=missing)
        assert made.shape == (4,)
        assert made.model.form is None
    with pytest.raises(abctree.ParameterError, match="all of it is missing"):
        abctree.Problem(PRIOR, simulate, [np.nan] * 4, missing="ignore")
    with pytest.raises(abctree.ParameterError, match='`missing` must be "refuse", '):
        abctree.Problem(PRIOR, simulate, FULL, missing="drop")


# Distances --------------------------------------------------------------------------------------

COV = np.array([[2.0, 0.5, 0.3, 0.1], [0.5, 1.0, 0.2, 0.4], [0.3, 0.2, 3.0, 0.6],
                [0.1, 0.4, 0.6, 1.5]])  # fmt: skip
LIBRARY = {
    **{name: name for name in (
        "euclidean", "manhattan", "chebyshev", "mad", "std", "mahalanobis", "energy", "wasserstein"
    )},
    "scaled": distances.Scaled(scale=[1.0, 2.0, 50.0, 4.0]),
    "cov": distances.Mahalanobis(COV),
}  # fmt: skip
WITHOUT = {
    **LIBRARY,
    "scaled": distances.Scaled(scale=[1.0, 2.0, 4.0]),
    "cov": distances.Mahalanobis(COV[np.ix_(KEPT, KEPT)]),
}


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_no_distance_of_the_library_sees_what_is_missing(name, shape):
    def shaped(theta, rng):
        return broken(theta, rng).reshape(shape)

    observed = nan().reshape(shape)
    if len(shape) == 2 and name in ("energy", "wasserstein"):
        with pytest.raises(abctree.ParameterError, match="`observed` must have whole rows for"):
            abctree.Problem(PRIOR, shaped, observed, missing="ignore", distance=LIBRARY[name])
        return
    made = abctree.Problem(PRIOR, shaped, observed, missing="ignore", distance=LIBRARY[name])
    without = abctree.Problem(
        PRIOR, lambda t, r: simulate(t, r)[KEPT], FULL[KEPT], distance=WITHOUT[name]
    )
    a, b = posterior(made, 200), posterior(without, 200)
    assert a.failures.count == 0
    np.testing.assert_array_equal(a.table.distance, b.table.distance)


@pytest.mark.parametrize("name", ["energy", "wasserstein", "mad"])
def test_whole_rows_that_are_missing_leave_rows(name):
    def rows(theta, rng):
        return theta[0] + rng.normal(size=(5, 2))

    observed = np.arange(10.0).reshape(5, 2)
    gone = observed.copy()
    gone[[1, 4]] = np.nan
    made = abctree.Problem(PRIOR, rows, gone, missing="ignore", distance=name)
    assert made.shape == (3, 2)
    without = abctree.Problem(
        PRIOR, lambda t, r: rows(t, r)[[0, 2, 3]], observed[[0, 2, 3]], distance=name
    )
    a, b = posterior(made, 300), posterior(without, 300)
    np.testing.assert_array_equal(a.table.distance, b.table.distance)


@pytest.mark.parametrize("vectorized", [False, True])
def test_distance_of_the_users_own_is_given_the_observed_entries_only(vectorized):
    seen = set()

    def mine(s, o):
        seen.add((s.shape[vectorized:], o.shape))
        assert np.isfinite(o).all()
        return np.abs(s - o).max(axis=-1)

    def several(theta, rng):
        return np.stack([broken(row, rng).reshape(2, 2) for row in theta])

    def one(theta, rng):
        return broken(theta, rng).reshape(2, 2)

    made = abctree.Problem(
        PRIOR, several if vectorized else one, nan().reshape(2, 2), missing="ignore",
        distance=mine, vectorized=vectorized,
    )  # fmt: skip
    assert posterior(made).failures.count == 0
    assert seen == {((3,), (3,))}


# Summaries --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", OBSERVED)
def test_missing_values_are_refused_although_a_summary_may_overlook_them(make):
    with pytest.raises(abctree.ParameterError, match='missing="ignore"') as caught:
        abctree.Problem(PRIOR, simulate, make(), summary=lambda x: 1.0)
    assert "The summary then sees nan at the same places of every simulation" in str(caught.value)
    assert 'with missing="summary"' in str(caught.value)


def values(data):
    return [*data.values()] if isinstance(data, dict) else np.asarray(data, dtype=float)


@pytest.mark.parametrize("make", [nan, masked, none, listed, data_array, held])
def test_a_summary_sees_the_same_entries_of_both(make):
    """A sum of what is there: of simulations that are whole it would be another sum."""
    seen = []

    def total(data):
        seen.append(np.isnan(values(data)))
        return np.nansum(values(data))

    kind = dict if make is held else list
    made = abctree.Problem(
        PRIOR,
        lambda t, r: dict(zip("abcd", simulate(t, r), strict=True)) if kind is dict
        else simulate(t, r),
        make(), summary=total, missing="ignore",
    )  # fmt: skip
    assert made.observed_summary == 7.0
    assert abs(posterior(made).posterior().mean()[0] - 1.0) < 0.05
    assert all((gone == [False, False, True, False]).all() for gone in seen)
    # The twin: applied to the data as they are.
    if make is nan:
        other = abctree.Problem(PRIOR, simulate, nan(), summary=np.nansum, missing="summary")
        assert abs(posterior(other).posterior().mean()[0] - 0.7) < 0.05


def test_a_summary_sees_nan_for_a_field_that_is_none():
    made = abctree.Problem(
        PRIOR, lambda t, r: {"b": t[0], "a": 2.0 * t[0]}, {"a": 1.0, "b": None},
        summary=lambda data: np.nansum([data["a"], data["b"]]), missing="ignore",
    )  # fmt: skip
    assert made.observed_summary == 1.0
    assert made.simulate(np.full((1, 1), 3.0), np.arange(1), 1).summary == 6.0


def test_summaries_that_are_nan_for_the_observation_are_left_out():
    def halves(x):
        return x[:2].sum(), x[2:].sum()

    made = abctree.Problem(PRIOR, simulate, nan(), summary=halves, missing="ignore")
    np.testing.assert_array_equal(made.observed_summary, [3.0])
    result = posterior(made)
    assert result.failures.count == 0
    assert abs(result.posterior().mean()[0] - 1.0) < 0.1
    with pytest.raises(abctree.ParameterError, match=r"such as np\.nanmean"):
        abctree.Problem(PRIOR, simulate, nan(), summary=np.sum, missing="ignore")


def test_a_table_with_gaps_is_summarised_like_one_without():
    pd = module("pandas")
    observed = pd.DataFrame({"x": [1.0, None, 3.0], "y": [2.0, 4.0, None]}, index=[*"abc"])

    def reversed_rows(theta, rng):
        made = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, 4.0, 6.0]}, index=[*"abc"])
        return (theta[0] * made).loc[[*"cab"], ["y", "x"]]

    made = abctree.Problem(
        PRIOR, reversed_rows, observed, summary=lambda d: d.mean(), missing="ignore"
    )
    np.testing.assert_array_equal(made.observed_summary, [2.0, 3.0])
    assert made.simulate(np.array([[1.0]]), np.array([0]), 1).summary.tolist() == [[2.0, 3.0]]
    # The twin: of the whole table the means would be 2 and 4.
    assert reversed_rows([1.0], None).mean().tolist() == [4.0, 2.0]


def test_data_of_another_shape_cannot_be_given_the_gaps():
    made = abctree.Problem(
        PRIOR, lambda t, r: r.normal(size=5), nan(), summary=np.nanmean, missing="ignore"
    )
    with pytest.raises(abctree.SimulatorError, match=r"returned shape \(5,\), but the observation"):
        made.check()


@pytest.mark.parametrize("call", [True, "seeds"])
@pytest.mark.parametrize("summary", [None, lambda x: np.nancumsum(x, axis=1)])
def test_batches_have_the_same_gaps(call, summary):
    def several(theta, rng):
        return theta * SCALES

    made = abctree.Problem(
        PRIOR, several, nan(), summary=summary, vectorized=call, missing="ignore"
    )
    simulated = made.simulate(np.ones((3, 1)), np.arange(3), 1)
    assert simulated.failures == ()
    np.testing.assert_array_equal(simulated.summary, np.tile(made.observed_summary, (3, 1)))


# Elsewhere --------------------------------------------------------------------------------------


def test_missing_values_hold_after_a_resume_and_for_what_is_told(tmp_path):
    made = abctree.Problem(PRIOR, broken, nan(), missing="ignore", distance="mad")
    whole = abctree.abc_tree(made, n_simulations=200, rng=1)
    abctree.abc_tree(made, n_simulations=200, rng=1, store=tmp_path, stop={"rounds": 1})
    resumed = abctree.resume(tmp_path, made, stop=())
    elsewhere = abctree.Problem(PRIOR, abctree.elsewhere, nan(), missing="ignore", distance="mad")
    for what in ("data", "summaries"):
        session = abctree.Session(elsewhere, n_simulations=200, rng=1)
        while not session.done:
            ask = session.ask()
            told = [broken(theta, ask.rng(i)) for i, theta in enumerate(ask.theta)]
            session.tell(ask.numbers, **{what: told})
        for result in (resumed, session.result()):
            np.testing.assert_array_equal(result.table.distance, whole.table.distance)
    # Another entry that is missing is another observation, though the numbers be the same.
    other = abctree.Problem(
        PRIOR, broken, [1.0, np.nan, 2.0, 4.0], missing="ignore", distance="mad"
    )
    with pytest.raises(abctree.ParameterError, match="must have the observation of the run"):
        abctree.resume(tmp_path, other)


def test_dry_run_says_what_is_left_out():
    made = abctree.Problem(PRIOR, simulate, nan(), missing="ignore")
    assert "1 of 4 numbers of the observation is missing and left out" in str(made.check(1))
    assert "missing" not in str(abctree.Problem(PRIOR, simulate, FULL).check(1))


def flat():
    return nan().reshape(2, 2)


def fields():
    return {"x": 1.0, "y": [2.0, np.nan, 4.0]}


def table_of_pandas():
    pd = module("pandas")
    return pd.DataFrame(nan().reshape(2, 2), index=["Jan", "Feb"], columns=["in", "out"])


@pytest.mark.parametrize(
    ("observed", "names"),
    [
        (nan, ("0", "1", "3")),
        (listed, ("0", "1", "3")),
        (series, ("a", "b", "d")),
        (data_array, ("a", "b", "d")),
        (held, ("a", "b", "d")),
        (flat, ("[0, 0]", "[0, 1]", "[1, 1]")),
        (fields, ("x", "y[0]", "y[2]")),
        (table_of_pandas, ("[Jan, in]", "[Jan, out]", "[Feb, out]")),
    ],
)
def test_summaries_are_named_as_in_the_data_of_which_some_are_missing(observed, names):
    made = observed()

    def noisy(theta, rng):
        numbers = FULL + theta[0] + rng.normal(size=4)
        numbers[3] -= 30.0
        if isinstance(made, dict) and len(made) == 2:
            return {"x": numbers[0], "y": numbers[1:]}
        return numbers.reshape(np.shape(made) or 4)

    if isinstance(made, dict) and len(made) == 4:
        simulator = lambda t, r: dict(zip("abcd", noisy(t, r), strict=True))  # noqa: E731
    else:
        simulator = noisy
    problem = abctree.Problem(PRIOR, simulator, made, missing="ignore")
    found = abctree.abc_tree(problem, n_simulations=600, rng=1, proposal="boxes").fit()
    assert found.names == names
    assert found.worst[0] == 2
    assert f"as a rule: {names[2]} (+" in str(found)
    assert f"worst={names[2]}" in repr(found)


@pytest.mark.parametrize(
    ("observed", "distance", "says"),
    [
        (nan, "mad", r"summary 3 \(counting from 0\): never varies"),
        (series, "std", "summary d: never varies"),
        (fields, {"x": "mad", "y": "mad"}, r"summary y\[2\]: never varies"),
    ],
)
def test_what_never_varies_is_named_as_in_the_data_of_which_some_are_missing(
    observed, distance, says
):
    made = observed()

    def fixed(theta, rng):
        numbers = np.append(FULL[:3] + theta[0] + rng.normal(size=3), 4.0)
        return {"x": numbers[0], "y": numbers[1:]} if isinstance(made, dict) else numbers

    problem = abctree.Problem(PRIOR, fixed, made, missing="ignore", distance=distance)
    with pytest.warns(abctree.AbctreeWarning, match=says):
        abctree.rejection(problem, n_simulations=100, rng=1)


def test_a_data_set_that_never_varies_is_named():
    problem = abctree.Problem(
        PRIOR, lambda t, r: {"x": t[0], "y": [1.0, 2.0]}, {"x": 0.5, "y": [1.0, 2.0]},
        distance={"x": "mad", "y": "euclidean"},
    )  # fmt: skip
    with pytest.warns(abctree.AbctreeWarning, match="summary y: never varies"):
        abctree.rejection(problem, n_simulations=100, rng=1)
