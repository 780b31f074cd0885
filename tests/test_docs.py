"""The documents are true: code runs, links lead somewhere, and what PAPER.md names exists."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import runpy
import subprocess
import sys
import types
import typing
from pathlib import Path

import pytest

import abctree
import examples

ROOT = Path(__file__).resolve().parents[1]
TOP = [ROOT / n for n in ("README.md", "PAPER.md", "VISION.md", "CONTRIBUTING.md", "CHANGELOG.md")]
DOCUMENTS = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]

#: Extras of the package that not every machine can install.
ENGINES = ("distributed", "ray")
# A block that opens with "```python" and nothing behind it is run; a "```text" below is its output.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"[\d.]+ s \([\d.]+ a second\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w./-]+\.py)` → `([\w.]+)`")


def name_of(path):
    return str(path.relative_to(ROOT))


# Code ---------------------------------------------------------------------------------------------


def blocks(text):
    """The blocks to run, each with the empty lines before it, so that tracebacks give its lines.

    And what they print, if that is shown.
    """
    found = BLOCK.finditer(text)
    return [("\n" * text[: m.start(1)].count("\n") + m.group(1), m.group(2)) for m in found]


NEEDS = re.compile(r"^<!-- needs: ([\w ]+) -->$", re.MULTILINE)


def skip_without_what_it_needs(text):
    """A page may open with a line of the packages that it needs beside abctree and matplotlib."""
    for name in " ".join(NEEDS.findall(text)).split():
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def run_blocks(text, source):
    """Run the blocks in order, as one program; not those for an engine that is not installed.

    What is shown below a block must be what it prints, but for its lines and seconds.
    """
    namespace = {"__name__": "__main__"}
    for code, shown in blocks(text):
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(code, source, "exec"), namespace)
        except ModuleNotFoundError as error:
            if error.name not in ENGINES:
                raise
            continue
        if shown is not None:
            words = [SECONDS.sub("", one).split() for one in (said.getvalue(), shown)]
            assert len(words[0]) == len(words[1]), source
            assert all(map(is_same, *words)), f"{source} shows what its code does not print"
    return namespace


def is_same(*words):
    """Whether two words are equal, or numbers that are but for rounding."""
    try:
        one, other = (float(word.strip("[](),%")) for word in words)
    except ValueError:
        return words[0] == words[1]
    return one == pytest.approx(other, rel=1e-3)


#: Runs a page that needs another package: after an import of JAX no process may be forked.
APART = """
import sys, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.test_docs import run_blocks
warnings.simplefilter("error")
run_blocks(Path(sys.argv[2]).read_text("utf-8"), sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [p for p in DOCUMENTS if blocks(p.read_text("utf-8"))], ids=name_of
)
def test_code_of_a_document_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # files that it writes
    text = path.read_text("utf-8")
    skip_without_what_it_needs(text)
    if not NEEDS.search(text):
        run_blocks(text, name_of(path))
        return
    command = [sys.executable, "-c", APART, ROOT, path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr


def examples_of(module):
    """How many examples the docstrings of a module have, all of which must hold."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        found = doctest.testmod(module)
    assert not found.failed, said.getvalue()
    return found.attempted


@pytest.mark.slow
def test_examples_of_docstrings_run():
    modules = [
        module.name
        for package in (abctree, examples)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    heavy = {"abctree.tree.partitioners.bart"}  # an extra
    tried = [examples_of(importlib.import_module(name)) for name in modules if name not in heavy]
    assert sum(tried) > 50


def test_an_example_that_is_wrong_fails():
    module = types.ModuleType("wrong", ">>> 1 + 1\n3\n")
    with pytest.raises(AssertionError, match="Expected"):
        examples_of(module)


def test_a_page_whose_package_is_missing_is_skipped():
    skip_without_what_it_needs("<!-- needs: numpy scipy -->\n# A page\n")
    with pytest.raises(pytest.skip.Exception, match="no_such_package"):
        skip_without_what_it_needs("<!-- needs: numpy no_such_package -->\n# A page\n")


def test_code_of_a_broken_document_does_not_run():
    text = "Text.\n\n```python\na = 1\n```\n\nMore.\n\n```python\nassert a == 2\n```\n"
    with pytest.raises(AssertionError) as caught:
        run_blocks(text, "broken.md")
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == ("broken.md", 10)


def test_blocks_share_their_names_and_other_fences_are_left_alone():
    first, last = "```python\na = 1\n```\n", "```python\na += 1\n```\n"
    between = "```sh\nrm a\n```\n```python no-run\na = 0\n```\n"
    assert run_blocks(first + between + last, "good.md")["a"] == 2


def test_what_is_shown_below_a_block_is_what_it_prints():
    page = "```python\nprint('mean', 0.51)\n```\n\n```text\n{}\n```\n"
    run_blocks(page.format("mean\n0.51"), "good.md")
    for stale in ("mean 0.52", "mode 0.51", "mean"):
        with pytest.raises(AssertionError, match=r"stale\.md"):
            run_blocks(page.format(stale), "stale.md")


# The site -----------------------------------------------------------------------------------------

IDENTIFIER = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
PAGE = re.compile(r": ([\w/-]+\.md)$", re.MULTILINE)


def found(identifier):
    """What a line of the reference names: of a module, what it offers and mkdocstrings can show."""
    with contextlib.suppress(ModuleNotFoundError):
        module = importlib.import_module(identifier)
        return [it for name, it in offered(module).items() if not is_file(module, name)]
    owner, _, name = identifier.rpartition(".")
    return [getattr(importlib.import_module(owner), name)]


def offered(module):
    names = getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])
    things = {name: getattr(module, name) for name in names}
    kinds = type | types.FunctionType
    return {
        name: it
        for name, it in things.items()
        if isinstance(it, kinds) and it.__module__.partition(".")[0] == "abctree"
    }


def is_file(module, name):
    """Whether a module has a file of the same name as a function, which is what is then shown."""
    here = getattr(module, "__path__", None)
    return here is not None and importlib.util.find_spec(f"{module.__name__}.{name}") is not None


def public_things():
    for name in abctree.__all__:
        it = getattr(abctree, name)
        yield from offered(it).items() if isinstance(it, types.ModuleType) else [(name, it)]


def unmentioned(text):
    """Public names of which a reference says nothing."""
    told = {id(it) for identifier in IDENTIFIER.findall(text) for it in found(identifier)}
    return {name for name, it in public_things() if id(it) not in told}


def test_reference_has_every_public_name():
    pages = [path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")]
    assert unmentioned("\n".join(pages)) == set()


def test_names_that_the_reference_lacks_are_noticed():
    text = "::: abctree.abc_tree\n\n::: abctree.plots\n\n::: abctree.bandits\n"
    assert {"map_tree", "pair", "hoo"} <= unmentioned(text)
    assert not {"abc_tree", "progress", "ucb"} & unmentioned(text)


def without_example(text):
    """Public names that neither run in a block of the text nor have an example of their own."""
    run = {word for code, _ in blocks(text) for word in re.findall(r"\w+", code)}
    own = {name for name, it in public_things() if ">>>" in (it.__doc__ or "")}
    return {name for name, _ in public_things()} - run - own


def test_every_public_name_has_an_example_that_runs():
    pages = [path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")]
    assert without_example("\n".join(pages)) == {"Bart", "to_arviz"}  # of extras: shown, not run


def test_names_without_an_example_are_noticed():
    lacking = without_example("```python\nabctree.load()\n```\n```python no-run\ncompare()\n```\n")
    assert "compare" in lacking
    assert not {"load", "abc_tree"} & lacking


def test_a_page_that_is_run_shows_what_it_prints_now(monkeypatch):
    v4 = pytest.importorskip("nbformat").v4
    monkeypatch.syspath_prepend(ROOT / "docs")
    notebooks = importlib.import_module("notebooks")
    book = notebooks.notebook(
        "# A\n\n```python\n1 + 1\n```\n\n```text\nold\n```\n\n```python no-run\nb\n```\n"
    )
    setup, *cells = [cell.source for cell in book.cells]
    assert setup == "%matplotlib inline"
    assert cells == ["# A", "1 + 1", "```python no-run\nb\n```"]
    book.cells[2].outputs = [
        v4.new_output("stream", name="stderr", text="round 1"),
        v4.new_output("execute_result", data={"text/plain": "2"}),
    ]
    assert notebooks.told(book) == (
        "# A\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n\n```python no-run\nb\n```\n"
    )


def test_every_page_is_in_the_navigation(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    outside = runpy.run_path(str(ROOT / "docs" / "hooks.py"))["OUTSIDE"]
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert set(PAGE.findall((ROOT / "mkdocs.yml").read_text())) == pages | {*outside.values()}


# Links --------------------------------------------------------------------------------------------


def broken_links(text, folder):
    """Relative links, pictures included, that lead to no file."""
    targets = [t.split("#")[0] for t in LINK.findall(FENCED.sub("", text)) if "://" not in t]
    return [t for t in targets if t and not (folder / t).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_of_a_document_lead_to_files(path):
    assert broken_links(path.read_text("utf-8"), path.parent) == []


def test_a_link_to_nowhere_is_noticed():
    text = (
        "[here](README.md#a) [there](no/such.md) ![picture](docs/none.png) [web](https://a.b/c.md)"
    )
    assert broken_links(text, ROOT) == ["no/such.md", "docs/none.png"]


# PAPER.md -----------------------------------------------------------------------------------------


def exists(path, name):
    """Whether a file has a function, class, attribute, field or constant of this dotted name."""
    file = ROOT / path
    if not file.exists():
        return False
    for root, package in ((ROOT / "src", "abctree"), (ROOT, "examples")):
        if file.is_relative_to(root / package):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            return has_attribute(importlib.import_module(module), name.split("."))
    return has_definition(ast.parse(file.read_text("utf-8")), name.split("."))


def has_attribute(owner, names):
    if not names:
        return True
    if hasattr(owner, names[0]):
        return has_attribute(getattr(owner, names[0]), names[1:])
    fields = (
        {f.name for f in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    )
    hints = typing.get_type_hints(owner) if isinstance(owner, type) else {}
    return len(names) == 1 and (names[0] in fields or names[0] in hints)


def has_definition(tree, names):
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [n for n in tree.body if isinstance(n, kinds) and n.name == names[0]]
    return bool(found) and (len(names) == 1 or has_definition(found[0], names[1:]))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_names_of_a_document_exist(path):
    named = NAMED.findall(path.read_text("utf-8"))
    assert [pair for pair in named if not exists(*pair)] == []


def test_a_name_that_does_not_exist_is_noticed():
    inner_loop = "src/abctree/tree/inner_loop.py"
    assert exists(inner_loop, "inner_loop")
    assert exists("src/abctree/data/boxes.py", "Arms.alpha")
    assert exists("tests/test_docs.py", "exists")
    assert not exists(inner_loop, "outer_loop")
    assert not exists("src/abctree/data/boxes.py", "Arms.gamma")
    assert not exists("src/abctree/no_such_file.py", "inner_loop")
    assert not exists("tests/test_docs.py", "no_such_test")


def rows_of(text):
    """Heading -> rows of the tables under it, without their heads."""
    answer, heading, in_body = {}, "", False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            in_body = False
        elif in_body:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            answer.setdefault(heading, []).append(cells)
        else:
            in_body = set(line) <= set("|-: ")
    return answer


def numbered(first, last, form):
    return [form.format(i) for i in range(first, last + 1)]


#: What the paper has, counted in its source as PAPER.md says.
CONTENTS = {
    "Equations": numbered(1, 18, "({})"),
    "Algorithm 1, Inner Loop": numbered(1, 15, "{}"),
    "Algorithm 2, ABC-Tree": numbered(1, 11, "{}"),
    "Algorithm 3, Inner Loop: Thompson Sampling for MAP-Tree": numbered(1, 19, "{}"),
    "Algorithm 4, MAP-Tree": numbered(1, 5, "{}"),
    "Algorithm 5, Thompson Sampling in multi-armed bandits": numbered(1, 12, "{}"),
    "Figures": numbered(1, 20, "{}"),
    "Tables": numbered(1, 1, "{}"),
}


def gaps(rows):
    """What the tables of PAPER.md lack: parts of the paper, or an answer to where one is."""
    lacking = []
    for heading, wanted in CONTENTS.items():
        table = rows.get(heading, [])
        lacking += [f"{heading}: {w}" for w in wanted if w not in [row[0] for row in table]]
        lacking += [f"{heading}: {row[0]} leads nowhere" for row in table if not answered(row)]
    return lacking


def answered(row):
    where = " ".join(row[2:])
    return bool(NAMED.search(where)) or "not yet" in where or "no code" in where


def test_paper_map_has_every_equation_line_figure_and_table():
    assert gaps(rows_of((ROOT / "PAPER.md").read_text("utf-8"))) == []


def test_a_missing_row_of_the_paper_map_is_noticed():
    rows = rows_of((ROOT / "PAPER.md").read_text("utf-8"))
    rows["Equations"] = rows["Equations"][1:]
    rows["Tables"] = [["1", "Comparison of cost", "somewhere"]]
    assert gaps(rows) == ["Equations: (1)", "Tables: 1 leads nowhere"]


# The listings beside their code -------------------------------------------------------------------

TREE = ROOT / "src" / "abctree" / "tree"


def lines_of(row):
    """The lines of a listing that a row of the table is about."""
    first, _, last = row[0].partition(" to ")
    return range(int(first), int(last or first) + 1)


def listed(text):
    """Listing -> its lines, in the order of the table."""
    rows = {heading: rows for heading, rows in rows_of(text).items() if "Algorithm" in heading}
    return {
        heading.partition(",")[0]: [line for row in table for line in lines_of(row)]
        for heading, table in rows.items()
    }


def test_the_listings_have_a_row_for_each_line_and_its_code():
    text = (TREE / "README.md").read_text("utf-8")
    assert listed(text) == {
        "Algorithm 1": [*range(1, 16)],
        "Algorithm 2": [*range(1, 12)],
        "Algorithm 3": [*range(4, 13)],  # the others are those of Algorithm 1
        "Algorithm 4": [*range(1, 6)],
    }
    named = NAMED.findall(text)
    assert len(named) > 25
    tree = str(TREE.relative_to(ROOT))
    assert [(path, name) for path, name in named if not exists(f"{tree}/{path}", name)] == []


def test_a_listing_that_lacks_a_line_is_noticed():
    text = (
        "## Algorithm 1, inner loop\n\n| line | listing |\n|---|---|\n| 1 to 3 | t |\n| 5 | p |\n"
    )
    assert listed(text) == {"Algorithm 1": [1, 2, 3, 5]}
