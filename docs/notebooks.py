"""Pages of the site that are run: a page as a notebook, and what its code printed and drew.

A page is Markdown; a block that opens with ```` ```python ```` is a cell.  A ``text`` block right
behind one is what the cell printed when the page was written: what it prints now takes its place.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Executed notebooks, by what they were made from.
KEPT = ROOT / "build" / "tutorials"
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def notebook(text: str) -> Any:
    """A page as a notebook that has not run."""
    from nbformat import v4

    cells, end = [v4.new_code_cell("%matplotlib inline", metadata={"tags": ["setup"]})], 0
    for block in BLOCK.finditer(text):
        cells.append(v4.new_markdown_cell(text[end : block.start()].strip()))
        cells.append(v4.new_code_cell(block["code"].rstrip()))
        end = block.end()
    return v4.new_notebook(cells=[*cells, v4.new_markdown_cell(text[end:].strip())])


def executed(text: str) -> Any:
    """A page as a notebook that has run, or did before with the same code and package."""
    import nbformat
    from nbclient import NotebookClient

    file = KEPT / f"{fingerprint(text)}.ipynb"
    if file.exists():
        return nbformat.read(file, as_version=4)
    book = notebook(text)
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)  # for `import examples`
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=600, resources=where).execute(stderr=subprocess.DEVNULL)
    KEPT.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, file)
    return book


def fingerprint(text: str) -> str:
    """A hash of a page and of all that its code may import from here."""
    files = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
    content = [text.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def told(book: Any) -> str:
    """An executed notebook as Markdown."""
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif "setup" not in cell.metadata.get("tags", []):
            parts.append(f"```python\n{cell.source}\n```")
            parts += [shown for output in cell.outputs if (shown := of(output))]
    return "\n\n".join(parts) + "\n"


def of(output: Any) -> str:
    """What a cell printed or drew."""
    if output.output_type == "stream":  # progress goes to the other one
        return printed(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    if "image/png" in data:
        picture = data["image/png"].replace("\n", "")
        return f'<img alt="What the code above draws" src="data:image/png;base64,{picture}">'
    return printed(data.get("text/plain", ""))


def printed(text: str) -> str:
    text = ESCAPES.sub("", text).rstrip()
    return f"```text\n{text}\n```" if text else ""
