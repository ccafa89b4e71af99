"""Movies: MP4 with H.264 and AAC, and Matroska without loss, with one video track and any number of audio tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.stream import AudioStream
from av.codec.context import Flags
from av.container import OutputContainer
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream
from numpy.typing import NDArray

from reactor_runtime.clips.clip import ClipTrack, VideoPacket
from reactor_runtime.clips.library import name_for_av, writing
from reactor_runtime.clips.sound_track import SoundTrack

TIME_BASE = Fraction(1, 90_000)
# ITU-T H.273: the colours of a server's video streams, whose packets are copied.
BT601_MATRIX, BT709_PRIMARIES, SRGB_TRANSFER = 6, 1, 13
LIMITED_RANGE = 1


@dataclass(frozen=True, slots=True)
class _Format:
    """Describe a container; the first of its video codecs that this build of FFmpeg has is used."""

    video_codecs: Sequence[str]
    pixels: str
    audio_codec: str
    audio_bit_rate: int | None = None
    video_options: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def codec(self) -> str:
        return next(name for name in self.video_codecs if _has_encoder(name))


FORMATS = {
    ".mp4": _Format(
        video_codecs=("h264", "mpeg4"),
        pixels="yuv420p",
        audio_codec="aac",
        audio_bit_rate=192_000,
        # In a file with B-frames the last frame would not keep its duration.
        video_options={"crf": "18", "bf": "0"},
        # Fragments of a second while it is written, one index at the end: complete or interrupted, the file plays.
        options={"movflags": "hybrid_fragmented+delay_moov", "frag_duration": "1000000", "flush_packets": "1"},
    ),
    ".mkv": _Format(
        video_codecs=("ffv1",),
        pixels="bgr0",
        audio_codec="pcm_s16le",
        options={"cluster_time_limit": "1000", "flush_packets": "1"},
    ),
}


class Movie:
    """Write a movie while its frames come; it plays up to the last second if the process is killed.

    Frames keep their times; the first one is shown from 0. The size is that of the first frame, with an even number of
    rows and columns; frames of other sizes are scaled to it. Sound is stereo.
    """

    def __init__(self, path: Path, video: ClipTrack | None, sounds: Sequence[ClipTrack]) -> None:
        self._path = path
        self._format = FORMATS[path.suffix.lower()]
        self._video = video
        self._sound_tracks = {
            track.name: SoundTrack(track.sample_rate) for track in sounds if track.sample_rate is not None
        }
        self._streams: _Streams | None = None
        # The newest frame, which is written when its duration is known.
        self._held: tuple[float, av.VideoFrame | VideoPacket] | None = None
        # Sound before the first frame, whose size has to be known first.
        self._early: list[tuple[str, NDArray[np.int16]]] = []
        self._has_sound = False

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:
        if self._video is None or track != self._video.name:
            return
        if self._streams is None:
            height, width, _ = frame.shape
            at_s, streams = 0.0, self._open((width, height))
        else:
            streams = self._streams
            self._write_held(at_s)
        with writing(self._path):
            self._held = at_s, streams.convert(frame)

    def write_packet(self, track: str, at_s: float, packet: VideoPacket) -> bool:
        if self._video is None or track != self._video.name or self._format.codec != "h264":
            return False
        if self._streams is None:
            at_s = 0.0
            self._open(packet.size)
        elif packet.size is not None and _even(packet.size) != self._streams.size:
            return False
        else:
            self._write_held(at_s)
        self._held = at_s, packet
        return True

    def write_sound(self, track: str, at_s: float, samples: NDArray[np.int16]) -> None:
        self._has_sound = True
        self._write_samples(track, self._sound_tracks[track].add(at_s, samples))
        if self._streams is None and self._video is None:
            self._open(None)

    def close(self, end_s: float) -> list[Path]:
        for track, sound in self._sound_tracks.items():
            self._write_samples(track, sound.close(end_s))
        if self._streams is None and self._has_sound:
            self._open(None)
        if self._streams is None:
            return []
        self._write_held(end_s)
        with writing(self._path):
            self._streams.close()
        return [self._path]

    def _open(self, size: tuple[int, int] | None) -> _Streams:
        with writing(self._path):
            streams = self._streams = _Streams(self._path, self._format, size, self._sound_tracks)
        for track, samples in self._early:
            self._write_samples(track, samples)
        self._early.clear()
        return streams

    def _write_samples(self, track: str, samples: NDArray[np.int16]) -> None:
        if self._streams is None:
            self._early.append((track, samples))
        elif samples.size:
            with writing(self._path):
                self._streams.write_samples(track, samples)

    def _write_held(self, until_s: float) -> None:
        if self._held is not None and self._streams is not None:
            at_s, held = self._held
            with writing(self._path):
                if isinstance(held, VideoPacket):
                    self._streams.write_packet(at_s, until_s - at_s, held)
                else:
                    self._streams.write_frame(at_s, until_s - at_s, held)


class _Streams:
    """Encode frames and samples into an open container, or copy packets into it.

    `size` is that of the video, width and height; None for none.
    """

    def __init__(
        self, path: Path, format: _Format, size: tuple[int, int] | None, sounds: Mapping[str, SoundTrack]
    ) -> None:
        self._format = format
        self._container = av.open(name_for_av(path), "w", options=dict(format.options))
        self.size = (0, 0) if size is None else _even(size)
        self._video = None if size is None else _add_video(self._container, format, self.size)
        # None after packets were copied: another one begins with a key.
        self._encoder = None if self._video is None else self._video.codec_context
        self._durations: dict[int | None, int] = {}
        self._sounds = {name: _add_sound(self._container, format, sound.sample_rate) for name, sound in sounds.items()}
        self._rates = {name: sound.sample_rate for name, sound in sounds.items()}
        self._counts = dict.fromkeys(sounds, 0)
        self._container.start_encoding()

    def convert(self, frame: NDArray[np.uint8]) -> av.VideoFrame:
        """Return a frame in the size and format of the file; later changes of the array have no effect."""
        width, height = self.size
        return av.VideoFrame.from_ndarray(_padded(frame), "rgb24").reformat(
            width=width,
            height=height,
            format=self._format.pixels,
            dst_colorspace="ITU601" if self._format.pixels == "yuv420p" else None,
        )

    def write_frame(self, at_s: float, duration_s: float, av_frame: av.VideoFrame) -> None:
        if self._encoder is None:
            encoder = av.CodecContext.create(self._format.codec, "w")
            assert isinstance(encoder, VideoCodecContext), "a video codec has a video context"
            encoder.options = dict(self._format.video_options)
            _configure(encoder, self._format, self.size)
            self._encoder = encoder
        av_frame.pts = round(at_s / TIME_BASE)
        av_frame.time_base = TIME_BASE
        self._durations[av_frame.pts] = max(1, round((at_s + duration_s) / TIME_BASE) - av_frame.pts)
        self._mux_encoded(av_frame)

    def write_packet(self, at_s: float, duration_s: float, packet: VideoPacket) -> None:
        self._finish_encoder()
        copied = av.Packet(packet.parameter_sets + packet.data)
        copied.pts = copied.dts = round(at_s / TIME_BASE)
        copied.duration = max(1, round((at_s + duration_s) / TIME_BASE) - copied.pts)
        copied.time_base = TIME_BASE
        copied.is_keyframe = packet.size is not None
        self._mux_video(copied)

    def write_samples(self, name: str, samples: NDArray[np.int16]) -> None:
        interleaved = np.ascontiguousarray(samples.T).reshape(1, -1)
        sound = av.AudioFrame.from_ndarray(interleaved, format="s16", layout="stereo")
        sound.sample_rate = self._rates[name]
        sound.pts = self._counts[name]
        sound.time_base = Fraction(1, sound.sample_rate)
        self._counts[name] += samples.shape[1]
        self._container.mux(self._sounds[name].encode(sound))

    def close(self) -> None:
        self._finish_encoder()
        for stream in self._sounds.values():
            self._container.mux(stream.encode(None))
        self._container.close()

    def _finish_encoder(self) -> None:
        if self._encoder is not None:
            self._mux_encoded(None)
            self._encoder = None

    def _mux_encoded(self, av_frame: av.VideoFrame | None) -> None:
        assert self._encoder is not None, "there are frames to encode"
        for packet in self._encoder.encode(av_frame):
            packet.duration = self._durations.pop(packet.pts, packet.duration)
            self._mux_video(packet)

    def _mux_video(self, packet: av.Packet[Any]) -> None:
        assert self._video is not None, "there are frames"
        packet.stream = self._video
        self._container.mux(packet)


def _add_video(container: OutputContainer, format: _Format, size: tuple[int, int]) -> VideoStream:
    stream = container.add_stream(format.codec, rate=30, options=dict(format.video_options))
    assert isinstance(stream, VideoStream), "a video codec makes a video stream"
    _configure(stream.codec_context, format, size)
    return stream


def _configure(encoder: VideoCodecContext, format: _Format, size: tuple[int, int]) -> None:
    encoder.width, encoder.height = size
    encoder.pix_fmt = format.pixels
    encoder.time_base = TIME_BASE
    if format.codec == "h264":
        # Each key has its parameter sets: players that seek in a file with several would use wrong ones.
        encoder.flags &= ~Flags.global_header
    if format.pixels == "yuv420p":
        # Without these a player guesses, and colours differ between players.
        encoder.colorspace, encoder.color_range = BT601_MATRIX, LIMITED_RANGE
        encoder.color_primaries, encoder.color_trc = BT709_PRIMARIES, SRGB_TRANSFER


def _add_sound(container: OutputContainer, format: _Format, sample_rate: int) -> AudioStream:
    rates = av.Codec(format.audio_codec, "w").audio_rates or [sample_rate]
    # The encoder converts other rates.
    rate = min((each for each in rates if each >= sample_rate), default=max(rates))
    stream = container.add_stream(format.audio_codec, rate=rate, layout="stereo")
    assert isinstance(stream, AudioStream), "an audio codec makes an audio stream"
    if format.audio_bit_rate is not None:
        stream.bit_rate = format.audio_bit_rate
    return stream


def _has_encoder(name: str) -> bool:
    try:
        av.Codec(name, "w")
    except ValueError:
        return False
    return True


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """Return a size rounded up, because 4:2:0 needs pairs of rows and columns."""
    width, height = size
    return width + width % 2, height + height % 2


def _padded(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeat the last row and column where their number is odd."""
    height, width, _ = frame.shape
    if height % 2 or width % 2:
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(frame)
