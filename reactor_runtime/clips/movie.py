"""Movies: MP4 with H.264 and AAC, and Matroska without loss, with one video track and any number of audio tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from reactor_runtime.clips.clip import ClipTrack
from reactor_runtime.clips.library import name_for_av, writing
from reactor_runtime.clips.sound_track import SoundTrack

TIME_BASE = Fraction(1, 90_000)
BT709 = 1
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
        self._held: tuple[float, av.VideoFrame] | None = None
        # Sound before the first frame, whose size has to be known first.
        self._early: list[tuple[str, NDArray[np.int16]]] = []
        self._has_sound = False

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:
        if self._video is None or track != self._video.name:
            return
        if self._streams is None:
            at_s, streams = 0.0, self._open(frame)
        else:
            streams = self._streams
            self._write_held(at_s)
        with writing(self._path):
            self._held = at_s, streams.convert(frame)

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

    def _open(self, first: NDArray[np.uint8] | None) -> _Streams:
        with writing(self._path):
            streams = self._streams = _Streams(self._path, self._format, first, self._sound_tracks)
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
            at_s, av_frame = self._held
            with writing(self._path):
                self._streams.write_frame(at_s, until_s - at_s, av_frame)


class _Streams:
    """Encode frames and samples into an open container."""

    def __init__(
        self, path: Path, format: _Format, first: NDArray[np.uint8] | None, sounds: Mapping[str, SoundTrack]
    ) -> None:
        self._format = format
        self._container = av.open(name_for_av(path), "w", options=dict(format.options))
        self._video = None if first is None else _add_video(self._container, format, first)
        self._durations: dict[int | None, int] = {}
        self._sounds = {name: _add_sound(self._container, format, sound.sample_rate) for name, sound in sounds.items()}
        self._rates = {name: sound.sample_rate for name, sound in sounds.items()}
        self._counts = dict.fromkeys(sounds, 0)
        self._container.start_encoding()

    def convert(self, frame: NDArray[np.uint8]) -> av.VideoFrame:
        """Return a frame in the size and format of the file; later changes of the array have no effect."""
        assert self._video is not None, "the container was opened with the first frame"
        return av.VideoFrame.from_ndarray(_even(frame), "rgb24").reformat(
            width=self._video.width,
            height=self._video.height,
            format=self._format.pixels,
            dst_colorspace="ITU709" if self._format.pixels == "yuv420p" else None,
        )

    def write_frame(self, at_s: float, duration_s: float, av_frame: av.VideoFrame) -> None:
        av_frame.pts = round(at_s / TIME_BASE)
        av_frame.time_base = TIME_BASE
        self._durations[av_frame.pts] = max(1, round((at_s + duration_s) / TIME_BASE) - av_frame.pts)
        self._mux_video(av_frame)

    def write_samples(self, name: str, samples: NDArray[np.int16]) -> None:
        interleaved = np.ascontiguousarray(samples.T).reshape(1, -1)
        sound = av.AudioFrame.from_ndarray(interleaved, format="s16", layout="stereo")
        sound.sample_rate = self._rates[name]
        sound.pts = self._counts[name]
        sound.time_base = Fraction(1, sound.sample_rate)
        self._counts[name] += samples.shape[1]
        self._container.mux(self._sounds[name].encode(sound))

    def close(self) -> None:
        if self._video is not None:
            self._mux_video(None)
        for stream in self._sounds.values():
            self._container.mux(stream.encode(None))
        self._container.close()

    def _mux_video(self, av_frame: av.VideoFrame | None) -> None:
        assert self._video is not None, "there are frames"
        for packet in self._video.encode(av_frame):
            packet.duration = self._durations.pop(packet.pts, packet.duration)
            self._container.mux(packet)


def _add_video(container: OutputContainer, format: _Format, first: NDArray[np.uint8]) -> VideoStream:
    codec = next(name for name in format.video_codecs if _has_encoder(name))
    stream = container.add_stream(codec, rate=30, options=dict(format.video_options))
    assert isinstance(stream, VideoStream), "a video codec makes a video stream"
    stream.height, stream.width = _even(first).shape[:2]
    stream.pix_fmt = format.pixels
    stream.codec_context.time_base = TIME_BASE
    if format.pixels == "yuv420p":
        # Without these a player guesses, and colours differ between players.
        stream.codec_context.colorspace = BT709
        stream.codec_context.color_primaries = BT709
        stream.codec_context.color_trc = BT709
        stream.codec_context.color_range = LIMITED_RANGE
    return stream


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


def _even(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeat the last row and column where their number is odd, because 4:2:0 needs pairs."""
    height, width, _ = frame.shape
    if height % 2 or width % 2:
        frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(frame)
