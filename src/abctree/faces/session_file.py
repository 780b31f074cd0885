"""The file of a session: a .npz of arrays, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abctree.errors import StoreError


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put the arrays in the place of what the file held; after a crash it has the old or the new.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a session's file.

    Raises
    ------
    StoreError
        If there is none, or it is anything else.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise StoreError(f"There is no session at {os.fspath(path)!r}.") from None
    except Exception as error:  # damaged bytes fail in as many ways as NumPy's reader has lines
        raise StoreError(
            f"{os.fspath(path)!r} is not the file of a session, or is damaged "
            f"({type(error).__name__}: {error}). Nothing was changed."
        ) from error
