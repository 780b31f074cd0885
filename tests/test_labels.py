"""Labels: simulations are put into the order of the observation, or refused."""

from __future__ import annotations

import importlib
import itertools
import pickle
from collections import namedtuple
from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest

import abctree

PRIOR = {"slope": (0.0, 2.0)}
YEARS = [2001, 2002, 2003, 2004]
X = np.arange(1.0, 5.0)
#: Two slopes: in another order they would be 0.65 and the like.
COLUMNS = {"up": X, "down": -2.0 * X}


def module(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")


# What a simulator may return, labelled ----------------------------------------------------------


def series(held):
    return module("pandas").Series(held)


def array(held):
    xr = module("xarray")
    return xr.DataArray([*held.values()], dims="year", coords={"year": [*held]})


def named(held):
    names = [f"y{name}" for name in held]
    return namedtuple("Years", names)(*held.values())  # noqa: PYI024 - names are known here only


def record(held):
    return make_dataclass("Years", [f"y{name}" for name in held])(*held.values())


def structured(held):
    made = np.zeros((), dtype=[(f"y{name}", float) for name in held])
    for name, value in held.items():
        made[f"y{name}"] = value
    return made


FLAT = {
    "Series": series, "DataArray": array, "dict": dict, "namedtuple": named,
    "dataclass": record, "structured": structured,
}  # fmt: skip


def by_year(theta, rng, years=YEARS):
    x = theta[0] * X + 0.1 * rng.normal(size=4)
    return {year: x[YEARS.index(year)] for year in years}


OBSERVED = {year: 1.0 * X[YEARS.index(year)] for year in reversed(YEARS)}


def slope(problem, **kwargs):
    result = abctree.rejection(problem, n_simulations=100, keep=6, rng=1, **kwargs)
    assert result.failures.count == 0, result.failures.reasons
    return float(result.posterior().mean()[0])


@pytest.mark.parametrize("kind", FLAT)
def test_labels_decide_and_not_positions(kind):
    make = FLAT[kind]
    made = abctree.Problem(PRIOR, lambda t, r: make(by_year(t, r)), make(OBSERVED))
    np.testing.assert_array_equal(made.observed_summary, [4.0, 3.0, 2.0, 1.0])
    assert abs(slope(made) - 1.0) < 0.1
    # The twins: arrays have positions only, and so has one side without labels.
    for observed, simulator in [
        ([4.0, 3.0, 2.0, 1.0], lambda t, r: [*by_year(t, r).values()]),
        (make(OBSERVED), lambda t, r: [*by_year(t, r).values()]),
    ]:
        assert abs(slope(abctree.Problem(PRIOR, simulator, observed)) - 0.65) < 0.1


@pytest.mark.parametrize(
    ("observed", "simulated"), [*itertools.permutations(["Series", "DataArray", "dict"], 2)]
)
def test_labels_of_different_kinds_are_the_same_labels(observed, simulated):
    make = FLAT[simulated]
    made = abctree.Problem(PRIOR, lambda t, r: make(by_year(t, r)), FLAT[observed](OBSERVED))
    assert abs(slope(made) - 1.0) < 0.1


def table(theta, rng, names=("up", "down"), years=YEARS):
    noise = 0.1 * rng.normal(size=(4, 2))
    held = {n: theta[0] * COLUMNS[n] + noise[:, i] for i, n in enumerate(("up", "down"))}
    rows = [YEARS.index(year) for year in years]
    return {name: held[name][rows] for name in names}


def frame(held, years=YEARS):
    return module("pandas").DataFrame(held, index=years)


def grid(held, years=YEARS):
    xr = module("xarray")
    made = xr.DataArray(
        [*held.values()], dims=("name", "year"), coords={"name": [*held], "year": years}
    )
    return made.transpose("year", "name") if [*held] == ["down", "up"] else made


def dataset(held, years=YEARS):
    xr = module("xarray")
    return xr.Dataset({n: ("year", v) for n, v in held.items()}, coords={"year": years})


def columns_of(held, years=YEARS):
    return {name: series(dict(zip(years, v, strict=True))) for name, v in held.items()}


def rows_of(held, years=YEARS):
    made = np.zeros(4, dtype=[(name, float) for name in held])
    for name, value in held.items():
        made[name] = value
    return made


def polars(held, years=YEARS):
    assert years == YEARS, "its rows have no labels"
    return module("polars").DataFrame(held)


def arrow(held, years=YEARS):
    assert years == YEARS, "its rows have no labels"
    return module("pyarrow").table(held)


TABLES = {"DataFrame": frame, "DataArray": grid, "Dataset": dataset, "dict of Series": columns_of}
UNNAMED_ROWS = {"structured": rows_of, "polars": polars, "pyarrow": arrow}


class Sure:
    """A generator without noise."""

    def normal(self, size):
        return np.zeros(size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TABLES)
def test_rows_and_columns_are_put_into_the_order_of_the_observation(kind):
    make, back = TABLES[kind], YEARS[::-1]
    observed = make(table([1.0], Sure(), ("down", "up"), back), back)
    made = abctree.Problem(PRIOR, lambda t, r: make(table(t, r)), observed)
    assert abs(slope(made) - 1.0) < 0.1
    # The twin: by position it would be another number.
    plain = abctree.Problem(
        PRIOR, lambda t, r: np.array([*table(t, r).values()]),
        np.array([*table([1.0], Sure(), ("down", "up"), back).values()]),
    )  # fmt: skip
    assert abs(slope(plain) - 1.0) > 0.3


@pytest.mark.parametrize("kind", UNNAMED_ROWS)
def test_columns_of_rows_without_labels_are_found_by_name(kind):
    make = UNNAMED_ROWS[kind]
    observed = make(table([1.0], Sure(), ("down", "up")))
    made = abctree.Problem(PRIOR, lambda t, r: make(table(t, r)), observed)
    assert made.shape == (4, 2)
    assert abs(slope(made) - 1.0) < 0.1


def test_levels_of_an_index_are_found_by_name():
    pd = module("pandas")
    pairs = pd.MultiIndex.from_product([[1, 2], [1, 2]], names=["town", "year"])
    observed = pd.Series(X, index=pairs)
    swapped = observed.swaplevel().sort_index()  # the same pairs of numbers, and other places
    assert swapped.index.tolist() == pairs.tolist()
    assert swapped.tolist() != observed.tolist()
    made = abctree.Problem(PRIOR, lambda t, r: swapped * t[0], observed)
    report = made.simulate(np.ones((1, 1)), np.arange(1), 1)
    np.testing.assert_array_equal(report.summary, [X])


def test_pairs_are_labels_in_an_index_of_one_level_and_of_two():
    pd = module("pandas")
    pairs = pd.MultiIndex.from_product([[1, 2], [1, 2]])
    flat = pd.Series(X[::-1], index=pd.Index(pairs[::-1].tolist(), tupleize_cols=False))
    made = abctree.Problem(PRIOR, lambda t, r: flat * t[0], pd.Series(X, index=pairs))
    simulated = made.simulate(np.ones((1, 1)), np.arange(1), 1)
    assert simulated.failures == ()
    np.testing.assert_array_equal(simulated.summary, [X])


@pytest.mark.parametrize("kind", ["Series", "DataArray"])
def test_labels_count_inside_of_lists(kind):
    make = FLAT[kind]
    observed = [make(OBSERVED), make(OBSERVED)]
    made = abctree.Problem(PRIOR, lambda t, r: (make(by_year(t, r)), make(by_year(t, r))), observed)
    assert made.shape == (2, 4)
    assert abs(slope(made) - 1.0) < 0.1
    nested = abctree.Problem(
        PRIOR, lambda t, r: {"towns": [make(by_year(t, r))]}, {"towns": observed[:1]}
    )
    assert abs(slope(nested) - 1.0) < 0.1
    one = abctree.Problem(PRIOR, lambda t, r: make(by_year(t, r)), observed)
    with pytest.raises(abctree.SimulatorError, match="the observation is a list of 2 that have"):
        one.check()


# What cannot be put into order ------------------------------------------------------------------


def other_years(theta, rng):
    return series({year + 1: v for year, v in by_year(theta, rng).items()})


def more_years(theta, rng):
    return series({**by_year(theta, rng), 2005: 5.0})


def twice(theta, rng):
    return module("pandas").Series(X, index=[2001, 2002, 2002, 2004])


def moved(theta, rng):
    return array(by_year(theta, rng)).rename(year="month")


REFUSED = [
    (series, other_years, "without 2001, and with 2005, which it does not have"),
    (series, more_years, "with 2005, which it does not have"),
    (series, twice, "without 2003"),
    (array, moved, "returned the dimensions month, but the observation has year"),
    (dict, lambda t, r: {"a": 1.0, **by_year(t, r, YEARS[1:])}, "without 2001, and with 'a'"),
    (
        series,
        lambda t, r: frame(table(t, r)),
        "labels along 2 axes, but the observation has 1",
    ),
]


@pytest.mark.parametrize(("make", "simulator", "says"), REFUSED)
def test_other_labels_are_refused_in_one_sentence(make, simulator, says):
    made = abctree.Problem(PRIOR, simulator, make(OBSERVED))
    for call in (made.check, lambda: abctree.rejection(made, n_simulations=300, rng=1)):
        with pytest.raises(abctree.SimulatorError, match=says) as caught:
            call()
        assert "Give both the same labels, or return arrays" in str(caught.value)


def test_labels_that_are_not_unique_are_refused_in_another_order_only():
    pd = module("pandas")
    observed = pd.Series([1.0, 2.0, 2.5], index=["a", "b", "b"])
    same = abctree.Problem(PRIOR, lambda t, r: observed * t[0], observed)
    assert abs(slope(same) - 1.0) < 0.1
    other = abctree.Problem(PRIOR, lambda t, r: observed.iloc[[1, 0, 2]] * t[0], observed)
    with pytest.raises(abctree.SimulatorError, match="some of them are not unique"):
        other.check()


def test_default_index_is_no_label_and_an_order_that_may_be_one_is_refused():
    pd = module("pandas")
    observed = pd.Series(OBSERVED)

    def plain(theta, rng):
        return pd.Series(by_year(theta, rng, YEARS[::-1]).values())

    assert abs(slope(abctree.Problem(PRIOR, plain, observed)) - 1.0) < 0.1

    def by_size(theta, rng):
        return plain(theta, rng).iloc[[1, 0, 2, 3]]

    for simulator, index in ((by_size, None), (plain, [3, 2, 1, 0])):
        made = abctree.Problem(PRIOR, simulator, pd.Series(X, index=index))
        with pytest.raises(abctree.SimulatorError, match=r"use \.reset_index\(drop=True\)"):
            made.check()


def test_labels_that_are_wrong_now_and_then_are_failures():
    def simulate(theta, rng):
        return (other_years if theta[0] < 1.0 else lambda t, r: series(by_year(t, r)))(theta, rng)

    made = abctree.Problem(PRIOR, simulate, series(OBSERVED))
    result = abctree.rejection(made, n_simulations=400, rng=1)
    assert 150 < result.failures.count < 250
    assert all("WrongLabelsError: simulator returned" in r for r in result.failures.reasons)


# With a summary, in batches, elsewhere ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["Series", "DataArray", "dict", "namedtuple", "structured"])
def test_a_summary_is_given_data_in_the_order_of_the_observation(kind):
    make = FLAT[kind]

    def first_two(data):
        values = data.item() if kind == "structured" else data
        values = [*(values.values() if kind == "dict" else values)]
        return [float(v) for v in values][:2]

    made = abctree.Problem(
        PRIOR, lambda t, r: make(by_year(t, r)), make(OBSERVED), summary=first_two
    )
    np.testing.assert_array_equal(made.observed_summary, [4.0, 3.0])
    assert abs(slope(made) - 1.0) < 0.15


def test_what_a_summary_returns_is_put_into_order():
    pd = module("pandas")

    def seen(data):  # in the order in which they are seen, like value_counts
        return pd.Series(data).sort_values(ascending=False)

    made = abctree.Problem(
        {"p": (0.0, 1.0)},
        lambda t, r: {"a": t[0] + 0.01 * r.normal(), "b": 1.0 - t[0]}, {"a": 0.2, "b": 0.8},
        summary=seen,
    )  # fmt: skip
    result = abctree.rejection(made, n_simulations=1000, keep=30, rng=1)
    assert abs(result.posterior().mean()[0] - 0.2) < 0.03


def test_data_of_varying_size_are_left_to_the_summary():
    pd = module("pandas")

    def simulate(theta, rng):
        n = 2 + rng.poisson(4)
        return pd.DataFrame({"t": rng.random(n), "x": theta[0] + rng.normal(size=n)})

    observed = pd.DataFrame({"x": [1.0, 1.2], "t": [0.1, 0.2]})
    made = abctree.Problem(PRIOR, simulate, observed, summary=lambda d: d.iloc[:, 0].mean())
    assert abs(slope(made) - 1.1) < 0.4, "the column x, wherever it stands"


def batch(theta, rng):
    return {year: theta[:, 0] * X[i] + 0.1 * rng.normal(size=len(theta))
            for i, year in enumerate(YEARS)}  # fmt: skip


def batch_frame(theta, rng):
    return module("pandas").DataFrame(batch(theta, rng))


def batch_grid(theta, rng):
    xr = module("xarray")
    values = [*batch(theta, rng).values()]
    return xr.DataArray(values, dims=("year", "draw"), coords={"year": YEARS})


def batch_dicts(theta, rng):
    rows = np.stack([*batch(theta, rng).values()], axis=1)
    return [dict(zip(YEARS, row, strict=True)) for row in rows]


def batch_rows(theta, rng):
    return [series(row) for row in batch_dicts(theta, rng)]


BATCHES = {
    "DataFrame": (batch_frame, series), "DataArray": (batch_grid, array), "dict": (batch, dict),
    "list of Series": (batch_rows, series), "list of dicts": (batch_dicts, dict),
}  # fmt: skip


@pytest.mark.parametrize("kind", BATCHES)
def test_batches_are_put_into_order(kind):
    simulate, make = BATCHES[kind]
    made = abctree.Problem(PRIOR, simulate, make(OBSERVED), vectorized=True)
    assert abs(slope(made) - 1.0) < 0.1
    wrong = abctree.Problem(
        PRIOR, simulate, make({year + 1: v for year, v in OBSERVED.items()}), vectorized=True
    )
    with pytest.raises(abctree.SimulatorError, match="without 2005, and with 2001"):
        wrong.check()


@pytest.mark.parametrize("summary", [None, np.asarray])
def test_rows_of_a_batch_in_another_order_are_not_taken_by_position(summary):
    def by_size(theta, rng):
        return batch_frame(theta, rng).sort_values(YEARS[0])

    observed = series(OBSERVED) if summary is None else [1.0, 2.0, 3.0, 4.0]
    made = abctree.Problem(PRIOR, by_size, observed, summary=summary, vectorized=True)
    assert abs(slope(made) - 1.0) < 0.1, "row by row there is one order only"
    numbers, theta = np.arange(50), np.linspace(3.0, -3.0, 50)[:, None]
    with pytest.raises(ValueError, match="rows in another order than that of the simulations"):
        made.model.read(by_size(theta, np.random.default_rng(1)), made.shape, len(numbers))


@dataclass
class Simulator:
    kind: str

    def __call__(self, theta, rng):
        return FLAT[self.kind](by_year(theta, rng))


@pytest.mark.parametrize("kind", ["Series", "DataArray", "dict"])
def test_labels_hold_for_workers_and_after_a_resume(kind, tmp_path):
    made = abctree.Problem(PRIOR, Simulator(kind), FLAT[kind](OBSERVED))
    pickle.loads(pickle.dumps(made.model))
    run = {"n_simulations": 200, "rng": 1, "proposal": "boxes"}
    whole = abctree.abc_tree(made, **run)
    spread = abctree.abc_tree(made, **run, executor=abctree.Threads(2))
    part = abctree.abc_tree(made, **run, store=tmp_path, stop={"rounds": 1})
    resumed = abctree.resume(tmp_path, made, stop=())
    for other in (spread, resumed):
        np.testing.assert_array_equal(other.table.distance, whole.table.distance)
    assert len(part.table) <= len(resumed.table)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FLAT)
@pytest.mark.parametrize("what", ["data", "summaries"])
def test_labels_hold_for_what_is_told(kind, what):
    make = FLAT[kind]
    made = abctree.Problem(PRIOR, abctree.elsewhere, make(OBSERVED))
    session = abctree.Session(made, n_simulations=200, rng=1)
    while not session.done:
        ask = session.ask()
        told = [make(by_year(theta, ask.rng(i))) for i, theta in enumerate(ask.theta)]
        session.tell(ask.numbers, **{what: told})
    with_simulator = abctree.Problem(PRIOR, lambda t, r: make(by_year(t, r)), make(OBSERVED))
    whole = abctree.abc_tree(with_simulator, n_simulations=200, rng=1)
    np.testing.assert_array_equal(session.result().table.distance, whole.table.distance)
    wrong = [make({year + 1: 1.0 for year in YEARS})]
    fresh = abctree.Session(made, n_simulations=200, rng=1)
    with pytest.raises(abctree.ParameterError, match="must be like the observation"):
        fresh.tell(fresh.ask(1).numbers, **{what: wrong})
    assert fresh.n_told == 0


def test_tables_of_simulations_are_told_to_a_vectorised_problem():
    made = abctree.Problem(PRIOR, batch_frame, series(OBSERVED), vectorized=True)
    session = abctree.Session(made, n_simulations=200, rng=1)
    while not session.done:
        ask = session.ask()
        session.tell(ask.numbers, data=batch_frame(ask.theta, np.random.default_rng(0)))
    assert session.result().failures.count == 0
    assert abs(session.result().posterior().mean()[0] - 1.0) < 0.2


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars"])
def test_parameters_in_named_columns_are_read_by_their_names(kind):
    def simulate(theta, rng):
        return theta + rng.normal(size=2)

    prior = {"low": (-3.0, 0.0), "high": (0.0, 9.0)}
    result = abctree.abc_tree(
        abctree.Problem(prior, simulate, [-1.0, 2.0]), n_simulations=300, rng=1, proposal="boxes"
    )
    rows = result.table.theta[:5]
    held = {"high": rows[:, 1], "weight": np.ones(5), "low": rows[:, 0]}
    table = held if kind == "dict" else module(kind).DataFrame(held)
    for ask in result.histogram().pdf, result.mixture_ratio, result.problem.prior.log_density:
        np.testing.assert_array_equal(ask(table), ask(rows))
        with pytest.raises(abctree.ParameterError, match="the columns low, high, but got"):
            ask({"high": rows[:, 1]})
        for bad in "a", {"low": [1.0], "high": [1.0, 2.0]}:
            with pytest.raises(abctree.ParameterError, match="must be an array of numbers"):
                ask(bad)


@pytest.mark.slow
def test_no_library_is_imported_for_its_labels():
    import subprocess
    import sys

    code = (
        "import sys, abctree\n"
        "p = abctree.Problem({'a': (0., 1.)}, lambda t, r: {'x': t[0]}, {'x': .5})\n"
        "abctree.rejection(p, n_simulations=200, rng=1)\n"
        "print({'pandas', 'xarray'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout.strip() == "set()"
    assert importlib.util.find_spec("abctree") is not None
