"""The page of a run: one HTML file with all that there is to see of it, and nothing fetched.

Needs Jinja2 and matplotlib: ``pip install abctree[report]``.
"""

from abctree.faces.report.page import Repeat, check_installed, page, write

__all__ = ["Repeat", "check_installed", "page", "write"]
