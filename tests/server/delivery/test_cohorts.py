from __future__ import annotations

import gc
import weakref
from random import Random

import numpy as np
import pytest

from reactor_runtime.wire.media_header import FrameFlag
from reactor_runtime.wire.messages import View
from tests.server.delivery.cohort_fixture import H264_VIEW, TRACK, Stage, Viewer


def is_growing(numbers: list[int]) -> bool:
    return numbers == sorted(set(numbers))


async def test_a_client_gets_files_until_its_first_key_and_then_every_frame_as_video() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(2)
    assert viewer.kinds[0] == "jpeg"
    first = viewer.kinds.index("h264")
    assert first <= 3
    assert set(viewer.kinds[first:]) == {"h264"}
    assert len(viewer.keys) == 1
    seqs = viewer.since(stage.clock.now() - 1.5)
    assert seqs == list(range(seqs[0], seqs[-1] + 1))
    assert len(seqs) > 42
    assert stage.metrics.frames.encoded[TRACK, "h264", 0] == viewer.kinds.count("h264")
    assert stage.metrics.frames.sent[TRACK, "h264", 0] == viewer.kinds.count("h264")


@pytest.mark.parametrize("view", [View(), View(codecs=()), View(codecs=("jpeg",)), View(codecs=("av1",))], ids=str)
async def test_a_client_that_names_no_known_codec_gets_files_and_nothing_is_encoded_for_it(view: View) -> None:
    stage = Stage()
    viewer = stage.add(view)
    await stage.run(1)
    assert set(viewer.kinds) == {"jpeg"}
    assert not stage.encoding.encoders
    assert not stage.subscribers.needs_pixels(TRACK)
    assert "codec" not in viewer.client.statistics(stage.clock.now()) or view.codecs is not None


async def test_a_client_that_gets_every_frame_gets_files() -> None:
    stage = Stage()
    viewer = stage.add()
    viewer.client.outbox.keep_media(lambda: None)
    await stage.run(1)
    assert set(viewer.kinds) == {"jpeg"}
    assert not stage.encoding.encoders


async def test_clients_share_one_encoder() -> None:
    stage = Stage()
    viewers = [stage.add() for _ in range(3)]
    await stage.run(2)
    (encoder,) = stage.encoding.encoders
    assert encoder.frames == viewers[0].kinds.count("h264")
    assert len({tuple(viewer.keys) for viewer in viewers}) == 1


async def test_a_viewer_that_paints_15_of_60_frames_gets_the_newest_and_can_decode_each() -> None:
    stage = Stage(fps=60)
    viewer = stage.add(paint_s=1 / 15)
    await stage.run(6)
    recent = viewer.since(stage.clock.now() - 4)
    assert is_growing(recent)
    assert 53 <= len(recent) <= 61
    # In frames of the model, from showing to painting: window, encoding and painting.
    assert stage.seq - recent[-1] <= 12


async def test_a_client_that_stalls_gets_the_newest_frame_afterwards_and_can_decode_it() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(2)
    viewer.stall()
    await stage.run(3)
    before = stage.seq
    viewer.recover()
    recovered_at = stage.clock.now()
    await stage.run(1)
    assert viewer.kinds_since(recovered_at) == {"h264"}
    seqs = viewer.since(recovered_at)
    assert is_growing(seqs)
    # The piece that was encoded before, and then the newest.
    assert seqs[2] >= before - 1


async def test_a_higher_rate_holds_from_the_next_frame_on() -> None:
    stage = Stage()
    viewer = stage.add(View(codecs=("h264",), max_fps=0.1))
    # A file, and the key.
    await stage.run(12)
    stage.subscribers.set_view(viewer.client, H264_VIEW)
    since = stage.clock.now()
    await stage.run(1)
    assert len(viewer.since(since)) >= 28


async def test_a_slow_member_leaves_and_the_fast_one_is_not_disturbed() -> None:
    stage = Stage()
    fast, slow = stage.add(), stage.add(paint_s=0.09)
    others = [stage.add(View()) for _ in range(20)]
    await stage.run(3)
    since = stage.clock.now()
    await stage.run(4)
    assert len(stage.encoding.encoders) == 2
    seqs = fast.since(since)
    assert len(seqs) >= 115
    assert 40 <= len(slow.since(since)) <= 46
    assert slow.kinds_since(since) == {"h264"}
    for other in others:
        assert len(other.since(since)) >= 115
        assert other.kinds_since(since) == {"jpeg"}


async def test_a_member_that_stalls_holds_the_others_up_for_a_fifth_of_a_second() -> None:
    stage = Stage()
    steady, stalls = stage.add(), stage.add()
    await stage.run(2)
    stalls.stall()
    since = stage.clock.now()
    await stage.run(2)
    gaps = np.diff([at for at, _, _ in steady.shown if at >= since])
    assert max(gaps) < 0.35
    stalls.recover()
    recovered_at = stage.clock.now()
    await stage.run(1)
    assert len(stalls.since(recovered_at)) > 20


async def test_never_more_than_two_cohorts() -> None:
    stage = Stage()
    viewers = [stage.add(paint_s=paint_s) for paint_s in (0.0, 0.09, 0.2, 0.5)]
    await stage.run(10)
    assert len(stage.encoding.encoders) == 2
    since = stage.clock.now()
    await stage.run(2)
    assert len(viewers[0].since(since)) >= 57
    assert viewers[3].kinds_since(since) == {"jpeg"}


async def test_clients_that_join_within_a_second_share_a_key() -> None:
    stage = Stage()
    stage.add()
    await stage.run(1)
    (encoder,) = stage.encoding.encoders
    before = len(encoder.keys)
    joined = []
    for _ in range(10):
        joined.append(stage.add())
        await stage.run(0.09)
    await stage.run(1)
    assert len(encoder.keys) == before + 1
    assert {viewer.kinds[-1] for viewer in joined} == {"h264"}
    assert all("jpeg" in viewer.kinds for viewer in joined)


async def test_a_client_that_asks_for_a_key_gets_files_until_then_and_one_key_a_second_at_most() -> None:
    stage = Stage()
    viewer, other = stage.add(), stage.add()
    await stage.run(2)
    (encoder,) = stage.encoding.encoders
    before, asked_at = len(encoder.keys), stage.clock.now()
    viewer.client.outbox.request_key(TRACK)
    await stage.run(0.1)
    assert viewer.kinds_since(asked_at + 0.05) == {"jpeg"}
    assert other.kinds_since(asked_at) == {"h264"}
    for _ in range(19):
        viewer.client.outbox.request_key(TRACK)
        await stage.run(0.1)
    assert 1 <= len(encoder.keys) - before <= 3
    await stage.run(2)
    assert viewer.kinds[-1] == "h264"


async def test_another_session_begins_with_a_key_and_so_does_a_flush() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    stage.new_session()
    await stage.run(1)
    assert viewer.keys[1] == 0
    assert stage.seq - viewer.shown[-1][1] <= 2
    stage.flags = FrameFlag.AFTER_FLUSH
    flushed = stage.seq
    await stage.run(1)
    assert viewer.keys[2] == flushed
    assert len(viewer.keys) == 3


async def test_a_frame_that_replaces_the_first_one_after_a_flush_has_its_flag() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    viewer.stall()
    stage.flags = FrameFlag.AFTER_FLUSH
    flushed = stage.seq
    await stage.run(1)
    viewer.recover()
    await stage.run(1)
    later = [header for header in viewer.headers if header.seq >= flushed]
    assert later[0].seq > flushed
    assert [header.is_after_flush for header in later] == [True] + [False] * (len(later) - 1)


async def test_a_client_that_pauses_gets_a_key_when_it_resumes() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    stage.subscribers.set_view(viewer.client, View(paused=True))
    assert not stage.subscribers.needs_pixels(TRACK)
    count = len(viewer.kinds)
    await stage.run(1)
    assert len(viewer.kinds) <= count + 1
    resumed_at = stage.clock.now()
    # Without `codecs`, which keeps the last ones.
    stage.subscribers.set_view(viewer.client, View())
    await stage.run(1)
    assert len(viewer.keys) == 2
    assert viewer.kinds_since(resumed_at + 0.2) == {"h264"}


async def test_a_client_that_takes_its_codecs_back_gets_files_at_once() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    since = stage.clock.now()
    stage.subscribers.set_view(viewer.client, View(codecs=()))
    await stage.run(0.2)
    seqs = viewer.since(since)
    assert viewer.kinds[-1] == "jpeg"
    assert is_growing(seqs)
    assert len(seqs) >= 4
    await stage.run(1)
    assert viewer.kinds_since(since + 0.2) == {"jpeg"}


async def test_a_client_gets_no_more_frames_than_its_view_allows() -> None:
    stage = Stage(fps=60)
    viewer = stage.add(View(codecs=("h264",), max_fps=15))
    await stage.run(2)
    since = stage.clock.now()
    await stage.run(4)
    assert 58 <= len(viewer.since(since)) <= 61


async def test_a_frame_of_a_size_that_cannot_be_encoded_is_sent_as_a_file() -> None:
    stage = Stage()
    stage.pixels = np.zeros((719, 1280, 3), np.uint8)
    viewers = [stage.add() for _ in range(2)]
    await stage.run(2)
    for viewer in viewers:
        assert set(viewer.kinds) == {"jpeg"}
        assert len(viewer.kinds) > 55
        statistics = viewer.client.statistics(stage.clock.now())
        assert (statistics["codec"], statistics["why"]) == ("jpeg", "unsupported")


async def test_clients_get_files_when_frames_change_to_a_size_that_cannot_be_encoded() -> None:
    stage = Stage()
    viewers = [stage.add() for _ in range(2)]
    await stage.run(1)
    assert {viewer.kinds[-1] for viewer in viewers} == {"h264"}
    stage.pixels = np.zeros((719, 1280, 3), np.uint8)
    await stage.run(2)
    for viewer in viewers:
        assert set(viewer.kinds[-30:]) == {"jpeg"}


async def test_an_encoder_that_fails_leaves_its_clients_with_files(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.encoding.fails = True
    viewer = stage.add()
    await stage.run(30)
    assert set(viewer.kinds) == {"jpeg"}
    assert len(caplog.records) == 1
    assert viewer.client.statistics(stage.clock.now())["why"] == "unsupported"
    stage.encoding.fails = False
    await stage.run(35)
    assert viewer.kinds[-1] == "h264"


async def test_an_encoder_that_is_too_slow_leaves_its_clients_with_files() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    stage.encoding.busy_s = 0.02
    await stage.run(3)
    since = stage.clock.now()
    stage.encoding.busy_s = 0.0
    await stage.run(1)
    assert viewer.kinds_since(since) == {"jpeg"}
    assert viewer.client.statistics(stage.clock.now())["why"] == "codec_busy"
    await stage.run(62)
    assert viewer.kinds[-1] == "h264"


async def test_statistics_name_the_codec_and_its_rate() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(2)
    viewer.client.statistics(stage.clock.now())
    await stage.run(1)
    statistics = viewer.client.statistics(stage.clock.now())
    assert statistics["codec"] == "h264"
    assert 4000 < statistics["kbit_s"] < 8000


async def test_a_client_that_has_left_leaves_no_cohort() -> None:
    stage = Stage()
    viewer = stage.add()
    await stage.run(1)
    stage.subscribers.leave(viewer.client)
    assert not stage.subscribers.needs_pixels(TRACK)
    await stage.run(1)
    assert stage.encoding.encoders[0].frames <= 31


def ages(viewer: Viewer, since: float) -> list[float]:
    """Return from showing to painting, in seconds, of the frames since a time."""
    stage = viewer.stage
    shown_at = {header.seq: header.pts_us / 1e6 for header in viewer.headers}
    return sorted(at - shown_at[seq] for at, seq, _ in viewer.shown if at >= since and stage)


async def test_a_client_behind_a_slow_link_changes_from_files_to_video_and_back() -> None:
    stage = Stage(always=False, jpeg_bytes=180_000)
    near, far = stage.add(), stage.add(bits_per_s=10e6, delay_s=0.02)
    await stage.run(6)
    since = stage.clock.now()
    await stage.run(10)
    assert near.kinds_since(stage.clock.now() - 16) == {"jpeg"}
    assert far.kinds_since(since) == {"h264"}
    assert far.keys[0] < 60
    found = ages(far, since)
    assert len(found) > 285
    assert found[int(0.99 * len(found))] < 0.12
    assert far.client.outbox.track_senders[TRACK].window.acknowledging
    far.bits_per_s, far.delay_s = 1e9, 0.001
    await stage.run(30)
    assert far.kinds[-1] == "jpeg"
    assert far.client.statistics(stage.clock.now())["rung"] == 0


async def test_a_link_that_falls_and_recovers() -> None:
    stage = Stage(always=False, jpeg_bytes=180_000)
    far = stage.add(H264_VIEW, bits_per_s=10e6, delay_s=0.02)
    await stage.run(10)
    before = far.client.outbox.track_senders[TRACK].rate
    assert before is not None
    rate = before.bits_per_s
    far.bits_per_s, fell_at = 3e6, stage.clock.now()
    await stage.run(4)
    found = ages(far, fell_at)
    assert found[int(0.99 * len(found))] < 0.25
    await stage.run(6)
    far.bits_per_s = 10e6
    await stage.run(10)
    assert before.bits_per_s > 0.85 * rate
    assert far.kinds_since(fell_at) == {"h264"}


@pytest.mark.parametrize("seed", range(3))
async def test_any_sequence_of_joins_leaves_stalls_and_keys_can_be_decoded(seed: int) -> None:
    """The viewers check that each piece follows the one that they decoded before."""
    random = Random(seed)
    stage = Stage(fps=random.choice([15, 30, 60]), always=seed != 1, jpeg_bytes=60_000)
    first = stage.add()
    viewers = [first]
    for _ in range(150):
        match random.choice(["join", "leave", "stall", "recover", "key", "view", "link", "flush", "session"]):
            case "join" if len(viewers) < 8:
                link = {"bits_per_s": random.choice([2e6, 10e6, 1e9]), "delay_s": random.choice([0.001, 0.02])}
                viewers.append(stage.add(H264_VIEW, paint_s=random.choice([0.0, 0.005, 0.09]), **link))
            case "leave" if len(viewers) > 1:
                left = viewers.pop(random.randrange(1, len(viewers)))
                stage.subscribers.leave(left.client)
                left.stall()
            case "stall":
                random.choice(viewers).stall()
            case "recover":
                random.choice(viewers).recover()
            case "key":
                random.choice(viewers).client.outbox.request_key(TRACK)
            case "view":
                view = random.choice([View(paused=True), H264_VIEW, View(max_fps=10), View(codecs=())])
                stage.subscribers.set_view(random.choice(viewers).client, view)
            case "link":
                random.choice(viewers).bits_per_s = random.choice([1e6, 5e6, 1e9])
            case "flush":
                stage.flags = FrameFlag.AFTER_FLUSH
            case "session" if random.random() < 0.2:
                stage.new_session()
            case _:
                pass
        await stage.run(random.choice([0.03, 0.1, 0.5]))
    for viewer in viewers:
        viewer.bits_per_s = 1e9
        viewer.recover()
        stage.subscribers.set_view(viewer.client, View(codecs=("h264",)))
    await stage.run(5)
    for viewer in viewers:
        assert stage.seq - viewer.shown[-1][1] < 12, "each gets the newest frames again"
        stage.subscribers.leave(viewer.client)
    assert not stage.subscribers.needs_pixels(TRACK)
    encoders = [weakref.ref(encoder) for encoder in stage.encoding.encoders]
    stage.encoding.encoders.clear()
    await stage.run(1)
    gc.collect()
    assert [each() for each in encoders] == [None] * len(encoders)
