"""`TrackPayload`: a payload of a video track, with metadata for the header of each frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

FrameMetadata = dict[str, Any] | bytes


@dataclass(frozen=True, slots=True, eq=False)
class TrackPayload:
    """Hold the frame or batch of a video track, and metadata that clients receive with each frame.

    `metadata` is a dict of JSON values, or bytes. For a batch it may be a list with one entry for each frame, None for
    a frame without metadata; otherwise all frames have the same. An `Output` keeps the array as its field,
    and the metadata beside it.
    """

    data: Any
    _: KW_ONLY
    metadata: FrameMetadata | Sequence[FrameMetadata | None] | None = None
