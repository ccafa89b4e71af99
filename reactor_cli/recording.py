"""The output of `reactor connect --save`: a folder with the files of a session as they arrived, or a clip."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from reactor_runtime.client import Frame, Sound, Track
from reactor_runtime.client.media import EarlierMessage
from reactor_runtime.client.video import is_key, read_packet
from reactor_runtime.clips.clip import ClipTrack, VideoPacket
from reactor_runtime.clips.library import need_av
from reactor_runtime.clips.opening import is_clip_file, open_clip
from reactor_runtime.clips.output_file import check_output_file
from reactor_runtime.clips.sound_file import SoundFile
from reactor_runtime.errors import UsageError

# The last frame of a clip is shown for this time.
LAST_FRAME_S = 1 / 30
LEAST_FRAME_S = 1e-3


class Recording(Protocol):
    """Store frames and sound; each call blocks until they are written."""

    def write_frame(self, frame: Frame) -> bool:
        """Store a frame; return whether a key of its video stream would save work from here on."""

    def write_sound(self, sound: Sound) -> None: ...

    def close(self) -> bool:
        """Finish the recording, and return whether it has any content."""


class TimeLine:
    """Map the presentation times of consecutive sessions to one time line that begins with 0.

    Thread-safe: frames and sound are written on different threads.
    """

    def __init__(self) -> None:
        self._shift: float | None = None
        self._newest = 0.0
        self._lock = threading.Lock()

    def to_recording_s(self, pts_s: float) -> float:
        with self._lock:
            if self._shift is None:
                self._shift = -pts_s
            # A jump back means that another session has started.
            if pts_s + self._shift < self._newest - 2.0:
                self._shift = self._newest - pts_s
            at = max(0.0, pts_s + self._shift)
            self._newest = max(self._newest, at)
            return at


class RecordingFolder:
    """Write each frame as `<track>-000001.jpg` and each audio track as `<track>.wav`."""

    def __init__(self, path: Path) -> None:
        _create(path, lambda: path.mkdir(parents=True, exist_ok=True))
        self._path = path
        self._numbers: dict[str, int] = {}
        self._sound_files: dict[str, SoundFile] = {}
        self._time = TimeLine()

    def write_frame(self, frame: Frame) -> bool:
        self._time.to_recording_s(frame.pts_s)
        number = self._numbers[frame.track] = self._numbers.get(frame.track, 0) + 1
        (self._path / f"{frame.track}-{number:06}.jpg").write_bytes(frame.jpeg)
        return False

    def write_sound(self, sound: Sound) -> None:
        at_s = self._time.to_recording_s(sound.pts_s)
        sound_file = self._sound_files.setdefault(sound.track, SoundFile(self._path / f"{sound.track}.wav"))
        sound_file.write(sound.array, sound.sample_rate, at_s, after_flush=sound.after_flush)

    def close(self) -> bool:
        for sound_file in self._sound_files.values():
            sound_file.close()
        return bool(self._numbers or self._sound_files)


class RecordingClip:
    """Write the tracks of a session to a clip, on one time line that begins with 0.

    Video is copied as it came where the clip takes it and no message before was missed, and encoded elsewhere.
    Frames and sound are written on different threads, one at a time; those that come after the end are dropped.
    """

    def __init__(self, path: Path, tracks: Sequence[Track]) -> None:
        self._clip = open_clip(path, [ClipTrack(track.name, track.sample_rate) for track in tracks])
        self._time = TimeLine()
        self._lock = threading.Lock()
        # When the newest frame of each track is shown.
        self._shown_s: dict[str, float] = {}
        self._end_s = 0.0
        self._closed = False
        # Of each track the number of the last message of its video stream, and whether the last frame was copied.
        self._numbers: dict[str, int] = {}
        self._copied: set[str] = set()

    def write_frame(self, frame: Frame) -> bool:
        track = frame.track
        was_copied = track in self._copied
        messages = self._messages_up_to(frame)
        if not messages:
            # Decodes it, outside of the lock.
            _ = frame.array
        self._numbers[track] = frame.number or self._numbers.get(track, 0)
        self._copied.discard(track)
        with self._lock:
            if self._closed:
                return False
            if messages and all(self._copy(track, message) for message in messages):
                self._copied.add(track)
            else:
                self._clip.write_frame(track, self._place(track, frame.pts_s), frame.array)
        return was_copied and frame.number is not None and not messages

    def _messages_up_to(self, frame: Frame) -> list[EarlierMessage]:
        """Return the messages to copy up to a frame, from the last one or from a key on; none if it must be encoded."""
        if frame.number is None:
            return []
        last = self._numbers.get(frame.track, 0)
        messages = [*frame.earlier, EarlierMessage(frame.number, frame.pts_s, frame.data)]
        new = [message for message in messages if message.number > last]
        starts = [at for at, message in enumerate(new) if is_key(message.data)][::-1]
        if frame.track in self._copied and new[0].number == last + 1:
            starts.insert(0, 0)
        return next((new[at:] for at in starts if _are_consecutive(new[at:])), [])

    def _copy(self, track: str, message: EarlierMessage) -> bool:
        packet = VideoPacket(*read_packet(message.data))
        return self._clip.write_packet(track, self._place(track, message.pts_s), packet)

    def _place(self, track: str, pts_s: float) -> float:
        """Return when a frame is shown in the clip."""
        at_s = self._time.to_recording_s(pts_s)
        before_s = self._shown_s.get(track)
        # A file has no two frames at one time.
        at_s = at_s if before_s is None else max(at_s, before_s + LEAST_FRAME_S)
        self._shown_s[track] = at_s
        self._end_s = max(self._end_s, at_s + LAST_FRAME_S)
        return at_s

    def write_sound(self, sound: Sound) -> None:
        with self._lock:
            if self._closed:
                return
            at_s = self._time.to_recording_s(sound.pts_s)
            self._end_s = max(self._end_s, at_s + sound.array.shape[1] / sound.sample_rate)
            self._clip.write_sound(sound.track, at_s, sound.array)

    def close(self) -> bool:
        with self._lock:
            self._closed = True
            return bool(self._clip.close(self._end_s))


def check_path(path: Path) -> None:
    """Raise UsageError if a recording can't be written to a path."""
    if is_clip_file(path):
        need_av(path)
        check_output_file(path)
    else:
        RecordingFolder(path)


def recording(path: Path, tracks: Sequence[Track]) -> Recording:
    """Open a clip of `tracks` for the name of a clip file, else a folder; raise UsageError if it can't be written."""
    return RecordingClip(path, tracks) if is_clip_file(path) else RecordingFolder(path)


def _are_consecutive(messages: Sequence[EarlierMessage]) -> bool:
    return all(later.number == earlier.number + 1 for earlier, later in itertools.pairwise(messages))


def _create(path: Path, make: Callable[[], object]) -> None:
    try:
        make()
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
