"""Recordings of sessions that a test plays in a studio."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.ipc.messages import StartSession
from reactor_runtime.testing import Studio
from reactor_runtime.testing.studio import CLIENT, JOINED_AT_UNIX


@contextlib.contextmanager
def recorded(
    model: type[Model],
    directory: Path,
    config: dict[str, Any] | None = None,
    *,
    with_video: bool = False,
    warm_up: bool = False,
    project: Path | None = None,
    stepped: bool = False,
) -> Iterator[Studio[Model]]:
    """Record the sessions that the block plays into `directory`."""
    options = RecordOptions(directory, video="lossless" if with_video else "")
    recorder = Recorder(options, config or {}, project or directory)
    with contextlib.closing(recorder), Studio(model, config, logs=recorder) as studio:
        if warm_up:
            studio.warm_up()
        studio._connect(StartSession("s-1", CLIENT, JOINED_AT_UNIX, stepped))
        yield studio
