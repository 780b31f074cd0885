"""The benchmark of the library's own time: commits are copied, versions run in turns."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from benchmarks import speed
from experiments import command


@pytest.mark.skipif(
    not (command.ROOT / ".git").exists() or shutil.which("git") is None, reason="needs a clone"
)
def test_sources_of_a_commit_are_copied():
    with speed.sources_of("HEAD") as sources:
        assert (sources / "abctree" / "__init__.py").is_file()
        assert command.ROOT not in sources.parents
    assert not sources.exists()
    with pytest.raises(subprocess.CalledProcessError), speed.sources_of("no-such-commit"):
        pass


def test_a_row_has_medians_of_neighbours_and_says_what_is_not_the_same():
    line = {"name": "x", "T": 1000, "asked": 2.0, "same": False}
    line |= {"old": [3.0, 30.0, 4.0], "new": [1.0, 10.0, 2.0]}
    numbers = {"against": "abc", "load": [0.5, 1.5], "rows": [line]}
    found = speed.tables(numbers)
    assert "| x | 1000 | 4 | 2 | 3.00 | 2 | no |" in found["speed-asked"]
    assert "speed-growth" not in found
    assert "0.5 at the beginning" in found["speed-load"]


@pytest.mark.slow
def test_a_version_beside_itself_gives_the_same_tables(tmp_path):
    rows = ["boxes, d = 2", "its simulator alone", "adaptive, d = 2"]
    words = ["--quick", "--against", str(command.ROOT), "--out", str(tmp_path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "ROWS", [row for row in speed.ROWS if row.name in rows])
        speed.main(words)
    numbers = command.read_json(tmp_path / "benchmarks" / "results" / "speed.json")
    names = [line["name"] for line in numbers["rows"]]
    assert sorted(names) == sorted(rows)
    assert all(line["same"] for line in numbers["rows"])
    assert all(seconds > 0.0 for line in numbers["rows"] for seconds in line["new"])
    assert numbers["rows"][-1]["old"] == []
    # Another case is another table.
    with speed.Version(command.ROOT / "src") as version:
        assert version.time("boxes, d = 2", 500, 1)[1] != version.time("boxes, d = 2", 500, 2)[1]
