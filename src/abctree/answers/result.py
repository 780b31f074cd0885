"""`Result`: a finished run, its posterior mode, and what to know of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

from abctree.answers.mode import Mode, ModeSummary
from abctree.answers.mode.from_run import mode_of
from abctree.answers.run import Run
from abctree.answers.run_notes import notes_on, run_notes
from abctree.answers.summary import Summary, summarise, summarise_mode
from abctree.errors import AbctreeWarning
from abctree.keywords import checks_keywords_of_methods
from abctree.method import METHODS


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False, repr=False)
class Result(Run):
    """A run: its lookup table, its rounds, and what can be read from them.

    The tolerance of the last round is not that of the answer: the table can be read at any.  The
    rounds of `abctree.smc` are its populations, and `abctree.rejection` has one.
    """

    def mode(self, epsilon: float | None = None) -> Mode:
        """Where the posterior is highest, how well that is known, and what else came close.

        It is read from the table of any run, however its parameters were proposed.  Of a rejection
        run that kept the closest rows only it is that of a kernel density estimate, without an
        error: a fit needs the rejected rows, too.

        Parameters
        ----------
        epsilon : float, optional
            The tolerance.  Default: chosen by the fit, see `abctree.answers.mode.find_mode`; the
            fit is made once.

        Returns
        -------
        Mode
            In θ, with respect to volumes in the units of the parameters.

        Raises
        ------
        ParameterError
            If `epsilon` is not above 0, or the run did not keep all draws below it.
        """
        return replace(self._mode if epsilon is None else mode_of(self, epsilon), run=self)

    @cached_property
    def _mode(self) -> Mode:
        return mode_of(self, None)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What to know before using the result; the first sentences of `summary`.

        Of `abctree.map_tree` they are the notes of its mode.
        """
        if METHODS[self.method].seeks_mode:
            return self.mode().notes
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AbctreeWarning)
            draws = self.posterior()
        said = [str(w.message) for w in caught if issubclass(w.category, AbctreeWarning)]
        alarm = self.bias_alarm()
        if alarm is not None:
            said.append(alarm)
        if len(draws) == 0:
            said.append("Nothing was accepted: there is no posterior to speak of.")
        return (*said, *run_notes(self), *notes_on(self, draws))

    def summary(
        self, epsilon: float | None = None, ess: float | None = None
    ) -> Summary | ModeSummary:
        """Means, standard deviations, quantiles and verdicts; print it.

        Of `abctree.map_tree` it is the mode, its error, its rivals and what to know, unless `ess`
        asks for the posterior.

        Parameters
        ----------
        epsilon, ess : float, optional
            As in `posterior`, or in `mode`.
        """
        if METHODS[self.method].seeks_mode and ess is None:
            return summarise_mode(self, self.mode(epsilon))
        return summarise(self, epsilon, ess)
