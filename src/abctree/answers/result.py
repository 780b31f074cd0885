"""`Result`: a finished run, its posterior mode, and what to know of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from abctree.answers.comparison import compare, of_model
from abctree.answers.diagnostics import notes_on, run_notes
from abctree.answers.mode import Mode, ModeSummary
from abctree.answers.mode.from_run import mode_of
from abctree.answers.posterior import Posterior
from abctree.answers.reading.answer import adjusted, answer, by_other, calibrated, fitting
from abctree.answers.reading.calibration import Calibration
from abctree.answers.reading.choice import Summaries
from abctree.answers.reading.fit import DOUBT, Fit
from abctree.answers.reading.learned import in_order, learned, local
from abctree.answers.reading.predict import Keeps, Maps, Predictive, predictive
from abctree.answers.reading.regression import Method
from abctree.answers.run import Run, Weights
from abctree.answers.summary import Summary, summarise, summarise_mode
from abctree.answers.weighted import log_of
from abctree.errors import warnings_kept, wrong
from abctree.keywords import checks_keywords_of_methods
from abctree.method import METHODS
from abctree.near import epanechnikov
from abctree.numbers import check_rule, checked_count, checked_rng
from abctree.problem.models import Models
from abctree.problem.ridge import Regressor
from abctree.proposals.points import prior_draws
from abctree.types import RNGLike


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False, repr=False)
class Result(Run):
    """A run: its lookup table, its rounds, and what can be read from them.

    The tolerance of the last round is not that of the answer: the table can be read at any.  The
    rounds of `abctree.smc` are its populations, and `abctree.rejection` has one.
    """

    #: Where `predict` keeps what it has made; None without a run folder.
    kept_predictions: Keeps | None = None

    def posterior(
        self,
        epsilon: float | None = None,
        ess: float | None = None,
        weights: Weights | None = None,
        *,
        summaries: Summaries = "own",
        kernel: Literal["indicator", "epanechnikov"] = "indicator",
    ) -> Posterior:
        """Weighted draws pooled over all rounds, at a tolerance or an effective sample size.

        Parameters
        ----------
        epsilon : float, optional
            Draws with a distance below it.
        ess : float, optional
            The smallest tolerance at which the draws reach this effective sample size.  Default
            (without `epsilon`): 1000, or 3 % of the simulations if that is less.  After
            `abctree.smc` the default is the tolerance of the population that answers, and after
            `abctree.rejection` with a given `keep` it is all draws kept.
        weights : {"mixture", "round", "draw", "population"}, optional
            See `weights`.
        summaries : {"own", "sorted", "local", "learned"}
            Other summaries read the same simulations again; distances, and `epsilon`, are then
            Euclidean in units of their own.  "sorted" are numbers of which the simulations tell
            none from another, such as independent measurements of one kind, each beside the one of
            its rank; `answer` takes them for the run's own.  "local" are where the data lie along
            a line that is fitted near the posterior, and how large the rest of them is: they read
            raw data well, also of unknown noise, see `answer`; where draws are many,
            `Posterior.summary` has the run's own beside them, for a regression on both.  "learned"
            are for each parameter what a ridge regression over the whole table says of it
            (semi-automatic ABC).  Both want more summaries than parameters, such as raw data, and
            can hurt where there are few.

        kernel : {"indicator", "epanechnikov"}
            How draws below ε count: alike, or by 1 − (d/ε)², so that those near ε hardly do.  The
            second is the posterior of data that are known a little better, from fewer draws.

        Raises
        ------
        ParameterError
            If the run did not keep all draws below `epsilon`, a name is unknown, or other summaries
            are asked of a run without summaries, or with too few of them.

        Warns
        -----
        AbctreeWarning
            If the target is out of reach: the best effective sample size is given instead.
        """
        check_rule("summaries", summaries, '"own", "sorted", "local" or "learned"')
        check_rule("kernel", kernel, '"indicator" or "epanechnikov"')
        if summaries == "own":
            draws = super().posterior(epsilon, ess, weights)
        else:
            other = {"sorted": in_order, "local": local, "learned": learned}[summaries](self)
            draws = by_other(self, other, summaries, weights, epsilon=epsilon, ess=ess)
        if kernel == "indicator" or not len(draws):
            return draws
        near = epanechnikov(draws.distance, draws.epsilon)
        return replace(draws, log_weights=draws.log_weights + log_of(near))

    def answer(self) -> Posterior:
        """The posterior to report: adjusted, unless the table itself speaks against it.

        By default it is the posterior at an effective sample size of T / 10, at most 3 000 (and 300
        or T / 5 of few simulations), with draws moved by a ridge regression on the summaries
        (`Posterior.adjusted`).  200 rows of the posterior, of which the parameters are known, then
        stand in for the observation, and the table is read at each of them in eight other ways,
        too: with all, a third and a tenth of the draws; adjusted, with residuals scaled, and as
        they are.  Where there are two summaries more than parameters, draws are also read by local
        ones (``posterior(summaries="local")``): of the two regressions with all draws the one that
        is closer to the known parameters is the default; where there are a hundred draws for each
        summary, the second is on both kinds.  Where another is clearly closer, by three standard
        errors of the energy score, it is taken.  That costs seconds and no simulation.

        Numbers that no simulation tells from one another, such as independent measurements of one
        kind, are compared sorted in all of this, if the distance compares number with number.

        Without summaries, which a regression needs, with fewer than 100 rows, or where all
        distances are equal, it is `posterior`, and its `reading` is None.

        Returns
        -------
        Posterior
            Its `reading` says what was chosen, against what, and by how much.
        """
        return self._answer

    @cached_property
    def _answer(self) -> Posterior:
        return answer(self)

    def adjusted(self, method: Method | Regressor = "ridge", ess: float | None = None) -> Posterior:
        """The posterior with draws moved by a regression, at an effective sample size of its own.

        Parameters
        ----------
        method : {"ridge", "heteroscedastic", "linear"} or Regressor
            See `Posterior.adjusted`.
        ess : float, optional
            Effective sample size before the adjustment, as far as the table has it.  Default:
            that of `answer`.  The regression removes most of what a larger tolerance adds.

        Raises
        ------
        ParameterError
            If the method is unknown, or no summaries were kept.
        """
        return adjusted(self, method, ess)

    def calibration(self, n: int = 200) -> Calibration:
        """How often the intervals of `answer` hold known parameters, and those of `posterior`.

        Up to n rows of the posterior stand in for the observation; the others are read at each.
        No simulation is made.  What this cannot see: that the observation is unlike the rows (see
        `fit`), and a region of the prior that no simulation has visited.

        Parameters
        ----------
        n : int
            Rows that stand in for the observation, at least 1.

        Returns
        -------
        Calibration
            Print it; ``.coverage[0.9]`` is the share (p,) of parameters inside intervals of 90 %.

        Raises
        ------
        ParameterError
            If no summaries were kept.
        """
        return calibrated(self, self.answer().reading, n)

    def of_model(self, name: str) -> Result:
        """What a run over `abctree.Models` says of one of them: its rows, with its own names.

        Every reading and check works on it.

        Raises
        ------
        ParameterError
            If the run is of one problem, or there is no model of this name.
        """
        kept = self.kept_predictions
        return replace(of_model(self, name), kept_predictions=kept and kept.of_model(name))

    def fit(self) -> Fit:
        """Whether the model can make data like the observation.

        The distance of the observation to its tenth nearest simulation is compared with that of 100
        data sets that posterior draws made: rows next to accepted ones in the unit cube.  Those are
        near by local summaries, where there are any and `answer` did not find them bad.  What their
        line leaves of the data is compared too, by how much it bends in the order of the summaries,
        where the distance compares each with its own: a curve that the model lacks is told from
        noise.  Of more than 200 000 simulations every k-th is looked at.

        Returns
        -------
        Fit
            Print it; ``.p_value`` below 0.01 says that no parameters make data like these.

        Raises
        ------
        ParameterError
            If no summaries were kept.
        """
        return self._fit

    @cached_property
    def _fit(self) -> Fit:
        return fitting(self, self.answer().reading)

    def predict(
        self, n: int = 200, rng: RNGLike = 0, *, prior: bool = False, pool: Maps | None = None
    ) -> Predictive:
        """Data that the model makes of draws of `answer`, or of the prior, simulated anew.

        A run with a folder keeps them there, each as soon as it is there: what is asked for again,
        with the same seed and of the same posterior, is read, and a prediction that was killed goes
        on where it was.

        Parameters
        ----------
        n : int
            Data sets, each of which is a new simulation.
        rng : RNGLike
            None, a seed, or a generator.  With None nothing is kept, for it cannot be asked for
            again.
        prior : bool
            Whether to draw from the prior instead.
        pool : object, optional
            With a `map`, such as the pools of `concurrent.futures` and `mpi4py.futures`, or
            ``client.get_executor()`` of Dask: it makes the simulations, and the same ones.
            Default: this process.

        Returns
        -------
        Predictive
            ``.data`` (n, ...) as the simulator returns them, ``.p_values`` of the summaries.

        Raises
        ------
        SimulatorError
            If nothing usable comes back.

        Warns
        -----
        AbctreeWarning
            If predictions cannot be kept, or those that are were made by other code.
        """
        n = checked_count("n", n)
        own = checked_rng(rng)
        theta = prior_draws(self.problem, n, own) if prior else self.answer().sample(n, own)
        kept = None if rng is None else self.kept_predictions
        return predictive(self.problem, theta, int(own.integers(2**62)), pool, kept)

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
            If `epsilon` is not above 0, the run did not keep all draws below it, or it is over
            several models: see `of_model`.
        """
        if isinstance(self.problem, Models):
            raise wrong(
                "result", "be of one model for a mode", "one of several",
                "Heights over different parameters cannot be compared: read "
                "result.of_model(name).mode().",
            )  # fmt: skip
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
        said: list[str] = []
        with warnings_kept(said):
            draws = self.posterior()
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

        By default it is that of `answer`, and says at which of the summaries the model fails, if
        `fit` doubts it.  Of `abctree.map_tree` it is the mode, its error, its rivals and what to
        know, unless `ess` asks for the posterior.

        Parameters
        ----------
        epsilon, ess : float, optional
            Of draws that are read as they are; as in `posterior`, or in `mode`.
        """
        if METHODS[self.method].seeks_mode and ess is None:
            return summarise_mode(self, self.mode(epsilon))
        if epsilon is None and ess is None:
            told = summarise(self, self.answer, self._notes)
        else:
            told = summarise(self, lambda: self.posterior(epsilon, ess))
        if isinstance(self.problem, Models):
            told = replace(told, run=(*told.run, "", *str(compare(self)).splitlines()))
        return told

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write all that there is to see of the run as one HTML file that fetches nothing.

        Verdicts, the answer at every tolerance, its fit and calibration, the rounds, failures, and
        the mode.  Nothing is simulated.  Of a run folder ``abctree report FOLDER`` does the same.

        Parameters
        ----------
        path : str or Path
            The file, replaced if it exists.

        Raises
        ------
        MissingDependencyError
            If Jinja2 or matplotlib is not installed.
        OSError
            If it cannot be written.
        """
        from abctree.faces.report import write

        write(self, path)

    def _notes(self) -> list[str]:
        """What to know of the answer: what `fit` says, if it is doubtful, and of sorted numbers."""
        reading = self.answer().reading
        if reading is None:
            return []
        said = [str(self.fit())] if self.fit().p_value <= DOUBT else []
        if reading.is_sorted:
            said.append(
                f"No simulation tells the {self.table.summary_size} numbers of the data from one "
                "another, so they were compared sorted. With summary=np.sort the run itself looks "
                "where sorted numbers are near."
            )
        return said
