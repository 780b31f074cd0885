"""Hooks of mkdocs: documents outside docs/ are pages, links lead to these, tutorials are run."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

import notebooks  # beside this file

ROOT = Path(__file__).resolve().parents[1]
#: Documents outside docs/, and the pages that they become.
OUTSIDE = {
    "README.md": "index.md",
    "PAPER.md": "paper.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "VISION.md": "vision.md",
    "src/abctree/tree/README.md": "listings.md",
}
#: Whether tutorials are run: `make docs` does, and CI leaves it to tests/test_docs.py.
RUN = os.environ.get("ABCTREE_DOCS_RUN", "0") == "1"
BOOKS: dict[str, Any] = {}  #: page of the site -> its notebook
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for origin, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / origin).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    here = page.file.src_uri
    if RUN and here.startswith("tutorials/"):
        book = BOOKS[here] = notebooks.executed(markdown)
        name = PurePosixPath(here).with_suffix(".ipynb").name
        markdown = f"{notebooks.told(book)}\n<a href={name} download>This page as a notebook</a>\n"
    return outside_fences(markdown, lambda text: linked(text, here))


def on_post_build(config: Any) -> None:
    import nbformat

    for page, book in BOOKS.items():
        nbformat.write(book, Path(config.site_dir, page).with_suffix(".ipynb"))


def outside_fences(text: str, change: Any) -> str:
    """Change what is not code."""
    told, end = [], 0
    for fence in FENCE.finditer(text):
        told += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*told, change(text[end:])])


def linked(text: str, here: str) -> str:
    """Links between files of the repository as links between pages."""
    pages = {page: origin for origin, page in OUTSIDE.items()}
    folder = PurePosixPath(pages.get(here, f"docs/{here}")).parent

    def link(found: re.Match[str]) -> str:
        picture, words, target, anchor = found.groups(default="")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        file = os.path.normpath(folder / target)
        inside = OUTSIDE.get(file) or (file[len("docs/") :] if file.startswith("docs/") else "")
        if not inside:  # a file of the repository that is no page
            return words if (ROOT / file).exists() else found[0]
        new = os.path.relpath(inside, PurePosixPath(here).parent)
        return f"{picture}[{words}]({new}{anchor})"

    return LINK.sub(link, text)
