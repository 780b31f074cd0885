"""docs/reference/api.md, written from the docstrings.

python docs/reference/make_api.py            write it
python docs/reference/make_api.py --check    say whether it is what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import abctree

PAGE = Path(__file__).with_name("api.md")
#: Headings, and the rooms whose public names stand under them.
CHAPTERS = {
    "Methods": ("methods",),
    "Problems, priors, simulators": ("problem",),
    "Answers": ("answers",),
    "Parts of the tree": ("tree",),
    "Running": ("running", "faces", "data"),
    "Errors": ("errors",),
}
HEAD = """# Reference

Every public name, from its docstring. Made by `python docs/reference/make_api.py`: change the
docstring, not this page. What to use when is told in the [how-to pages](../how-to).
"""


def page() -> str:
    """The whole page."""
    public = {name: getattr(abctree, name) for name in abctree.__all__}
    modules = {name: it for name, it in public.items() if inspect.ismodule(it)}
    told = [HEAD]
    for title, rooms in CHAPTERS.items():
        own = {n: it for n, it in public.items() if n not in modules and room_of(it) in rooms}
        told += [f"## {title}\n", *(entry(f"abctree.{n}", it) for n, it in own.items())]
    for name, module in modules.items():
        told += [f"## abctree.{name}\n", text(inspect.getdoc(module) or "")]
        told += [entry(f"{name}.{n}", it) for n, it in names_of(module)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(told)).rstrip() + "\n"


def room_of(thing: object) -> str:
    return inspect.getmodule(thing).__name__.split(".")[1]


def names_of(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a module offers: its `__all__`, or what is defined in it."""
    own = [n for n, it in vars(module).items() if getattr(it, "__module__", "") == module.__name__]
    for name in getattr(module, "__all__", [n for n in own if not n.startswith("_")]):
        yield name, getattr(module, name)


def entry(name: str, thing: object) -> str:
    """One class or function."""
    if not callable(thing):
        return ""
    lines = [f"### {name}\n", "```text", signature(name.rpartition(".")[2], thing), "```\n"]
    lines.append(text(inspect.getdoc(thing) or ""))
    if inspect.isclass(thing):
        lines += members(name.rpartition(".")[2], thing)
    return "\n".join([*lines, ""])


def members(name: str, kind: type) -> list[str]:
    """Properties and methods of a class, with what is said of them."""
    told = []
    for member, it in own_and_inherited(kind).items():
        if member.startswith("_") or not (inspect.getdoc(it) or "").strip():
            continue
        if isinstance(it, property) or type(it).__name__ == "cached_property":
            told.append(f"- `{name}.{member}`: {first_line(inspect.getdoc(it))}")
        elif inspect.isfunction(it) or isinstance(it, classmethod | staticmethod):
            function = inspect.unwrap(getattr(kind, member))
            how = signature(member, function).replace("(self, ", "(").replace("(self)", "()")
            body = inspect.getdoc(it)
            told.append(f"\n#### {name}.{member}\n\n```text\n{how}\n```\n\n{text(body)}")
    listed = [line for line in told if line.startswith("- ")]
    return ["", *listed, *(line for line in told if not line.startswith("- "))]


def own_and_inherited(kind: type) -> dict[str, object]:
    """What a class and ours that it is made of define, the class's own last."""
    ours = [c for c in reversed(kind.__mro__) if c.__module__.partition(".")[0] == "abctree"]
    return {name: it for c in ours for name, it in vars(c).items()}


def first_line(doc: str) -> str:
    return " ".join(doc.partition("\n\n")[0].split())


def signature(name: str, thing: object) -> str:
    """How it is called, a line for each argument if one line does not take it."""
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    bare = [p.replace(annotation=Bare(p.annotation)) for p in given.parameters.values()]
    shown = given.replace(parameters=bare, return_annotation=Bare(given.return_annotation))
    one = f"{name}{shown}"
    assert " at 0x" not in one, f"{one}: a default that differs from process to process"
    if len(one) <= 90:
        return one
    head, _, rest = one.partition("(")
    inner, _, result = rest.rpartition(") -> ") if ") -> " in rest else (rest[:-1], "", "")
    arguments = split(inner)
    tail = f") -> {result}" if result else ")"
    return "\n".join([f"{head}(", *(f"    {a}," for a in arguments), tail])


class Bare(str):
    """An annotation that is shown without quotes; none stays none."""

    __slots__ = ()

    def __new__(cls, annotation: object) -> object:
        return super().__new__(cls, annotation) if isinstance(annotation, str) else annotation

    __repr__ = str.__str__


def split(inner: str) -> list[str]:
    """Arguments between commas that are in no brackets."""
    found, depth = [""], 0
    for char in inner:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return [a.strip() for a in found if a.strip()]


# Docstrings -------------------------------------------------------------------------------------

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
LISTS = {"Parameters", "Attributes", "Returns", "Raises", "Warns", "Yields"}


def text(doc: str) -> str:
    """A numpydoc text as Markdown."""
    intro, *rest = SECTION.split(doc)
    told = [paragraphs(intro)]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        told.append(f"**{title}**\n")
        told.append(listed(body) if title in LISTS else paragraphs(body))
    return "\n".join(told)


def listed(body: str) -> str:
    """``name : type`` and what stands indented below it, as an item."""
    items: list[str] = []
    for line in body.strip().splitlines():
        if line and not line[0].isspace():
            name, colon, kind = line.partition(" : ")
            items.append(f"- `{name}`" + (f" : {plain(kind)}" if colon else ""))
        elif line.strip():
            items.append(f"  {plain(line.strip())}")
    return "\n".join([*items, ""])


def paragraphs(body: str) -> str:
    """Text, with examples and what is indented behind ``::`` as code."""
    told = []
    for part in body.strip("\n").split("\n\n"):
        if part.lstrip().startswith(">>>"):
            told.append(f"```pycon\n{part}\n```\n")
        elif part.startswith("    ") and told and told[-1].rstrip().endswith("::"):
            told[-1] = told[-1].rstrip()[:-1] + "\n"
            told.append("```text\n" + inspect.cleandoc(part) + "\n```\n")
        else:
            told.append(plain(inspect.cleandoc(part)) + "\n")
    return "\n".join(told)


def plain(words: str) -> str:
    return words.replace("``", "`")


def main() -> None:
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text("utf-8") != made:
            sys.exit("The docstrings say something else: python docs/reference/make_api.py")
    else:
        PAGE.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
