"""The table of settings, and all that has to agree with it."""

import importlib.util
import inspect
import itertools
import json
import re
from pathlib import Path

import click
import numpy as np
import pytest

import abctree
from abctree.faces import cli
from abctree.methods import run_folder
from abctree.problems import gauss
from abctree.running import manifest, settings, spec
from benchmarks import report

ROOT = Path(__file__).resolve().parents[1]
EACH = [(method, name) for method in settings.METHODS for name in settings.names_of(method)]


def good_and_bad(method, name):
    """A value that is not the default, and one that breaks the rule."""
    kind, default = settings.SETTINGS[name].kind, settings.SETTINGS[name].defaults[method]
    if name == "stop":
        return {"seconds": 50}, {"oaks": 3}
    if isinstance(kind, settings.Whole):
        return 31, kind.least - 1
    if isinstance(kind, settings.Real):
        return 0.125, kind.least - 1
    if isinstance(kind, settings.Names):
        return [kind.names[0], kind.names[-1]], "oak"
    if isinstance(kind, settings.Flag):
        return default is False, 3
    said = default.text.split(";")[0] if isinstance(default, settings.Derived) else str(default)
    return next(word for word in kind.names if word not in said), "oak"


def disagreements():
    """Where signatures, options and loops are not those of the table."""
    found = []
    options = {p.name: p for p in cli.main.commands["run"].params}
    for method in settings.METHODS:
        takes = inspect.signature(getattr(abctree, method)).parameters
        if set(takes) != {*settings.names_of(method), *settings.NO_SETTINGS}:
            found.append(f"arguments of {method}")
        for name in settings.names_of(method):
            said = takes[name].default if name in takes else None
            if said not in (
                None,
                inspect.Parameter.empty,
                settings.SETTINGS[name].defaults[method],
            ):
                found.append(f"default of {name} in {method}")
            if not re.search(rf"^    [\w, ]*\b{name}\b[\w, ]*( :|$)", doc(method), re.MULTILINE):
                found.append(f"docstring of {name} in {method}")
    for name, row in settings.SETTINGS.items():
        if name not in options and name not in ("executor", "stop"):
            found.append(f"option of {name}")
            continue
        whose = [word.replace("_", "-") for word in row.defaults]
        if len(whose) < len(settings.METHODS) and f"[{', '.join(whose)}]" not in options[name].help:
            found.append(f"methods of --{name}")
    return found + [f"loop of {m}" for m in {*settings.METHODS} ^ {*run_folder.LOOPS}]


def doc(method):
    return inspect.getsource(getattr(abctree, method))


def test_signatures_docstrings_and_options_are_those_of_the_table():
    assert disagreements() == []


def test_what_only_the_table_has_is_found(monkeypatch):
    """The twin."""
    row = settings.Setting("max_time", settings.Whole(), "Most seconds.", {"smc": 3})
    monkeypatch.setitem(settings.SETTINGS, "max_time", row)
    monkeypatch.setitem(settings.SETTINGS["min_ess"].defaults, "smc", 3.0)
    monkeypatch.setitem(run_folder.LOOPS, "nuts", None)
    assert disagreements() == [
        "arguments of smc", "default of min_ess in smc", "docstring of max_time in smc",
        "option of max_time", "loop of nuts",
    ]  # fmt: skip


def test_the_table_of_the_documents_is_that_of_the_code():
    text = (ROOT / "docs/explanation/defaults.md").read_text("utf-8")
    ours = re.search(r"<!-- table: settings -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert ours[1] == report.settings.tables()["settings"]
    # The twin: another rule would be seen.
    assert ours[1].replace("[0, 1)", "[0, 1]") != ours[1]


@pytest.mark.parametrize(("method", "name"), EACH)
def test_a_value_reaches_the_run_and_one_that_breaks_its_rule_is_named(method, name):
    good, bad = good_and_bad(method, name)
    call = {"n_simulations": 300, "rng": 1, "problem": gauss(2)}
    with pytest.raises(abctree.ParameterError, match=rf"`{name}`.* must"):
        getattr(abctree, method)(**{**call, name: bad})
    if name in ("executor", "rng"):
        return
    default, other = spec.RunSpec.of(method, call), spec.RunSpec.of(method, {**call, name: good})
    assert other != default
    again = manifest.spec_of(manifest.manifest_of(other, gauss(2)), gauss(2), {}, None)
    assert again == other != default


@pytest.mark.parametrize(("method", "name"), EACH)
def test_a_file_takes_each_setting_and_names_one_of_another_type(tmp_path, method, name):
    def written(value):
        text = "{ seconds = 50 }" if isinstance(value, dict) else repr(value)
        text = text.lower() if isinstance(value, bool) else text
        file = tmp_path / "run.toml"
        file.write_text(f"[settings]\nmethod = '{method.replace('_', '-')}'\n{name} = {text}\n")
        return file

    good, _ = good_and_bad(method, name)
    assert cli.settings.read_config(written(good)).settings == {name: good}
    kind = settings.SETTINGS[name].kind
    wrong = ["a"] if isinstance(kind, settings.Part) else "many"
    wrong = [3] if isinstance(kind, settings.Choice | settings.Names) else wrong
    with pytest.raises(click.UsageError, match=f"{name} = .*must"):
        cli.settings.read_config(written(wrong))


@pytest.mark.parametrize(
    "name", [n for n, row in settings.SETTINGS.items() if isinstance(row.kind, settings.Part)]
)
def test_names_of_parts_are_those_that_the_library_reads(name):
    kind = settings.SETTINGS[name].kind
    packages = {"bart": "stochtree", "ray": "ray"}
    for choice in kind.names:
        if choice not in packages or importlib.util.find_spec(packages[choice]):
            kind.read(name, choice)
    with pytest.raises(abctree.AbctreeError, match=f"`{name}` must") as caught:
        kind.read(name, "unheard of")
    listed = {*re.findall(r"['\"]([\w-]+)['\"]", str(caught.value))} - {"unheard of"}
    assert kind.names == () or listed >= {*kind.names} or name == "executor"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (settings.Whole(2), [2, 3.0, np.int64(4)], [1, 2.5, True, "3", None]),
        (settings.Real(0.0, 1.0), [0, 0.5, np.float64(0.9)], [1.0, -0.1, np.nan, True, "0.5"]),
        (settings.Real(1.0), [1.0, 1e300], [0.9, np.inf, [1.0]]),
        (settings.Choice(("a", "b")), ["a", "b"], ["c", "", None, 1, ["a"]]),
        (settings.Flag(), [True, False, np.True_], [0, 1, "yes", None]),
    ],
)
def test_kinds_take_what_keeps_their_rule(kind, good, bad):
    for value in good:
        assert kind.read("x", value) == value
    for value in bad:
        with pytest.raises(abctree.ParameterError, match="`x` must be"):
            kind.read("x", value)


def test_defaults_in_words_are_those_that_are_resolved():
    """Of a share of T: the words, worked out."""
    rows = [
        (row.name, method, default)
        for row in settings.SETTINGS.values()
        for method, default in row.defaults.items()
        if isinstance(default, settings.Derived) and "T/" in default.text
    ]
    assert len(rows) >= 8
    problem = abctree.Problem({"a": (0, 1), "b": (0, 1)}, lambda theta, rng: theta, [0.0, 0.0])
    for n in (10, 999, 30_000, 10**7):
        for name, method, default in rows:
            s = spec.RunSpec.of(method, {"problem": problem, "n_simulations": n}).settings
            share = eval(re.sub(r"T/", f"{n}//", default.text.partition(";")[0]))
            least, most = max(1, share), n - 1 if name == "n_pilot" else n * share
            assert s[name] == min(least, max(1, most)), (name, n)


@pytest.mark.parametrize(
    ("method", "wrong", "says"),
    [
        ("rejection", {"stop": {"rounds": 2}}, "`stop` must not limit"),
        ("smc", {"problem": abctree.Problem(abctree.PriorTransform(np.sort, ["a", "b"]),
                                            abctree.elsewhere, [0.0]), "space": "theta"}, "space"),
    ],
)  # fmt: skip
def test_what_a_method_cannot_do_is_told_to_a_call_and_to_a_session(method, wrong, says):
    call = {"problem": gauss(2), "n_simulations": 300, **wrong}
    for begin in (getattr(abctree, method), lambda **k: abctree.Session(method=method, **k)):
        with pytest.raises(abctree.ParameterError, match=says):
            begin(**call)


# Manifests ----------------------------------------------------------------------------------------


def as_written(made):
    """The manifest of a run, as it is read again."""
    given = {"problem": made, "n_simulations": 1000, "rng": 7}
    return json.loads(json.dumps(manifest.manifest_of(spec.RunSpec.of("abc_tree", given), made)))


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"preset": "published"},
        {"partitioner": abctree.Cart(max_leaves=30, prune=True), "utility": "omega2"},
        {"partitioner": abctree.Grid((3, 2)), "schedule": [3.0, 0.1], "policy": abctree.Thompson()},
        {"partitioner": abctree.Dyadic(n_splits=np.int64(4)), "schedule": np.float64(0.8)},
        {"beliefs": abctree.GlobalRate(), "window": "rolling", "max_rounds": 3},
    ],
)  # fmt: skip
def test_manifest_makes_the_same_spec_again(kwargs):
    p = gauss(2)
    stop = (abctree.stopping.Seconds(3.0), abctree.stopping.TargetESS(10.0))
    given = {"problem": p, "n_simulations": 1000, "rng": 7, "stop": stop, **kwargs}
    made = spec.RunSpec.of("abc_tree", given)
    written = json.loads(json.dumps(manifest.manifest_of(made, p)))
    again = manifest.spec_of(written, p, {}, None)
    assert again == made
    assert manifest.manifest_of(again, p) == written == manifest.manifest_of(made, p)


def test_manifest_of_another_method_or_with_unknown_parts_is_refused():
    p = gauss(2)
    written = as_written(p)
    for change in (
        {"method": "later_method"},
        {"settings": {}},
        {"settings": {**written["settings"], "later_setting": 1}},
        {"seeds": 3},
        {"problem": []},
    ):
        with pytest.raises(abctree.StoreError, match=r"abctree|read"):
            manifest.spec_of({**written, **change}, p, {}, None)
    written["settings"]["partitioner"] = {"part": "Popen", "fields": {"args": "true"}}
    with pytest.raises(abctree.StoreError, match="does not have"):
        manifest.spec_of(written, p, {}, None)


def test_a_run_of_map_tree_has_its_own_defaults_and_presets_give_way_to_what_is_said():
    made = spec.RunSpec.of("map_tree", {"problem": gauss(2), "n_simulations": 300})
    assert made.settings["policy"] == abctree.TopTwo(defensive=0.05, spread=0.3)
    assert made.settings["partitioner"] == abctree.Peaks()
    given = {"problem": gauss(2), "n_simulations": 1_000, "quota": 7, "preset": "published"}
    made = spec.RunSpec.of("map_tree", given)
    assert made.settings["policy"] == abctree.TopTwo(0.5, n_draws=1)
    assert made.settings["partitioner"] == abctree.Dyadic(n_splits=3)
    assert (made.plan.block, made.plan.relabel, made.plan.defensive) == (1, "last", 0.0)
    assert made.plan.quota == 7


def test_a_utility_is_known_by_the_name_of_the_paper():
    given = {"problem": gauss(2), "n_simulations": 300, "utility": "omega2"}
    made = spec.RunSpec.of("abc_tree", given)
    assert made.settings["utility"] == abctree.SamplingEfficiency()


def made(distance):
    prior = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}
    return abctree.Problem(prior, lambda theta, rng: theta, [1.0, -1.0], distance=distance)


def mine(s, s_obs):
    return float(np.abs(s - s_obs).sum())


DISTANCES = {
    "Minkowski(p=1)": lambda: abctree.distances.Minkowski(1),
    "Minkowski(p=3)": lambda: abctree.distances.Minkowski(3.0),
    "Euclidean()": lambda: "euclidean",
    "Scaled(by='mad', p=2, scale=None)": lambda: "mad",
    "Scaled(by='std', p=2, scale=None)": lambda: "std",
    "Scaled(by='mad', p=2, scale=<array of": lambda: abctree.distances.Scaled(scale=[1.0, 2.0]),
    "scale=<array of shape (2,)": lambda: abctree.distances.Scaled(scale=[1.0, 3.0]),
    "Mahalanobis(cov=<array of": lambda: abctree.distances.Mahalanobis(np.eye(2)),
    "Mahalanobis(cov=<array of shape (2, 2)": lambda: abctree.distances.Mahalanobis(
        1e-4 * np.eye(2)
    ),
    "Wasserstein(p=1": lambda: abctree.distances.Wasserstein(1),
    "Wasserstein(p=2": lambda: abctree.distances.Wasserstein(2),
    "test_settings.mine": lambda: mine,
}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        *itertools.pairwise(DISTANCES),
        ("Euclidean()", "Minkowski(p=1)"),
        ("test_settings.mine", "Euclidean()"),
        ("Minkowski(p=1)", "Scaled(by='mad', p=2, scale=None)"),
    ],
)
def test_other_distance_of_the_library_is_refused(then, now):
    written = as_written(made(DISTANCES[then]()))
    with pytest.raises(abctree.ParameterError, match="`problem` must have the distance") as caught:
        manifest.spec_of(written, made(DISTANCES[now]()), {}, None)
    assert now in str(caught.value)
    assert then in str(caught.value)
    # The twin: the same distance, made anew, without a warning.
    manifest.spec_of(written, made(DISTANCES[then]()), {}, None)


def test_distance_is_the_same_however_its_numbers_are_written():
    written = as_written(made(abctree.distances.Minkowski(3)))
    manifest.spec_of(written, made(abctree.distances.Minkowski(np.float64(3.0))), {}, None)


@pytest.mark.parametrize("wrong", [[], ["thinned"], ["boxes", {"b": 1}], ["boxes", ["kernels"]]])
def test_a_list_of_proposals_that_holds_something_else_is_refused_with_the_rule(wrong):
    with pytest.raises(abctree.ParameterError, match='`proposal` must be "boxes", "adaptive"'):
        abctree.abc_tree(abctree.problems.gauss(2), n_simulations=10, proposal=wrong)
