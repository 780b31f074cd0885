"""What a program has written, as data: JSON, numbers between commas or blanks, NumPy's files."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Sequence

import numpy as np

from abctree.types import Data, FloatArray

#: Kinds of output, and names of files; whatever else a file is called, it is a csv.
KINDS = ("json", "csv", "npy", "npz")
#: What R and Julia, or nothing between two commas, say of a missing number.
_MISSING = {"NA": "nan", "missing": "nan", "": "nan"}


def read(held: bytes, kind: str) -> Data:
    """The data in some bytes; else ValueError, OSError, EOFError, BadZipFile or RecursionError."""
    if kind == "npy":
        return np.load(io.BytesIO(held), allow_pickle=False)
    if kind == "npz":
        with io.BytesIO(held) as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    text = held.decode("utf-8-sig", "replace")  # with the mark of Windows at its beginning, or not
    return json.loads(text) if kind == "json" else _numbers(text)


def _numbers(text: str) -> FloatArray | dict[str, FloatArray]:
    """Numbers (m,) or (r, m); below a line of names numbers, or columns (r,), by name."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("there is nothing")
    if not any(map(_is_number, lines[0].replace(",", " ").split())):
        return _columns(lines)
    lines = [line.replace(",", " ") for line in lines]
    numbers = _plain(lines)
    if numbers is None:
        rows = [line.split() for line in lines]
        _check_width(rows)
        numbers = np.array([[float(word) for word in row] for row in rows])
    return np.asarray(numbers[0] if len(numbers) == 1 else numbers)


def _plain(
    lines: Sequence[str], separator: str | None = None, quote: str | None = None
) -> FloatArray | None:
    """Numbers (r, m) of lines that hold nothing else, which is read fast; None of others."""
    with contextlib.suppress(ValueError):
        return np.loadtxt(lines, comments=None, delimiter=separator, quotechar=quote, ndmin=2)
    return None


def _columns(lines: list[str]) -> dict[str, FloatArray]:
    """The columns of a table by their names, which are its first line."""
    names, rows = _words(lines[0]), lines[1:]
    if not rows:
        raise ValueError("there is nothing below its header")
    if len(set(names)) < len(names):
        raise ValueError("two of its columns have the same name")
    numbers = _plain(rows, "," if "," in lines[0] else None, '"')
    if numbers is not None and numbers.shape[1] == len(names):
        read = {name: column for name, column in zip(names, numbers.T, strict=True) if name}
    else:
        words = [_words(row) for row in rows]
        _check_width([names, *words])
        columns = zip(names, zip(*words, strict=True), strict=True)
        read = {
            name: np.array([_number(word) for word in column]) for name, column in columns if name
        }
    return read if len(rows) > 1 else {name: column[0] for name, column in read.items()}


def _check_width(rows: list[list[str]]) -> None:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("its lines have different numbers of columns")


def _words(line: str) -> list[str]:
    """Words between commas, or else between blanks; each may be quoted."""
    separator = "," if "," in line else " "
    (words,) = csv.reader(
        [line.strip().replace("	", " ")], delimiter=separator, skipinitialspace=True
    )
    return [word.strip() for word in words]


def _is_number(word: str) -> bool:
    with contextlib.suppress(ValueError):
        _number(word)
        return True
    return False


def _number(word: str) -> float:
    return float(_MISSING.get(word, word))
