"""No test hangs: each has a limit of time, and no wait in it is without a bound."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("*.py"))
#: Of a process, a thread, an event: what waits for ever where it is not told for how long.
WAITING = {"join", "wait", "communicate"}
STARTING = {"run", "call", "check_call", "check_output"}


def is_sleep(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}


def is_unbounded(node):
    """Whether this is a wait for something that may never come."""
    if isinstance(node, ast.While):
        sleeps = any(is_sleep(inner) for statement in node.body for inner in ast.walk(statement))
        return sleeps and "monotonic" not in ast.unparse(node.test)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in STARTING and ast.unparse(node.func.value) == "subprocess":
        return "timeout" not in {keyword.arg for keyword in node.keywords}
    return node.func.attr in WAITING and not node.args and not node.keywords


def unbounded(code):
    return [node.lineno for node in ast.walk(ast.parse(code)) if is_unbounded(node)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_wait_is_without_a_bound(path):
    assert unbounded(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("thread.join()", True),
        ("thread.join(60)", False),
        ("','.join(names)", False),
        ("process.wait()", True),
        ("process.communicate(timeout=60)", False),
        ("subprocess.run(command, check=True)", True),
        ("subprocess.run(command, check=True, timeout=60)", False),
        ("while not path.exists():\n    time.sleep(0.01)", True),
        ("while time.monotonic() < end:\n    time.sleep(0.01)", False),
        ("while todo:\n    todo.pop()", False),
    ],
)
def test_check_of_waits_finds_those_without_a_bound(code, is_found):
    assert bool(unbounded(code)) == is_found


def test_every_test_has_a_limit_of_time(request):
    config = request.config
    assert 0 < float(config.getini("timeout")) <= 120
    # Of the others, a signal does not interrupt a kernel, and is what some tests are about.
    assert config.getini("timeout_method") == "thread"
