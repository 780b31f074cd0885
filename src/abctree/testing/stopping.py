"""Whether a stopping rule keeps its contract."""

from __future__ import annotations

from abctree.data import Progress
from abctree.keywords import checks_keywords
from abctree.protocols import StoppingRule
from abctree.testing.rule import call, require


@checks_keywords
def check_stopping_rule(rule: StoppingRule) -> None:
    """Check that a rule keeps the contract of `abctree.protocols.StoppingRule`.

    In the pilot, where nothing is accepted yet, and in later rounds it must give a reason in words,
    or None, and say the same of the same progress when it is asked again: a run that is resumed
    asks it again.

    Parameters
    ----------
    rule : StoppingRule
        An object with ``reason(progress)``.

    Raises
    ------
    AssertionError
        With a sentence that names the rule and the progress that breaks it.

    Examples
    --------
    >>> from abctree.running.stopping import Rounds
    >>> check_stopping_rule(Rounds(3))
    """
    inf, nan = float("inf"), float("nan")
    seen = [
        Progress(20, 1000, 0, inf, nan, 0.0, 0, 0.01),
        Progress(100, 1000, 1, 2.0, 0.4, 35.0, 7, 0.5),
        Progress(500, 1000, 4, 0.01, 0.0, 0.0, 500, 1e4),
        Progress(1000, 1000, 9, 1e-9, 1.0, 1000.0, 0, 1e6),
    ]
    said = [_reason(rule, progress) for progress in seen]
    for progress, before in reversed(list(zip(seen, said, strict=True))):
        require(
            _reason(rule, progress) == before,
            f"`reason` must say the same of the same progress, but does not of {progress}.",
        )


def _reason(rule: StoppingRule, progress: Progress) -> str | None:
    reason = call("reason", "all progress", f"of {progress}", rule.reason, progress)
    require(
        reason is None or (type(reason) is str and reason != ""),
        f"`reason` must be words or None, but is {reason!r} of {progress}.",
    )
    return reason
