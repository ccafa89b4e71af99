"""Rehearse a model as `reactor check --step` does: load it, and make the first step of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks import TrackSpec
from reactor_runtime.engine.author import session_failure
from reactor_runtime.errors import LoadError, ReactorError, author_error
from reactor_runtime.testing.studio import Studio

PATIENCE_S = 10.0
HEIGHT, WIDTH = 480, 640
PIECES = 32  # as many images, and tenths of a second of sound, wait for the model: it may read several at once


def rehearse(contract: Contract, config: dict[str, Any], project: Path) -> list[ReactorError]:
    """Load a model and make its first step; return what is probably not meant.

    Raises LoadError or ModelFailed, at the author's line, for what can't be loaded or shown.
    """
    model = contract.model
    try:
        studio = Studio(model, config, project=project)
    except ReactorError:
        raise
    except BaseException as error:
        what = "load() failed" if contract.style.prepared_in == "load" else f"making {model.__name__} failed"
        raise author_error(LoadError, what, error, project) from error
    with studio:
        contract.style.check_loaded(studio.model)
        try:
            studio.connect()
            for track in contract.tracks:
                if track.direction == "in":
                    studio.push_media(track.name, test_media(track))
            return studio.make_first_frame(PATIENCE_S)
        except BaseException as error:
            raise session_failure(error, project) from error


def test_media(track: TrackSpec) -> NDArray[Any]:
    """Return what a client might send for an input track: images of a gradient, or a tone of 440 Hz."""
    if track.kind == "video":
        image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
        image[..., 0] = np.linspace(0, 255, WIDTH, dtype=np.uint8)
        image[..., 1] = np.linspace(0, 255, HEIGHT, dtype=np.uint8)[:, None]
        image[..., 2] = 128
        return np.broadcast_to(image, (PIECES, *image.shape))
    rate = track.sample_rate or 1
    times = np.arange(rate * PIECES // 10) / rate
    return (8192 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)[np.newaxis]
