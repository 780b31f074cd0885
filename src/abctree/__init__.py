"""Query-efficient likelihood-free Bayesian inference with bandits on tree partitions.

>>> import abctree
>>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, lambda theta, rng: rng.normal(theta), [1.0])
>>> posterior = abctree.abc_tree(problem, n_simulations=2000, rng=1).posterior()
>>> posterior.names
('mu',)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from abctree import analysis as analysis
    from abctree import bandits as bandits
    from abctree import problems as problems
    from abctree import testing as testing
    from abctree.analysis import metrics as metrics
    from abctree.analysis.mode import Mode as Mode
    from abctree.analysis.mode import posterior_mode as posterior_mode
    from abctree.analysis.mode_result import ModeResult as ModeResult
    from abctree.analysis.result import Result as Result
    from abctree.data import Progress as Progress
    from abctree.edges import export as export
    from abctree.edges import plots as plots
    from abctree.edges.session import Session as Session
    from abctree.edges.session import elsewhere as elsewhere
    from abctree.errors import (
        AbctreeError as AbctreeError,
    )
    from abctree.errors import (
        AbctreeWarning as AbctreeWarning,
    )
    from abctree.errors import (
        MissingDependencyError as MissingDependencyError,
    )
    from abctree.errors import (
        ParameterError as ParameterError,
    )
    from abctree.errors import (
        SimulatorError as SimulatorError,
    )
    from abctree.errors import (
        StoreError as StoreError,
    )
    from abctree.methods import abc_tree as abc_tree
    from abctree.methods import load as load
    from abctree.methods import map_tree as map_tree
    from abctree.methods import rejection as rejection
    from abctree.methods import resume as resume
    from abctree.methods import smc as smc
    from abctree.parts import distances as distances
    from abctree.parts import stopping as stopping
    from abctree.parts.beliefs import Counts as Counts
    from abctree.parts.beliefs import FairHearing as FairHearing
    from abctree.parts.beliefs import GlobalRate as GlobalRate
    from abctree.parts.beliefs import MultiLevel as MultiLevel
    from abctree.parts.executors import Pool as Pool
    from abctree.parts.executors import Processes as Processes
    from abctree.parts.executors import Serial as Serial
    from abctree.parts.executors import Threads as Threads
    from abctree.parts.executors.policy import FailedSimulationError as FailedSimulationError
    from abctree.parts.executors.policy import FailurePolicy as FailurePolicy
    from abctree.parts.external import External as External
    from abctree.parts.partitioners import Bart as Bart
    from abctree.parts.partitioners import Cart as Cart
    from abctree.parts.partitioners import Dyadic as Dyadic
    from abctree.parts.partitioners import DynamicTree as DynamicTree
    from abctree.parts.partitioners import Grid as Grid
    from abctree.parts.partitioners import Peaks as Peaks
    from abctree.parts.partitioners import SoftTree as SoftTree
    from abctree.parts.policies import T3C as T3C
    from abctree.parts.policies import Thompson as Thompson
    from abctree.parts.policies import TopTwo as TopTwo
    from abctree.parts.priors import Categorical as Categorical
    from abctree.parts.priors import DensityPrior as DensityPrior
    from abctree.parts.priors import Dirichlet as Dirichlet
    from abctree.parts.priors import Integers as Integers
    from abctree.parts.priors import MultivariateNormal as MultivariateNormal
    from abctree.parts.priors import PriorTransform as PriorTransform
    from abctree.parts.schedules import Explicit as Explicit
    from abctree.parts.schedules import Geometric as Geometric
    from abctree.parts.schedules import Quantile as Quantile
    from abctree.parts.utilities import (
        AcceptanceMinusDivergence as AcceptanceMinusDivergence,
    )
    from abctree.parts.utilities import (
        EffectiveSampleSize as EffectiveSampleSize,
    )
    from abctree.parts.utilities import (
        PosteriorMatch as PosteriorMatch,
    )
    from abctree.parts.utilities import (
        SamplingEfficiency as SamplingEfficiency,
    )
    from abctree.problem import Problem as Problem

#: Public name -> the module it lives in.  Imported when first asked for: numba and SciPy are heavy.
_HOME = {
    "AbctreeError": "errors",
    "AbctreeWarning": "errors",
    "AcceptanceMinusDivergence": "parts.utilities",
    "Bart": "parts.partitioners",
    "Cart": "parts.partitioners",
    "Categorical": "parts.priors",
    "Counts": "parts.beliefs",
    "DensityPrior": "parts.priors",
    "Dirichlet": "parts.priors",
    "Dyadic": "parts.partitioners",
    "DynamicTree": "parts.partitioners",
    "EffectiveSampleSize": "parts.utilities",
    "Explicit": "parts.schedules",
    "External": "parts.external",
    "FailedSimulationError": "parts.executors.policy",
    "FailurePolicy": "parts.executors.policy",
    "FairHearing": "parts.beliefs",
    "Geometric": "parts.schedules",
    "GlobalRate": "parts.beliefs",
    "Grid": "parts.partitioners",
    "Integers": "parts.priors",
    "MissingDependencyError": "errors",
    "Mode": "analysis.mode",
    "ModeResult": "analysis.mode_result",
    "MultiLevel": "parts.beliefs",
    "MultivariateNormal": "parts.priors",
    "ParameterError": "errors",
    "Peaks": "parts.partitioners",
    "Pool": "parts.executors",
    "PosteriorMatch": "parts.utilities",
    "PriorTransform": "parts.priors",
    "Problem": "problem",
    "Processes": "parts.executors",
    "Progress": "data",
    "Quantile": "parts.schedules",
    "Result": "analysis.result",
    "SamplingEfficiency": "parts.utilities",
    "Serial": "parts.executors",
    "Session": "edges.session",
    "SimulatorError": "errors",
    "SoftTree": "parts.partitioners",
    "StoreError": "errors",
    "T3C": "parts.policies",
    "Thompson": "parts.policies",
    "Threads": "parts.executors",
    "TopTwo": "parts.policies",
    "abc_tree": "methods",
    "map_tree": "methods",
    "posterior_mode": "analysis.mode",
    "rejection": "methods",
    "smc": "methods",
    "elsewhere": "edges.session",
    "load": "methods",
    "resume": "methods",
}
#: Public modules -> where they live.
_MODULES = {
    "analysis": "analysis",
    "bandits": "bandits",
    "data": "data",
    "distances": "parts.distances",
    "export": "edges.export",
    "metrics": "analysis.metrics",
    "plots": "edges.plots",
    "problems": "problems",
    "stopping": "parts.stopping",
    "testing": "testing",
}

__all__ = sorted([*_HOME, *_MODULES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"abctree.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"abctree.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module 'abctree' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
