from __future__ import annotations

import re
from pathlib import Path

import pytest

from reactor_cli.__main__ import refusal
from reactor_cli.app import COMMANDS
from reactor_runtime import __version__
from tests.cli.command import declared, new_reactor, python, reactor
from tests.forks import ROOT

HEAVY = {"starlette", "uvicorn", "numpy", "pydantic", "simplejpeg", "torch", "rich", "yaml", "websockets"}


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)], ids=" ".join)
def test_help_lists_commands_and_examples(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = reactor(*arguments, cwd=tmp_path)
    assert outcome.code == 0
    assert outcome.err == ""
    for text in (*COMMANDS, "--version", "reactor init my-model", "reactor run my-model"):
        assert text in outcome.out


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("check", ["--path", "--set", "--json", "--verbose"]),
        ("schema", ["--path", "--format", "--check", "--out", "--verbose"]),
        ("connect", ["--token", "--role", "--send", "--seconds", "--save", "--json", "--draw", "--verbose"]),
        ("status", ["--token", "--json", "--watch", "--verbose"]),
        ("init", ["--here", "--force", "--template", "-t", "--list"]),
        (
            "run",
            [
                "--path",
                "--host",
                "--port",
                "--set",
                "--open",
                "--max-waiting",
                "--max-viewers",
                "--log-level",
                "--log-format",
                "--verbose",
            ],
        ),
    ],
)
def test_every_command_explains_its_options(tmp_path: Path, command: str, options: list[str]) -> None:
    outcome = reactor(command, "--help", cwd=tmp_path)
    assert outcome.code == 0
    assert "Examples:" in outcome.out
    assert "\b" not in outcome.out
    for option in options:
        assert re.search(rf"(^|[ ,]){option}\b", outcome.out, re.MULTILINE), option


LOADED = """
import sys
from reactor_cli.app import main
code = main(sys.argv[1:])
print(*{name.partition(".")[0] for name in sys.modules})
sys.exit(code)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], *([name, "--help"] for name in COMMANDS)], ids=["reactor", *COMMANDS]
)
def test_help_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    outcome = python("-c", LOADED, *arguments, cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert not set(outcome.out.splitlines()[-1].split()) & HEAVY


def test_version(tmp_path: Path) -> None:
    outcome = new_reactor("--version", cwd=tmp_path)
    assert outcome.code == 0
    assert outcome.out == f"reactor {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["rnu"], 'there is no command "rnu"', "did you mean run? `reactor --help`"),
        (["inti", "x"], 'there is no command "inti"', "did you mean init? `reactor --help`"),
        (["frob"], 'there is no command "frob"', "`reactor --help`"),
        (["--frob"], "there is no option --frob", "`reactor --help`"),
        (["run", "--prot", "3"], "there is no option --prot", "did you mean --port? `reactor run --help`"),
        (["run", "-x"], "there is no option -x", "`reactor run --help`"),
        (["run", "--port", "x"], '--port: "x" is not a whole number from 0 to 65535', "`reactor run --help`"),
        (["run", "--port", "65536"], '--port: "65536" is not a whole number from 0 to 65535', "`reactor run --help`"),
        (
            ["run", "--max-session", "5 min"],
            '--max-session: "5 min" is not a time up to 30 days, such as 90, 90s, 5m or 1h',
            "`reactor run --help`",
        ),
        (["run", "--max-waiting", "-1"], '--max-waiting: "-1" is not a whole number from 0 on', "`reactor run --help`"),
        (["run", "--log-level", "loud"], '--log-level: "loud" is not one of debug, info,', "`reactor run --help`"),
        (["run", "--log-format", "xml"], '--log-format: "xml" is not one of text, json', "`reactor run --help`"),
        (["run", "a", "b"], "unexpected argument: b", "`reactor run --help`"),
        (["run", "--set"], "--set needs a value", "`reactor run --help`"),
        (["run", "--open=3"], "--open takes no value", "`reactor run --help`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_usage_error_has_a_hint_and_exit_code_2(tmp_path: Path, arguments: list[str], error: str, hint: str) -> None:
    outcome = reactor(*arguments, cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    first, second = outcome.err.splitlines()
    assert first.startswith(f"error: {error}")
    assert second == f"hint: {hint} lists the options"


def test_a_log_level_may_be_in_upper_case(tmp_path: Path) -> None:
    outcome = reactor("run", "--log-level", "DEBUG", cwd=tmp_path)
    assert outcome.err.startswith("error: there is no reactor.yaml")


def test_the_help_has_the_first_paragraph_of_each_command() -> None:
    texts = {name: (command.help or "").split("\n\n")[0].replace("\n", " ") for name, command in declared().items()}
    assert texts == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_named_command_is_imported_and_no_other(name: str) -> None:
    show = "import sys; print(sorted(name for name in sys.modules if name.startswith('reactor_cli.commands.')))"
    code = f"import sys; from reactor_cli import app; app.main(['{name}', '--help']); {show}"
    outcome = python("-c", code, cwd=ROOT)
    assert outcome.out.splitlines()[-1] == f"['reactor_cli.commands.{name}']"


BUG = """
import sys
from reactor_cli import app, console
@app.app.command("break")
def break_(context: app.typer.Context, verbose: bool = False) -> None:
    context.ensure_object(console.Settings).verbose = verbose
    raise ZeroDivisionError("division by zero")
sys.exit(app.main(sys.argv[1:]))
"""


def test_an_unexpected_exception_is_reported_as_a_bug(tmp_path: Path) -> None:
    outcome = python("-c", BUG, "break", cwd=tmp_path)
    assert outcome.code == 1
    assert outcome.err.startswith("error: this is a bug in reactor: ZeroDivisionError: division by zero\nhint: ")
    assert "Traceback" not in outcome.err


def test_verbose_shows_a_bug_s_traceback(tmp_path: Path) -> None:
    outcome = python("-c", BUG, "break", "--verbose", cwd=tmp_path)
    assert outcome.code == 1
    assert "Traceback (most recent call last)" in outcome.err


def test_windows_is_refused_with_a_hint_at_wsl() -> None:
    why = refusal("win32")
    assert why is not None
    assert "WSL" in why
    assert refusal("linux") is refusal("darwin") is None
