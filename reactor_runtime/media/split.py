"""Splits the payload of one `yield` or `emit` into bundles: a frame of each video track with its piece of sound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from reactor_runtime.media.jpeg_frame import JpegFrame, Payload

# The rank of a batch of frames.
BATCH = 4


def split(payloads: Mapping[str, Payload], *, alone: int = 1) -> list[dict[str, Payload]]:
    """Split checked payloads (see `frames`) into bundles of one view per track; nothing is copied.

    A single frame beside a batch is in every bundle. Sound is cut evenly, longer pieces first; with fewer samples than
    bundles, the last bundles have none. Sound without frames makes `alone` bundles. Raises `ValueError` if batches
    differ in length.
    """
    batches = {track: payload for track, payload in payloads.items() if not isinstance(payload, JpegFrame)}
    counts = {track: len(payload) for track, payload in batches.items() if payload.ndim == BATCH}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{track} has {count}" for track, count in counts.items())
        raise ValueError(f"{listed} frames: batched tracks of one output must have the same number of frames")
    count = next(iter(counts.values()), alone)
    bundles: list[dict[str, Payload]] = [{} for _ in range(count)] if payloads else []
    for track, payload in payloads.items():
        for bundle, piece in zip(bundles, _pieces(payload, len(bundles)), strict=False):
            bundle[track] = piece
    return bundles


def _pieces(payload: Payload, count: int) -> Iterator[Payload]:
    if isinstance(payload, JpegFrame) or payload.ndim == BATCH - 1:
        for _ in range(count):
            yield payload
    elif payload.ndim == BATCH:
        yield from payload
    else:
        yield from _cut(payload, count)


def _cut(samples: NDArray[Any], count: int) -> Iterator[NDArray[Any]]:
    shortest, longer = divmod(samples.shape[1], count)
    start = 0
    while start < samples.shape[1]:
        end = start + shortest + (longer > 0)
        yield samples[:, start:end]
        start, longer = end, longer - 1
