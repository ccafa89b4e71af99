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

from reactor_runtime.server.workers.engine_output import BYTES_PER_S, EngineOutput, OutputBudget, PrintedLines
from tests.server.running import RunningServer, listening, write_project

# 20 MB, for which a busy machine takes less than the 20 s in which all of it would be written.
LINES, LENGTH = 20_000, 999
MARKS = 200
MODEL = f"""
    import logging, multiprocessing, subprocess, threading

    LINE = "x" * {LENGTH}

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
    "printed": 'print("\\n".join([LINE] * 20_000))',
    "by a thread": (
        "thread = threading.Thread(target=lambda: [print(LINE) for _ in range(20_000)]); thread.start(); thread.join()"
    ),
    "to stderr": 'sys.stderr.write((LINE + "\\n") * 20_000)',
    "by a program": 'subprocess.run(f"yes {LINE} | head -n 20000", shell=True)',
}
# What the module has besides its class; load() calls it.
MARKING = f"""
    def work():
        for number in range({MARKS}):
            WRITE
            logging.getLogger("author").warning("mark %d", number)
"""
MARKING_WAYS = {
    "printed": f'print("\\n".join([LINE] * {LINES // MARKS}))',
    "by native code": f'os.write(1, (LINE + "\\n").encode() * {LINES // MARKS})',
}
FAILING = """
    CAUSE = "\\n".join(f"cause {number}" for number in range(1000))

    def work():
        stop = threading.Event()
        prints = lambda: [os.write(1, LINE.encode()) for _ in iter(stop.is_set, True)]
        threads = [threading.Thread(target=prints) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(20):
            try:
                raise ValueError(CAUSE)
            except ValueError:
                logging.getLogger("author").exception("failed %d", number)
        stop.set()
        for thread in threads:
            thread.join()
"""
# The log keeps its place while a model has redirected its output to a file, and in processes that it forks.
ELSEWHERE = """
    def work():
        logger, before = logging.getLogger("author"), os.dup(2)
        with open("CAPTURED", "wb") as file:
            os.dup2(file.fileno(), 2)
            logger.warning("captured")
            os.write(2, b"native\\n")
            os.dup2(before, 2)
        os.close(before)
        forked = multiprocessing.get_context("fork").Process(target=logger.warning, args=("forked",))
        forked.start()
        forked.join()
        print("\\x1eprinted\\x1f")
        logger.warning("\\x1elogged\\x1f")
"""
TERMINAL = """
import os
from reactor_runtime.server.workers.engine_output import EngineOutput
output = EngineOutput("text", dict)
output.close()
print(output.fds)
"""


FORMATS = ["text", "json"]


def working(directory: Path, work: str) -> Path:
    """Make a project with the function `work`, which load() calls."""
    return write_project(directory, MODEL.replace("WRITE", "work()") + work)


def messages(server: RunningServer, log_format: str) -> list[str]:
    """Return the lines of the log, or with JSON their messages."""
    # `splitlines` would split at control characters.
    lines = server.log.removesuffix("\n").split("\n")
    return lines if log_format == "text" else [json.loads(line)["message"] for line in lines]


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
        written = len(re.findall(rf"^x{{{LENGTH}}}$", server.log, re.MULTILINE))
        assert 0 < written < LINES
        assert written + left_out(server.log) == LINES


def test_what_a_model_prints_without_end_is_limited_in_json_too(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL.replace("WRITE", WAYS["printed"]))
    with listening(project, "--log-format", "json") as server:
        server.wait_for("ready in")
        server.stop()
        messages = [json.loads(line)["message"] for line in server.log.splitlines()]
        written = messages.count("x" * LENGTH)
        assert 0 < written < LINES
        assert written + left_out(server.log) == LINES


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize("way", MARKING_WAYS)
def test_what_a_model_prints_without_end_displaces_no_log_line(tmp_path: Path, way: str, log_format: str) -> None:
    project = working(tmp_path, MARKING.replace("WRITE", MARKING_WAYS[way]))
    with listening(project, "--log-format", log_format) as server:
        server.wait_for("ready in")
        server.stop()
        lines = messages(server, log_format)
        # Not the progress of loading, which shows the last line.
        marks = [line for line in lines if re.search("(^|author: )mark", line)]
        assert [line.rpartition("mark ")[2] for line in marks] == [str(number) for number in range(MARKS)]
        # The first second has these, and then the mark.
        assert lines[: lines.index(marks[0])].count("x" * LENGTH) == LINES // MARKS
        written = lines.count("x" * LENGTH)
        assert LINES // MARKS <= written < LINES
        assert written + left_out(server.log) == LINES


@pytest.mark.parametrize("log_format", FORMATS)
def test_a_long_traceback_is_whole_while_threads_print_without_end(tmp_path: Path, log_format: str) -> None:
    with listening(working(tmp_path, FAILING), "--log-format", log_format) as server:
        server.wait_for("ready in")
        server.stop()
        if log_format == "text":
            causes = "".join(f"    cause {number}\n" for number in range(1, 1000))
            assert re.findall(rf"author: failed (\d+)\n(?:    .*\n)*    ValueError: cause 0\n{causes}", server.log) == [
                str(number) for number in range(20)
            ]
        else:
            lines = [json.loads(line) for line in server.log.splitlines()]
            failed = [line for line in lines if line["logger"] == "author"]
            assert [line["message"] for line in failed] == [f"failed {number}" for number in range(20)]
            assert all(line["traceback"].endswith("\ncause 999") for line in failed)


def test_what_a_model_logs_without_end_is_limited_and_counted_apart(tmp_path: Path) -> None:
    logging = f'for _ in range({LINES}): logging.getLogger("author").warning(LINE)\n        print("the end")'
    with listening(working(tmp_path, f"\n    def work():\n        {logging}\n")) as server:
        server.wait_for("ready in")
        server.stop()
        written = len(re.findall(rf"author: x{{{LENGTH}}}$", server.log, re.MULTILINE))
        assert 0 < written < LINES
        assert written + left_out(server.log) == LINES
        assert "the model logs more than 1 MB a second: " in server.log
        assert "the end\n" in server.log


@pytest.mark.parametrize("log_format", FORMATS)
def test_log_lines_are_in_the_log_alone_wherever_the_model_writes_them(tmp_path: Path, log_format: str) -> None:
    captured = tmp_path / "captured"
    project = working(tmp_path, ELSEWHERE.replace("CAPTURED", str(captured)))
    with listening(project, "--log-format", log_format) as server:
        server.wait_for("ready in")
        server.stop()
        lines = [line.rpartition("author: ")[2] for line in messages(server, log_format)]
    assert captured.read_bytes() == b"native\n"
    escaped = "\\x1elogged\\x1f" if log_format == "text" else "\x1elogged\x1f"
    wanted = ["captured", "forked", "\x1eprinted\x1f", escaped]
    assert [line for line in lines if re.search("captured|native|forked|printed|logged", line)] == wanted


def test_what_a_model_prints_is_before_what_the_server_writes_then(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL.replace("WRITE", 'print("\\n".join([LINE] * 500))'))) as server:
        server.wait_for("ready in")
        assert server.log.partition("ready in")[0].count("x" * LENGTH) == 500
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


def test_what_an_engine_wrote_without_an_end_is_not_joined_with_that_of_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    output = EngineOutput("json", dict)
    stdout, _ = output.fds
    assert stdout is not None
    os.write(stdout, b"\x1e%bL1.1/2 half of a record\x1flast words" % output.log_mark.encode())
    output.catch_up_with_end()
    os.write(stdout, b"first words\n")
    output.close()
    assert caplog.messages == ["last words", "half of a record", "first words"]


def test_a_line_without_its_end_is_ended_before_log_lines_and_with_its_engine(
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = EngineOutput("text", dict)
    _, stderr = output.fds
    assert stderr is not None
    packet = b"\x1e%bL1.1/1 logged\n\x1f" % output.log_mark.encode()
    os.write(stderr, b"begun" + 2 * packet + b", continued")
    output.catch_up_with_end()
    os.write(stderr, b"first words\n")
    output.close()
    assert capfd.readouterr().err == "begun\nlogged\nlogged\n, continued\nfirst words\n"


def test_an_engine_keeps_the_terminal() -> None:
    ours, theirs = pty.openpty()
    with open(theirs, "wb") as terminal:
        subprocess.run([sys.executable, "-c", TERMINAL], stdout=terminal, stderr=terminal, check=True)
    assert b"(None, None)" in os.read(ours, 1000)
    os.close(ours)


def test_the_limit_is_what_the_documentation_says() -> None:
    assert BYTES_PER_S == 1_000_000
