"""Whether a store keeps its contract."""

from __future__ import annotations

from collections.abc import Callable

from abctree.keywords import checks_keywords
from abctree.protocols import Store
from abctree.testing.rule import call, require

_SMALL = [("spec", b'{"a": 1}'), ("rows", b""), ("rows", b"\x00\r\n\xff" * 9), ("why", b"\n")]


@checks_keywords
def check_store(opened: Callable[[], Store]) -> None:
    """Check that a store keeps the contract of `abctree.protocols.Store`.

    What is appended, flushed or not, must be there when the store is opened again: every record
    once, in order, to the byte, whatever the bytes are and however many; also when more is
    appended later.

    Parameters
    ----------
    opened : callable
        Opens the store, which is empty at the first call; later, with what was kept.

    Raises
    ------
    AssertionError
        With a sentence that names the rule.
    """
    kept: list[tuple[str, bytes]] = []
    large = [("rows", bytes(range(256)) * 4096), *_SMALL]
    for more in (_SMALL, large, []):
        store = opened()
        found = list(call("records", "no arguments", "", store.records))
        require(
            found == kept,
            f"what was appended must be there again, in order and to the byte, but of {len(kept)} "
            f"records {sum(a == b for a, b in zip(found, kept, strict=False))} are, among "
            f"{len(found)}.",
        )
        for i, (kind, data) in enumerate(more):
            call("append", "every record", "", store.append, kind, data, flush=i % 2 == 0)
        call("close", "no arguments", "", store.close)
        kept += more
