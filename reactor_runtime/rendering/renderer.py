"""`Renderer`: a model that plays a script on the clock of the tests, and the frames and sound that it shows."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.app import StepCompleted
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.clips.reading import read_frames
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.author import load_failure, session_failure
from reactor_runtime.engine.dispatch import HOST, CheckedEvent
from reactor_runtime.engine.first_step import SLOW_HINTS, step_facts
from reactor_runtime.engine.output.unpack import Unpack as UnpackOutput
from reactor_runtime.engine.output.unpack import UnpackedBundle, metadata_by_track
from reactor_runtime.errors import Location, ModelFailed, ReactorError
from reactor_runtime.ipc.messages import ClientEvent, EventRefused, Started, StartSession
from reactor_runtime.rendering.script import Script, ScriptedEvent, ScriptedMedia, When
from reactor_runtime.testing.recorder import Frame, Message
from reactor_runtime.testing.studio import CLIENT, JOINED_AT_UNIX, PATIENCE_S, Studio

# Of the model's time: how often the frames are handed out.
SLICE_S = 0.040
# Of real time: a block, and the compilation in it, may take minutes.
THREAD_PATIENCE_S = 600.0
DEFAULT_FPS = 30.0
# How often a page sends sound.
SOUND_PIECE_S = 0.020
# Times of frames are multiples of a rate, with rounding.
ROUNDING_S = 1e-6
NO_STEP_HINT = "a model that waits for an event or an input gets it with --script"


@dataclass(frozen=True, slots=True)
class Played:
    """Hold what was shown until `end_s`, and what the author should know about it."""

    end_s: float
    frames: list[Frame]
    warnings: list[ReactorError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StepMade:
    """Describe a step: its number from 1, seconds, tracks, the metadata of their frames, messages, files and error."""

    step: int
    elapsed_s: float
    tracks: list[dict[str, Any]]
    metadata: Mapping[str, Any]
    messages: list[Message]
    files: Mapping[str, bytes]
    error: str | None


class Options(TypedDict, total=False):
    """The options of a rendering; see Renderer."""

    fps: float | None
    most_steps: int | None
    seed: int | None
    on_made: Callable[[StepMade], object] | None


class Renderer(Studio[Model]):
    """Play one session of a model without a client, as fast as it computes.

    A step starts when its first frame is due, and an event of the script is handled before the first step that starts
    at its time or later. `fps` is the rate of the model, by default the one that its class declares, else 30. `steps`
    counts those of a model whose style has steps. `most_steps` are made at most, without those that the model skips;
    `on_made` gets each. `seed` is for the generators of random numbers. Of a session with several seats it is the first
    that is played and shown.
    """

    _thread_patience_s: ClassVar[float] = THREAD_PATIENCE_S
    _works_ahead: ClassVar[bool] = False

    def __init__(
        self,
        contract: Contract,
        config: GivenConfig | Mapping[str, Any],
        project: Path,
        *,
        fps: float | None = None,
        most_steps: int | None = None,
        seed: int | None = None,
        on_made: Callable[[StepMade], object] | None = None,
    ) -> None:
        # Without a server no rate can follow the compute time.
        paced = replace(contract, fps=fps or contract.fps or DEFAULT_FPS)
        super().__init__(contract.model, config, project=project, contract=paced)
        self._project = project
        if fps is not None:
            self._slot.runtime.output_buffer.set_fps(fps)
        self.steps = 0
        self._made = 0
        self._most_steps = most_steps
        self._seed = seed
        self._on_made = on_made
        self._script = Script()
        self._at_step: dict[int, list[Callable[[], None]]] = {}
        # The newest file of each input track.
        self._files: dict[str, ScriptedMedia] = {}
        self._sent: dict[int, Location] = {}
        self._tickets = itertools.count(1)
        contract.style.check_loaded(self.model)

    @property
    def contract(self) -> Contract:
        """Return the contract after `load()`."""
        return self._contract

    @property
    def refusal(self) -> str:
        """Return why the model has skipped all its steps; "" if it has made one."""
        return "" if self._made else self._slot.refusal

    @classmethod
    def load(
        cls, contract: Contract, config: GivenConfig | Mapping[str, Any], project: Path, **options: Unpack[Options]
    ) -> Self:
        """Load the model; raise LoadError at the author's line if it fails."""
        try:
            return cls(contract, config, project, **options)
        except (ReactorError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise load_failure(error, contract, project) from error

    def play(
        self, script: Script, seconds: float, *, is_stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[Played]:
        """Start a session, and yield what it shows, piece by piece, in `seconds` of its time.

        Ends early if the session ends by itself, and after the current step once `is_stopped()` is true. Raises
        ModelFailed at the author's line if the model or a handler raises.
        """
        try:
            yield from self._play(script, seconds, is_stopped)
        except (ReactorError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            raise session_failure(error, self._project) from error

    def _play(self, script: Script, seconds: float, is_stopped: Callable[[], bool]) -> Iterator[Played]:
        recorder = self._recorder
        self._script = script
        self._connect(StartSession(f"s-{next(self._numbers)}", CLIENT, JOINED_AT_UNIX, seed=self._seed))
        self._slot.pause_steps(False)
        end_s, progress = 0.0, (0, 0.0)
        while end_s < seconds and not (recorder.ended or is_stopped()):
            goal_s = min(end_s + SLICE_S, seconds)
            over = self._wait.advance(
                lambda: bool(recorder.failures) or recorder.ended or is_stopped() or self._is_over,
                recorder.began + goal_s - self.clock.now(),
            )
            end_s = min(self.clock.now() - recorder.began, seconds) if over else goal_s
            taken = [frame for frame in recorder.take_shown() if frame.seat in (None, HOST)]
            shown = [frame for frame in taken if frame.due_s < seconds - ROUNDING_S]
            recorder.messages.clear()
            if self._on_made is None:
                recorder.unread.clear()
            # A session that is over has shown its last frame at this moment.
            if over and shown:
                last_s = max(frame.due_s for frame in shown) + 1 / self._slot.runtime.output_buffer.fps
                end_s = min(max(end_s, last_s), seconds)
            yield Played(end_s, shown, self._take_warnings())
            self._wait.raise_failure()
            if over:
                return
            progress = progress if progress[0] == self._made else (self._made, end_s)
            if self._most_steps is not None and end_s - progress[1] > PATIENCE_S:
                refusal = self._slot.refusal
                reason = f": it skips its steps: {refusal}" if refusal else ""
                message = f"the model has made {self._made} of {self._most_steps} steps, and none in {PATIENCE_S:g} s"
                raise ModelFailed(f"{message}{reason}", hint=NO_STEP_HINT)

    @property
    def _is_over(self) -> bool:
        """Return whether all steps have been made and shown."""
        return self._most_steps is not None and self._made >= self._most_steps and not self._recorder.has_queued

    def _on_started(self, started: Started) -> None:
        for file in self._script.media:
            self._call_when(file.when, started.started_at, partial(self._start_file, file))
        for event in self._script.events:
            self._call_when(event.when, started.started_at, partial(self._send, event))

    def _call_when(self, when: When, began: float, callback: Callable[[], None]) -> None:
        if when.step:
            self._at_step.setdefault(when.step, []).append(callback)
        else:
            self._call_at(began + when.at_s, callback)

    def _call_at(self, at: float, callback: Callable[[], None]) -> None:
        """Call back just before a step that starts at this time, at once if that is now."""
        if at - ROUNDING_S <= self.clock.now():
            callback()
        else:
            self.clock.call_at(at - ROUNDING_S, callback)

    def _on_step(self, output: object, compute_s: float) -> None:
        self.steps += 1
        skipped = is_idle(output) and bool(self._slot.refusal)
        if not skipped:
            self._made += 1
            if self._on_made is not None:
                self._on_made(self._described(output, compute_s))
        if self._made == self._most_steps:
            self._slot.pause_steps(True)
        for callback in self._at_step.pop(self.steps, ()):
            callback()

    def _described(self, output: object, compute_s: float) -> StepMade:
        bundles: list[UnpackedBundle] = []
        if not is_idle(output):
            # The engine raises at the author's line.
            with contextlib.suppress(TypeError, ValueError):
                bundles = UnpackOutput(self._contract)(output)
        completed = self._slot.completed or StepCompleted()
        messages, self._recorder.unread = self._recorder.unread, []
        return StepMade(
            self._made,
            compute_s if completed.elapsed is None else completed.elapsed,
            step_facts(bundles, None)["tracks"],
            metadata_by_track(bundles),
            messages,
            completed.files,
            None if completed.error is None else str(completed.error),
        )

    def _send(self, event: ScriptedEvent) -> None:
        if self._recorder.ended:
            return
        ticket = next(self._tickets)
        self._sent[ticket] = event.where
        for file in event.uploads:
            self._slot.uploads.add(file)
        spec = self._contract.events[event.name]
        sent = ClientEvent(self._session, CLIENT, ticket, event.name, event.data_json)
        arguments = spec.validate(event.data_json, self._slot.uploads)
        self._host.receive_message(CheckedEvent(sent, spec, arguments))

    def _start_file(self, file: ScriptedMedia) -> None:
        self._files[file.track.name] = file
        starts = self.clock.now()
        if file.sound is None:
            self._send_frames(file, starts, read_frames(file.path))
        else:
            self._send_sound(file, file.sound, starts, 0)

    def _send_frames(
        self, file: ScriptedMedia, starts: float, frames: Iterator[tuple[float, NDArray[np.uint8]]]
    ) -> None:
        """Send the next frame when it is due, and so on, until another file of the track starts."""
        at_s, frame = next(frames)

        def send() -> None:
            if self._is_sending(file):
                self._slot.inputs.push_array(file.track.name, frame)
                self._send_frames(file, starts, frames)

        self._call_at(starts + at_s, send)

    def _send_sound(self, file: ScriptedMedia, sound: NDArray[np.int16], starts: float, number: int) -> None:
        """Send the next piece when it has been recorded, as a microphone does; after the end of the file silence."""
        rate = file.track.sample_rate or 1
        begin, end = (round((number + offset) * SOUND_PIECE_S * rate) for offset in (0, 1))

        def send() -> None:
            if self._is_sending(file):
                piece = sound[:, begin:end]
                padding = ((0, 0), (0, end - begin - piece.shape[1]))
                self._slot.inputs.push_array(file.track.name, np.pad(piece, padding))
                self._send_sound(file, sound, starts, number + 1)

        self._call_at(starts + (number + 1) * SOUND_PIECE_S, send)

    def _is_sending(self, file: ScriptedMedia) -> bool:
        return self._files[file.track.name] is file and not self._recorder.ended

    def _take_warnings(self) -> list[ReactorError]:
        recorder = self._recorder
        # A slow step is no problem here: there is no client.
        warnings = [warning for warning in recorder.warnings if warning.hint not in SLOW_HINTS]
        recorder.warnings.clear()
        for ticket, answer in recorder.answers.items():
            if isinstance(answer, EventRefused) and isinstance(ticket, int):
                where = self._sent.get(ticket)
                warnings.append(ReactorError(f"the model refused {answer.event}: {answer.message}", where=where))
        recorder.answers.clear()
        return warnings
