"""Thumbnails: small images of what a model shows with the values of a preset, or with an example of its main text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.presets import Presets, setters
from reactor_runtime.errors import Location, ModelFailed, ReactorError, UsageError
from reactor_runtime.kinds import kind_of
from reactor_runtime.media.scale import halved
from reactor_runtime.rendering.renderer import Renderer
from reactor_runtime.rendering.script import Script, ScriptedEvent, When

# Twice the width of a card, in pixels.
WIDEST = 400
QUALITY = 82
# Of the model's time: a model that has shown nothing by then waits for something.
LONGEST_S = 60.0
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class NamedValues:
    """Hold what an image is of: a preset, or an example of the main text, whose name is its text."""

    name: str
    values: Mapping[str, Any]

    def file_name(self, number: int) -> str:
        """Return a name for the image, for people; `number` makes it unique."""
        words = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_LONGEST_NAME].strip("-")
        return f"{number}-{words}.jpg" if words else f"{number}.jpg"


def subjects(contract: Contract, presets: Presets) -> list[NamedValues]:
    """Return the presets of a project, which fit the model, and the examples of the model's main text."""
    return [
        *(NamedValues(name, values) for name, values in presets.items()),
        *(NamedValues(example, {field: example}) for field, example in _examples(contract)),
    ]


def _examples(contract: Contract) -> Iterator[tuple[str, str]]:
    """Yield the field of the main text, as the page chooses it, with each of its examples."""
    described = contract.to_json()["schema"]["events"]
    texts = {}
    for field, event in setters(contract).items():
        schema = described[event.name]["parameters"]["properties"][event.arguments.names[0]]
        if kind_of(schema) == "str":
            texts[field] = schema
    prominent = [field for field, schema in texts.items() if schema.get("x-reactor-ui", {}).get("prominent")]
    main = next(iter(prominent), "prompt")
    for example in texts.get(main, {}).get("examples", ()):
        yield main, example


def render_thumbnail(
    renderer: Renderer,
    contract: Contract,
    subject: NamedValues,
    seconds: float,
    *,
    on_warning: Callable[[ReactorError], object],
    is_stopped: Callable[[], bool],
) -> bytes | None:
    """Return a JPEG of what the model shows on its first video track after `seconds` of a new session with the values.

    Returns None once `is_stopped()` is true. Raises UsageError for a model without video, and ModelFailed for one that
    fails or has shown nothing after a minute of its time.
    """
    track = next((each.name for each in contract.tracks if each.direction == "out" and each.kind == "video"), None)
    if track is None:
        raise UsageError(f"{contract.model.__name__} has no video to make an image of")
    shown: NDArray[np.uint8] | None = None
    for played in renderer.play(_script(contract, subject), max(seconds, LONGEST_S), is_stopped=is_stopped):
        frames = [frame.array for frame in played.frames if frame.track == track]
        shown = frames[-1] if frames else shown
        for warning in played.warnings:
            on_warning(warning)
        if shown is not None and played.end_s >= seconds:
            break
    renderer.disconnect()
    if is_stopped():
        return None
    if shown is None:
        hint = "images can be made only of a model that shows something without other events and inputs"
        raise ModelFailed(f'the model showed nothing in {LONGEST_S:g} s of its time with "{subject.name}"', hint=hint)
    return _jpeg(shown)


def _script(contract: Contract, subject: NamedValues) -> Script:
    events = setters(contract)
    place = Location("reactor.yaml", 1)
    return Script(
        events=tuple(
            ScriptedEvent(When(), place, event.name, json.dumps({event.arguments.names[0]: value}))
            for event, value in ((events[field], value) for field, value in subject.values.items())
        )
    )


def _jpeg(frame: NDArray[np.uint8]) -> bytes:
    while frame.shape[1] > WIDEST and (smaller := halved(frame)) is not frame:
        frame = smaller
    jpeg: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(frame), quality=QUALITY, colorsubsampling="420")
    return jpeg
