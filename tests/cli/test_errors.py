from __future__ import annotations

import os
from pathlib import Path

from reactor_cli.errors import render
from reactor_runtime.errors import ClassError, Location, ReactorError


def shown(error: ReactorError, *, verbose: bool = False) -> str:
    return render(error, verbose=verbose).plain


def test_an_error_alone_is_one_line() -> None:
    assert shown(ReactorError("the port is taken")) == "error: the port is taken"


def test_an_error_has_location_excerpt_caret_and_hint() -> None:
    where = Location("reactor.yaml", 12, 1, 6, "confg: config.yml")
    assert shown(ReactorError('unknown key "confg"', where=where, hint='did you mean "config"?')).splitlines() == [
        'error: unknown key "confg"',
        "  --> reactor.yaml:12:1",
        "   |",
        "12 | confg: config.yml",
        "   | ^^^^^",
        'hint: did you mean "config"?',
    ]


def test_a_long_call_stack_is_shortened_in_the_middle() -> None:
    trail = [Location("a.py", line, text=f"step({line})") for line in range(1, 101)]
    lines = shown(ReactorError("x", where=trail[-1], trail=trail)).splitlines()
    steps = lines[lines.index("  call stack:") + 1 :]
    assert len(steps) == 13
    assert (steps[0].split()[-1], steps[6].strip(), steps[-1].split()[-1]) == ("step(1)", "… 88 more …", "step(100)")


def test_a_location_without_text_has_no_excerpt() -> None:
    assert shown(ReactorError("x", where=Location("a.py", 3, 1))) == "error: x\n  --> a.py:3:1"


def test_an_unknown_column_has_no_caret() -> None:
    lines = shown(ReactorError("x", where=Location("a.py", 3, text="y = 1"))).splitlines()
    assert lines[1:] == ["  --> a.py:3", "  |", "3 | y = 1"]


def test_the_caret_is_below_its_column_after_tabs_and_wide_characters() -> None:
    lines = shown(ReactorError("x", where=Location("a.py", 1, 5, 7, "\t日é = boom"))).splitlines()
    assert lines[-1] == "  | \t    ^^"


def test_a_call_stack_of_several_steps_is_shown() -> None:
    outer = Location("pipeline.py", 20, 9, 0, "        self.net = build(config)")
    inner = Location("net.py", 3, 5, 0, "    raise ValueError(3)")
    text = shown(ReactorError("load() raised ValueError: 3", where=inner, trail=[outer, inner]))
    assert "  call stack:\n    pipeline.py:20:9  self.net = build(config)\n    net.py:3:5  raise ValueError(3)" in text
    assert "call stack" not in shown(ReactorError("x", where=inner, trail=[inner]))


def test_control_characters_of_every_part_are_escaped() -> None:
    where = Location("a\x1b.py", 3, 1, 2, "x\x1b = 1")
    error = ReactorError("m\x1b", where=where, hint="h\x1b", details="d\x1b", trail=[where, where])
    text = shown(error, verbose=True)
    assert "\x1b" not in text
    assert text.count("\\x1b") == 9


def test_the_caret_is_below_its_column_after_an_escaped_character() -> None:
    lines = shown(ReactorError("x", where=Location("a.py", 1, 3, 4, "\x1b=boom"))).splitlines()
    assert lines[-2:] == ["1 | \\x1b=boom", "  |      ^"]


def test_a_wrong_declaration_is_shown_without_a_word_about_its_traceback() -> None:
    error = ClassError("MyState.size needs a default", details="Traceback")
    assert "--verbose" not in shown(error)
    assert shown(error, verbose=True).endswith("Traceback")


def test_the_traceback_is_shown_with_verbose_only() -> None:
    error = ReactorError("x", details="Traceback (most recent call last):\n  …\nValueError: 3\n")
    assert "Traceback" not in shown(error)
    assert "--verbose" in shown(error)
    assert shown(error, verbose=True).endswith("\nValueError: 3")


def test_paths_are_relative_to_the_current_directory() -> None:
    below = Path.cwd() / "some" / "pipeline.py"
    assert f"--> {os.path.join('some', 'pipeline.py')}:1" in shown(ReactorError("x", where=Location(str(below), 1)))
    far = Path("/far.py")
    assert "--> /far.py:1" in shown(ReactorError("x", where=Location(str(far), 1)))
