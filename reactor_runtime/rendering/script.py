"""The script of a rendering: a YAML list of events and files for input tracks, each with its time or step.

Reading checks it against the contract, before the model is loaded.
"""

from __future__ import annotations

import difflib
import json
import math
import mimetypes
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.clips.reading import read_frames, read_sound
from reactor_runtime.config.yamlfile import YamlFile, name_of, read
from reactor_runtime.errors import InvalidEvent, Location, UsageError
from reactor_runtime.media.jpeg import MAX_SIDE

EVENT_KEYS = ("event", "data")
TIME_KEYS = ("at", "at_step")
UNITS_S = {"": 1, "ms": 0.001, "s": 1, "m": 60}
EXAMPLE = "`- at: 2.5s`, then `event:` and `data:` below it"


@dataclass(frozen=True, slots=True)
class When:
    """Hold when an entry applies: at a time of the session, or before the step with this number, from 0."""

    at_s: float = 0.0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptedEvent:
    """Hold a valid event: `data_json` as a client sends it, with the files that it names."""

    when: When
    where: Location
    name: str
    data_json: str
    uploads: tuple[UploadedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedMedia:
    """Hold the file of an input track, which replaces the one before; `sound` has the samples for an audio track."""

    when: When
    where: Location
    track: TrackSpec
    path: Path
    sound: NDArray[np.int16] | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """Hold the entries of a script in their order."""

    events: tuple[ScriptedEvent, ...] = ()
    media: tuple[ScriptedMedia, ...] = ()

    def after_time(self, seconds: float) -> list[Location]:
        """Return the places of the entries whose time is not before the end of a clip of `seconds`."""
        return [entry.where for entry in self._entries if entry.when.step is None and entry.when.at_s >= seconds]

    def after_steps(self, steps: int) -> list[Location]:
        """Return the places of the entries whose step is not among the first `steps`."""
        return [entry.where for entry in self._entries if entry.when.step is not None and entry.when.step >= steps]

    @property
    def _entries(self) -> Iterable[ScriptedEvent | ScriptedMedia]:
        return (*self.events, *self.media)


def read_script(path: Path, contract: Contract) -> Script:
    """Read a script and check it against the contract; paths in it are relative to it.

    Raises UsageError with line and fix for a wrong entry, an event that the model would refuse, and a file that can't
    be read.
    """
    file = read(path, UsageError)
    if not isinstance(file.values, list | None):
        raise UsageError(f"{path.name} is {name_of(file.values)}, not a list", where=file.root, hint=f"write {EXAMPLE}")
    reader = _Reader(file, contract)
    entries = [reader.read_entry(idx, entry) for idx, entry in enumerate(file.values or [])]
    return Script(
        events=tuple(entry for entry in entries if isinstance(entry, ScriptedEvent)),
        media=tuple(entry for entry in entries if isinstance(entry, ScriptedMedia)),
    )


class _Reader:
    def __init__(self, file: YamlFile, contract: Contract) -> None:
        self._file = file
        self._contract = contract
        self._inputs = {track.name: track for track in contract.tracks if track.direction == "in"}

    def read_entry(self, idx: int, entry: Any) -> ScriptedEvent | ScriptedMedia:
        where = self._file.place(idx)
        if not isinstance(entry, dict):
            raise UsageError(
                f"an entry is a mapping, and this is {name_of(entry)}", where=where, hint=f"write {EXAMPLE}"
            )
        tracks = [key for key in entry if key in self._inputs]
        for key in entry:
            if key not in (*TIME_KEYS, *EVENT_KEYS, *self._inputs):
                self._refuse_key(idx, key)
        if len(tracks) + ("event" in entry) != 1:
            what = "no event and no track" if not tracks and "event" not in entry else "more than one event or track"
            raise UsageError(
                f"an entry has {what}", where=where, hint="write one `event:` or one input track for each `-`"
            )
        when = self._when(idx, entry)
        if not tracks:
            return self._event(idx, entry, when)
        if "data" in entry:
            raise UsageError("`data` belongs to an event", where=self._file.key_place(idx, "data"), hint="remove it")
        return self._media(idx, self._inputs[tracks[0]], entry[tracks[0]], when)

    def _refuse_key(self, idx: int, key: object) -> None:
        known = [*TIME_KEYS, *EVENT_KEYS, *self._inputs]
        near = difflib.get_close_matches(str(key), known, n=1)
        inputs = f"; the model's inputs: {', '.join(self._inputs)}" if self._inputs else "; the model has no inputs"
        hint = f'did you mean "{near[0]}"?' if near else f"use {', '.join((*TIME_KEYS, *EVENT_KEYS))}{inputs}"
        raise UsageError(f'unknown key "{key}"', where=self._file.key_place(idx, str(key)), hint=hint)

    def _when(self, idx: int, entry: dict[Any, Any]) -> When:
        if "at" in entry and "at_step" in entry:
            where = self._file.key_place(idx, "at_step")
            raise UsageError("an entry has `at` and `at_step`", where=where, hint="keep one of the two")
        if "at_step" in entry:
            return When(step=self._step(idx, entry["at_step"]))
        return When(at_s=self._time_s(idx, entry["at"])) if "at" in entry else When()

    def _step(self, idx: int, value: Any) -> int:
        where = self._file.place(idx, "at_step")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"at_step is {value!r}, not a whole number", where=where, hint="the first step is 0")
        style = self._contract.style
        if not style.has_steps:
            raise UsageError(style.without_steps(self._contract.model), where=where, hint="write `at:` and a time")
        return value

    def _time_s(self, idx: int, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            return float(value)
        number = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|)", value.strip()) if isinstance(value, str) else None
        if number is None:
            where = self._file.place(idx, "at")
            raise UsageError(f"at is {value!r}, not a time", where=where, hint="write it as 2.5s, 300ms or 1m")
        return float(number[1]) * UNITS_S[number[2]]

    def _event(self, idx: int, entry: dict[Any, Any], when: When) -> ScriptedEvent:
        name = entry["event"]
        spec = self._contract.events.get(name) if isinstance(name, str) else None
        if spec is None:
            near = difflib.get_close_matches(str(name), self._contract.events, n=1)
            known = ", ".join(sorted(self._contract.events)) or "none"
            hint = f"did you mean {near[0]}?" if near else f"its events: {known}"
            raise UsageError(f"the model has no event {name!r}", where=self._file.place(idx, "event"), hint=hint)
        uploads: list[UploadedFile] = []
        data = self._with_uploads(entry.get("data") or {}, [idx, "data"], uploads)
        return ScriptedEvent(
            when, self._file.place(idx, "event"), spec.name, self._checked(idx, spec, data, uploads), tuple(uploads)
        )

    def _checked(self, idx: int, spec: EventSpec, data: Any, uploads: Iterable[UploadedFile]) -> str:
        """Return the data of an event as JSON, after the checks that the model makes."""
        try:
            data_json = json.dumps(data, allow_nan=False)
            spec.validate(data_json, {file.id: file for file in uploads})
        except InvalidEvent as error:
            steps = re.findall(r"\w+", error.fields[0].path)[1:]
            inner = [int(step) if step.isdecimal() else step for step in steps]
            raise UsageError(str(error), where=self._file.place(idx, "data", *inner)) from None
        except ValueError as error:
            # JSON has no .nan and .inf.
            where = self._file.place(idx, "data")
            raise UsageError(f"{spec.name}: {error}", where=where, hint="write a finite number") from None
        return data_json

    def _with_uploads(self, value: Any, steps: list[str | int], uploads: list[UploadedFile]) -> Any:
        """Read the files that `upload:` names, and return the value with the ids of the files."""
        match value:
            case {"upload": str(name)} if len(value) == 1:
                uploads.append(self._upload(self._path(name), self._file.place(*steps, "upload")))
                return {"upload": uploads[-1].id}
            case dict():
                return {key: self._with_uploads(inner, [*steps, key], uploads) for key, inner in value.items()}
            case list():
                return [self._with_uploads(inner, [*steps, idx], uploads) for idx, inner in enumerate(value)]
        return value

    def _upload(self, path: Path, where: Location) -> UploadedFile:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}", where=where) from None
        content_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return UploadedFile(content, name=path.name, content_type=content_type)

    def _media(self, idx: int, track: TrackSpec, value: Any, when: When) -> ScriptedMedia:
        where = self._file.place(idx, track.name)
        if not isinstance(value, str):
            raise UsageError(f"{track.name} is {name_of(value)}, not the name of a file", where=where)
        path = self._path(value)
        try:
            sound = None if track.sample_rate is None else read_sound(path, track.sample_rate)
            if sound is None:
                _check_frames(path)
        except UsageError as error:
            error.where = where
            raise
        return ScriptedMedia(when, where, track, path, sound)

    def _path(self, name: str) -> Path:
        return self._file.path.parent / Path(name).expanduser()


def _check_frames(path: Path) -> None:
    """Decode the first frame of a file; raise UsageError if there is none, or if it is too large for an input."""
    _, frame = next(read_frames(path))
    height, width, _ = frame.shape
    if max(height, width) > MAX_SIDE:
        scale = MAX_SIDE / max(height, width)
        size = f"{math.floor(width * scale)}x{math.floor(height * scale)}"
        raise UsageError(f"{path} has frames of {width}x{height}", hint=f"scale it down to {size} or less")
