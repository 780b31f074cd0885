"""Query-efficient likelihood-free Bayesian inference with bandits on tree partitions.

>>> import abctree
>>> problem = abctree.Problem({"mu": (-5.0, 5.0)}, lambda theta, rng: rng.normal(theta), [1.0])
>>> posterior = abctree.abc_tree(problem, n_simulations=2000, rng=1).posterior()
>>> posterior.names
('mu',)
"""

import ast
import importlib
import logging
from pathlib import Path

__version__ = "0.1.0"

# Silent until somebody listens: logging.getLogger("abctree").
logging.getLogger(__name__).addHandler(logging.NullHandler())

#: Public name -> its module, imported when first asked for: numba and SciPy are heavy.
_HOME = {
    alias.name: str(node.module)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'abctree' has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    own = vars(home)
    value = own[name] if name in own else importlib.import_module(f"{home.__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
