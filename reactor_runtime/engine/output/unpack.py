"""Unpacking: from an author's output to bundles, with checks of tracks, types and shapes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.authoring.tracks.track_payload import TrackPayload
from reactor_runtime.authoring.tracks.tracks import (
    Output,
    TrackSpec,
    is_made,
    key_of,
    metadata_of,
    payloads,
    tracks_of,
)
from reactor_runtime.engine.session_log import OnFile
from reactor_runtime.media.frames import check_audio, check_video
from reactor_runtime.media.jpeg_frame import JpegFrame, Payload, pixels_of
from reactor_runtime.media.metadata import metadata_text
from reactor_runtime.media.sound import pieces_of
from reactor_runtime.media.split import BATCH, split
from reactor_runtime.recording.pieces import Metadata

NO_METADATA: Mapping[str, Any] = MappingProxyType({})
NO_FILES: Mapping[str, OnFile] = MappingProxyType({})


class Beside(NamedTuple):
    """Hold the metadata of the frames of a bundle, and who gets their files; both by the key of the track.

    `metadata` is JSON text. Each function of `on_files` is called with the file into which the server encodes a frame.
    """

    metadata: Mapping[str, str] = NO_METADATA
    on_files: Mapping[str, OnFile] = NO_FILES


NOTHING = Beside()


class UnpackedBundle(dict[TrackSpec, Payload]):
    """Hold the payloads of one bundle by track, and what goes `beside` its frames."""

    __slots__ = ("beside",)

    def __init__(self, payloads: Mapping[TrackSpec, Payload], beside: Beside = NOTHING) -> None:
        super().__init__(payloads)
        self.beside = beside

    @property
    def arrays(self) -> dict[TrackSpec, NDArray[Any]]:
        """Return the payloads as arrays: frames that are JPEGs are decoded."""
        return {track: pixels_of(payload) for track, payload in self.items()}


@dataclass(frozen=True, slots=True)
class ByTrack:
    """Hold payloads by the keys of their tracks, as the block style hands them over.

    `metadata` has the JSON text of each frame of a track, "" for none, or one text for all frames.
    """

    payloads: Mapping[str, object]
    metadata: Mapping[str, Sequence[str]] = field(default_factory=dict)


class CheckedOutput(NamedTuple):
    """The payloads of an output by the key of the track, and the metadata of its frames as in `ByTrack`."""

    arrays: dict[str, Payload]
    metadata: Mapping[str, Sequence[str]]


class Unpack:
    """Split an Output, or the raw array of a model with one track, into bundles; made once per model.

    A model with several seats also gives a list with one of these for each seat, None for nothing new.
    """

    def __init__(self, contract: Contract) -> None:
        self._model = contract.model
        self._seats = contract.seats
        # With one key for all seats, and one for each seat.
        self._tracks = {track.key: track for track in contract.output_tracks}
        self._outputs: dict[type, tuple[TrackSpec, ...]] = {kind: tracks_of(kind) for kind in contract.outputs}
        all_tracks = [tracks for tracks in self._outputs.values() if tracks]
        self._only = all_tracks[0][0] if len(all_tracks) == 1 and len(all_tracks[0]) == 1 else None

    def __call__(self, output: object) -> list[UnpackedBundle]:
        """Split `output` into bundles; TypeError or ValueError names the track, the payload and the fix."""
        checked = self.check(output)
        arrays, texts = checked.arrays, checked.metadata
        bundles = split(arrays, alone=self._pieces(arrays))
        named = ({self._tracks[name]: piece for name, piece in bundle.items()} for bundle in bundles)
        if not texts:
            return [UnpackedBundle(bundle) for bundle in named]
        return [UnpackedBundle(bundle, Beside(_texts_of(texts, number))) for number, bundle in enumerate(named)]

    def check(self, output: object) -> CheckedOutput:
        """Return the arrays of `output` by track; raise as splitting does, but not for batches of unequal length."""
        values, metadata = self._values(output)
        arrays: dict[str, Payload] = {}
        texts = dict(output.metadata) if isinstance(output, ByTrack) else {}
        for name, payload in values.items():
            value, beside = payload, metadata.get(name)
            if isinstance(payload, TrackPayload):
                value, beside = payload.data, payload.metadata
            track = self._tracks[name]
            arrays[name] = _check(track, value)
            if beside is not None:
                texts[name] = _texts(track, arrays[name], beside)
        return CheckedOutput(arrays, texts)

    def _values(self, output: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """Return the values of an output by track, and the metadata beside them."""
        if isinstance(output, ByTrack):
            return output.payloads, NO_METADATA
        if isinstance(output, list) and self._seats > 1:
            return self._values_of_seats(output)
        if isinstance(output, Output):
            # One without tracks shows nothing, whatever the model declares.
            if type(output) not in self._outputs and tracks_of(type(output)):
                raise TypeError(self._not_declared(type(output)))
            return payloads(output), metadata_of(output)
        if self._only is not None:
            return {self._only.name: output}, NO_METADATA
        with declared_at(self._model) if not self._outputs else contextlib.nullcontext():
            raise TypeError(self._why_not_raw(output))

    def _values_of_seats(self, outputs: Sequence[object]) -> tuple[Mapping[str, object], Mapping[str, object]]:
        if len(outputs) != self._seats:
            raise ValueError(
                f"got a list of {len(outputs)} outputs, and the session has {self._seats} seats: give one for each, "
                "None for nothing new"
            )
        values: dict[str, object] = {}
        metadata: dict[str, object] = {}
        for seat, output in enumerate(outputs):
            if not is_idle(output):
                own, beside = self._values(output)
                values.update({key_of(name, seat): value for name, value in own.items()})
                metadata.update({key_of(name, seat): value for name, value in beside.items()})
        return values, metadata

    def _pieces(self, checked: Mapping[str, Payload]) -> int:
        """Return the number of pieces for sound without frames."""
        durations_s = []
        for name, payload in checked.items():
            rate = self._tracks[name].sample_rate
            if rate is None:
                return 1
            durations_s.append(payload.shape[1] / rate)
        return pieces_of(durations_s) if durations_s else 1

    def _not_declared(self, output: type[Output]) -> str:
        known, name = ", ".join(kind.__name__ for kind in self._outputs) or "none", output.__name__
        fix = f"import {name} by its name where the model is, or annotate the model with it, as in output: {name}"
        if is_made(output):
            fix = f"keep what {name}.make() returns on self in load(), as in self.views = {name}.make(…)"
        return f"{name} is not an output of this model; it declares: {known}; {fix}"

    def _why_not_raw(self, output: object) -> str:
        if not self._outputs:
            return "the model declares no Output: add `class MyOutput(Output): main_video: Video`"
        kinds = ", ".join(
            f"{kind.__name__}({', '.join(track.name for track in tracks)})" for kind, tracks in self._outputs.items()
        )
        return (
            f"got {type(output).__name__}; a raw frame needs exactly one Output with one track, this model has {kinds}"
        )


def metadata_by_track(bundles: Sequence[UnpackedBundle]) -> Metadata:
    """Return the metadata of each frame of an output, by the tracks that have any."""
    found: Metadata = {}
    for number, bundle in enumerate(bundles):
        for track, text in bundle.beside.metadata.items():
            found.setdefault(track, [None] * len(bundles))[number] = json.loads(text)
    return found


def _texts(track: TrackSpec, frames: Payload, metadata: object) -> list[str]:
    """Return the metadata of each frame of a payload as JSON text, "" for none; one text alone is that of all."""
    name = track.key
    if track.kind != "video":
        raise ValueError(f"{name}: metadata goes with frames, not with sound: give the samples alone")
    count = len(frames) if not isinstance(frames, JpegFrame) and frames.ndim == BATCH else None
    if not isinstance(metadata, list | tuple):
        return [metadata_text(name, metadata)]
    if count is None:
        raise ValueError(f"{name}: metadata is a list, and the payload one frame: give a dict or bytes")
    if len(metadata) != count:
        raise ValueError(f"{name}: {len(metadata)} metadata for {count} frames: give a list with one for each frame")
    return ["" if each is None else metadata_text(name, each) for each in metadata]


def _texts_of(metadata: Mapping[str, Sequence[str]], number: int) -> dict[str, str]:
    """Return the texts of one bundle: that of a single frame goes with it into each."""
    found = {name: texts[number] if len(texts) > 1 else texts[0] for name, texts in metadata.items()}
    return {name: text for name, text in found.items() if text}


def _check(track: TrackSpec, value: object) -> Payload:
    if track.kind == "audio":
        return check_audio(track.key, value)
    if isinstance(value, bytes | bytearray | memoryview):
        return JpegFrame.of(track.key, value)
    # A block is checked by the thread that makes it, and again by the loop.
    return value if isinstance(value, JpegFrame) else check_video(track.key, value)
