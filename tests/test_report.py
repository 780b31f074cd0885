"""The page of a run: what it says, that it fetches nothing, and what a browser makes of it."""

from __future__ import annotations

import contextlib
import csv
import html.parser
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request

import numpy as np
import pytest
from scipy import stats

import abctree
from tests.conftest import command, until

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.xdist_group("report")  # a page takes seconds: they share one
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


def simulate(theta, rng):
    if theta[0] > 4.5:
        raise ValueError("too <large>")
    return [theta[0] + rng.normal(), np.log10(theta[1]) + rng.normal()]


@pytest.fixture(scope="session")
def result():
    """A run with failures, a log prior, a long name and a fixed parameter."""
    prior = {
        "location": (-5.0, 5.0),
        "a_rate_of_long_name_": stats.loguniform(1e-5, 1e-1),
        "fixed": 1.0,
    }
    return abctree.abc_tree(
        abctree.Problem(prior, simulate, [1.0, -3.0]), n_simulations=3000, rng=1, proposal="boxes"
    )


@pytest.fixture(scope="session")
def page(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    result.report(path)
    return path


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.words = [], []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def data_of(path, what="pair"):
    """The JSON that a picture of the page reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>',
                      path.read_text("utf-8"), re.DOTALL)  # fmt: skip
    return json.loads(found[1])[what]


@pytest.mark.slow
def test_page_says_the_verdicts_and_has_every_section(result, page):
    text = Page(page).text
    for sentence in result.summary().verdicts:
        assert " ".join(sentence.split()) in text
    assert str(result.answer().reading) in text
    for heading in ("The answer against ε", "Does it fit?", "Is it calibrated?", "The run",
                    "Failures", "The mode", "How to repeat it"):  # fmt: skip
        assert heading in text
    assert "ValueError: too <large>" in text
    assert str(result.root) in text
    assert "Not for this run" not in text


@pytest.mark.slow
def test_page_fetches_nothing_and_its_links_and_ids_are_right(page):
    found = Page(page)
    ids = [a["id"] for _, a in found.elements if "id" in a]
    assert len(ids) == len({*ids}) or {i for i in ids if ids.count(i) > 1} <= shared(found)
    for tag, attributes in found.elements:
        for name in ("src", "href", "xlink:href", "action"):
            link = attributes.get(name, "#verdicts")
            assert link.startswith(("#", "data:")), (tag, link)
            assert not link.startswith("#") or link[1:] in ids
    style = page.read_text("utf-8")
    assert not re.search(r"@import|url\((?!#)|\bfetch\(|XMLHttpRequest|<link|<iframe", style)


def shared(found):
    """Ids of clip paths and markers: two pictures with the same have the same."""
    return {a["id"] for tag, a in found.elements if tag in ("clippath", "path") and "id" in a}


@pytest.mark.slow
def test_pictures_have_words_for_who_does_not_see_them(page):
    pictures = [a for _, a in Page(page).elements if a.get("role") == "img"]
    assert len(pictures) >= 6
    assert all(len(a["aria-label"]) > 20 for a in pictures)


@pytest.mark.slow
def test_numbers_at_every_tolerance_are_those_of_the_table_of_the_run(result, page):
    data = data_of(page)
    epsilon = [reading["epsilon"] for reading in data["readings"]]
    assert epsilon == sorted({*epsilon})
    assert len(epsilon) > 10
    assert data["readings"][data["start"]]["epsilon"] == result.answer().epsilon
    for reading in data["readings"][:: len(epsilon) // 3]:
        draws = result.posterior(epsilon=reading["epsilon"])
        assert reading["raw"]["n"] == len(draws)
        estimates = np.column_stack([draws.mean(), draws.std(), *draws.quantile([0.05, 0.5, 0.95])])
        np.testing.assert_allclose(reading["raw"]["estimates"], estimates, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(
            np.array(reading["raw"]["errors"])[:, 0], draws.mcse(), rtol=1e-5
        )
    answer = np.array(data["readings"][data["start"]]["adjusted"]["estimates"])
    np.testing.assert_allclose(answer[:, 0], result.answer().mean(), rtol=1e-5)


@pytest.mark.slow
def test_only_free_parameters_are_drawn_and_a_log_prior_on_a_log_axis(result, page):
    data = data_of(page)
    assert data["shown"] == [0, 1]
    assert data["log"] == [False, True]
    theta = np.array(data["rows"]["theta"])
    assert -5.0 <= theta[0].min() < theta[0].max() <= 5.0
    assert -5.01 < theta[1].min() < theta[1].max() < -0.99
    assert data["prior"][1][0] == pytest.approx(-5.0, abs=0.01)


@pytest.mark.slow
def test_boxes_of_two_parameters_tile_the_picture_in_every_round(result, page):
    data = data_of(page, "partitions")
    (pair,) = data["pairs"]
    assert pair["names"] == [f"{name} (quantile of the prior)" for name in result.problem.names[:2]]
    assert len(data["rounds"]) == len(pair["rounds"]) > 1
    for played in pair["rounds"]:
        left, bottom, right, top = np.array(played["boxes"]).T
        assert ((right - left) * (top - bottom)).sum() / 1e6 == pytest.approx(1.0, abs=0.02)
        assert max(played["shades"]) == 1000
    assert len(pair["rounds"][-1]["boxes"]) == len(result.partition)


def test_seconds_by_round_are_known_of_a_run_that_was_loaded(tmp_path):
    problem = abctree.Problem({"a": (-5.0, 5.0)}, lambda t, rng: t + rng.normal(), [1.0])
    made = abctree.abc_tree(problem, n_simulations=600, rng=1, store=tmp_path / "run")
    seconds = made.seconds_by_round
    assert len(seconds) == len(made.rounds)
    assert 0.0 < seconds[0] < seconds[-1] <= made.seconds
    assert list(seconds) == sorted(seconds)
    again = abctree.load(tmp_path / "run", problem).seconds_by_round
    np.testing.assert_allclose(again, seconds, atol=0.05)


@pytest.mark.slow
def test_thinned_rows_weigh_what_they_stand_for(tmp_path):
    """The twin: by their numbers, rows that were thinned out count for too little."""
    problem = abctree.Problem(
        {"a": (-5.0, 5.0)}, lambda t, rng: t + 2.0 * rng.normal(size=t.shape), [1.0],
        vectorized=True,
    )  # fmt: skip
    wide = abctree.abc_tree(problem, n_simulations=20_000, rng=1, stop={"rounds": 1}, quota=9000)
    wide.report(tmp_path / "r.html")
    data = data_of(tmp_path / "r.html")
    draws = wide.posterior(epsilon=data["readings"][-1]["epsilon"])
    distance, weight = np.array(data["rows"]["distance"]), np.array(data["rows"]["weight"])
    assert len(distance) <= 4000 < len(draws)
    cut = float(np.median(draws.distance))
    expected = draws.weights[draws.distance < cut].sum()
    assert weight[distance < cut].sum() / weight.sum() == pytest.approx(expected, rel=0.03)
    assert np.mean(distance < cut) > 1.1 * expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map_tree", "rejection", "smc"])
def test_every_method_has_a_page(method, tmp_path):
    problem = abctree.Problem({"a": (-5.0, 5.0)}, lambda t, rng: t + rng.normal(), [1.0])
    made = getattr(abctree, method)(problem, n_simulations=1200, rng=1)
    made.report(tmp_path / "r.html")
    text = Page(tmp_path / "r.html").text
    assert "No simulation failed" in text
    assert "The answer against ε" in text


@pytest.mark.slow
def test_a_run_too_small_for_a_check_has_a_page_that_says_so(tmp_path):
    problem = abctree.Problem({"a": (-5.0, 5.0)}, lambda t, rng: t + rng.normal(), [1.0])
    abctree.abc_tree(problem, n_simulations=60, rng=1).report(tmp_path / "r.html")
    assert "must leave 100 simulations or more" in Page(tmp_path / "r.html").text
    assert len(data_of(tmp_path / "r.html")["readings"]) > 1


# The command line -------------------------------------------------------------------------------


@pytest.mark.slow
def test_report_of_a_folder_says_how_to_repeat_the_run(tmp_path):
    out = tmp_path / "first"
    options = ("--n-simulations", 1000, "--rng", 4, "--partitioner", "dyadic", "--seconds", 600)
    assert command("run", "gauss", *options, "--out", out).exit_code == 0
    done = command("report", out)
    assert done.exit_code == 0, done.output
    text = (out / "report.html").read_text("utf-8")
    said = "abctree run gauss --rng 4 --n-simulations 1000 --partitioner dyadic --seconds 600.0"
    assert said in text
    toml = re.search(r"<pre>(\[problem\].*?)</pre>", text, re.DOTALL)[1].replace("&#34;", '"')
    assert tomllib.loads(toml)["settings"]["stop"] == {"seconds": 600.0}
    (tmp_path / "run.toml").write_text(toml)
    again = tmp_path / "again"
    assert command("run", "--config", tmp_path / "run.toml", "--out", again).exit_code == 0
    assert (again / "posterior.csv").read_bytes() == (out / "posterior.csv").read_bytes()


# Live --------------------------------------------------------------------------------------------

MODEL = """
import time, abctree

def simulate(theta, rng):
    time.sleep(0.004)
    return theta + rng.normal(size=1)

problem = abctree.Problem({"a": (-5.0, 5.0)}, simulate, [1.0])
"""


def status(address, path="", method="GET", **headers):
    """The status of an answer, and its text."""
    request = urllib.request.Request(address + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode("utf-8")
    except urllib.error.HTTPError as error:
        return error.code, ""


COMMAND = [sys.executable, "-c", "from abctree.faces.cli import main; main()"]
RUN = [*COMMAND, "run", "slow_model:problem", "--rng", "1", "--out", "out", "--quiet"]


@contextlib.contextmanager
def live(folder, *begin):
    """A run of 50000 simulations in another process, with its page, and the address of that."""
    run = subprocess.Popen(
        [*begin, "-n", "50000", "--live"],
        cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield run, re.search(r"shown at (http://127\.0\.0\.1:\d+/)", run.stderr.readline())[1]
    finally:
        run.kill()


def ended(run, address, folder):
    """End a run from its page, which says so from then on."""
    token = re.search(r'"X-Token": "(.+?)"', status(address)[1])[1]
    assert status(address, "stop", "POST", **{"X-Token": token})[0] == 200
    until(lambda: json.loads(status(address, "state")[1])["over"])
    assert "; interrupted" in status(address)[1]  # who looks is waited for, and has the last page
    said, error = run.communicate(timeout=60)
    assert "; interrupted" in said, error
    assert run.returncode == 0
    last = (folder / "report.html").read_text("utf-8")
    assert "interrupted" in last
    assert "X-Token" not in last
    assert not (folder / ".report.html").exists()
    return last


@pytest.mark.slow
def test_live_page_follows_the_run_serves_nothing_else_and_ends_it(tmp_path):
    (tmp_path / "slow_model.py").write_text(MODEL)
    page = tmp_path / "out" / "report.html"
    with live(tmp_path, *RUN) as (run, address):
        assert "The first page comes soon" in status(address)[1]
        until(page.exists, 90.0)
        code, text = status(address)
        assert code == 200
        assert "The answer against ε" in text
        assert "of 50000 simulations made" in text
        assert json.loads(status(address, "state")[1])["over"] is False
        for path in ("run.json", "run.journal", "../slow_model.py", "out/run.json", "%2e%2e/"):
            assert status(address, path) == (404, "")
        assert status(address, Host="example.org") == (403, "")
        assert status(address, "stop", "POST") == (403, "")
        assert status(address, "stop", "POST", **{"X-Token": "guess"}) == (403, "")
        assert run.poll() is None
        first = ended(run, address, page.parent)
    journal = tmp_path / "out" / "run.journal"
    size = journal.stat().st_size
    with live(tmp_path, *COMMAND, "resume", "out", "--quiet") as (run, address):
        assert "interrupted" in status(address)[1]  # the page of the run so far
        until(lambda: journal.stat().st_size > size + 1000, 90.0)
        assert ended(run, address, page.parent) != first


def test_live_needs_the_folder(tmp_path):
    done = command("run", "gauss", "--live", "--no-store", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "Drop --no-store" in done.output


# In a browser -----------------------------------------------------------------------------------


def chromium(page, *options):
    done = subprocess.run(
        [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--virtual-time-budget=2000", *options, page.as_uri()],
        capture_output=True, timeout=100, check=True,
    )  # fmt: skip
    return done.stdout.decode("utf-8")


def after(page, script):
    """A copy of the page that does something once it is there."""
    other = page.with_name("clicked.html")
    text = page.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>")
    other.write_text(text, encoding="utf-8")
    return other


in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")


@in_browser
@pytest.mark.slow
def test_browser_draws_the_answer_and_follows_the_slider(page):
    data = data_of(page)
    seen = chromium(page, "--dump-dom")
    assert "(the answer)" in seen
    assert 'aria-label="Pair plot. location' in seen
    clicks = """
        const slider = document.getElementById("epsilon");
        slider.value = 0; slider.dispatchEvent(new Event("input"));
        document.querySelector("[value=raw]").click();
        document.querySelector("[data-copy=csv]").click();
        const rounds = document.getElementById("rounds");
        rounds.value = 0; rounds.dispatchEvent(new Event("input"));
    """
    moved = chromium(after(page, clicks), "--dump-dom")
    assert "(the answer)" not in moved.split("</main>")[0]
    where = re.search(r'<output id="where"[^>]*>(.*?)</output>', moved)[1]
    first = data["readings"][0]
    shown = float(re.search(r"ε = (\S+),", where)[1])
    assert shown == pytest.approx(first["epsilon"], rel=1e-3)
    assert f"{first['raw']['n']} draws" in where
    boxes = data_of(page, "partitions")
    n = len(boxes["pairs"][0]["rounds"][0]["boxes"])
    assert f'aria-label="{n} boxes of location' in moved
    assert f"in {boxes['rounds'][0]}" in moved
    copied = re.search(r'<pre id="text">(.*?)</pre>', moved, re.DOTALL)[1]
    rows = [*csv.DictReader(io.StringIO(copied))]
    assert [row["parameter"] for row in rows] == data["names"]
    assert float(rows[0]["mean"]) == first["raw"]["estimates"][0][0]
    assert float(rows[0]["mcse_q95"]) == first["raw"]["errors"][0][4]


@in_browser
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["latex", "markdown"])
def test_browser_copies_the_table(page, kind):
    seen = chromium(after(page, f'document.querySelector("[data-copy={kind}]").click()'),
                    "--dump-dom")  # fmt: skip
    copied = re.search(r'<pre id="text">(.*?)</pre>', seen, re.DOTALL)[1]
    name = r"a\_rate\_of\_long\_name\_" if kind == "latex" else "a_rate_of_long_name_"
    assert name in copied
    assert copied.count("\n") >= 4


@pytest.mark.slow
def test_categories_are_told_by_their_probabilities(tmp_path):
    prior = {"mu": (-5.0, 5.0), "kind": abctree.Categorical([0, 2])}
    problem = abctree.Problem(prior, lambda theta, rng: theta[0] + rng.normal(), 1.0)
    result = abctree.abc_tree(problem, n_simulations=600, rng=1)
    path = tmp_path / "report.html"
    result.report(path)
    answer = result.answer()
    values, p, error = answer.probabilities("kind")
    told = data_of(path)["readings"][data_of(path)["start"]]
    told = told["adjusted" if answer.is_adjusted else "raw"]["probabilities"]
    assert [(row["parameter"], row["value"]) for row in told] == [(1, 0.0), (1, 2.0)]
    np.testing.assert_allclose([row["p"] for row in told], p, rtol=1e-5)
    np.testing.assert_allclose([row["error"] for row in told], error, rtol=1e-5)
    text = Page(path).text
    for value, share in zip(values, p, strict=True):
        assert f"P(kind = {value:g}) {share:.4g}" in text
    if CHROMIUM is None:
        return
    seen = chromium(after(path, 'document.querySelector("[data-copy=csv]").click()'), "--dump-dom")
    copied = re.search(r'<pre id="text">(.*?)</pre>', seen, re.DOTALL)[1]
    rows = [*csv.DictReader(io.StringIO(copied))]
    assert [row["parameter"] for row in rows] == ["mu", "P(kind = 0)", "P(kind = 2)"]
    assert float(rows[1]["mean"]) == told[0]["p"]
    assert (rows[1]["sd"], float(rows[1]["mcse_mean"])) == ("", told[0]["error"])
    assert f"P({int(values[np.argmax(p)])}) = " in seen


@in_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1000])
def test_browser_has_a_picture_that_is_no_wider_than_the_window(page, width, tmp_path):
    script = "document.title = document.documentElement.scrollWidth + ' ' + innerWidth"
    seen = chromium(after(page, script), "--dump-dom", f"--window-size={width + 100},900")
    inner, window = map(int, re.search(r"<title>(\d+) (\d+)</title>", seen).groups())
    assert inner <= window
    chromium(page, f"--screenshot={tmp_path / 'page.png'}", f"--window-size={width},900")
    from matplotlib import image

    shot = image.imread(tmp_path / "page.png")
    assert shot.shape[1] == width
    assert len(np.unique(shot.reshape(-1, shot.shape[2]), axis=0)) > 20
