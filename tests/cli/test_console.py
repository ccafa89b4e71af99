from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reactor_cli import console
from reactor_cli.errors import render
from reactor_runtime.errors import Location, ReactorError
from tests.cli.command import environment, reactor
from tests.timeouts import TIMEOUT_S


def on_a_terminal(*arguments: str, cwd: Path, **variables: str) -> str:
    """Run `reactor` with its output on a terminal, and return what it wrote there."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "reactor_cli", *arguments]
        env = environment(TERM="xterm", **variables)
        subprocess.run(command, cwd=cwd, env=env, stdout=theirs, stderr=theirs, timeout=TIMEOUT_S, check=False)
        return os.read(ours, 65536).decode()
    finally:
        os.close(theirs)
        os.close(ours)


def test_errors_are_coloured_on_a_terminal(tmp_path: Path) -> None:
    assert "\x1b[1;31merror:\x1b[0m" in on_a_terminal("run", cwd=tmp_path, NO_COLOR="")


def test_no_color_disables_colours(tmp_path: Path) -> None:
    text = on_a_terminal("run", cwd=tmp_path, NO_COLOR="1")
    assert "error:" in text
    assert "\x1b" not in text


def test_output_to_a_pipe_has_no_colours(tmp_path: Path) -> None:
    outcome = reactor("run", cwd=tmp_path, NO_COLOR="", TERM="xterm")
    assert "error:" in outcome.err
    assert "\x1b" not in outcome.out + outcome.err


def test_characters_that_a_stream_cannot_encode_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console.out("├── é …")
    assert stream.buffer.getvalue() == b"|-- ? ~\n"


def test_results_go_to_stdout_and_the_rest_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console.out("result")
    console.err("progress")
    console.warn("careful")
    assert capsys.readouterr() == ("result\n", "progress\nwarning: careful\n")


class TerminalStream(io.StringIO):
    """A stream that is a terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> TerminalStream:
    for name, value in (("COLUMNS", "40"), ("TERM", "xterm"), ("NO_COLOR", "")):
        monkeypatch.setenv(name, value)
    return TerminalStream()


def shown(content: RenderableType, stream: TerminalStream) -> str:
    """Return what is written for a result if stdout is this terminal."""
    with contextlib.redirect_stdout(stream):
        console.out(content)
    return stream.getvalue()


def table() -> Table:
    rows = Table.grid("", "", padding=(0, 2))
    rows.add_row(Text("name", "bold"), "word " * 20)
    return rows


def test_a_table_is_wrapped_at_the_width_of_a_terminal(stream: TerminalStream) -> None:
    lines = shown(table(), stream).splitlines()
    assert lines[0].startswith("\x1b[1mname\x1b[0m  word")
    assert len(lines) == 3


def test_an_error_is_not_wrapped_in_a_terminal(stream: TerminalStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    where = Location("pipeline.py", 1, 60, 64, f"x = {'1 + ' * 13}fail({'1 + ' * 13}1)")
    error = render(ReactorError("it failed", where=where), verbose=False)
    assert shown(error, stream).splitlines()[3:] == [f"1 | {where.text}", f"  | {' ' * 59}^^^^"]


def test_no_color_leaves_no_control_characters_in_a_table(
    stream: TerminalStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(table(), stream)


def test_a_table_in_a_pipe_is_neither_wrapped_nor_coloured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("COLUMNS", "40"), ("FORCE_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    console.out(table())
    assert capsys.readouterr().out == f"name  {'word ' * 19}word\n"


def test_text_is_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Table.grid("")
    rows.add_row("[bold]list[/]: array of [1, 2] :smile:")
    console.out(rows)
    assert capsys.readouterr().out == "[bold]list[/]: array of [1, 2] :smile:\n"


def test_control_characters_are_escaped() -> None:
    assert console.printable("a\x1b[2Jb\x07\x9b\u202e\tc\n") == "a\\x1b[2Jb\\x07\\x9b\\u202e\tc\n"
