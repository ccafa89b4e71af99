"""The registries of 3.x as views of the class that Reactor has imported; nothing is kept for the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.authoring.events.messages import ModelMessage
from reactor_runtime.authoring.importing import imported_class
from reactor_runtime.authoring.tracks.inputs import Input
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec

V = TypeVar("V")


class _Registry(Mapping[str, V], Generic[V]):
    """Show a part of the contract of the imported class; empty before the first import."""

    def __init__(self, read: Callable[[Contract], Mapping[str, V]]) -> None:
        self._read = read

    def _entries(self) -> Mapping[str, V]:
        model = imported_class()
        return {} if model is None else self._read(Contract.of(model))

    def __getitem__(self, name: str) -> V:
        return self._entries()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())


EVENT_REGISTRY: Mapping[str, EventSpec] = _Registry(lambda contract: contract.events)
MESSAGE_REGISTRY: Mapping[str, type[ModelMessage]] = _Registry(lambda contract: contract.messages)
INPUT_REGISTRY: Mapping[str, type[Input]] = _Registry(lambda contract: _named(contract.inputs.values()))
OUTPUT_REGISTRY: Mapping[str, type[Output]] = _Registry(lambda contract: _named(contract.outputs))


def all_input_tracks() -> dict[str, TrackSpec]:
    """Return the input tracks of the class that Reactor has imported, by name."""
    return _tracks("in")


def all_output_tracks() -> dict[str, TrackSpec]:
    """Return the output tracks of the class that Reactor has imported, by name."""
    return _tracks("out")


def _tracks(direction: str) -> dict[str, TrackSpec]:
    model = imported_class()
    tracks = () if model is None else Contract.of(model).tracks
    return {track.name: track for track in tracks if track.direction == direction}


def _named(classes: Any) -> dict[str, Any]:
    return {cls.__name__: cls for cls in classes}
