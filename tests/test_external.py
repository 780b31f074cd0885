"""`External`: programs as simulators, and everything that programs do wrong."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import abctree
from abctree import Threads
from abctree.problem import external, program_output
from tests.conftest import until

PYTHON = sys.executable
PRIOR = {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}


@pytest.fixture
def tmp_path(tmp_path_factory):
    """A folder on the disk: one in memory may forbid that programs are started from it."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Temporary directories are made here, and none is left."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def python(code, *arguments, **kwargs):
    """A simulator in Python, without the site packages: it starts in 15 ms."""
    return abctree.External(
        [PYTHON, "-S", "-E", "-c", code.replace("{", "{{").replace("}", "}}"), *arguments],
        **{"names": ("a", "b"), "timeout": 60, **kwargs},
    )


def script(tmp_path, text):
    path = tmp_path / "model.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def call(model, theta=(1.5, -2.0), seed=0):
    return model(np.array(theta), np.random.default_rng(seed))


ECHO = "import json, sys; print(json.dumps([float(x) for x in sys.argv[1:]]))"


# Ways in ----------------------------------------------------------------------------------------


def test_parameters_come_as_arguments_with_all_digits():
    theta = [1 / 3, -1e-300]
    assert call(python(ECHO, "{a}", "{b}"), theta) == theta


def test_format_specifications_are_the_users():
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    model = python(code, "--n={a:.0f}", "{b:+.2e}", "{{a}}", "{a}{b}")
    assert call(model, [3.0, 0.125]) == ["--n=3", "+1.25e-01", "{a}", "3.00.125"]


def test_a_command_in_one_line_sees_no_shell(tmp_path):
    path = script(tmp_path, f'printf "%s\\n" "$#" "$1" "$2" > {tmp_path}/seen; echo 1,2')
    model = abctree.External(
        f"'{path}' --x='{{a}} $HOME' '; touch {tmp_path}/bad'", "stdout-csv", names=("a", "b")
    )
    np.testing.assert_array_equal(call(model), [1.0, 2.0])
    assert (tmp_path / "seen").read_text().splitlines() == [
        "2", "--x=1.5 $HOME", f"; touch {tmp_path}/bad",
    ]  # fmt: skip
    assert not (tmp_path / "bad").exists()


def test_parameters_come_by_environment_input_file_and_standard_input():
    code = (
        "import json, os, sys\n"
        "one = float(os.environ['MODEL_A'])\n"
        "two = json.load(open('in/model.json'))['b']\n"
        "three = float(sys.stdin.read())\n"
        "print(json.dumps([one, two, three, 'PATH' in os.environ, os.path.exists(sys.argv[1])]))"
    )
    model = python(
        code,
        "{dir}/in/model.json",
        env={"MODEL_A": "{a}"},
        files={"in/model.json": '{{"b": {b}}}'},
        stdin="{a:.3f}",
    )
    assert call(model) == [1.5, -2.0, 1.5, True, True]


def test_each_simulation_has_a_seed_of_its_own():
    code = "import json, sys; print(json.dumps(int(sys.argv[1])))"
    model = python(code, "{seed}")
    seeds = [call(model, seed=s) for s in (0, 0, 1)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert all(0 <= s < 2**31 for s in seeds)
    large = [call(python(code, "{seed}", seed_bits=63), seed=s) for s in range(3)]
    assert max(large) >= 2**33
    assert all(call(python(code, "{seed}", seed_bits=1), seed=s) < 2 for s in range(4))


# Ways out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5", [1.5]),
        ("1, 2,3", [1.0, 2.0, 3.0]),
        ("1 2\n3 4\n\n", [[1.0, 2.0], [3.0, 4.0]]),
        ("1\n2\n", [[1.0], [2.0]]),
        ("nan inf", [np.nan, np.inf]),
        ("1_000 2\n3 4", [[1000.0, 2.0], [3.0, 4.0]]),  # read word by word
        ("\ufeff1.5", [1.5]),  # as Windows begins a text
    ],
)
def test_csv_is_read_as_numbers(text, expected):
    out = call(python(f"print({text!r})", output="stdout-csv"))
    assert out.shape == np.shape(expected)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day,cases\n1,5\n2,8\n", {"day": [1.0, 2.0], "cases": [5.0, 8.0]}),
        ("day cases\n1 5\n2\t 8", {"day": [1.0, 2.0], "cases": [5.0, 8.0]}),
        (
            '"","the mean","n"\n"Leeds",1.5,NA\n"York",2.5,3',
            {"the mean": [1.5, 2.5], "n": [np.nan, 3]},
        ),
        ("mean, sd\n\n1.5, 0.25\n", {"mean": 1.5, "sd": 0.25}),
        ("x\n1\nmissing", {"x": [1.0, np.nan]}),
        ('"","n"\n"1",1.5\n"2",2.5', {"n": [1.5, 2.5]}),
        ("\ufeffx,y\r\n1,2\r\n", {"x": 1.0, "y": 2.0}),
    ],
)
def test_columns_below_a_header_are_read_by_name(text, expected):
    out = call(python(f"print({text!r})", output="stdout-csv"))
    assert list(out) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(out[name], column)


def test_columns_in_another_order_are_compared_by_name():
    table = "print('cases,day'); print('5,1'); print('8,2')"
    problem = abctree.Problem(
        PRIOR, python(table, output="stdout-csv"), {"day": [1, 2], "cases": [5, 8]}
    )
    summary = problem.simulate(np.zeros((1, 2)), np.arange(1), 0).summary
    np.testing.assert_array_equal(summary[0], problem.observed_summary)


def test_json_is_read_as_it_is():
    value = {"mean": 1.5, "counts": [1, 2]}
    assert call(python(f"print({json.dumps(value)!r})")) == value


@pytest.mark.parametrize(
    ("name", "write", "cwd"),
    [
        ("out.json", "open('out.json', 'w').write('[1, 2]')", False),
        ("out.txt", "open('out.txt', 'w').write('1 2')", False),
        ("x_{seed}.csv", "import sys; open(f'x_{sys.argv[1]}.csv', 'w').write('1,2')", False),
        ("x_{seed}.csv", "import sys; open(f'x_{sys.argv[1]}.csv', 'w').write('1,2')", True),
    ],
)
def test_output_is_read_from_a_file(tmp_path, name, write, cwd):
    model = python(write, "{seed}", output=name, cwd=tmp_path if cwd else None)
    np.testing.assert_array_equal(call(model), [1, 2])


def test_npy_files_are_read_but_never_unpickled(tmp_path):
    np.save(tmp_path / "sound.npy", [1.0, 2.0])
    evil = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "evil.npy", evil, allow_pickle=True)
    copy = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    sound = python(copy, str(tmp_path / "sound.npy"), "{dir}/x.npy", output="{dir}/x.npy")
    np.testing.assert_array_equal(call(sound), [1.0, 2.0])
    with pytest.raises(external.ProgramError, match=r"np[yz] cannot be read.*allow_pickle=False"):
        call(python(copy, str(tmp_path / "evil.npy"), "{dir}/x.npy", output="{dir}/x.npy"))


def test_arrays_of_an_npz_file_are_read_by_name(tmp_path):
    np.savez(tmp_path / "kept.npz", x=[1.0, 2.0], y=3.0)
    np.savez(tmp_path / "evil.npz", x=np.array([{"a": 1}], dtype=object))
    copy = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    out = call(python(copy, str(tmp_path / "kept.npz"), "x.npz", output="x.npz"))
    assert {name: value.tolist() for name, value in out.items()} == {"x": [1.0, 2.0], "y": 3.0}
    with pytest.raises(external.ProgramError, match=r"np[yz] cannot be read.*allow_pickle=False"):
        call(python(copy, str(tmp_path / "evil.npz"), "x.npz", output="x.npz"))


def first_word(stdout, folder):
    return [float(stdout.split()[0]), float((folder / "second").read_text())]


#: Writes where it is told, in the directory that all simulations share, unless a is positive.
SHY = "import sys; a = float(sys.argv[1]); a > 0 or open(sys.argv[2], 'w').write(str(a))"


def test_the_output_of_an_earlier_simulation_is_not_the_answer_of_the_next(tmp_path):
    model = python(SHY, "{a}", "out-{seed}.txt", output="out-{seed}.txt", cwd=tmp_path)
    np.testing.assert_array_equal(call(model, (-1.0, 0.0)), [-1.0])
    with pytest.raises(external.ProgramError, match="it wrote no file out-"):
        call(model, (1.0, 0.0))  # of the same seed: the same file


def test_an_old_output_that_is_left_would_be_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(external.Path, "unlink", lambda *_: None)
    model = python(SHY, "{a}", "out-{seed}.txt", output="out-{seed}.txt", cwd=tmp_path)
    call(model, (-1.0, 0.0))
    np.testing.assert_array_equal(call(model, (1.0, 0.0)), [-1.0])


def test_an_input_file_may_become_the_output():
    code = "open('state.txt', 'a').write(' 7')"
    model = python(code, files={"state.txt": "{a}"}, output="state.txt")
    np.testing.assert_array_equal(call(model), [1.5, 7.0])


@pytest.mark.parametrize("output", ["out.json", "{a}.json", "/tmp/out.json"])
def test_a_file_that_simulations_would_share_is_refused(tmp_path, output):
    with pytest.raises(abctree.ParameterError, match=r"`output` must use \{dir\} or \{seed\}"):
        python("", output=output, cwd=tmp_path)


@pytest.mark.parametrize("output", ["stdout-csv", "{dir}/out.json", "out-{seed}.json", first_word])
def test_what_simulations_do_not_share_may_be_used_in_a_common_directory(tmp_path, output):
    assert python("", output=output, cwd=tmp_path).output == output


def test_output_may_be_a_function_of_text_and_directory():
    code = "print('3.5 is the answer'); open('second', 'w').write('4')"
    assert call(python(code, output=first_word)) == [3.5, 4.0]


# Other languages --------------------------------------------------------------------------------

#: The same model in each language: a table of three counts, which only needs rate and seed.
LANGUAGES = {
    "sh": (
        'awk -v rate="$1" -v seed="$2" \'BEGIN { srand(seed); print "day,cases"; '
        'for (i = 1; i <= 3; i++) print i "," int(rate * i + rand()) }\''
    ),
    "Rscript": (
        "given <- as.numeric(commandArgs(trailingOnly = TRUE)); set.seed(given[2])\n"
        "write.csv(data.frame(day = 1:3, cases = floor(given[1] * 1:3 + runif(3))))"
    ),
    "julia": (
        "using Random; rate, seed = parse.(Float64, ARGS); Random.seed!(Int(seed))\n"
        'println("day,cases")\n'
        'foreach(i -> println(i, ",", floor(rate * i + rand())), 1:3)'
    ),
}
#: What reads its arguments and writes its table as Julia does, where there is none.
NO_JULIA = f"""#!/bin/sh
grep -q 'parse.(Float64, ARGS)' "$1" && exec {PYTHON} -S -E -c '
import random, sys
random.seed(int(sys.argv[2]))
print("day,cases")
for i in 1, 2, 3:
    print(i, float(sys.argv[1]) * i + random.random() // 1, sep=",")
' "$2" "$3"
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", LANGUAGES)
def test_three_lines_connect_a_script_in_another_language(tmp_path, monkeypatch, program):
    if program == "julia" and shutil.which("julia") is None:
        (tmp_path / "julia").write_text(NO_JULIA)
        (tmp_path / "julia").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.txt").write_text(LANGUAGES[program])

    model = abctree.External(f"{program} model.txt {{rate}} {{seed}}", "stdout-csv", timeout=60)
    problem = abctree.Problem({"rate": (0.0, 9.0)}, model, {"day": [1, 2, 3], "cases": [4, 8, 12]})
    result = abctree.rejection(problem, n_simulations=30, keep=3, rng=1)

    assert result.failures.count == 0, result.failures.reasons
    assert abs(result.posterior().mean()[0] - 4.0) < 1.0
    assert len(np.unique(result.table.distance)) > 1


def test_a_script_is_named_from_here_and_its_output_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.sh", "out.csv"):
        (tmp_path / name).write_text("")
    command = ("sh", "-e", "model.sh", "out.csv")
    model = abctree.External(command, "out.csv")
    assert model.command == ("sh", "-e", str(tmp_path / "model.sh"), "out.csv")
    assert abctree.External(("sh", "out.csv"), "out.csv").command == ("sh", "out.csv")
    here = abctree.External(command, "{dir}/out.csv", cwd=tmp_path)
    assert here.command == command


# What goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kwargs", "says"),
    [
        ("import sys; sys.exit('no convergence at step 7')", {}, "exit code 1: no convergence"),
        ("raise SystemExit(3)", {}, "exit code 3, without a word on standard error"),
        ("import os; os.abort()", {}, "killed by SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", {}, "killed by SIGKILL"),
        ("print('Welcome to Model 1.0')", {}, "cannot be read as json.*'Welcome to Model 1.0'"),
        ("", {}, "cannot be read as json"),
        ("", {"output": "stdout-csv"}, "there is nothing"),
        ("print('1 2\\n3')", {"output": "stdout-csv"}, "different numbers of columns"),
        ("print('1 two')", {"output": "stdout-csv"}, "could not convert"),
        ("print('x,y')", {"output": "stdout-csv"}, "there is nothing below its header"),
        ("print('x,y\\n1')", {"output": "stdout-csv"}, "different numbers of columns"),
        ("print('x,x\\n1,2')", {"output": "stdout-csv"}, "have the same name"),
        ("print('x,y\\n1,Leeds')", {"output": "stdout-csv"}, "could not convert.*Leeds"),
        ("print('[' * 100000)", {}, "cannot be read as json"),
        ("", {"output": "out.json"}, "it wrote no file out.json"),
        ("import os; os.mkdir('out.json')", {"output": "out.json"}, "wrote no file"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", {}, "cannot be read as json"),
    ],
)
def test_a_program_that_fails_says_why(code, kwargs, says):
    with pytest.raises(external.ProgramError, match=says):
        call(python(code, **kwargs))


@pytest.mark.parametrize("header", ["", "x,y,z\n"])
def test_a_plain_table_is_not_read_word_by_word(header, monkeypatch):
    def read_slowly(rows):
        raise AssertionError(rows)

    monkeypatch.setattr(program_output, "_check_width", read_slowly)
    found = program_output.read((header + "1.5,2.5,3.5e-3\n" * 10).encode(), "csv")
    columns = list(found.values()) if header else found.T
    np.testing.assert_array_equal(np.transpose(columns), [[1.5, 2.5, 3.5e-3]] * 10)
    with pytest.raises(AssertionError, match="missing"):  # twin
        program_output.read((header + "1.5,2.5,missing\n" * 2).encode(), "csv")


def test_only_the_last_words_of_a_talkative_program_are_kept():
    code = "import sys; sys.stderr.write('chatter ' * 100000 + 'singular matrix'); sys.exit(2)"
    with pytest.raises(external.ProgramError, match=r"exit code 2: .*singular matrix$") as caught:
        call(python(code))
    assert len(str(caught.value)) < 400


def test_a_program_that_cannot_be_started_is_a_failure(tmp_path):
    path = script(tmp_path, "echo 1")
    model = abctree.External([str(path)], names=("a", "b"))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        call(model)


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("pidfd", [True, False])
def test_a_program_that_hangs_is_killed_with_its_children(tmp_path, monkeypatch, pidfd):
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\n"
        "sys.stderr.write('iterating'); sys.stderr.flush()\n"
        "time.sleep(60)"
    )
    model = python(code, str(tmp_path / "pid"), timeout=1.0)
    began = time.monotonic()
    with pytest.raises(external.ProgramError, match="no end after 1 s; killed: iterating"):
        call(model)
    assert time.monotonic() - began < 20
    child = int((tmp_path / "pid").read_text())
    until(lambda: not alive(child))


@pytest.mark.parametrize("pidfd", [True, False])
def test_a_time_limit_does_not_hold_up_a_program_that_ends(monkeypatch, pidfd):
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert call(python(ECHO, "{a}", timeout=50.0)) == [1.5]
    assert call(python(ECHO, "{a}", timeout=None)) == [1.5]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="its number may be another's by then")
@pytest.mark.parametrize("timeout", [None, 50.0, np.inf])
def test_what_a_program_leaves_behind_is_killed_and_not_waited_for(timeout):
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '60'])\n"  # it holds standard output open
        "print(f'[1, {child.pid}]')"
    )
    began = time.monotonic()
    _, child = call(python(code, timeout=timeout))
    assert time.monotonic() - began < 30.0
    until(lambda: not alive(child))


def test_an_interruption_kills_the_program_and_goes_on(tmp_path, monkeypatch):
    def interrupted(process, timeout):
        started.append(process)
        raise KeyboardInterrupt

    started = []
    monkeypatch.setattr(external, "_has_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(python("import time; time.sleep(60)"))
    assert started[0].returncode == -9


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("timeout") is None, reason="of coreutils")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("knows", [True, False])
def test_only_a_program_that_knows_its_time_ends_where_its_parent_was_killed(tmp_path, knows):
    inner = ["sh", "-c", f"sleep 60 & echo $! >'{tmp_path}/part'; mv part pid; wait"]
    command = ["timeout", "3", *inner] if knows else inner
    code = (
        "import abctree, numpy as np\n"
        f"model = abctree.External({command!r}, names=('a',), cwd={str(tmp_path)!r}, timeout=3)\n"
        "model(np.zeros(1), np.random.default_rng(1))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([PYTHON, "-c", code], env=environment) as parent:
        until((tmp_path / "pid").exists)
        parent.kill()
        parent.wait(60)
    child = int((tmp_path / "pid").read_text())
    if knows:
        until(lambda: not alive(child))
        return
    time.sleep(5.0)
    assert alive(child)
    os.kill(child, signal.SIGKILL)


# In a run ---------------------------------------------------------------------------------------

SHELL = """
[ "$1" = "${1#-}" ] || { echo "a is negative" >&2; exit 4; }
echo "$1 $2"
"""


@pytest.mark.slow
def test_a_run_learns_the_names_and_counts_the_failures(tmp_path):
    path = script(tmp_path, SHELL)
    model = abctree.External(f"{path} {{a}} {{b}} {{seed}}", "stdout-csv", timeout=60)
    problem = abctree.Problem(PRIOR, model, [1.0, -1.0])
    run = abctree.abc_tree(problem, n_simulations=120, rng=0)
    negative = run.table.theta[:, 0] < 0.0
    np.testing.assert_array_equal(np.isinf(run.table.distance), negative)
    np.testing.assert_array_equal(run.table.summary[~negative], run.table.theta[~negative])
    assert run.failures.reasons == {"ProgramError: exit code 4: a is negative": negative.sum()}
    with pytest.raises(external.ProgramError, match="a is negative"):
        run.failures.reproduce(run.problem)
    again = abctree.abc_tree(problem, n_simulations=120, rng=0, executor=Threads(2))
    np.testing.assert_array_equal(run.table.distance, again.table.distance)


def test_check_finds_a_program_that_ignores_its_seed(tmp_path):
    path = script(tmp_path, 'echo "$1 $2"')
    model = abctree.External(f"{path} {{a}} {{b}}", "stdout-csv")
    report = abctree.Problem(PRIOR, model, [1.0, -1.0]).check(rng=0)
    assert any("same answer for two seeds" in w for w in report.warnings)


def test_external_survives_pickling():
    model = python(ECHO, "{a}", "{b}", env={"X": "{a}"}, files={"in": "{b}"}, output="stdout-json")
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert call(again) == [1.5, -2.0]


def test_a_program_in_this_directory_is_found_from_the_temporary_one(tmp_path, monkeypatch):
    script(tmp_path, "echo 1 2; pwd >&2")
    monkeypatch.chdir(tmp_path)
    model = abctree.External("./model.sh", "stdout-csv", names=("a", "b"))
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(call(model), [1.0, 2.0])


# Mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"command": "no-such-program {a}"}, "'no-such-program' is not found"),
        ({"command": ""}, "`command` must be a program"),
        ({"command": ["sh", 3]}, "`command` must be a program"),
        ({"command": "sh {a.real}"}, "plain names"),
        ({"command": "sh {a!r}"}, "plain names"),
        ({"command": "sh {0}"}, "plain names"),
        ({"command": "sh {a:{b}}"}, "plain names"),
        ({"command": "sh {a"}, "`command` must be a template"),
        ({"command": "sh {c}"}, "names a, b, seed, dir only, but got {c}"),
        ({"command": "sh", "env": {"X": "{c}"}}, "`env` must use"),
        ({"command": "sh", "files": {"x": '{"a": 1}'}}, "`files` must use plain names"),
        ({"command": "sh", "files": {"../x": ""}}, "relative to the temporary"),
        ({"command": "sh", "files": {"/x": ""}}, "relative to the temporary"),
        ({"command": "sh", "stdin": "{c}"}, "`stdin` must use"),
        ({"command": "sh", "output": "{c}"}, "`output` must use"),
        ({"command": "sh", "timeout": 0}, "timeout"),
        ({"command": "sh", "seed_bits": 64}, "seed_bits"),
        ({"command": "sh", "cwd": "/no/such/place"}, "`cwd` must be a directory"),
        ({"command": "sh", "cwd": 3}, "`cwd` must be a directory"),
        ({"command": "sh 'a"}, "`command` must be a program"),
        ({"command": None}, "`command` must be a program"),
        ({"command": "sh {a:d}"}, "'{a:d}' is not .*'d'.*'float'.*Write {n:.0f}"),
        ({"command": "sh", "files": {"": ""}}, "relative to the temporary"),
        ({"command": "sh", "files": ["x"]}, "`files` must be a dict"),
        ({"command": "sh", "env": {"X": 3}}, "`env` must be a dict"),
        ({"command": "sh", "stdin": b"x"}, "`stdin` must be a template"),
        ({"command": "sh", "output": ""}, "`output` must be one of stdout-json, stdout-csv"),
    ],
)
def test_external_names_the_argument_that_breaks_its_rule(kwargs, says):
    with pytest.raises(abctree.ParameterError, match=says):
        abctree.External(**{"names": ("a", "b"), **kwargs})


def test_names_are_checked_when_the_problem_gives_them():
    model = abctree.External("sh {c}")
    with pytest.raises(abctree.ParameterError, match="names a, b, seed, dir only"):
        abctree.Problem(PRIOR, model, [1.0, -1.0])
    kept = abctree.External("sh {c}", names=("c", "d"))
    assert abctree.Problem(PRIOR, kept, [1.0, -1.0]).model.simulator is kept
    with pytest.raises(abctree.ParameterError, match="`names` must name the 2 columns"):
        call(model)
