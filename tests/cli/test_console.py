from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from reactor_cli import console
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


def test_control_characters_are_escaped() -> None:
    assert console.printable("a\x1b[2Jb\x07\x9b\u202e\tc\n") == "a\\x1b[2Jb\\x07\\x9b\\u202e\tc\n"
