"""`External`: a simulator that is a program of its own, run once for each simulation."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shlex
import shutil
import signal
import string
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np

from abctree.errors import ParameterError, SimulatorError, wrong
from abctree.keywords import checks_keywords
from abctree.numbers import ruled
from abctree.problem.program_output import KINDS, read
from abctree.types import Data, FloatArray

#: Characters of a program's last words that go into the reason of a failure.
_TAIL = 300
#: Names that a template may use beside those of the parameters.
_EXTRA = ("seed", "dir")
_STDOUT = {"stdout-json": "json", "stdout-csv": "csv"}
#: Seconds that a poll can wait, some 24 days.
_LONGEST = 2e6


class ProgramError(SimulatorError):
    """An external program failed, took too long, or wrote something that cannot be read."""


@checks_keywords
@dataclass(frozen=True)
class External:
    r"""A simulator that runs a program: parameters in, numbers out.

    Each simulation is one process, started without a shell in a fresh temporary directory that is
    removed afterwards.  A program that ends with a non-zero exit code, takes too long, or writes
    something unreadable is a failed simulation, with the last words of its standard error in the
    reason.

    Templates are format strings: ``{name}`` for a parameter, with all digits, or as a format
    specification says (``{n:.0f}`` for a whole number); ``{seed}`` for the seed of the simulation;
    ``{dir}`` for the temporary directory; ``{{`` and ``}}`` for braces.

    Parameters
    ----------
    command : str or sequence of str
        Program and arguments, each a template.  A text is split as a shell would, but no shell sees
        it: a parameter never becomes two arguments, and nothing is expanded.  A program, and the
        script that is its first argument, may be named relative to the present directory.
    output : str or callable
        "stdout-json", "stdout-csv", or a template of the path of the file that the program writes:
        .json, .npy, .npz (a dict of arrays), or anything else as text like "stdout-csv".  That is
        numbers between commas or blanks, of shape (m,); several lines make (r, m).  Below a header,
        a line without a number, it is a dict of numbers, or of columns (r,), by their names; a
        column without a name (R's row names) is left out.  A relative path is looked up where the
        program runs.  With `cwd`, or an absolute path, it must use ``{dir}`` or ``{seed}``, for
        simulations that run at the same time would overwrite each other's file.  What is there
        already is removed before the program starts.  Or a function
        ``(stdout, directory) -> data`` of the text and the temporary directory.
    files : dict, optional
        Input files to write before the program starts: name in the temporary directory -> template.
    env : dict, optional
        Environment variables beside those of this process: name -> template.
    stdin : str, optional
        Template of what the program reads from its standard input; default nothing.
    timeout : float, optional
        Seconds after which the program, and every process that it has started in its process group,
        is killed.  On Linux, these are killed, too, when the program ends by itself.  Where this
        process is killed by ``kill -9``, nobody kills them, but for those of worker processes; a
        command that begins with ``timeout 60`` (of coreutils) ends by itself.
    cwd : path, optional
        Where the program runs; default the temporary directory.  All simulations share it, and
        what they leave there stays: let the program write to ``{dir}`` if it can.
    seed_bits : int
        Seeds are whole numbers in ``[0, 2**seed_bits)``, from 1 to 63; the default 31 fits the
        smallest common integer type.
    names : sequence of str, optional
        Names of the columns of theta; an `abctree.Problem` fills them in.

    Raises
    ------
    ParameterError
        If an argument breaks its rule or the program is not found; later, from `Problem`, if a
        template uses a name that is not a parameter.

    Examples
    --------
    >>> import sys
    >>> import abctree
    >>> code = "import random, sys; random.seed(int(sys.argv[2])); print(float(sys.argv[1]) + 1)"
    >>> model = External([sys.executable, "-c", code, "{mu}", "{seed}"], "stdout-csv", timeout=60)
    >>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, model, observed=[2.0])
    >>> model.with_names(["mu"])(np.array([1.5]), np.random.default_rng(1))
    array([2.5])
    """

    command: str | Sequence[str]
    output: str | Callable[[str, Path], object] = "stdout-json"
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    timeout: float | None = ruled(None, "positive or None")
    cwd: str | os.PathLike[str] | None = None
    seed_bits: int = ruled(31, "a whole number in [1, 63]")
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "command", self._split())
        for name in self.files:
            path = Path(name)
            if path.is_absolute() or ".." in path.parts or not path.name:
                raise wrong("files", "be named relative to the temporary directory", repr(name))
        self._check_fields()
        self._check_output()

    def with_names(self, names: Sequence[str]) -> External:
        """The same program with the names of the columns of theta; those it has are kept."""
        return self if self.names is not None else replace(self, names=tuple(names))

    def __call__(self, theta: FloatArray, rng: np.random.Generator) -> Data:
        """Run the program at theta (p,): what it wrote, as read by `output`."""
        with tempfile.TemporaryDirectory(prefix="abctree-", ignore_cleanup_errors=True) as folder:
            values = self._values(theta, int(rng.integers(2**self.seed_bits)), folder)
            to = self._file
            file = None if to is None else Path(self.cwd or folder, to.format_map(values))
            # What an earlier one left must not be the answer of one that writes nothing.
            if file is not None and file.is_file():
                file.unlink()  # before `files` are written, which may be its beginning
            for name, template in self.files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(template.format_map(values), encoding="utf-8")
            stdout = self._run(values, folder)
            return self._read(stdout, file, Path(folder))

    def _values(self, theta: FloatArray, seed: int, folder: str) -> dict[str, object]:
        if self.names is None or len(self.names) != len(theta):
            raise wrong("names", f"name the {len(theta)} columns of theta", self.names)
        parameters = zip(self.names, theta.tolist(), strict=True)
        return {**{n: _AllDigits(v) for n, v in parameters}, "seed": seed, "dir": folder}

    def _run(self, values: Mapping[str, object], folder: str) -> bytes:
        """The standard output of the program."""
        words = [word.format_map(values) for word in self.command]
        extra = {name: template.format_map(values) for name, template in self.env.items()}
        # Files, not pipes: a process that outlives the program cannot keep us waiting.
        with (
            tempfile.TemporaryFile(dir=folder) as source,
            tempfile.TemporaryFile(dir=folder) as stdout,
            tempfile.TemporaryFile(dir=folder) as stderr,
        ):
            source.write((self.stdin or "").format_map(values).encode())
            source.seek(0)
            streams = {"stdin": source, "stdout": stdout, "stderr": stderr}
            where = {"cwd": self.cwd or folder, "env": {**os.environ, **extra}}
            code = _run_to_the_end(words, self.timeout, **streams, **where)
            if code is None:
                raise ProgramError(f"no end after {self.timeout:g} s; killed{_last_words(stderr)}")
            if code != 0:
                raise ProgramError(f"{_ended(code)}{_last_words(stderr)}")
            stdout.seek(0)
            return stdout.read()

    def _read(self, stdout: bytes, path: Path | None, folder: Path) -> Data:
        if callable(self.output):
            return self.output(stdout.decode("utf-8", "replace"), folder)
        if path is None:
            held, kind, where = stdout, _STDOUT[self.output], "its standard output"
        elif not path.is_file():
            raise ProgramError(f"it wrote no file {path.name}")
        else:
            kind = path.suffix[1:] if path.suffix[1:] in KINDS else "csv"
            held, where = path.read_bytes(), path.name
        try:
            return read(held, kind)
        except (ValueError, OSError, EOFError, BadZipFile, RecursionError) as error:
            start = " ".join(held[:_TAIL].decode("utf-8", "replace").split())[:60]
            begins = "" if path and kind.startswith("np") else f"; it begins {start!r}"
            raise ProgramError(f"{where} cannot be read as {kind} ({error}){begins}") from None

    @property
    def _file(self) -> str | None:
        """The template of the file that the program writes, if it does."""
        return None if callable(self.output) or self.output in _STDOUT else self.output

    def _split(self) -> tuple[str, ...]:
        words = _split(self.command)
        if self.cwd is None:  # it runs in an empty directory
            script = next((i for i, w in enumerate(words) if i and not w.startswith("-")), 0)
            own = {self.output, *self.files}
            if script and words[script] not in own and Path(words[script]).is_file():
                return (*words[:script], os.path.abspath(words[script]), *words[script + 1 :])
        return words

    def _check_kinds(self) -> None:
        """Every argument must be of its kind, before a template is looked for in it."""
        for name in ("files", "env"):
            held = getattr(self, name)
            is_dict = isinstance(held, Mapping)
            if not is_dict or not all(
                isinstance(text, str) for one in held.items() for text in one
            ):
                raise wrong(name, "be a dict of names and templates", repr(held))
        if not isinstance(self.stdin, str | None):
            raise wrong("stdin", "be a template or None", repr(self.stdin))
        if not callable(self.output) and not (isinstance(self.output, str) and self.output):
            raise wrong(
                "output",
                f"be one of {', '.join(_STDOUT)}, a path, or a function",
                repr(self.output),
            )
        if self.cwd is not None and not (
            isinstance(self.cwd, str | os.PathLike) and Path(self.cwd).is_dir()
        ):
            raise wrong("cwd", "be a directory", repr(self.cwd))

    def _check_output(self) -> None:
        """A file outside the temporary directory must belong to one simulation."""
        file = self._file
        is_shared = file is not None and (self.cwd is not None or Path(file).is_absolute())
        # Not a parameter: the same whole number is drawn again and again.
        if is_shared and not set(_EXTRA) & set(_fields(file or "", "output")):
            raise ParameterError(
                f"`output` must use {{dir}} or {{seed}} where simulations share a directory, but "
                f"got {self.output!r}. Write '{{dir}}/out.json', or 'out-{{seed}}.json'."
            )

    def _check_fields(self) -> None:
        """Every field of every template must be known, as far as the names are."""
        templates = {
            "command": list(self.command),
            "files": list(self.files.values()),
            "env": list(self.env.values()),
            "stdin": [] if self.stdin is None else [self.stdin],
            "output": [] if callable(self.output) else [self.output],
        }
        known = None if self.names is None else (*self.names, *_EXTRA)
        for argument, texts in templates.items():
            for name in (name for text in texts for name in _fields(text, argument)):
                if known is not None and name not in known:
                    raise ParameterError(
                        f"`{argument}` must use the names {', '.join(known)} only, "
                        f"but got {{{name}}}. Write {{{{ and }}}} for braces."
                    )
            for text in texts:
                try:
                    text.format_map(_Example())
                except ValueError as error:
                    raise ParameterError(
                        f"`{argument}` must be a template of numbers, but {text!r} is not "
                        f"({error}). Write {{n:.0f}} for a whole number."
                    ) from None


class _Example(dict[str, object]):
    """Something for every name of a template."""

    def __missing__(self, name: str) -> object:
        return {"seed": 1, "dir": "folder"}.get(name, _AllDigits(0.5))


class _AllDigits(float):
    """A parameter in a template: all of its digits, unless the template says otherwise."""

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else float.__repr__(self)


def _split(command: str | Sequence[str]) -> tuple[str, ...]:
    words: list[str] = []
    with contextlib.suppress(ValueError, TypeError):  # a quotation is not closed; no sequence
        words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words or not all(isinstance(word, str) for word in words):
        raise ParameterError(
            f"`command` must be a program and its arguments, but got {command!r}. "
            'For example "./model --a {a} --seed {seed}".'
        )
    if "{" in words[0]:
        return tuple(words)
    program = shutil.which(words[0])
    if program is None:
        raise ParameterError(
            f"`command` must begin with a program, but {words[0]!r} is not found, or not "
            f"executable, from {Path.cwd()}."
        )
    # The program runs elsewhere: a path relative to here would not be found there.
    return (os.path.abspath(program) if os.sep in words[0] else words[0], *words[1:])


def _fields(template: str, argument: str) -> Iterator[str]:
    """Names that a template uses.  Attributes and items of them are refused."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ParameterError(
            f"`{argument}` must be a template, but {template!r} is not ({error}). "
            "Write {{ and }} for braces."
        ) from None
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if not name.isidentifier() or conversion or "{" in (spec or ""):
            raise ParameterError(
                f"`{argument}` must use plain names such as {{a}} or {{a:.3f}}, "
                f"but got {{{name}}} in {template!r}. Write {{{{ and }}}} for braces."
            )
        yield name


# Processes --------------------------------------------------------------------------------------


def _run_to_the_end(words: Sequence[str], timeout: float | None, **how: Any) -> int | None:
    """The exit code, or None if the time was up; no process of the group is left then."""
    process = subprocess.Popen(words, start_new_session=True, **how)  # noqa: S603 - no shell
    has_ended = False
    try:
        has_ended = _has_ended(process, timeout)
    finally:
        _kill(process)
    return process.returncode if has_ended else None


def _has_ended(process: subprocess.Popen[bytes], timeout: float | None) -> bool:
    """Wait for the end, where the system can do it so that the number stays that of the process."""
    if timeout is not None and timeout > _LONGEST:
        timeout = None
    try:
        # `Popen.wait` looks every 50 ms, which is long for a short program.
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        return process.returncode is not None
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(None if timeout is None else 1000.0 * timeout))
    finally:
        os.close(handle)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that has not been waited for, or what it has left of its group."""
    if process.returncode is None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its own group: see start_new_session
        else:  # pragma: no cover
            process.kill()
        process.wait()


def _ended(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _last_words(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, io.SEEK_END)
    stderr.seek(max(0, size - 4 * _TAIL))
    tail = stderr.read().decode("utf-8", "replace").strip()
    return f": {tail[-_TAIL:]}" if tail else ", without a word on standard error"
