"""`Predictions`: what `Result.predict` has made, in the folder of the run.

A call of the simulator is known by its parameters, its random stream and its number.  So what is
asked for again is read, whoever asks, and what a kill has cut off is completed.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from abctree.answers.reading.predict import Made, MakeCalls
from abctree.errors import warn
from abctree.problem import Problem
from abctree.protocols import Store
from abctree.running.fingerprint import Version, Versions, unknown
from abctree.running.journal import Journal
from abctree.running.lines import Lines
from abctree.running.manifest import code_of
from abctree.types import Data, FloatArray, Named, NamedDict

#: In the folder of a run.
FOLDER = "predictions"
#: Kinds of arrays that are kept: all but objects and records.
_KINDS = frozenset("?biufcmMSU")


class _UnkeptError(TypeError):
    """No data that can be kept."""


@dataclass(frozen=True)
class Predictions:
    """Finished calls of the simulator, in a file for each prediction; see `Keeps`."""

    folder: Path
    model: str = ""  #: of several

    @classmethod
    def beside(cls, store: Store | None) -> Self | None:
        """Those of the run in a store; None if that is no folder."""
        return cls(store.folder / FOLDER) if isinstance(store, Journal) else None

    def of_model(self, name: str) -> Predictions:
        """See `Keeps`."""
        return replace(self, model=name)

    def all_made(
        self, problem: Problem, theta: FloatArray, root: int, starts: Sequence[int], make: MakeCalls
    ) -> list[Made]:
        """See `Keeps`; where they cannot be kept they are made all the same, with a warning."""
        code = written_code(code_of(problem, {}), ("simulator", "summary"))
        file = self.folder / f"{self._name_of(problem, theta, root, starts)}.jsonl"
        try:
            lines = Lines(file)
        except OSError as error:
            self._say(error)
            return list(make(starts))
        made = {row["first"]: _read(row) for row in lines.rows}
        tell_changes(
            [row["code"] for row in lines.rows],
            code,
            f"{len(starts)} calls of this prediction",
            "give another rng",
        )
        is_kept = True
        with lines:
            for one in make([first for first in starts if first not in made]):
                made[one.first] = one
                try:
                    if is_kept:
                        self.folder.mkdir(exist_ok=True)
                        lines.add({**_written(one), "code": code})
                except (OSError, _UnkeptError) as error:
                    is_kept = False
                    self._say(error)
        return list(made.values())

    def _name_of(
        self, problem: Problem, theta: FloatArray, root: int, starts: Sequence[int]
    ) -> str:
        """What calls are known by."""
        called = self.model, root, theta.shape, list(starts), problem.model.vectorized
        digest = hashlib.sha256(repr(called).encode())
        digest.update(np.ascontiguousarray(theta, dtype="<f8").tobytes())
        return digest.hexdigest()[:16]

    def _say(self, error: Exception) -> None:
        warn(
            f"Predictions could not be kept in {self.folder}: {error}. They are made all the same, "
            "and will be made anew when they are asked for again."
        )


def written_code(code: Versions, some: Container[str] | None = None) -> NamedDict:
    """Names and fingerprints of code, or of some of it, as JSON."""
    now = {what: held[-1] for what, held in code.items() if some is None or what in some}
    return {what: [version.name, version.fingerprint] for what, version in now.items()}


def tell_changes(then: list[NamedDict], now: NamedDict, of: str, remedy: str) -> None:
    """Warn where some of what is kept was made by other code than today's."""
    for text, n in Counter(map(json.dumps, then)).items():
        for sentence in unknown(
            _versions(json.loads(text)), _versions(now), f"{n} of the {of} were made", remedy
        ):
            warn(sentence)


def _versions(code: Named) -> Versions:
    return {what: (Version(0, *held),) for what, held in code.items()}


def _written(made: Made) -> NamedDict:
    """A call as JSON."""
    rows = [[number, _as_json(data), _as_json(summary)] for number, data, summary in made.rows]
    return {"first": made.first, "rows": rows, "reason": made.reason}


def _read(row: Named) -> Made:
    """The call again."""
    rows = [(number, _from_json(data), _from_json(s)) for number, data, s in row["rows"]]
    return Made(row["first"], rows, row["reason"])


def _as_json(value: Data) -> Any:
    """Numbers, texts, arrays, and lists, tuples and dicts of them; every number keeps its bits."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return {kind.__name__: [_as_json(item) for item in value]}
    if kind is dict:
        return {"dict": [[_as_json(key), _as_json(item)] for key, item in value.items()]}
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in _KINDS:
        data = base64.b64encode(value.tobytes()).decode()
        return {"array" if kind is np.ndarray else "scalar": [value.dtype.str, value.shape, data]}
    raise _UnkeptError(f"what the simulator returns holds a {kind.__name__}, which JSON has not")


def _from_json(held: Any) -> Data:
    """What `_as_json` made this of."""
    if not isinstance(held, dict):
        return held
    ((kind, inside),) = held.items()
    if kind == "list":
        return [_from_json(item) for item in inside]
    if kind == "tuple":
        return tuple(map(_from_json, inside))
    if kind == "dict":
        return {_from_json(key): _from_json(item) for key, item in inside}
    dtype, shape, data = inside
    array = np.frombuffer(base64.b64decode(data), dtype=dtype).reshape(shape).copy()
    return array if kind == "array" else array[()]
