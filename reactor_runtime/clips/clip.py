"""A clip: a destination for frames and sound with their times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ClipTrack:
    """Describe a track of a clip: `sample_rate` in Hz for sound, None for video."""

    name: str
    sample_rate: int | None = None


@dataclass(frozen=True, slots=True)
class VideoPacket:
    """A frame as H.264, a byte stream; a key has its `parameter_sets` apart, and the `size` (width, height)."""

    data: bytes
    parameter_sets: bytes = b""
    size: tuple[int, int] | None = None


class Clip(Protocol):
    """Write frames and sound in the order of their times, in seconds from the start of the clip.

    Calls may hold the newest frame or piece of sound back until the next; arrays are copied. They raise ReactorError if
    the file can't be written, as on a full disk.
    """

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:
        """Add an RGB frame `(H, W, 3)`, which is shown until the next one of its track."""

    def write_packet(self, track: str, at_s: float, packet: VideoPacket) -> bool:
        """Add a frame as it is, in colours of BT.601; return False, and add nothing, where it has to be encoded.

        The frames that it depends on are those before it.
        """

    def write_sound(self, track: str, at_s: float, samples: NDArray[np.int16]) -> None:
        """Add samples `(channels, samples)` with 1 or 2 channels."""

    def close(self, end_s: float) -> list[Path]:
        """End the clip at `end_s`, and return what was written: no file if no frame and no sound came."""
