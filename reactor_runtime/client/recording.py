"""Keep what a session shows: files in a folder as they came, or one film made by ffmpeg."""

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

FILM_FPS = 60  # frames are repeated or left out to keep this time; repeated ones cost next to nothing
WIDENED_SAMPLES = 1 << 16  # at once, so that an hour of sound takes no more memory than a second
FILMS = (".mp4", ".mkv", ".mov", ".webm")
OTHER_FILES = (".avi", ".flv", ".gif", ".m4v", ".mpeg", ".mpg", ".ogv", ".ts", ".wmv", ".jpeg", ".jpg", ".png", ".webp")


class Recording(Protocol):
    """Where pictures and sound go; each call blocks until it is written."""

    def frame(self, frame: Frame) -> None: ...

    def sound(self, sound: Sound) -> None: ...

    def close(self) -> bool:
        """Finish, and tell whether anything was kept."""


class TimeLine:
    """Put the presentation times of one session after the other on one line that begins with 0.

    Pictures and sound are written on threads of their own, and are on the same line.
    """

    def __init__(self) -> None:
        self._shift: float | None = None
        self._newest = 0.0
        self._lock = threading.Lock()

    def place(self, pts_s: float) -> float:
        with self._lock:
            if self._shift is None:
                self._shift = -pts_s
            if pts_s + self._shift < self._newest - 2.0:  # another session has begun
                self._shift = self._newest - pts_s
            at = max(0.0, pts_s + self._shift)
            self._newest = max(self._newest, at)
            return at


class SoundFile:
    """Write one track of sound as a WAV file that follows the presentation times.

    A gap becomes silence. A piece that begins before the end replaces what follows its beginning, as after a flush.
    The file is mono until a piece is stereo, and complete after each call.
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
        # A smaller difference is rounding: silence, or samples left out, would be heard as a click.
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
        """Make a mono file stereo, from its end to its beginning, so that nothing unread is overwritten."""
        for begin in range((self._written - 1) // WIDENED_SAMPLES * WIDENED_SAMPLES, -1, -WIDENED_SAMPLES):
            file.seek(self._offset(begin))
            mono = file.read(2 * min(WIDENED_SAMPLES, self._written - begin))
            file.seek(wav.HEADER_BYTES + 4 * begin)
            file.write(np.frombuffer(mono, "<i2").repeat(2).tobytes())
        self._channels = 2


class RecordingFolder:
    """Write each picture as `<track>-000001.jpg` and each track of sound as `<track>.wav`."""

    def __init__(self, path: Path) -> None:
        _usable(path, lambda: path.mkdir(parents=True, exist_ok=True))
        self._path = path
        self._numbers: dict[str, int] = {}
        self._tapes: dict[str, SoundFile] = {}
        self._time = TimeLine()

    def frame(self, frame: Frame) -> None:
        self._time.place(frame.pts_s)
        number = self._numbers[frame.track] = self._numbers.get(frame.track, 0) + 1
        (self._path / f"{frame.track}-{number:06}.jpg").write_bytes(frame.jpeg)

    def sound(self, sound: Sound) -> None:
        at_s = self._time.place(sound.pts_s)
        tape = self._tapes.setdefault(sound.track, SoundFile(self._path / f"{sound.track}.wav"))
        tape.write(sound, at_s)

    def close(self) -> bool:
        for tape in self._tapes.values():
            tape.close()
        return bool(self._numbers or self._tapes)


class VideoFile:
    """Have ffmpeg write one track of pictures, and one of sound, as a film; needs `ffmpeg` on the PATH.

    The sound is kept beside the film until the end, and joined then.
    """

    def __init__(self, path: Path) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            raise UsageError(
                f"{path.name} needs ffmpeg, which is not on the PATH", hint="install it, or save to a folder"
            )
        _usable(path, lambda: path.parent.mkdir(parents=True, exist_ok=True))
        self._path = path
        self._program = program
        self._silent = path.with_name(f".{path.stem}.silent{path.suffix}")
        self._wav = path.with_name(f".{path.stem}.wav")
        self._tape: SoundFile | None = None
        self._time = TimeLine()
        self._written = 0
        self._last = b""
        self._ffmpeg: subprocess.Popen[bytes] | None = None

    def frame(self, frame: Frame) -> None:
        at = int(self._time.place(frame.pts_s) * FILM_FPS)
        self._fill(at)
        self._last = frame.jpeg
        self._fill(at + 1)

    def sound(self, sound: Sound) -> None:
        at_s = self._time.place(sound.pts_s)
        self._tape = self._tape or SoundFile(self._wav)
        self._tape.write(sound, at_s)

    def close(self) -> bool:
        """Finish the film; takes what ffmpeg takes."""
        with self._leftovers():
            if self._ffmpeg is None:
                return False
            _, said = self._ffmpeg.communicate()
            self._check(self._ffmpeg.returncode, said)
            if self._tape is None:
                self._silent.replace(self._path)
                return True
            self._tape.close()
            self._tape = None
            inputs = ["-i", str(self._silent), "-i", str(self._wav)]
            joined = subprocess.run(
                self._command(*inputs, "-c:v", "copy", str(self._path)), capture_output=True, check=False
            )
            self._check(joined.returncode, joined.stderr)
            return True

    def _fill(self, until: int) -> None:
        """Write the newest picture up to a place on the film's grid; the first is there from the start."""
        if not self._last:
            return
        ffmpeg = self._ffmpeg = self._ffmpeg or self._started()
        assert ffmpeg.stdin is not None, "a pipe was asked for"
        while self._written < until:
            try:
                ffmpeg.stdin.write(self._last)
            except BrokenPipeError:
                self._check(ffmpeg.wait() or 1, ffmpeg.stderr.read() if ffmpeg.stderr else b"")
            self._written += 1

    def _started(self) -> subprocess.Popen[bytes]:
        pictures = ["-f", "mjpeg", "-framerate", str(FILM_FPS), "-i", "pipe:0"]
        # Even sides and the range of television are what most codecs and players ask for.
        usual = "pad=ceil(iw/2)*2:ceil(ih/2)*2,scale=out_range=tv,format=yuv420p"
        command = self._command(*pictures, "-vf", usual, str(self._silent))
        # Ctrl-C is for us: it finishes the film from its input's end.
        return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def _command(self, *arguments: str) -> list[str]:
        return [self._program, "-hide_banner", "-loglevel", "error", "-nostdin", "-y", *arguments]

    def _check(self, code: int, said: bytes) -> None:
        if code:
            lines = said.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
            raise ReactorError(f"ffmpeg could not write {self._path}: {lines[-1]}", details="\n".join(lines))

    @contextlib.contextmanager
    def _leftovers(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._tape is not None:
                self._tape.close()
            self._silent.unlink(missing_ok=True)
            self._wav.unlink(missing_ok=True)


def recording(path: Path) -> Recording:
    """Open a film where the name ends as one's does, a folder otherwise. Raises `UsageError` where that can't be."""
    if path.suffix.lower() in OTHER_FILES:
        raise UsageError(f"{path}: a film is {', '.join(FILMS[:-1])} or {FILMS[-1]}", hint="other names are folders")
    return VideoFile(path) if path.suffix.lower() in FILMS else RecordingFolder(path)


def _usable(path: Path, make: Callable[[], object]) -> None:
    try:
        make()
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from None
