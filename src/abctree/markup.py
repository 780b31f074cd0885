"""What a prompt and a notebook show of an object: text and tables, escaped, of bounded length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

#: Characters of what an object is shown as, at most.
LONGEST = 2000
#: Characters of a table, of a name, and names in a list.
_TABLE, _NAME, _NAMES = 1400, 30, 8
_REST = "<p>… print it for the rest</p>"


def short(text: str, most: int = LONGEST) -> str:
    """A text, cut if it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(names: Sequence[str]) -> str:
    """Names in a row, the first of them if they are many."""
    more = f", … {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(short(name, _NAME) for name in names[:_NAMES]) + more


def page(*parts: str) -> str:
    """Parts of HTML one below the other, as many as there is room for."""
    shown = ""
    for i, part in enumerate(parts):
        room = LONGEST - len(shown) - (len(_REST) if i + 1 < len(parts) else 0)
        if len(part) > room:
            return shown + _REST
        shown += part
    return shown


def title(text: str) -> str:
    """What an object is."""
    return f"<p><b>{escape(short(text, 600))}</b></p>"


def paragraphs(texts: Iterable[str]) -> list[str]:
    """Each text as a part of its own."""
    return [f"<p>{escape(short(text, 600))}</p>" for text in texts]


def verbatim(text: str) -> str:
    """Lines whose blanks count."""
    return f"<pre>{escape(short(text, _TABLE))}</pre>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, of which the first column names the rows; the first rows if they are many."""
    begin = f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>"
    shown, n_left = begin, 0
    for row in rows:
        name, *cells = (escape(short(cell, _NAME)) for cell in row)
        line = f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        if n_left or len(shown) + len(line) > _TABLE:
            n_left += 1
        else:
            shown += line
    return shown + (f"<tr><td>… {n_left} more</td></tr>" if n_left else "") + "</table>"
