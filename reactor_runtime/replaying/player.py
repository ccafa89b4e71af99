"""The model that `reactor replay --serve` serves: it shows the frames of a replay, at the recorded pace."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from reactor_runtime.authoring.events.events import connected, event
from reactor_runtime.authoring.events.messages import ModelMessage
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.authoring.values.fields import InputField
from reactor_runtime.engine.output.unpack import ByTrack
from reactor_runtime.replaying.playhead import Playhead
from reactor_runtime.replaying.recorded_frames import blank_frame
from reactor_runtime.replaying.replayer import ReplayedSession, Replayer

MODULE, CLASS = "reactor_replayed_session", "ReplayedModel"
SOURCE = '''"""The model of `reactor replay --serve`."""

from reactor_runtime.replaying.player import Player, PlayerState, ReplayedSession, output_of

SESSION = ReplayedSession.open(
    {file!r}, project={project!r}, module={module!r}, class_name={class_name!r}, over_recorded={over_recorded!r},
    config_file={config_file!r}, merged_config={merged_config!r},
)
Shown = output_of(SESSION)


class {name}(Player):
    session = SESSION
    output: Shown
    state: PlayerState
    fps = SESSION.contract.fps or Player.max_fps
'''
PROGRESS_S = 0.5


def write_module(
    folder: Path,
    *,
    file: Path,
    project: Path,
    module: str,
    class_name: str,
    over_recorded: bool,
    config_file: Path | None = None,
    merged_config: Path | None = None,
) -> None:
    """Write the module with the class that replays a recording: an engine imports classes of authors only."""
    source = SOURCE.format(
        file=str(file.resolve()),
        project=str(project),
        module=module,
        class_name=class_name,
        over_recorded=over_recorded,
        config_file="" if config_file is None else str(config_file),
        merged_config="" if merged_config is None else str(merged_config),
        name=CLASS,
    )
    (folder / f"{MODULE}.py").write_text(source, encoding="utf-8")


class PlayerState(InputState):
    frame: int = InputField(default=0, ge=0, description="The frame that is shown")
    playing: bool = InputField(default=True, description="Whether the frames advance")


class ReplayProgress(ModelMessage):
    """Report how many frames are made, where they differ from the recording, and the result, "" until the end."""

    name = "replay.progress"
    made: int
    differing: list[list[int]]
    result: str


class Player(ReactorModel):
    """Show the frames of a session that is replayed meanwhile.

    Each session begins with the first frame; viewers see what the controller sees.
    """

    session: ReplayedSession
    state: PlayerState
    # Few, so that a frame that is sought is seen soon.
    buffer_size = 2

    def load(self, config: dict[str, Any]) -> None:
        """Load the model that was recorded, and start its replay."""
        self._playhead = Playhead(self.session.frames.times_s)
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reported_at = 0.0
        self._replayer = Replayer(self.session, self._report_progress)
        self._replayer.start(config)

    @connected
    def begin(self) -> None:
        self._playhead.seek(0)
        self._changed.set()
        self._report()

    @event(name="set_frame")
    def set_frame(self, frame: int = InputField(default=0, ge=0)) -> None:
        self._playhead.seek(frame)
        self.state.frame = self._playhead.frame
        self._changed.set()

    @event(name="set_playing")
    def set_playing(self, playing: bool) -> None:
        if playing and self._playhead.at_end:
            self._playhead.seek(0)
        self.state.playing = playing
        self._changed.set()

    async def run(self) -> None:
        """Show each frame when it is due."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self.connected.wait()
            self._changed.clear()
            if self._replayer.result:
                self._playhead.end_at(len(self._replayer.store))
                if not len(self._replayer.store) and self.state.playing:
                    self.state.playing = False
                    # The state comes with a frame.
                    await self.emit(ByTrack(blank_frame(self.session.recording)))
                    continue
            if self._playhead.at_end and self.state.playing:
                # The end came after its last frame, which is shown again with the state.
                self._playhead.seek(len(self._replayer.store) - 1)
            now = self._loop.time()
            due = self._playhead.due(now, playing=self.state.playing, made=len(self._replayer.store))
            if due is not None and due <= now:
                await self._show(self._playhead.advance(now))
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._changed.wait()

    async def _show(self, frame: int) -> None:
        self.state.frame = frame
        if self._playhead.at_end:
            self.state.playing = False
        await self.emit(ByTrack(self._replayer.store.read(frame)))

    def _report_progress(self) -> None:
        """Wake the player, and report the progress twice a second; on the thread of the replay."""
        now = time.monotonic()
        if self._replayer.result or now > self._reported_at + PROGRESS_S:
            self._reported_at = now
            self._report()
        if self._loop is not None:
            # The loop is closed when the server stops.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed.set)

    def _report(self) -> None:
        replayer = self._replayer
        self.send_nowait(ReplayProgress(made=len(replayer.store), differing=replayer.differing, result=replayer.result))


def output_of(session: ReplayedSession) -> Any:
    """Return the annotation with all Outputs of the recorded model."""
    outputs = iter(session.contract.outputs)
    annotation: Any = next(outputs)
    for each in outputs:
        annotation |= each
    return annotation
