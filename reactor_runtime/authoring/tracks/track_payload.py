"""`TrackPayload`: a payload of a video track, with metadata for the header of each frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

FrameMetadata = dict[str, Any] | bytes


@dataclass(frozen=True, slots=True, eq=False)
class TrackPayload:
    """Give a frame or a batch of a video track metadata, which clients get with each frame.

    `metadata` is a dict of JSON values, or bytes. That of a batch goes with each of its frames, or is a list with one
    for each frame, None for none. An `Output` keeps the array as its field, and the metadata beside it.
    """

    data: Any
    _: KW_ONLY
    metadata: FrameMetadata | Sequence[FrameMetadata | None] | None = None
