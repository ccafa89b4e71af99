from __future__ import annotations

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.sessions.early_messages import MOST_EARLY, MOST_EARLY_BYTES, EarlyMessage, EarlyMessages


def event(data: str = "{}") -> ipc.ClientEvent:
    return ipc.ClientEvent("s-1", "c-1", None, "set_level", data)


def request(data: str = "{}") -> ipc.StepRequest:
    return ipc.StepRequest("s-1", "c-1", None, 1, data)


def media(track: str, file: bytes) -> ipc.ClientMedia:
    return ipc.ClientMedia("s-1", track, file)


def test_requests_and_events_count_together_and_are_kept_in_order() -> None:
    early = EarlyMessages()
    sent: list[EarlyMessage] = [event() if number % 2 else request() for number in range(MOST_EARLY)]
    assert [early.put(message) for message in sent] == [True] * MOST_EARLY
    assert not early.put(request())
    assert not early.put(event())
    assert early.put(media("camera", b"1"))
    assert early.take_all() == [*sent, media("camera", b"1")]
    assert early.take_all() == []


def test_the_bytes_of_requests_and_events_are_limited_together() -> None:
    early = EarlyMessages()
    half = "x" * (MOST_EARLY_BYTES // 2)
    assert [early.put(message) for message in (request(half), event(half), request(), event())] == [
        True, True, False, False,
    ]  # fmt: skip


def test_only_the_newest_media_of_a_track_is_kept() -> None:
    early = EarlyMessages()
    for track, file in (("camera", b"1"), ("microphone", b"2"), ("camera", b"3")):
        assert early.put(media(track, file))
    assert early.take_all() == [media("microphone", b"2"), media("camera", b"3")]
