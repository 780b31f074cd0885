"""A predator-prey model and a century-old record of furs: what ``make demo`` runs.

    abctree run examples.hare_lynx:problem -n 150000 --rng 1 --out demo-output
    python -m examples.hare_lynx demo-output

The first line is a run like any other.  The second reads it, and says in a paragraph and a picture
what was learned of hares and lynxes, and how far to trust it.
"""

from examples.hare_lynx.model import pelts, problem, simulate
from examples.hare_lynx.story import Prediction, paragraph, picture, predict

__all__ = ["Prediction", "paragraph", "pelts", "picture", "predict", "problem", "simulate"]
