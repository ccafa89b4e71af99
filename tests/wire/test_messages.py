from __future__ import annotations

import dataclasses

import pytest

from reactor_runtime.wire.messages import Ack, Event, Ping, View


@pytest.mark.parametrize("message", [Event("reset", "{}"), Ack("main_video", 3), Ping(1.5), View()], ids=repr)
def test_messages_are_values(message: Event | Ack | Ping | View) -> None:
    assert message == dataclasses.replace(message)
    assert len({message, dataclasses.replace(message)}) == 1
    name = dataclasses.fields(message)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(message, name, None)


def test_a_view_without_wishes_is_everything() -> None:
    assert View() == View(paused=False, max_fps=None, tracks=None)
