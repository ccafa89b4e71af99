"""Binary messages of a controller are sent to the engine, or answered with the reason."""

from __future__ import annotations

import asyncio
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.ipc.messages import ClientMedia
from reactor_runtime.media import jpeg, wav
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.engine.rig import frame
from tests.server.admission_fixture import AdmissionFixture, told

TRACKS = [
    {"name": "screen", "kind": "video", "direction": "out"},
    {"name": "camera", "kind": "video", "direction": "in"},
    {"name": "voice", "kind": "audio", "direction": "in", "sample_rate": 16_000},
    {"name": "music", "kind": "audio", "direction": "in", "sample_rate": 44_100},
]


def sound(sample_rate: int = 16_000, *, channels: int = 1, track: str | None = None) -> bytes:
    file = wav.encode(np.ones((channels, 8), np.int16), sample_rate)
    return file if track is None else attach(MediaHeader(track, 0, 0, 0), file)


def started() -> tuple[AdmissionFixture, Client]:
    """Start a session of a model with inputs."""
    services = AdmissionFixture()
    services.engine.contract = {"tracks": TRACKS, "schema": {"events": {}, "messages": {}}}
    controller = services.come()
    services.begin()
    return services, controller


def stamped(track: str, pts_us: int, wall_us: int, metadata: bytes) -> bytes:
    file = sound() if track == "voice" else jpeg.encode(frame(1))
    return attach(MediaHeader(track, 0, pts_us, wall_us, metadata=metadata), file)


async def errors(controller: Client) -> list[tuple[str, str]]:
    return [(data["code"], data["message"]) for kind, data in await told(controller) if kind == "reactor.error"]


@pytest.mark.parametrize(
    ("data", "track"),
    [
        (sound(), "voice"),
        (sound(channels=2), "voice"),
        (sound(44_100, track="music"), "music"),
        (jpeg.encode(frame(1)), "camera"),
    ],
    ids=["mono", "stereo", "by name", "image"],
)
async def test_media_that_fits_a_track_is_sent_to_the_engine(data: bytes, track: str) -> None:
    services, controller = started()
    services.inbound.route_media(controller, data)
    assert [media.track for media in services.engine.of(ClientMedia)] == [track]
    assert await errors(controller) == []
    os.close(services.memory)


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (sound(48_000), "bad_media", "WAV at 48000 Hz for voice, which takes 16000 Hz; resample it to that"),
        (sound(16_000, track="music"), "bad_media", "WAV at 16000 Hz for music, which takes 44100 Hz"),
        (sound(channels=3), "bad_media", "3 channels in blocks of 6 bytes; send mono or stereo"),
        (sound()[:-1], "bad_media", "truncated WAV"),
        (sound(track="drum"), "unknown_track", "no audio input 'drum'"),
        (sound(track="camera"), "unknown_track", "no audio input 'camera'"),
        (sound(track="screen"), "unknown_track", "no audio input 'screen'"),
    ],
    ids=["rate", "rate by name", "channels", "cut off", "track", "video track", "output"],
)
async def test_media_that_fits_no_track_is_answered_with_the_reason(data: bytes, code: str, message: str) -> None:
    services, controller = started()
    services.inbound.route_media(controller, data)
    ((answered, why),) = await errors(controller)
    assert answered == code
    assert message in why
    assert services.engine.of(ClientMedia) == []
    assert services.session
    os.close(services.memory)


@pytest.mark.parametrize("track", ["camera", "voice"])
@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ((5, 6, b"\xffraw"), (5, b"\xffraw", 6)),
        ((0, 6, b"{}"), (0, b"{}", 6)),
        ((5, 0, b""), (5, None, None)),
        ((0, 0, b""), (None, None, None)),
    ],
    ids=["all", "first", "no clock", "none"],
)
async def test_the_engine_gets_what_came_with_media_and_the_file_without_its_header(
    track: str, sent: tuple[int, int, bytes], got: tuple[int | None, bytes | None, int | None]
) -> None:
    services, controller = started()
    services.inbound.route_media(controller, stamped(track, *sent))
    (media,) = services.engine.of(ClientMedia)
    assert (media.pts, media.metadata, media.capture_time_us) == got
    assert b"REACTOR" not in media.file
    assert b"rctr" not in media.file
    os.close(services.memory)


async def test_metadata_has_the_room_of_a_jpeg_s_segment_in_sound_too() -> None:
    services, controller = started()
    most = 65_498 - len("voice")
    services.inbound.route_media(controller, stamped("voice", 1, 2, bytes(most)))
    (media,) = services.engine.of(ClientMedia)
    assert media.metadata == bytes(most)
    chunk = MediaHeader("voice", 1, 1, 2).pack() + bytes(most + 1)
    wave = sound()
    size = int.from_bytes(wave[4:8], "little") + 8 + len(chunk)
    services.inbound.route_media(
        controller,
        b"RIFF" + size.to_bytes(4, "little") + b"WAVErctr" + len(chunk).to_bytes(4, "little") + chunk + wave[12:],
    )
    ((code, why),) = await errors(controller)
    assert (code, why) == (
        "bad_media",
        "reactor header with metadata of 65494 bytes: at most 65493: the binary message was dropped",
    )
    os.close(services.memory)


@given(
    st.sampled_from([sound(), stamped("camera", 1, 2, b"metadata"), sound(track="music"), jpeg.encode(frame(1))]),
    st.integers(0, 90),
    st.binary(max_size=6),
    st.integers(0, 120),
)
def test_any_binary_message_is_sent_or_answered_once(file: bytes, at: int, junk: bytes, keep: int) -> None:
    async def play() -> None:
        services, controller = started()
        services.inbound.route_media(controller, (file[:at] + junk + file[at + len(junk) :])[:keep])
        answered = await errors(controller)
        assert len(services.engine.of(ClientMedia)) + len(answered) == 1
        assert {code for code, _ in answered} <= {"bad_media", "unknown_track"}
        os.close(services.memory)

    asyncio.run(play())
