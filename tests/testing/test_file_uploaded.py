"""`@file_uploaded`: files of clients to which no event refers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ClientInfo,
    InputState,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
    file_uploaded,
    session_started,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.interface.model.contract import ModelContract
from reactor_runtime.ipc.messages import ClientJoined, ClientLeft
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import PipelineExecutor, Studio, replay
from tests.testing.recorded import recorded

CAT = UploadedFile("cat.png", "image/png", b"abc")


class Picture(Output):
    video: Video


class Shown(InputState):
    _names: list[str] = []


class Viewer(ReactorPipeline):
    state: Shown
    output: Picture
    fps = 10

    @file_uploaded
    async def on_file(self, uploaded_file: UploadedFile, client: ClientInfo) -> None:
        self.state._names.append(f"{uploaded_file.name} of {client.id}")

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.full((8, 8, 3), 50 * len(self.state._names), np.uint8))


class Choosing(Viewer):
    @event(name="choose")
    def choose(self, image: UploadedFile) -> None:
        self.state._names.append(f"chose {image.name}")


def names(studio: Studio[Any]) -> list[str]:
    found: list[str] = studio.model.state._names
    return found


def test_a_file_without_an_event_is_given_to_the_method() -> None:
    with Studio(Choosing) as studio:
        studio.connect()
        studio.upload(CAT)
        studio.run(1.9)
        assert names(studio) == []
        studio.run(0.3)
        assert names(studio) == ["cat.png of c-1"]
        studio.run(5)
        assert names(studio) == ["cat.png of c-1"]


def test_a_file_of_an_event_is_not() -> None:
    with Studio(Choosing) as studio:
        studio.connect()
        studio.send_event("choose", image=CAT)
        studio.run(5)
        assert names(studio) == ["chose cat.png"]


def test_a_model_whose_events_take_no_files_gets_it_at_once() -> None:
    with Studio(Viewer) as studio:
        studio.connect()
        studio.upload(CAT)
        studio.run(0.2)
        assert names(studio) == ["cat.png of c-1"]


def test_a_file_is_that_of_the_controller_that_continues_the_session() -> None:
    class Followed(Viewer):
        @session_started
        def begin(self) -> None: ...

    with Studio(Followed) as studio:
        studio.connect()
        studio._host.receive_message(ClientJoined(studio._session, "c-2", "controller", 0.0))
        studio._host.receive_message(ClientLeft(studio._session, "c-1"))
        studio.upload(CAT)
        studio.run(0.2)
        assert names(studio) == ["cat.png of c-2"]


def test_a_file_is_given_to_the_session_that_a_reset_has_begun() -> None:
    with PipelineExecutor(Choosing) as executor:
        executor.connect(stepped=True)
        executor.upload(CAT)
        executor.step(reset=True)
        executor.run(2.1)
        assert names(executor) == ["cat.png of c-1"]


def test_a_file_of_a_session_that_is_over_is_given_to_nobody() -> None:
    with Studio(Choosing) as studio:
        studio.connect()
        studio.upload(CAT)
        studio.disconnect()
        studio.connect()
        studio.run(5)
        assert names(studio) == []


def test_a_replay_gives_the_file_at_the_same_step(tmp_path: Path) -> None:
    with recorded(Choosing, tmp_path) as studio:
        studio.upload(CAT)
        studio.run(4)
    (path,) = tmp_path.glob("*.mcap")
    assert [each.name for each in read_recording(path).events] == ["reactor.file_uploaded"]
    assert replay(path, Choosing).differences == []


def test_clients_do_not_see_it_and_can_not_send_it() -> None:
    contract = Contract.of(Viewer)
    assert not contract.events
    assert not contract.to_json()["schema"]["events"]
    assert ModelContract.of(Viewer).lifecycle.file_uploaded is vars(Viewer)["on_file"]
    with Studio(Viewer) as studio:
        studio.connect()
        with pytest.raises(ValueError, match=r"no event 'reactor\.file_uploaded'"):
            studio.send_event("reactor.file_uploaded", uploaded_file=CAT)


def test_an_override_may_leave_out_the_decorator() -> None:
    class Child(Viewer):
        async def on_file(self, uploaded_file: UploadedFile, client: ClientInfo) -> None:
            self.state._names.append(f"my {uploaded_file.name} of {client.id}")

    with Studio(Child) as studio:
        studio.connect()
        studio.upload(CAT)
        studio.run(0.2)
        assert names(studio) == ["my cat.png of c-1"]


def _no_file(self: object, client: object) -> None: ...


def _two_files(self: object, one: UploadedFile, two: UploadedFile) -> None: ...


@pytest.mark.parametrize("method", [_no_file, _two_files])
def test_a_method_that_takes_no_file_or_several_is_an_error(method: Any) -> None:
    with pytest.raises(TypeError, match=r"@file_uploaded passes one file: write \(self, uploaded_file\)"):
        file_uploaded(method)


def test_there_is_one_such_method() -> None:
    with pytest.raises(TypeError, match="@file_uploaded is handled by both on_file and again"):

        class Twice(ReactorPipeline):
            state: Shown

            @file_uploaded
            def on_file(self, file) -> None: ...  # type: ignore[no-untyped-def]

            @file_uploaded
            def again(self, file) -> None: ...  # type: ignore[no-untyped-def]
