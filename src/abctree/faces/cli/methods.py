"""The methods by their names on the command line: what each is for, has and shows."""

from __future__ import annotations

from dataclasses import dataclass

#: What every method is given.
COMMON = ("n_simulations", "rng", "stop", "executor", "on_failure", "keep_summaries")
#: What those have that cut the parameter space.
_TREE = (
    *("preset", "partitioner", "schedule", "quota", "n_pilot", "n_folds", "window", "relabel"),
    *("block", "lookahead", "defensive", "max_rounds"),
)


@dataclass(frozen=True)
class Face:
    """One method, as far as the command line sees it differ from others."""

    about: str
    settings: tuple[str, ...]  #: its arguments that can be written in a file
    objects: tuple[str, ...] = ()  #: its arguments that cannot, for they are objects
    has_rounds: bool = True  #: whether there is progress to draw
    cuts_boxes: bool = False  #: whether there are partitions to draw
    seeks_mode: bool = False  #: whether it answers by a mode, not by draws


#: What the command line decides, for every method.
OURS = ("problem", "store", "progress")

#: The function of abctree has the same name, with underscores.
METHODS = {
    "abc-tree": Face(
        "the posterior, by bandits on a tree (default)",
        ("utility", *_TREE, "kernels", *COMMON),
        objects=("beliefs", "policy"),
        cuts_boxes=True,
    ),
    "map-tree": Face(
        "its mode, by bandits on a tree",
        ("policy", *_TREE, *COMMON),
        objects=("beliefs",),
        cuts_boxes=True,
        seeks_mode=True,
    ),
    "smc": Face(
        "the posterior, by populations",
        (
            *("n_particles", "kernel", "schedule", "weights", "min_ess", "space", "n_pilot"),
            *("block", "max_rounds", *COMMON),
        ),
    ),
    "rejection": Face(
        "the posterior, by the closest prior draws",
        ("keep", "chunk", "lookahead", *COMMON),
        has_rounds=False,
    ),
}
DEFAULT = "abc-tree"


def function_of(method: str) -> str:
    """The name of a method in Python."""
    return method.replace("-", "_")


def method_of(function: str) -> str:
    """The name of a method on the command line."""
    return function.replace("_", "-")
