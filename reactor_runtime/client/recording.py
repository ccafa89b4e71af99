"""Recordings of a session: files in a folder as they came, or one video file made by ffmpeg."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.errors import ReactorError, UsageError
from reactor_runtime.media import wav

# Frames are repeated or skipped to keep this rate; repeated ones take next to no space.
VIDEO_FPS = 60
# Samples converted at once, so that an hour of sound needs no more memory than a second.
WIDENED_SAMPLES = 1 << 16
VIDEO_FILES = (".mp4", ".mkv", ".mov", ".webm")
OTHER_FILES = (".avi", ".flv", ".gif", ".m4v", ".mpeg", ".mpg", ".ogv", ".ts", ".wmv", ".jpeg", ".jpg", ".png", ".webp")


class Recording(Protocol):
    """A destination for frames and sound; each call blocks until the data is written."""

    def write_frame(self, frame: Frame) -> None: ...

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


class SoundFile:
    """Write one track of sound as a WAV file that follows the presentation times.

    A gap becomes silence. A piece that begins before the end of the file replaces the samples from there on, as after
    a flush. The file is mono until a piece is stereo, and valid after each call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._channels = 1
        self._written = 0

    def write(self, sound: Sound, at_s: float) -> None:
        file = self._file = self._file or self._path.open("w+b")
        samples = sound.array
        if len(samples) > self._channels:
            self._widen(file)
        elif len(samples) < self._channels:
            samples = np.repeat(samples, self._channels, axis=0)
        begin = round(at_s * sound.sample_rate)
        # A smaller difference is rounding; correcting it would be audible as a click.
        if sound.after_flush or abs(begin - self._written) > sound.sample_rate // 100:
            self._written = begin
        file.truncate(self._offset(self._written))
        file.seek(self._offset(self._written))
        file.write(samples.T.astype("<i2").tobytes())
        self._written += samples.shape[1]
        file.seek(0)
        file.write(wav.header(self._channels, sound.sample_rate, self._written))
        file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _offset(self, sample: int) -> int:
        return wav.HEADER_BYTES + 2 * self._channels * sample

    def _widen(self, file: BinaryIO) -> None:
        """Convert a mono file to stereo from its end to its beginning, so that no unread samples are overwritten."""
        for begin in range((self._written - 1) // WIDENED_SAMPLES * WIDENED_SAMPLES, -1, -WIDENED_SAMPLES):
            file.seek(self._offset(begin))
            mono = file.read(2 * min(WIDENED_SAMPLES, self._written - begin))
            file.seek(wav.HEADER_BYTES + 4 * begin)
            file.write(np.frombuffer(mono, "<i2").repeat(2).tobytes())
        self._channels = 2


class RecordingFolder:
    """Write each frame as `<track>-000001.jpg` and each audio track as `<track>.wav`."""

    def __init__(self, path: Path) -> None:
        _create(path, lambda: path.mkdir(parents=True, exist_ok=True))
        self._path = path
        self._numbers: dict[str, int] = {}
        self._sound_files: dict[str, SoundFile] = {}
        self._time = TimeLine()

    def write_frame(self, frame: Frame) -> None:
        self._time.to_recording_s(frame.pts_s)
        number = self._numbers[frame.track] = self._numbers.get(frame.track, 0) + 1
        (self._path / f"{frame.track}-{number:06}.jpg").write_bytes(frame.jpeg)

    def write_sound(self, sound: Sound) -> None:
        at_s = self._time.to_recording_s(sound.pts_s)
        sound_file = self._sound_files.setdefault(sound.track, SoundFile(self._path / f"{sound.track}.wav"))
        sound_file.write(sound, at_s)

    def close(self) -> bool:
        for sound_file in self._sound_files.values():
            sound_file.close()
        return bool(self._numbers or self._sound_files)


class VideoFile:
    """Write one video track and one audio track as a video file; needs `ffmpeg` on the PATH.

    The sound is written to a file of its own, and added at the end.
    """

    def __init__(self, path: Path) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            raise UsageError(
                f"{path.name} needs ffmpeg, which is not on the PATH", hint="install it, or save to a folder"
            )
        _create(path, lambda: path.parent.mkdir(parents=True, exist_ok=True))
        self._path = path
        self._program = program
        self._silent = path.with_name(f".{path.stem}.silent{path.suffix}")
        self._wav = path.with_name(f".{path.stem}.wav")
        self._sound_file: SoundFile | None = None
        self._time = TimeLine()
        self._written = 0
        self._last = b""
        self._ffmpeg: subprocess.Popen[bytes] | None = None

    def write_frame(self, frame: Frame) -> None:
        at = int(self._time.to_recording_s(frame.pts_s) * VIDEO_FPS)
        self._fill(at)
        self._last = frame.jpeg
        self._fill(at + 1)

    def write_sound(self, sound: Sound) -> None:
        at_s = self._time.to_recording_s(sound.pts_s)
        self._sound_file = self._sound_file or SoundFile(self._wav)
        self._sound_file.write(sound, at_s)

    def close(self) -> bool:
        """Finish the file; takes as long as ffmpeg does."""
        with self._removing_temporary_files():
            if self._ffmpeg is None:
                return False
            _, output = self._ffmpeg.communicate()
            self._check(self._ffmpeg.returncode, output)
            if self._sound_file is None:
                self._silent.replace(self._path)
                return True
            self._sound_file.close()
            self._sound_file = None
            inputs = ["-i", str(self._silent), "-i", str(self._wav)]
            joined = subprocess.run(
                self._command(*inputs, "-c:v", "copy", str(self._path)), capture_output=True, check=False
            )
            self._check(joined.returncode, joined.stderr)
            return True

    def _fill(self, until: int) -> None:
        """Repeat the newest frame up to frame `until` of the file; the first frame also fills the time before it."""
        if not self._last:
            return
        ffmpeg = self._ffmpeg = self._ffmpeg or self._started()
        assert ffmpeg.stdin is not None, "stdin is a pipe"
        while self._written < until:
            try:
                ffmpeg.stdin.write(self._last)
            except BrokenPipeError:
                self._check(ffmpeg.wait() or 1, ffmpeg.stderr.read() if ffmpeg.stderr else b"")
            self._written += 1

    def _started(self) -> subprocess.Popen[bytes]:
        frames = ["-f", "mjpeg", "-framerate", str(VIDEO_FPS), "-i", "pipe:0"]
        # Most codecs and players require even sides and the limited range of television.
        usual = "pad=ceil(iw/2)*2:ceil(ih/2)*2,scale=out_range=tv,format=yuv420p"
        command = self._command(*frames, "-vf", usual, str(self._silent))
        # A session of its own, so that Ctrl-C does not reach ffmpeg, which ends when its input does.
        return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def _command(self, *arguments: str) -> list[str]:
        return [self._program, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *arguments]

    def _check(self, code: int, output: bytes) -> None:
        if code:
            lines = output.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
            raise ReactorError(f"ffmpeg could not write {self._path}: {lines[-1]}", details="\n".join(lines))

    @contextlib.contextmanager
    def _removing_temporary_files(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._sound_file is not None:
                self._sound_file.close()
            self._silent.unlink(missing_ok=True)
            self._wav.unlink(missing_ok=True)


def recording(path: Path) -> Recording:
    """Open a video file if the name ends like one, a folder otherwise. Raises `UsageError` if it can't be written."""
    if path.suffix.lower() in OTHER_FILES:
        raise UsageError(
            f"{path}: a video file is {', '.join(VIDEO_FILES[:-1])} or {VIDEO_FILES[-1]}",
            hint="other names are folders",
        )
    return VideoFile(path) if path.suffix.lower() in VIDEO_FILES else RecordingFolder(path)


def _create(path: Path, make: Callable[[], object]) -> None:
    try:
        make()
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
