"""The table of settings in docs/explanation/defaults.md, from the one in the code.

Nothing is measured; `python -m benchmarks.report` writes it.
"""

from __future__ import annotations

from typing import Any

from abctree.method import METHODS
from abctree.running.settings import SETTINGS, Derived, Setting
from experiments.command import markdown


def tables() -> dict[str, str]:
    """A row for each setting: what it is, what it must be, and its default in each method."""
    head = ["setting", *(f"`{name}`" for name in METHODS), "must be", "what it is"]
    return {"settings": markdown(head, [_row(setting) for setting in SETTINGS.values()])}


def _row(setting: Setting) -> list[str]:
    defaults = [_default(setting.defaults[m]) if m in setting.defaults else "–" for m in METHODS]
    return [f"`{setting.name}`", *defaults, setting.kind.words, setting.about]


def _default(value: Any) -> str:
    if isinstance(value, Derived):
        return value.text
    if value is None or isinstance(value, str):
        return "none" if value is None else f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else f"{value}"
