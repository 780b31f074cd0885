"""What a prompt and a notebook show of each object: short, readable, escaped."""

from __future__ import annotations

import warnings
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import abctree

pytestmark = pytest.mark.xdist_group("shown")  # they share runs

LONGEST = 2000
NAMES = {
    "small": ("a", "b"),
    "large": tuple(f"<i>a parameter & its long name {j}" for j in range(25)),
}


def simulate(theta, rng):
    if theta[0] > 0.9:
        raise ValueError("<script>" + "long " * 200)
    return theta + rng.normal(size=len(theta))


@cache
def shown(size):
    """Each kind of object, of a run with few or many parameters."""
    names = NAMES[size]
    problem = abctree.Problem(dict.fromkeys(names, (0.0, 1.0)), simulate, [0.5] * len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abctree.AbctreeWarning)
        result = abctree.abc_tree(problem, n_simulations=1500, rng=1, block=50, proposal="boxes")
        summary, mode = result.summary(), result.mode()
        nothing = result.posterior(epsilon=1e-9)
    objects = [
        problem, problem.check(rng=1), result, summary, result.evidence(), mode, mode.summary(),
        result.posterior(epsilon=3.0), nothing, result.rounds[-1], result.rounds, result.table,
        result.partition, result.rounds[0].partitions[0],
    ]  # fmt: skip
    return {f"{type(thing).__name__} {i}": thing for i, thing in enumerate(objects)}


class Tags(HTMLParser):
    """Whether each tag is closed, and what the text is."""

    def __init__(self, html):
        super().__init__()
        self.open, self.all, self.text = [], set(), ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.all.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.slow
@pytest.mark.parametrize("size", NAMES)
def test_all_are_short_readable_and_escaped(size):
    for kind, thing in shown(size).items():
        assert len(repr(thing)) <= LONGEST, kind
        assert " at 0x" not in repr(thing), kind
        assert "array(" not in repr(thing), kind
        html = thing._repr_html_()
        assert len(html) <= LONGEST, kind
        assert Tags(html).all <= {"p", "b", "table", "tr", "th", "td", "pre"}, kind


@pytest.mark.slow
def test_all_parts_of_a_round_are_short():
    played = shown("large")["Round 9"]
    for thing in (*played.mixtures, *played.arms, *played.partitions, played.partitions[0].boxes):
        assert len(repr(thing)) <= LONGEST


@pytest.mark.slow
def test_a_summary_shows_numbers_with_their_errors_and_verdicts():
    summary = shown("small")["Summary 3"]
    text = Tags(summary._repr_html_()).text
    mean, error = summary.posterior.mean()[0], summary.posterior.mcse()[0]
    assert f"{mean:.4g} ± {error:.1g}" in text
    assert summary.verdicts[0][:50] in text
    assert repr(summary).startswith("Summary(Posterior(a, b; ")


@pytest.mark.slow
def test_rounds_are_a_tuple_that_is_shown_as_a_table():
    rounds = shown("small")["Rounds 10"]
    assert isinstance(rounds, tuple)
    assert len(rounds) == rounds[-1].index + 1
    text = Tags(rounds._repr_html_()).text
    assert text.startswith("roundsimulationsepsilonacceptedESSboxes")
    many = type(rounds)(rounds * 100)
    assert len(repr(many)) <= LONGEST
    assert len(many._repr_html_()) <= LONGEST
    assert " more" in Tags(many._repr_html_()).text


def test_markup_of_names_is_text():
    html = shown("large")["Problem 0"]._repr_html_()
    assert "<i>" not in html
    assert "&lt;i&gt;a parameter &amp; its" in html
    assert "… 17 more" in html


def test_html_is_made_in_one_place():
    folder = Path(abctree.__file__).parent
    makers = [p.name for p in folder.rglob("*.py") if "<table" in p.read_text("utf-8")]
    assert makers == ["markup.py"]


def test_the_other_methods_are_shown_too():
    problem = shown("small")["Problem 0"]
    for method, settings in (("rejection", {"keep": 50}), ("smc", {"n_particles": 50})):
        result = getattr(abctree, method)(problem, n_simulations=300, rng=1, **settings)
        for thing in (result, result.rounds, result.posterior(), result.table):
            assert max(len(repr(thing)), len(thing._repr_html_())) <= LONGEST
    assert np.isfinite(result.table.theta).all()
