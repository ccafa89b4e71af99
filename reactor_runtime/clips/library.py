"""The import of PyAV, which only the extra `video` installs, and errors of its files."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from reactor_runtime.errors import ReactorError, UsageError


def need_av(path: Path) -> None:
    """Raise UsageError if PyAV, which writes and reads `path`, is not installed."""
    if importlib.util.find_spec("av") is None:
        raise UsageError(
            f"{path} needs PyAV, which is not installed", hint="install the extra: pip install 'reactor-live[video]'"
        )


def name_for_av(path: Path) -> str:
    """Return a name of a file that FFmpeg does not take for an address, as it takes `a:b.mp4`."""
    return str(path.absolute())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert the errors of PyAV and of the file system to ReactorError."""
    import av

    try:
        yield
    except (OSError, av.FFmpegError) as error:
        raise ReactorError(f"{path} can't be written: {error.strerror or error}") from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert the errors of PyAV and of the file system to UsageError."""
    import av

    try:
        yield
    except (OSError, av.FFmpegError) as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}") from error
