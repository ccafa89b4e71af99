"""Unpacking: from an author's output to bundles, with checks of tracks, types and shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import declared_at
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec, payloads, tracks_of
from reactor_runtime.media.frames import check_audio, check_video
from reactor_runtime.media.sound import pieces_of
from reactor_runtime.media.split import split


@dataclass(frozen=True, slots=True)
class ByTrack:
    """Hold payloads by the names of their tracks, as the block style hands them over."""

    payloads: Mapping[str, object]


class Unpack:
    """Split an Output, or the raw array of a model with one track, into bundles; made once per model."""

    def __init__(self, contract: Contract) -> None:
        self._model = contract.model
        self._tracks = {track.name: track for track in contract.tracks if track.direction == "out"}
        self._outputs: dict[type, tuple[TrackSpec, ...]] = {kind: tracks_of(kind) for kind in contract.outputs}
        all_tracks = [tracks for tracks in self._outputs.values() if tracks]
        self._only = all_tracks[0][0] if len(all_tracks) == 1 and len(all_tracks[0]) == 1 else None

    def __call__(self, output: object) -> list[dict[TrackSpec, NDArray[Any]]]:
        """Split `output` into bundles; TypeError or ValueError names the track, the payload and the fix."""
        checked = self.check(output)
        bundles = split(checked, alone=self._pieces(checked))
        return [{self._tracks[name]: piece for name, piece in bundle.items()} for bundle in bundles]

    def check(self, output: object) -> dict[str, NDArray[Any]]:
        """Return the arrays of `output` by track; raise as splitting does, but not for batches of unequal length."""
        if isinstance(output, ByTrack):
            values = dict(output.payloads)
        elif isinstance(output, Output):
            # One without tracks shows nothing, whatever the model declares.
            if type(output) not in self._outputs and tracks_of(type(output)):
                known, name = ", ".join(kind.__name__ for kind in self._outputs) or "none", type(output).__name__
                raise TypeError(
                    f"{name} is not an output of this model; it declares: {known}; "
                    f"import {name} by its name where the model is, or annotate the model with it, as in output: {name}"
                )
            values = payloads(output)
        elif self._only is not None:
            values = {self._only.name: output}
        else:
            with declared_at(self._model) if not self._outputs else contextlib.nullcontext():
                raise TypeError(self._why_not_raw(output))
        return {name: _check(self._tracks[name], value) for name, value in values.items()}

    def _pieces(self, checked: dict[str, NDArray[Any]]) -> int:
        """Return the number of pieces for sound without frames."""
        durations_s = []
        for name, payload in checked.items():
            rate = self._tracks[name].sample_rate
            if rate is None:
                return 1
            durations_s.append(payload.shape[1] / rate)
        return pieces_of(durations_s) if durations_s else 1

    def _why_not_raw(self, output: object) -> str:
        if not self._outputs:
            return "the model declares no Output: add `class MyOutput(Output): main_video: Video`"
        kinds = ", ".join(
            f"{kind.__name__}({', '.join(track.name for track in tracks)})" for kind, tracks in self._outputs.items()
        )
        return (
            f"got {type(output).__name__}; a raw frame needs exactly one Output with one track, this model has {kinds}"
        )


def _check(track: TrackSpec, value: object) -> NDArray[Any]:
    return check_video(track.name, value) if track.kind == "video" else check_audio(track.name, value)
