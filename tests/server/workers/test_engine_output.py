from __future__ import annotations

import json
import math
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.workers.engine_output import BYTES_PER_S, OutputBudget, PrintedLines
from tests.server.running import RunningServer, listening, write_project

LINES = 200_000
MODEL = """
    import subprocess, threading

    LINE = "x" * 99

    class MyState(InputState):
        level: int = 0


    class MyModel(ReactorPipeline):
        state: MyState
        output: MyOutput
        fps = 30

        def load(self, config):
            WRITE

        def inference(self):
            while True:
                yield MyOutput(main_video=gray(0))
"""
WAYS = {
    "printed": 'print("\\n".join([LINE] * 200_000))',
    "by a thread": (
        "thread = threading.Thread(target=lambda: [print(LINE) for _ in range(200_000)]); thread.start(); thread.join()"
    ),
    "to stderr": 'sys.stderr.write((LINE + "\\n") * 200_000)',
    "by a program": 'subprocess.run(f"yes {LINE} | head -n 200000", shell=True)',
}
TERMINAL = """
import os
from reactor_runtime.server.workers.engine_output import EngineOutput
output = EngineOutput("text", dict)
output.close()
print(output.fds)
"""


def left_out(text: str) -> int:
    return sum(map(int, re.findall(r"more than 1 MB a second: (\d+) lines left out", text)))


def test_a_second_admits_so_many_bytes_and_counts_the_lines_of_the_rest() -> None:
    budget = OutputBudget(100, 0)
    assert [budget.admit(b"%b\n" % (b"x" * 49), now) for now in (5.0, 5.1, 5.2, 5.9)] == [True, True, False, False]
    assert (budget.left_out, budget.report(5.99), budget.report(6.0), budget.report(6.0)) == (2, 0, 2, 0)
    assert budget.admit(b"x\n", 6.0)


def test_nothing_follows_in_a_second_that_has_left_something_out() -> None:
    budget = OutputBudget(100, 0)
    assert not budget.admit(b"x" * 101, 0.0)
    assert not budget.admit(b"x\n", 0.5)
    assert budget.report(1.0) == 2


def test_a_line_may_cost_more_than_its_text() -> None:
    budget = OutputBudget(100, 10)
    assert not budget.admit(b"x\n" * 9, 0.0)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    is_ended=st.booleans(),
    cuts=st.lists(st.tuples(st.integers(0, 1000), st.floats(0.0, 0.9))),
    limit=st.integers(0, 200),
)
def test_each_line_is_written_whole_or_counted_once_whatever_the_pieces(
    sizes: list[int], is_ended: bool, cuts: list[tuple[int, float]], limit: int
) -> None:
    lines = [b"<%d%b>" % (number, b"x" * size) for number, size in enumerate(sizes)]
    text = b"\n".join(lines) + b"\n" * is_ended
    budget, written, now, begin = OutputBudget(limit, 0), b"", 0.0, 0
    printed = PrintedLines(budget)
    for cut, pause_s in [*sorted(cuts), (len(text), 0.0)]:
        now += pause_s
        written += printed.admit(text[begin:cut], now)
        begin = min(cut, len(text))
    whole = [line for line in written.split(b"\n") if line in lines]
    assert whole == sorted(whole, key=lines.index)
    assert len(whole) + budget.report(math.inf) == len(lines)


def test_a_line_that_can_not_be_written_to_its_end_counts_and_is_ended() -> None:
    budget = OutputBudget(10, 0)
    printed = PrintedLines(budget)
    pieces = [(b"a\nbegun", 0.0), (b"and too long", 0.1), (b", its end\nb\n", 1.0)]
    assert [printed.admit(*piece) for piece in pieces] == [b"a\nbegun", b"\n", b"b\n"]
    assert budget.report(math.inf) == 1


def test_a_line_that_was_written_is_ended_though_nothing_is_left_for_its_end() -> None:
    budget = OutputBudget(5, 0)
    printed = PrintedLines(budget)
    assert [printed.admit(piece, 0.0) for piece in (b"whole", b"\nb\n")] == [b"whole", b"\n"]
    assert budget.report(math.inf) == 1


@pytest.mark.parametrize("way", WAYS)
def test_what_a_model_prints_without_end_is_limited_and_counted(tmp_path: Path, way: str) -> None:
    with listening(write_project(tmp_path, MODEL.replace("WRITE", WAYS[way]))) as server:
        server.wait_for("ready in")
        server.stop()
        written = len(re.findall(r"^x{99}$", server.log, re.MULTILINE))
        assert 0 < written < LINES
        assert written + left_out(server.log) == LINES


def test_what_a_model_prints_without_end_is_limited_in_json_too(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL.replace("WRITE", WAYS["printed"]))
    with listening(project, "--log-format", "json") as server:
        server.wait_for("ready in")
        server.stop()
        messages = [json.loads(line)["message"] for line in server.log.splitlines()]
        written = messages.count("x" * 99)
        assert 0 < written < LINES
        assert written + left_out(server.log) == LINES


def test_what_a_model_prints_is_before_what_the_server_writes_then(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL.replace("WRITE", 'print("\\n".join([LINE] * 5000))'))) as server:
        server.wait_for("ready in")
        assert server.log.partition("ready in")[0].count("x" * 99) == 5000
        server.stop()


def test_a_prompt_is_shown_though_its_line_has_no_end(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    os.mkfifo(answer)
    reading = f'answer = os.open("{answer}", os.O_RDONLY | os.O_NONBLOCK)'
    asking = f'{reading}; os.write(1, b"password: "); os.set_blocking(answer, True); select.select([answer], [], [])'
    project = write_project(tmp_path, MODEL.replace("WRITE", f"import select; {asking}"))
    with listening(project) as server:
        server.wait_for(r"password: ")
        os.close(os.open(answer, os.O_WRONLY | os.O_NONBLOCK))
        server.wait_for("ready in")
        server.stop()


def test_stdout_and_stderr_stay_apart(tmp_path: Path) -> None:
    model = MODEL.replace("WRITE", 'print("to stdout"); print("to stderr", file=sys.stderr); os.write(2, b"below\\n")')
    project = write_project(tmp_path, model)
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "reactor_cli", "run", str(project), "--port", "0"], stdout=out, stderr=err
        )
        server = RunningServer(process, tmp_path / "err")
        server.until(lambda: b"ready in" in (tmp_path / "out").read_bytes(), "ready")
        process.terminate()
        assert process.wait() == 0
    assert "to stdout\n" in (tmp_path / "out").read_text()
    assert "to stderr\nbelow\n" in server.log
    assert "to stdout" not in server.log


def test_an_engine_keeps_the_terminal() -> None:
    ours, theirs = pty.openpty()
    with open(theirs, "wb") as terminal:
        subprocess.run([sys.executable, "-c", TERMINAL], stdout=terminal, stderr=terminal, check=True)
    assert b"(None, None)" in os.read(ours, 1000)
    os.close(ours)


def test_the_limit_is_what_the_documentation_says() -> None:
    assert BYTES_PER_S == 1_000_000
