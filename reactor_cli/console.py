"""Printing: results go to stdout, everything else to stderr, with colours if it is a terminal and NO_COLOR is unset."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal, TextIO

Style = Literal["bold", "dim", "red", "yellow", "green", "cyan"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "33", "green": "32", "cyan": "36"}
_ASCII = str.maketrans({"├": "|", "└": "`", "─": "-", "│": "|", "→": ">", "…": "~", "“": '"', "”": '"', "’": "'"})
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
_DIRECTIONS = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


@dataclass(slots=True)
class Settings:
    """The options of a command that affect how `app.py` prints its errors."""

    verbose: bool = False
    json_logs: bool = False


def printable(text: str) -> str:
    """Return text with control characters and changes of the writing direction escaped."""
    return text.translate({**_CONTROLS, **_DIRECTIONS})


def out(text: str = "", *, stream: TextIO | None = None) -> None:
    """Print a result on stdout, or on another stream, and flush."""
    _write(sys.stdout if stream is None else stream, text)


def err(text: str = "") -> None:
    """Print progress, a warning or an error on stderr, and flush."""
    _write(sys.stderr, text)


def warn(text: str) -> None:
    """Print a warning on stderr."""
    err(f"{paint('warning:', 'yellow', sys.stderr)} {text}")


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Return `text` with the colour codes for `stream` (stdout), unchanged if the stream shows no colours."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def paint_err(text: str, style: Style) -> str:
    """Return `text` with the colour codes for stderr."""
    return paint(text, style, sys.stderr)


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    print(text, file=stream, flush=True)
