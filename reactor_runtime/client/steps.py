"""Steps that a client requests of a stepped session: what it sends with them, and what the model has made in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactor_runtime.client.errors import ClientError, ConnectionLost, EventError
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.messages import Message, StepAnswer

# The event of each command and its data, or its name alone.
Commands = Iterable[tuple[str, Mapping[str, Any]] | str]


@dataclass(frozen=True, slots=True, eq=False)
class StepsResult:
    """The result of requested steps: all that the model has made in them, in order.

    `step` is the number of the newest step since the last reset, `steps` how many were made, in `elapsed_s` seconds of
    the model. `state` has the public fields of the state after them.
    """

    step: int
    steps: int
    frames: Sequence[Frame]
    sound: Sequence[Sound]
    messages: Sequence[Message]
    state: Mapping[str, Any]
    elapsed_s: float

    def frame(self, track: str | None = None) -> Frame:
        """Return the newest frame of a track, by default of the track of the first frame. Raises LookupError."""
        name = track or next((frame.track for frame in self.frames), None)
        found = next((frame for frame in reversed(self.frames) if frame.track == name), None)
        if found is None:
            raise LookupError(f"the model has made no frame{'' if track is None else f' of {track}'} in these steps")
        return found


class StepRefused(EventError):
    """The server refused steps: `code` and `fields` are why, and `result` has the steps that were made before."""

    def __init__(self, error: EventError, result: StepsResult) -> None:
        super().__init__(error.code, error.message, fields=error.fields, made=error.made)
        self.result = result


class StepCollector:
    """Keep what arrives while requests for steps have no answer, and return it with the answer that it belongs to."""

    def __init__(self) -> None:
        self._requests = 0
        self._media: list[Frame | Sound] = []
        self._messages: list[Message] = []

    def begin(self) -> None:
        """Keep what arrives from here on, until `finish` was called as often."""
        self._requests += 1

    def add_media(self, media: Frame | Sound) -> None:
        """Keep a frame or a piece of sound, unless no request waits for it."""
        if self._requests:
            self._media.append(media)

    def add_message(self, message: Message) -> None:
        """Keep a message of the model, unless no request waits for it."""
        if self._requests:
            self._messages.append(message)

    def finish(self, answer: StepAnswer | ClientError, state: Mapping[str, Any]) -> StepsResult | ClientError:
        """Return the result of the oldest request, or the error that answers it."""
        self._requests -= 1
        media, messages, self._media, self._messages = self._media, self._messages, [], []
        error = answer if isinstance(answer, ClientError) else None
        if isinstance(error, EventError) and error.made:
            try:
                answer = StepAnswer.from_data(error.made)
            except (LookupError, TypeError, ValueError) as malformed:
                return ConnectionLost(f"the server's answer is malformed: {malformed}")
        if isinstance(answer, ClientError):
            return answer
        made = [each for each in media if answer.has(each.track, each.seq)]
        result = StepsResult(
            answer.step,
            answer.steps,
            [each for each in made if isinstance(each, Frame)],
            [each for each in made if isinstance(each, Sound)],
            messages,
            state,
            answer.elapsed_s,
        )
        return StepRefused(error, result) if isinstance(error, EventError) else result
