"""The hooks of the instances that serve one session, one after the other."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from reactor_runtime.errors import LoadError
from reactor_runtime.testing import Studio
from tests.testing.projects import Project

HEAD = """
    import asyncio
    import numpy as np
    from reactor_runtime import *
    import NOTES as notes

    class Picture(Output):
        video: Video

    class Level(InputState):
        level: int = InputField(default=1, ge=0, le=9)
"""
HOOKS = """
        state: Level
        output: Picture
        fps = 10

        def load(self, config):
            self.size = 16
            self.number = notes.loads = notes.loads + 1

        @connected
        def connect(self):
            notes.hooks.append(("connected", self.number))
            self.latent = np.zeros((self.size, self.size, 3), np.uint8)

        @disconnected
        def disconnect(self):
            notes.hooks.append(("disconnected", self.number))
"""
MODELS = {
    "pipeline": f"""{HEAD}
    class MyModel(ReactorPipeline):{HOOKS}
        def inference(self):
            while True:
                yield self.latent + self.state.level
""",
    "async pipeline": f"""{HEAD}
    class MyModel(ReactorPipeline):{HOOKS}
        async def inference(self):
            while True:
                yield self.latent + self.state.level
""",
    "loop": f"""{HEAD}
    class MyModel(ReactorModel):{HOOKS}
        async def run(self):
            while True:
                if self.connected.is_set():
                    await self.emit(self.latent + self.state.level)
                else:
                    await self.connected.wait()
""",
    "loop that waits": f"""{HEAD}
    class MyModel(ReactorModel):{HOOKS}
        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(self.latent + self.state.level)
""",
}
ASYNC_HOOKS = (
    ("def connect(self):", "async def connect(self):\n            await asyncio.sleep(0.1)"),
    ("def disconnect(self):", "async def disconnect(self):\n            await asyncio.sleep(0.1)"),
)
LARGER = ("self.size = 16", "self.size = 32")


@pytest.fixture
def notes(project: Project) -> Any:
    project.write("hooks = []\nloads = 0", name=f"{project.name}_notes")
    return __import__(f"{project.name}_notes")


def text_of(project: Project, style: str, *changes: tuple[str, str]) -> str:
    text = MODELS[style].replace("NOTES", f"{project.name}_notes")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def newest(studio: Studio[Any]) -> tuple[int, int]:
    """Return the size and the value of the newest frame in half a second."""
    studio.clear()
    studio.run(0.5)
    frame = studio.frames[-1].array
    return len(frame), int(frame.flat[0])


def apply(studio: Studio[Any]) -> None:
    """Apply the files of the project, and make the first steps of new code."""
    studio.reload()
    studio.run(0.5)


@pytest.mark.parametrize("hooks", [(), ASYNC_HOOKS], ids=["hooks", "async hooks"])
@pytest.mark.parametrize("style", MODELS)
def test_another_instance_is_connected_before_its_first_step(
    project: Project, notes: Any, style: str, hooks: tuple[tuple[str, str], ...]
) -> None:
    project.write(text_of(project, style, *hooks))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.send_event("set_level", level=5)
        assert newest(studio) == (16, 5)
        project.write(text_of(project, style, *hooks, LARGER))
        apply(studio)
        assert newest(studio) == (32, 5)
        assert notes.hooks == [("connected", 1), ("disconnected", 1), ("connected", 2)]
        studio.disconnect()
        studio.connect()
        assert newest(studio) == (32, 1)
        assert notes.hooks[3:] == [("disconnected", 2), ("connected", 2)]
    assert notes.hooks[5:] == [("disconnected", 2)]


@pytest.mark.parametrize("change", [("np.zeros(", "1 / 0; ("), ("self.latent + ", "1 / 0 + ")], ids=["hook", "step"])
@pytest.mark.parametrize("style", MODELS)
def test_the_old_instance_is_connected_again_when_the_new_one_fails(
    project: Project, notes: Any, style: str, change: tuple[str, str]
) -> None:
    project.write(text_of(project, style))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.send_event("set_level", level=5)
        assert newest(studio) == (16, 5)
        project.write(text_of(project, style, LARGER, change))
        with pytest.raises(ZeroDivisionError):
            apply(studio)
        assert newest(studio) == (16, 5)
        both = ["connected", "disconnected"]
        assert notes.hooks == [*zip(both, [1, 1], strict=True), *zip(both, [2, 2], strict=True), ("connected", 1)]
        studio.disconnect()
        studio.connect()
        assert newest(studio) == (16, 1)
        assert notes.loads == 2, "the code that failed is not tried again for the next session"
    assert notes.hooks.count(("connected", 1)) == notes.hooks.count(("disconnected", 1)) == 3


@pytest.mark.parametrize("style", MODELS)
def test_the_same_instance_with_other_code_stays_connected(project: Project, notes: Any, style: str) -> None:
    project.write(text_of(project, style))
    with Studio(project.model()) as studio:
        studio.connect()
        assert newest(studio) == (16, 1)
        project.write(text_of(project, style, ("self.latent + self", "self.latent + 9 * self")))
        apply(studio)
        assert newest(studio) == (16, 9)
        assert notes.hooks == [("connected", 1)]


@pytest.mark.parametrize("style", MODELS)
def test_a_load_that_fails_leaves_the_old_instance_connected(project: Project, notes: Any, style: str) -> None:
    project.write(text_of(project, style))
    with Studio(project.model()) as studio:
        studio.connect()
        project.write(text_of(project, style, ("self.size = 16", "self.size = 1 / 0")))
        with pytest.raises(LoadError):
            studio.reload()
        assert newest(studio) == (16, 1)
        assert notes.hooks == [("connected", 1)]


@pytest.mark.parametrize("style", MODELS)
def test_the_old_instance_is_freed_at_the_first_step_of_the_new_one(project: Project, notes: Any, style: str) -> None:  # noqa: ARG001
    project.write(text_of(project, style))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.run(0.5)
        for number in range(2, 5):
            old = weakref.ref(studio.model)
            project.write(text_of(project, style, ("self.size = 16", f"self.size = {16 * number}")))
            apply(studio)
            assert newest(studio) == (16 * number, 1)
            assert old() is None


@pytest.mark.parametrize("use", ["target=self.work", "target=work, args=(self,)", "target=lambda: work(self)"])
def test_a_thread_that_keeps_the_old_instance_is_named(project: Project, notes: Any, use: str) -> None:  # noqa: ARG001
    thread = f"""
            import threading
            self.over = threading.Event()
            threading.Thread({use}, name="worker", daemon=True).start()

        def work(self):
            self.over.wait()
"""
    work = """
    def work(model):
        model.over.wait()

    class MyModel"""
    changes = (("notes.loads + 1\n", "notes.loads + 1" + thread), ("\n    class MyModel", work))
    project.write(text_of(project, "pipeline", *changes))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.run(0.5)
        over = studio.model.over
        project.write(text_of(project, "pipeline", *changes, LARGER))
        try:
            apply(studio)
            studio.run(1.0)
            warning = studio.warnings[-1]
        finally:
            over.set()
            studio.model.over.set()
        assert 'the former MyModel stays in memory after the reload: the thread "worker"' in warning
