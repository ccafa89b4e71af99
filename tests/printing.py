"""Standard streams as the two programs have them, on files that a test reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reactor_runtime.logs.streams import StandardStream


@dataclass(frozen=True, slots=True)
class Streams:
    """A stdout and a stderr, and the files they write to."""

    stdout: StandardStream
    stderr: StandardStream
    folder: Path

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()


@contextlib.contextmanager
def standard_streams(folder: Path) -> Iterator[Streams]:
    """Open both on files in `folder`."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        yield Streams(StandardStream(out), StandardStream(err), folder)
