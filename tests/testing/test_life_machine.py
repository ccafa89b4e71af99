"""Any order of clients, reloads and failures: hooks in pairs, one model in memory, and the newest code that runs."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactor_runtime.ipc.messages import ClientJoined, ClientLeft
from reactor_runtime.testing import Studio
from reactor_runtime.testing.studio import CLIENT
from tests.testing.projects import Project

HEAD = """
    import numpy as np
    from reactor_runtime import *
    import NOTES as notes

    class Picture(Output):
        video: Video

    def frame(model):
        assert model.red > 0
        return np.full((4, 4, 3), model.red + CODE, np.uint8)
"""
HOOKS = """
        @connected
        def connect(self):
            notes.hooks.append((self.number, "connected"))
            self.red = self.loaded

        @disconnected
        def disconnect(self):
            notes.hooks.append((self.number, "disconnected"))
"""
# The hooks of 3.x, for every client.
SESSION_HOOKS = """
        @session_started
        def start(self):
            notes.hooks.append((self.number, "started"))
            self.red = self.loaded

        @session_ended
        def end(self):
            notes.hooks.append((self.number, "ended"))

        @connected
        def connect(self, client: ClientInfo):
            notes.hooks.append((self.number, "connected " + client.id))

        @disconnected
        def disconnect(self, client: ClientInfo):
            notes.hooks.append((self.number, "disconnected " + client.id))
"""
LOAD = """
            self.loaded = LOADED
            self.number = notes.loads = notes.loads + 1
"""
MODELS = {
    "pipeline": f"""{HEAD}
    class MyModel(ReactorPipeline):
        state: InputState
        output: Picture
        fps = 10

        def load(self, config):{LOAD}{HOOKS}
        def inference(self):
            while True:
                yield frame(self)
""",
    "loop": f"""{HEAD}
    class MyModel(ReactorModel):
        output: Picture
        fps = 10

        def load(self, config):{LOAD}{HOOKS}
        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(frame(self))
""",
    "blocks": f"""{HEAD}
    class MyModel(VideoModel):
        fps = 10

        def __init__(self, config):{LOAD}
            self.red = self.loaded

        def start_session(self):
            while not get_ctx().should_stop():
                get_ctx().emit_block(frame(self)[None])
""",
}
MODELS |= {f"{style} of 3": MODELS[style].replace(HOOKS, SESSION_HOOKS) for style in ("pipeline", "loop")}
MODELS["app of 3"] = f"""{HEAD}
    class MyModel(ReactorApp):
        output: Picture
        fps = 10.0

        def load(self, config):{LOAD}{SESSION_HOOKS}
        def generate(self, input):
            return Picture(frame(self))
"""
# A session begins with a full queue, and an app has one of 10 frames, which last 1 s: its next step comes after that.
NEXT_STEP_S = 1.5
ACTIONS = [
    "join",
    "leave",
    "connect",
    "disconnect",
    "reload",
    "loading reload",
    "reload that fails",
    "load that fails",
    "syntax",
    "crash",
    "run",
]


class Life:
    """A project, its studio, and what the model should show."""

    def __init__(self, folder: Path, style: str) -> None:
        self.project = Project(folder, f"life_{style.replace(' ', '_')}")
        self.follows = style.endswith("of 3")
        self.viewers: list[str] = []
        self.project.write("hooks = []\nloads = 0", name=f"{self.project.name}_notes")
        self.notes: Any = importlib.import_module(f"{self.project.name}_notes")
        self._text = MODELS[style].replace("NOTES", f"{self.project.name}_notes")
        self.code, self.loaded = 1, 10
        self._write(self.code, self.loaded)
        self.studio: Studio[Any] = Studio(self.project.model(), project=folder)
        self.models = [weakref.ref(self.studio.model)]
        self.connected = False

    def _write(self, code: int, loaded: int, *changes: tuple[str, str]) -> None:
        text = self._text
        for change in changes:
            text = text.replace(*change)
        self.project.write(text, ("CODE", str(code)), ("LOADED", str(loaded)))

    def act(self, action: str) -> None:
        match action:
            case "connect" if not self.connected:
                self.studio.connect()
                self.connected = True
            case "disconnect":
                self.studio.disconnect()
                self.connected = False
                self.viewers.clear()
            case "join" if self.connected:
                self.viewers.append(f"v-{len(self.notes.hooks)}")
                self._change_clients(ClientJoined(self.studio._session, self.viewers[-1], "viewer", 0.0))
            case "leave" if self.connected and self.viewers:
                self._change_clients(ClientLeft(self.studio._session, self.viewers.pop(0)))
            case "reload":
                self.code += 1
                self._write(self.code, self.loaded)
                self._reload()
            case "loading reload":
                self.loaded += 10
                self._write(self.code, self.loaded)
                self._reload()
            case "reload that fails" if self.connected:
                self._write(self.code + 50, self.loaded, ("model.red > 0", "model.red > 999"))
                self._reload(fails=True)
            case "load that fails":
                self._write(self.code + 50, self.loaded, ("notes.loads + 1", "notes.loads + 1 / 0"))
                self._reload(fails=True)
            case "syntax":
                self._write(self.code + 50, self.loaded, ("import numpy", "import = numpy"))
                self._reload(fails=True)
            case "crash" if self.connected:
                self.studio.model.red = 0
                with pytest.raises(AssertionError):
                    self.studio.run(NEXT_STEP_S)
                self.studio.model.red = self.loaded
                self.connected = False
                self.viewers.clear()
            case "run" if self.connected:
                self.studio.clear()
                self.studio.run(NEXT_STEP_S)
                assert int(self.studio.frames[-1].array.flat[0]) == self.loaded + self.code

    def _change_clients(self, change: ClientJoined | ClientLeft) -> None:
        self.studio._host.receive_message(change)
        self.studio.run(0.3)

    def _reload(self, *, fails: bool = False) -> None:
        with contextlib.suppress(Exception) if fails else contextlib.nullcontext():
            self.studio.reload()
            if self.connected:
                self.studio.run(0.7)
        self.models.append(weakref.ref(self.studio.model))

    def check(self) -> None:
        gc.collect()
        alive = {id(model) for each in self.models if (model := each()) is not None}
        assert alive == {id(self.studio.model)}
        if self.follows:
            self._check_clients()
            return
        open_hooks = Counter[int]()
        for number, hook in self.notes.hooks:
            open_hooks[number] += 1 if hook == "connected" else -1
            assert open_hooks[number] in (0, 1)
            assert open_hooks.total() <= 1, "one instance is connected at a time"
        assert self.connected == bool(open_hooks.total()) or not self.notes.hooks

    def _check_clients(self) -> None:
        """Check that each instance has its sessions in pairs, and in each session its clients."""
        running: int | None = None
        clients: set[str] = set()
        for number, hook in self.notes.hooks:
            kind, _, client = hook.partition(" ")
            if kind == "started":
                assert running is None, "one instance has a session at a time"
                running = number
            else:
                assert running == number
            if kind == "connected":
                assert client not in clients
                clients.add(client)
            elif kind == "disconnected":
                clients.remove(client)
            elif kind == "ended":
                running = None
                clients.clear()
        if self.connected:
            assert clients == {CLIENT, *self.viewers}
        else:
            assert running is None


@contextlib.contextmanager
def life(style: str) -> Iterator[Life]:
    before = set(sys.modules)
    # Records that pytest captures keep tracebacks, and so models.
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        try:
            made = Life(Path(folder), style)
            with made.studio:
                yield made
            made.connected = False
        finally:
            logging.disable(logging.NOTSET)
            sys.path.remove(folder)
            for name in set(sys.modules) - before:
                if name.startswith("life_"):
                    del sys.modules[name]
            importlib.invalidate_caches()


@pytest.mark.parametrize("style", MODELS)
@settings(max_examples=8, deadline=None)
@example(actions=["connect", "reload that fails", "reload that fails"])
@given(actions=st.lists(st.sampled_from(ACTIONS), min_size=3, max_size=6))
def test_the_newest_code_that_runs_is_served_by_one_instance(style: str, actions: list[str]) -> None:
    with life(style) as made:
        for action in [*actions, "run"]:
            made.act(action)
            made.check()
