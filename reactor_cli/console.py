"""Printing: results go to stdout, everything else to stderr, with colours if it is a terminal and NO_COLOR is unset.

Content of one line is a string, content of several lines an object of Rich. Tables and trees are wrapped at the width
of a terminal, and nowhere else.
"""

from __future__ import annotations

import io
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

Style = Literal["bold", "dim", "bold red", "yellow", "green", "cyan"]

# Importing Rich takes half as long as importing the rest of the command line; a line in one colour does without it.
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "bold red": "1;31", "yellow": "33", "green": "32", "cyan": "36"}
_UNWRAPPED = 10_000
_ASCII = str.maketrans({"├": "|", "└": "`", "─": "-", "│": "|", "→": ">", "…": "~", "“": '"', "”": '"', "’": "'"})
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
_DIRECTIONS = {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_ESCAPES = {**_CONTROLS, **_DIRECTIONS}


@dataclass(slots=True)
class Settings:
    """Hold the options of a command that affect how `app.py` prints its errors."""

    verbose: bool = False
    json_logs: bool = False


def printable(text: str) -> str:
    """Return text with control characters and changes of the writing direction escaped."""
    return text.translate(_ESCAPES)


def size_text(size_bytes: int) -> str:
    """Return a size in memory with its unit."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def out(content: RenderableType = "") -> None:
    """Print a result on stdout, and flush."""
    _write(sys.stdout, content)


def err(content: RenderableType = "") -> None:
    """Print progress, a warning or an error on stderr, and flush."""
    _write(sys.stderr, content)


def warn(text: str) -> None:
    """Print a warning of one line on stderr."""
    err(f"{paint('warning:', 'yellow', sys.stderr)} {text}")


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Return `text` with the colour codes for `stream` (stdout), unchanged if the stream shows no colours."""
    if not _has_colours(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(stream: TextIO, content: RenderableType) -> None:
    text = content if isinstance(content, str) else _render(content, stream)
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    print(text, file=stream, flush=True)


def _render(content: RenderableType, stream: TextIO) -> str:
    """Return the lines of an object of Rich, without the spaces with which a table fills its last column."""
    from rich.console import Console
    from rich.text import Text

    lines = io.StringIO()
    Console(
        file=lines,
        # By default FORCE_COLOR would colour a pipe, and NO_COLOR would keep bold text.
        force_terminal=stream.isatty(),
        color_system="standard" if _has_colours(stream) else None,
        width=None if stream.isatty() else _UNWRAPPED,
        markup=False,
        emoji=False,
        highlight=False,
        # A text is not wrapped, so that paths and commands can be copied and carets stay below their columns.
        soft_wrap=isinstance(content, Text),
    ).print(content, crop=False)
    return "\n".join(line.rstrip(" ") for line in lines.getvalue().removesuffix("\n").split("\n"))
