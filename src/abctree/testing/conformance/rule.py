"""What a check raises: the rule that is broken."""

from __future__ import annotations

from typing import Any


def require(condition: Any, rule: str) -> None:
    """Raise `AssertionError` with the rule, also under ``python -O``."""
    if not bool(condition):
        raise AssertionError(rule)
