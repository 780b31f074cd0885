"""`Table`: the ABC lookup table, one row for every simulation ever made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from abctree.markup import page, table, title
from abctree.types import BoolArray, FloatArray, IntArray, NamedDict

#: Some rows of a table.
Which: TypeAlias = IntArray | BoolArray | slice

#: Rows that are copied at once.
_MANY = 1000
#: Rows that a notebook shows.
_NEAREST = 5


class Table:
    """The lookup table D of Equation (11): append-only, failures included.

    It stores *distances, not rewards*, so D(ε) at any ε is one comparison.  Columns are read-only
    views of buffers that double when full.

    Parameters
    ----------
    d, n_parameters : int
        Columns of `cube` and of `theta`.
    summary_size : int
        Columns of `summary`; 0 to keep none.
    capacity : int
        Rows to make room for at first.
    from_cube, stored : callable, optional
        Where memory must not hold them: theta (n, p) of points of the cube (n, d), and summaries
        (n, m) of rows (n,) from where these are kept.
    """

    _COLUMNS: tuple[tuple[str, Any], ...] = (
        ("distance", np.float64),
        ("proposal", np.float64),
        ("denominator", np.float64),
        ("arm", np.int32),
        ("round", np.int32),
        ("fold", np.int16),
    )

    def __init__(
        self,
        d: int,
        n_parameters: int,
        summary_size: int = 0,
        capacity: int = 1024,
        *,
        from_cube: Callable[[FloatArray], FloatArray] | None = None,
        stored: Callable[[IntArray], FloatArray] | None = None,
    ) -> None:
        capacity = max(1, capacity)
        self._n = self._n_written = 0
        self._waiting: list[NamedDict] = []
        self._views: NamedDict = {}  # of the rows that are written
        self._from_cube, self._stored = from_cube, stored
        self._summary_size, self._n_parameters = summary_size, n_parameters
        self._buffers: NamedDict = {
            "cube": np.empty((capacity, d)),
            "theta": np.empty((capacity, 0 if from_cube else n_parameters)),
            "summary": np.empty((capacity, 0 if stored else summary_size)),
        }
        for name, dtype in self._COLUMNS:
            self._buffers[name] = np.empty(capacity, dtype=dtype)

    def __len__(self) -> int:
        return self._n

    def __getstate__(self) -> NamedDict:
        return {**self.__dict__, "_views": {}}  # of a copy they would be views of nothing

    def __repr__(self) -> str:
        p, m = self._n_parameters, self._summary_size
        near = np.min(self.distance, initial=np.inf)
        return f"Table({self._n} rows, {p} parameters, {m} summaries; least distance {near:.4g})"

    def _repr_html_(self) -> str:
        near = np.argsort(self.distance, kind="stable")[:_NEAREST]
        heads = ("row", "distance", "round", *(f"theta[{j}]" for j in range(self._n_parameters)))
        rows = (
            (f"{i}", f"{self.distance[i]:.4g}", f"{self.round[i]}", *(f"{v:.4g}" for v in theta))
            for i, theta in zip(near.tolist(), self.theta_of(near), strict=True)
        )
        return page(title(f"{self!r}; the nearest"), table(heads, rows))

    def append(self, **columns: Any) -> None:
        """Add rows: every column by name, each of n rows, or always one number for all of them.

        Arrays must stay as they are: few rows wait for others, or until somebody looks, for to copy
        one takes as long as to copy many.
        """
        self._waiting.append(columns)
        self._n += len(columns["cube"])
        if self._n - self._n_written >= _MANY:
            self._write()

    def _write(self) -> None:
        """Copy the rows that wait into the buffers."""
        waiting, begin, end = self._waiting, self._n_written, self._n
        sizes = [len(columns["cube"]) for columns in waiting]
        if end > len(self._buffers["cube"]):
            self._grow(max(end, 2 * begin))
        is_new = "prior_weight" not in self._buffers
        if is_new and (_joined(waiting, "prior_weight", sizes) != 1.0).any():
            self._buffers["prior_weight"] = np.ones(len(self._buffers["cube"]))
        for name, buffer in self._buffers.items():
            if buffer.size:  # no column that is not kept
                rows = _joined(waiting, name, sizes)
                buffer[begin:end] = rows.reshape(end - begin, -1) if name == "summary" else rows
        self._waiting, self._n_written, self._views = [], end, {}

    def _grow(self, capacity: int) -> None:
        for name, buffer in self._buffers.items():
            grown = np.empty((capacity, *buffer.shape[1:]), buffer.dtype)
            grown[: self._n_written] = buffer[: self._n_written]
            self._buffers[name] = grown

    def without_summaries(self) -> Table:
        """The same rows, with summaries (n, 0)."""
        other = Table(self.cube.shape[1], self._n_parameters, capacity=1, from_cube=self._from_cube)
        none = np.empty((len(self.distance), 0))  # now all rows are written
        other._n = other._n_written = self._n
        other._buffers = {**self._buffers, "summary": none}
        return other

    def set_denominator(self, denominator: FloatArray, rows: slice = slice(None)) -> None:
        """Replace the column `denominator`, or some rows: all else of a row stays as it is made."""
        if self._waiting:
            self._write()
        self._buffers["denominator"][: self._n][rows] = denominator

    def _column(self, name: str) -> Any:
        if self._waiting:
            self._write()
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._buffers[name][: self._n]
            view.flags.writeable = False
        return view

    @property
    def cube(self) -> FloatArray:
        """(n, d) The points in the unit cube."""
        return self._column("cube")  # type: ignore[no-any-return]

    @property
    def theta(self) -> FloatArray:
        """(n, n_parameters) The same points in user units, fixed parameters included."""
        return self._column("theta") if self._from_cube is None else self.theta_of(slice(None))

    def theta_of(self, rows: Which) -> FloatArray:
        """Return theta (k, n_parameters) of some rows."""
        if self._from_cube is None:
            return np.asarray(self.theta[rows])
        return np.asarray(self._from_cube(self.cube[rows]))

    @property
    def summary(self) -> FloatArray:
        """(n, m) Flattened summaries, or (n, 0) if they are not kept; nan for a failure.

        Of a run with ``keep_summaries="store"`` they are read from its folder: all at once.
        """
        return self._column("summary") if self._stored is None else self.summary_of(slice(None))

    def summary_of(self, rows: Which) -> FloatArray:
        """Return the flattened summaries (k, m) of some rows."""
        if self._stored is None:
            return np.asarray(self.summary[rows])
        return self._stored(np.arange(self._n)[rows])

    @property
    def summary_size(self) -> int:
        """Numbers of a summary that are kept, m."""
        return self._summary_size

    @property
    def is_in_memory(self) -> bool:
        """Whether summaries are at hand, and need not be read from a run folder."""
        return self._stored is None

    @property
    def distance(self) -> FloatArray:
        """(n,) Distances to the observation; inf for a failed simulation."""
        return self._column("distance")  # type: ignore[no-any-return]

    @property
    def proposal(self) -> FloatArray:
        """(n,) Density relative to the prior with which the point was drawn, q_I / π(Ω_I)."""
        return self._column("proposal")  # type: ignore[no-any-return]

    @property
    def has_prior_weights(self) -> bool:
        """Whether any `prior_weight` is not 1."""
        if self._waiting:
            self._write()
        return "prior_weight" in self._buffers

    @property
    def prior_weight(self) -> FloatArray:
        """(n,) Prior density relative to the cube: 1 unless the prior is a density (Remark 1)."""
        if not self.has_prior_weights:
            return np.broadcast_to(1.0, self._n)  # which takes no memory
        return self._column("prior_weight")  # type: ignore[no-any-return]

    @property
    def denominator(self) -> FloatArray:
        """(n,) M_f(θ), the sum of all proposals of the row's fold; see `Mixture`.

        Brought up to date at the end of each round; nan in a round that is being played.
        """
        return self._column("denominator")  # type: ignore[no-any-return]

    @property
    def arm(self) -> IntArray:
        """(n,) The box I that was played, in the partition of its round and fold."""
        return self._column("arm")  # type: ignore[no-any-return]

    @property
    def round(self) -> IntArray:
        """(n,) The round s; 0 is the pilot."""
        return self._column("round")  # type: ignore[no-any-return]

    @property
    def fold(self) -> IntArray:
        """(n,) The fold, the number of the simulation modulo the number of folds."""
        return self._column("fold")  # type: ignore[no-any-return]


def _joined(waiting: Sequence[NamedDict], name: str, sizes: Sequence[int]) -> FloatArray:
    """A column of the rows that wait, of which each part is an array or one number."""
    parts = [columns[name] for columns in waiting]
    return np.repeat(parts, sizes) if np.ndim(parts[0]) == 0 else np.concatenate(parts)
