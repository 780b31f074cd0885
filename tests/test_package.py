"""What is installed: each public name once, nothing heavy at first, and no file without a use."""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import random
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path

import pytest

import abctree

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
FILES = {
    str(path.relative_to(SRC)): path.read_bytes()
    for path in sorted((SRC / "abctree").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
}
#: What the command `abctree` calls, and modules that users import by their own names.
ENTRANCES = ("abctree", "abctree.faces.cli", "abctree.problems.truth")


# Names --------------------------------------------------------------------------------------------


def test_public_names_are_what_the_stub_says_to_type_checkers():
    said = {}
    exec(FILES["abctree/__init__.pyi"].decode("utf-8"), said)
    for name in abctree.__all__:
        assert getattr(abctree, name) is said[name]
    assert {name for name in said if not name.startswith("__")} == set(abctree.__all__)
    assert set(abctree.__all__) <= set(dir(abctree))
    with pytest.raises(AttributeError, match="module 'abctree' has no attribute 'Bark'"):
        _ = abctree.Bark


# Imports ------------------------------------------------------------------------------------------


def loaded_by(code):
    """The modules that a fresh interpreter has loaded after some code, and not before."""
    code = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    return set(done.stdout.split())


@pytest.mark.slow
def test_import_of_the_package_loads_little():
    own = {name for name in loaded_by("import abctree") if name.partition(".")[0] == "abctree"}
    assert own == {"abctree"}
    few, many = loaded_by("import abctree"), loaded_by("import abctree; abctree.Problem")
    assert not few & {"numpy", "scipy", "numba", "sklearn", "matplotlib", "click", "sqlite3"}
    assert len(few) < 100 < len(many)


@pytest.mark.slow
def test_a_worker_begins_without_what_it_does_not_need():
    """It finds its loop, imports the user's model, and is sent the work."""
    begins = "import abctree, abctree.running.executors.processes; "
    begins += "abctree.Problem(dict(a=(0, 1), b=abctree.Integers(1, 6)), divmod, [0.0])"
    heavy = {"scipy.stats", "scipy.spatial", "numba", "sklearn"}
    assert not heavy & loaded_by(begins)
    # The twin: what loads them is seen.
    assert "numba" in loaded_by(f"{begins}; import abctree.kernels.compiled")


#: Imports in tests of what is not public, each of them by a test of that module.  May only fall.
INTERNAL = 60


def is_internal(node):
    """Whether a statement imports what no user is told of."""
    if isinstance(node, ast.Import):
        return any(alias.name.startswith("abctree.") for alias in node.names)
    if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != "abctree":
        return False
    public = {"abctree", "abctree.problems.truth", "abctree.protocols"}
    public |= {f"abctree.{name}" for name in abctree.__all__}
    if node.module not in public:
        return True
    told = getattr(importlib.import_module(node.module), "__all__", None)
    own = {f"{node.module}.{alias.name}" for alias in node.names} - public
    return told is not None and bool(own - {f"{node.module}.{name}" for name in told})


@pytest.mark.slow
def test_tests_take_public_names_but_for_the_modules_that_they_test():
    files = sorted(Path(__file__).parent.glob("*.py"))
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    assert sum(is_internal(node) for tree in trees for node in ast.walk(tree)) <= INTERNAL


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("import abctree", False),
        ("from abctree import Problem, data", False),
        ("from abctree.data import Boxes", False),
        ("from abctree.problems import truth", False),
        ("import abctree.tree", True),
        ("from abctree import tree", True),
        ("from abctree.answers import selection", True),
        ("from abctree.tree.beliefs import Counts", True),
    ],
)
def test_check_of_imports_finds_those_that_are_internal(code, is_found):
    assert is_internal(ast.parse(code).body[0]) == is_found


# The wheel ----------------------------------------------------------------------------------------


def size(files):
    """Bytes of a wheel of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return len(buffer.getvalue())


def test_wheel_is_small_and_has_no_data():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/abctree"]}
    assert {Path(name).suffix for name in FILES} == {
        ".css",
        ".html",
        ".js",
        ".md",
        ".py",
        ".pyi",
        ".typed",
    }
    assert size(FILES) < 700_000
    decoder = random.Random(0).randbytes(2_000_000)
    assert size(FILES | {"abctree/digits.npz": decoder}) > 700_000


def module_of(file):
    parts = Path(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported_by(text):
    """Everything that may be a module in the import statements of a source text."""
    said = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            said |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            said |= {alias.name for alias in node.names}
    return said


def unreached(files, entrances):
    """Modules to which no import leads from the entrances; a module imports its packages too."""
    imports = {}
    for file, text in files.items():
        if file.endswith((".py", ".pyi")):
            imports.setdefault(module_of(file), set()).update(imported_by(text))
    reached, todo = set(), [*entrances]
    while todo:
        name = todo.pop()
        if name in imports and name not in reached:
            reached.add(name)
            todo += [*imports[name], name.rpartition(".")[0]]
    return set(imports) - reached


def test_every_module_is_reached_from_what_users_import():
    assert unreached(FILES, ENTRANCES) == set()
    more = FILES | {"abctree/kernels/reference.py": b"from abctree import types\n"}
    assert unreached(more, ENTRANCES) == {"abctree.kernels.reference"}


MODULES = [name for name in abctree.__all__ if inspect.ismodule(getattr(abctree, name))]


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_is_imported_by_its_name_and_says_what_it_offers(name):
    module = importlib.import_module(f"abctree.{name}")
    assert module is getattr(abctree, name)
    assert name in ("data", "protocols") or {*module.__all__} <= {*dir(module)}
