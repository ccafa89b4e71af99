"""Checks a file that is written at the end of a command, before the command begins."""

from __future__ import annotations

from pathlib import Path

from reactor_runtime.errors import UsageError


def check_output_file(path: Path) -> None:
    """Make the folder of a file that is written later, and leave the path as it is.

    Raises UsageError if the file can't be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path.parent} can't be made: {error.strerror}") from None
    existed = path.exists()
    try:
        path.open("ab").close()
        if not existed:
            # The path may be a link to a file that is to be made.
            path.resolve().unlink()
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
