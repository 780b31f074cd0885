"""Work as bytes, for processes that share no memory with this one."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import pickle
import reprlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from abctree.errors import ParameterError
from abctree.protocols import Work
from abctree.running.executors.limits import count_memory_from_here, limit_loaded_libraries

#: Works that a worker remembers: those before and after the pilot, and those of another run.
_REMEMBERED = 4
#: What the user gave; how it is kept is not to be read in an error.
_GIVEN = {"prior", "simulator", "observed", "summary", "distance", "constraint"}
_DEEPEST = 12

_works: OrderedDict[str, Work] = OrderedDict()


@dataclass(frozen=True)
class Parcel:
    """Work as bytes, and a token that says which."""

    token: str
    payload: bytes


def pack(work: Work) -> Parcel:
    """Work as bytes, by cloudpickle where it is installed.

    Raises
    ------
    ParameterError
        If it cannot be pickled, with the name of the part that cannot.
    """
    try:
        payload = _dumps(work)
    except Exception as error:
        raise ParameterError(_explained(work, error)) from error
    return Parcel(hashlib.blake2b(payload, digest_size=16).hexdigest(), payload)


def unpack(token: str, payload: bytes | None) -> Work | None:
    """In a worker: the work with this token, which is remembered.

    None if this worker does not know it, and no payload was sent.

    Raises
    ------
    ParameterError
        If the payload cannot be loaded.
    """
    if token not in _works:
        if payload is None:
            return None
        _works[token] = _loads(payload)
        limit_loaded_libraries()
        count_memory_from_here()
        if len(_works) > _REMEMBERED:
            _works.popitem(last=False)
    _works.move_to_end(token)
    return _works[token]


def remember(token: str, payload: bytes) -> None:
    """In a worker: unpack the work for what comes."""
    unpack(token, payload)


def _loads(payload: bytes) -> Work:
    try:
        work: Work = pickle.loads(payload)  # noqa: S301 - made by `pack` in the parent process
    except Exception as error:
        raise ParameterError(
            "The problem must load in worker processes, but there this was raised: "
            f"{type(error).__name__}: {error}. Define its functions in a module that workers can "
            "import; with cloudpickle installed, those of a script or notebook are sent along."
        ) from error
    return work


def _dumps(value: Any) -> bytes:
    cloudpickle = _cloudpickle()
    if cloudpickle is not None:
        try:
            return bytes(cloudpickle.dumps(value))
        except Exception:  # noqa: BLE001, S110 - by name may work where by value does not
            pass
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _or_cloudpickle() -> str:
    return "" if _cloudpickle() else ", or install cloudpickle (pip install cloudpickle)"


# Who is to blame -----------------------------------------------------------------------------


def _explained(work: Work, error: Exception) -> str:
    path, value = _culprit(work, ())
    given = [i for i, part in enumerate(path) if part in _GIVEN]
    name = ".".join(path[given[0] if given else 0 :]) or type(work).__name__
    advice = (
        "Make it inside the call, or use abctree.Threads or no executor"
        if _cloudpickle()
        else f"Define it at module level, not as a lambda or inside a function{_or_cloudpickle()}"
    )
    return (
        f"`{name}` must be picklable to be sent to worker processes, but got "
        f"{reprlib.repr(value)} ({type(error).__name__}: {error}). {advice}."
    )


def _culprit(value: Any, path: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
    """The innermost part that cannot be pickled, and the way to it."""
    if len(path) < _DEEPEST:
        for name, part in _parts(value):
            if not _is_picklable(part):
                return _culprit(part, (*path, name))
    return path, value


def _is_picklable(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:  # noqa: BLE001 - pickling may raise anything
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object is made of, by name."""
    if isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield "__self__", value.__self__
    elif isinstance(value, FunctionType):
        if _cloudpickle():  # pickled by value: what it closes over counts
            used = inspect.getclosurevars(value)
            yield from {**used.globals, **used.nonlocals}.items()
    else:
        # Not all that an object is need be sent.
        state = None if isinstance(value, type) else value.__getstate__()
        yield from (state if isinstance(state, dict) else getattr(value, "__dict__", {})).items()
        slots = getattr(type(value), "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield name, getattr(value, name)
