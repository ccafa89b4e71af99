"""`open_clip`: the clip for a path, by the end of its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.clips.clip import Clip, ClipTrack, VideoPacket
from reactor_runtime.clips.library import need_av
from reactor_runtime.clips.output_file import check_output_file
from reactor_runtime.errors import UsageError

MOVIES = (".mp4", ".mkv")
ANIMATED_IMAGES = (".gif", ".webp")
OTHERS = (".apng", ".avi", ".flv", ".jpeg", ".jpg", ".m4v", ".mov", ".mpg", ".ogv", ".png", ".ts", ".wav", ".webm")


def is_clip_file(path: Path) -> bool:
    """Return whether a path is that of a clip in one file; False for a folder.

    Raises UsageError for the files of media that can't be written.
    """
    suffix = path.suffix.lower()
    if suffix in OTHERS:
        known = ", ".join((*MOVIES, *ANIMATED_IMAGES))
        raise UsageError(f"{path}: {suffix} files can't be written", hint=f"use {known}; other names are folders")
    return suffix in (*MOVIES, *ANIMATED_IMAGES)


def open_clip(path: Path, tracks: Sequence[ClipTrack], *, inputs: Sequence[Path] = ()) -> Clip:
    """Return the clip for a path: `.mp4`, `.mkv` without loss, `.gif`, `.webp`, or a folder of PNG and WAV files.

    A file has one video track and all sound, if it can have sound. With several video tracks there is a file for each:
    `clip.mp4` for the first, `clip-depth.mp4` for the track `depth`. Raises UsageError for a path that can't be written
    or is one of the `inputs`, which are read meanwhile, and without PyAV.
    """
    is_file = is_clip_file(path)
    need_av(path)
    _check_place(path, is_file=is_file)
    if not is_file:
        from reactor_runtime.clips.image_folder import ImageFolder

        return ImageFolder(path, tracks)
    videos = [track for track in tracks if track.sample_rate is None]
    sounds = [track for track in tracks if track.sample_rate is not None]
    if path.suffix.lower() in ANIMATED_IMAGES and not videos:
        raise UsageError(f"{path}: there are no frames, only sound", hint="use .mp4, .mkv or a folder")
    paths = [path, *(path.with_stem(f"{path.stem}-{track.name}") for track in videos[1:])]
    _refuse_inputs(paths, inputs)
    if not videos:
        return _open_file(path, None, sounds)
    files = [_open_file(each, video, sounds) for each, video in zip(paths, videos, strict=True)]
    return files[0] if len(files) == 1 else _Files(files)


def _check_place(path: Path, *, is_file: bool) -> None:
    if is_file and path.is_dir():
        raise UsageError(f"{path} is a directory", hint="delete it, or choose another name")
    if not is_file and path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file", hint="choose another name for the folder")
    # Images of an earlier clip would become part of this one.
    if not is_file and path.is_dir() and any(path.iterdir()):
        raise UsageError(f"{path} is not empty", hint="delete its files, or choose another folder")
    if is_file:
        check_output_file(path)
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} can't be made: {error.strerror}") from None


def _refuse_inputs(paths: Sequence[Path], inputs: Sequence[Path]) -> None:
    for path in paths:
        if path.exists() and any(path.samefile(each) for each in inputs):
            raise UsageError(f"{path} would replace an input of the same name", hint="choose another name with --out")


def _open_file(path: Path, video: ClipTrack | None, sounds: Sequence[ClipTrack]) -> Clip:
    if path.suffix.lower() in MOVIES:
        from reactor_runtime.clips.movie import Movie

        return Movie(path, video, sounds)
    from reactor_runtime.clips.animated_image import AnimatedImage

    assert video is not None, "a clip without frames is refused as an animated image"
    return AnimatedImage(path, video)


class _Files:
    """Write each video track to the file that has it, and sound to all."""

    def __init__(self, files: Sequence[Clip]) -> None:
        self._files = files

    def write_frame(self, track: str, at_s: float, frame: NDArray[np.uint8]) -> None:
        for file in self._files:
            file.write_frame(track, at_s, frame)

    def write_packet(self, track: str, at_s: float, packet: VideoPacket) -> bool:
        # One of them has the track.
        return any(file.write_packet(track, at_s, packet) for file in self._files)

    def write_sound(self, track: str, at_s: float, samples: NDArray[np.int16]) -> None:
        for file in self._files:
            file.write_sound(track, at_s, samples)

    def close(self, end_s: float) -> list[Path]:
        return [path for file in self._files for path in file.close(end_s)]
