"""The table of settings, and all that has to agree with it."""

import importlib.util
import inspect
import re
from pathlib import Path

import click
import numpy as np
import pytest

import abctree
from abctree.faces.cli import config, main
from abctree.methods import loops
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
    if isinstance(kind, settings.Number):
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
    options = {p.name: p for p in main.commands["run"].params}
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
    return found + [f"loop of {m}" for m in {*settings.METHODS} ^ {*loops.LOOPS}]


def doc(method):
    return inspect.getsource(getattr(abctree, method))


def test_signatures_docstrings_and_options_are_those_of_the_table():
    assert disagreements() == []


def test_what_only_the_table_has_is_found(monkeypatch):
    """The twin."""
    row = settings.Setting("max_time", settings.Whole(), "Most seconds.", {"smc": 3})
    monkeypatch.setitem(settings.SETTINGS, "max_time", row)
    monkeypatch.setitem(settings.SETTINGS["min_ess"].defaults, "smc", 3.0)
    monkeypatch.setitem(loops.LOOPS, "nuts", None)
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
    assert config.read_config(written(good)).settings == {name: good}
    kind = settings.SETTINGS[name].kind
    wrong = ["a"] if isinstance(kind, settings.Part) else "many"
    wrong = [3] if isinstance(kind, settings.Choice | settings.Names) else wrong
    with pytest.raises(click.UsageError, match=f"{name} must be"):
        config.read_config(written(wrong))


@pytest.mark.parametrize(
    "name", [n for n, row in settings.SETTINGS.items() if isinstance(row.kind, settings.Part)]
)
def test_names_of_parts_are_those_that_the_library_reads(name):
    kind = settings.SETTINGS[name].kind
    for choice in kind.names:
        if choice != "bart" or importlib.util.find_spec("stochtree"):
            kind.read(name, choice)
    with pytest.raises(abctree.AbctreeError, match=f"`{name}` must") as caught:
        kind.read(name, "unheard of")
    listed = {*re.findall(r"['\"]([\w-]+)['\"]", str(caught.value))} - {"unheard of"}
    assert kind.names == () or listed >= {*kind.names} or name == "executor"


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (settings.Whole(2), [2, 3.0, np.int64(4)], [1, 2.5, True, "3", None]),
        (settings.Number(0.0, 1.0), [0, 0.5, np.float64(0.9)], [1.0, -0.1, np.nan, True, "0.5"]),
        (settings.Number(1.0), [1.0, 1e300], [0.9, np.inf, [1.0]]),
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
    for n in (10, 999, 30_000, 10**7):
        for name, method, default in rows:
            s = spec.RunSpec.of(method, {"problem": gauss(2), "n_simulations": n}).settings
            share = eval(re.sub(r"T/", f"{n}//", default.text))
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
