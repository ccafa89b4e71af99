"""Animated images: GIF and WebP files of one video track, which repeat for ever."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import OutputContainer
from av.filter import Graph
from av.video.stream import VideoStream
from numpy.typing import NDArray

from reactor_runtime.clips.clip import ClipTrack, VideoPacket
from reactor_runtime.clips.library import name_for_av, writing

GIF_TIME_BASE, WEBP_TIME_BASE = Fraction(1, 100), Fraction(1, 1000)
# In seconds; browsers show a frame of a GIF that is shorter for 100 ms.
SHORTEST = Fraction(2, 100)


class AnimatedImage:
    """Write an animated image; a WebP file is complete only after `close`.

    A GIF has 256 colours for each frame and at most 50 frames a second; frames that come faster are skipped. Frames of
    another size than the first are scaled to that.
    """

    def __init__(self, path: Path, video: ClipTrack) -> None:
        self._path = path
        self._track = video.name
        self._is_gif = path.suffix.lower() == ".gif"
        self._time_base = GIF_TIME_BASE if self._is_gif else WEBP_TIME_BASE
        self._container: OutputContainer | None = None
        self._newest_s: Fraction | float = -math.inf

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:
        at = round(at_s / self._time_base)
        if track != self._track or (self._is_gif and at * self._time_base - self._newest_s < SHORTEST):
            return
        with writing(self._path):
            if self._container is None:
                at = 0
                self._open(frame)
            self._newest_s = at * self._time_base
            av_frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24")
            self._encode(av_frame.reformat(width=self._stream.width, height=self._stream.height), at)

    def write_packet(self, track: str, at_s: float, packet: VideoPacket) -> bool:  # noqa: ARG002 (images are encoded)
        return False

    def write_sound(self, track: str, at_s: float, samples: NDArray[np.int16]) -> None:
        """Do nothing: there is no sound in an image."""

    def close(self, end_s: float) -> list[Path]:  # noqa: ARG002 (the newest frame lasts as long as the one before)
        if self._container is None:
            return []
        with writing(self._path):
            self._container.mux(self._stream.encode(None))
            self._container.close()
        return [self._path]

    def _open(self, first: NDArray[np.uint8]) -> None:
        options = {"loop": "0", "flush_packets": "1"}
        # Without a format, a name with %d is that of a series of files.
        format = "gif" if self._is_gif else "webp"
        self._container = av.open(name_for_av(self._path), "w", format=format, options=options)
        codec, options = ("gif", {}) if self._is_gif else ("libwebp_anim", {"quality": "85"})
        stream = self._container.add_stream(codec, rate=30, options=options)
        assert isinstance(stream, VideoStream), "a codec of images makes a video stream"
        self._stream = stream
        stream.height, stream.width = first.shape[:2]
        stream.pix_fmt = "pal8" if self._is_gif else "bgra"
        stream.codec_context.time_base = self._time_base
        if self._is_gif:
            self._palettes = Palettes(stream.width, stream.height)

    def _encode(self, av_frame: av.VideoFrame, at: int) -> None:
        assert self._container is not None, "the first frame opens the file"
        av_frame = self._palettes.apply(av_frame) if self._is_gif else av_frame.reformat(format="bgra")
        av_frame.pts = at
        av_frame.time_base = self._time_base
        self._container.mux(self._stream.encode(av_frame))


class Palettes:
    """Reduce frames to 256 colours, each frame to its own."""

    def __init__(self, width: int, height: int) -> None:
        graph = self._graph = Graph()
        source = graph.add_buffer(width=width, height=height, format=av.VideoFormat("rgb24"), time_base=GIF_TIME_BASE)
        split, generate = graph.add("split"), graph.add("palettegen", "stats_mode=single")
        # A pattern that stands still compresses better than diffused errors, which change in each frame.
        use, sink = graph.add("paletteuse", "new=1:dither=bayer:bayer_scale=4"), graph.add("buffersink")
        source.link_to(split)
        split.link_to(generate, 0)
        split.link_to(use, 1)
        generate.link_to(use, 0, 1)
        use.link_to(sink)
        graph.configure()

    def apply(self, av_frame: av.VideoFrame) -> av.VideoFrame:
        """Return the frame in the format pal8."""
        self._graph.vpush(av_frame)
        return self._graph.vpull()
