"""Sound in and out at any rate, mono and stereo, over real sockets."""

from __future__ import annotations

import array
import io
import time
import wave

import pytest

from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.server.client import Sound, controlling
from tests.server.running import RunningServer

RATES = (8_000, 44_100, 48_000, 96_000)

MODEL = """
class At8(Audio): sample_rate = 8_000
class At44(Audio): sample_rate = 44_100
class At96(Audio): sample_rate = 96_000

class Ears(Input):
    in_8000: At8
    in_44100: At44
    in_48000: Audio
    in_96000: At96

class Out8(Output): out_8000: At8
class Out44(Output): out_44100: At44
class Out48(Output): out_48000: Audio
class Out96(Output): out_96000: At96

OUTPUTS = {8000: Out8, 44100: Out44, 48000: Out48, 96000: Out96}


class MyState(InputState):
    speaks: bool = False


class MyModel(ReactorPipeline):
    '''Say back what it hears, and when asked to, speak without end.'''

    state: MyState
    ears: Ears
    output: Out8 | Out44 | Out48 | Out96

    def inference(self):
        spoken = 0
        while True:
            heard = False
            for rate, output in OUTPUTS.items():
                for sound in getattr(self.ears, f"in_{rate}").try_read(mode=ReadMode.FIFO) or ():
                    heard = True
                    yield output(**{f"out_{rate}": sound})
            if self.state.speaks:
                yield Out48(out_48000=np.full(960, spoken, np.int16))
                spoken += 1
            elif not heard:
                yield Idle
"""


def recorded(rate: int, channels: int, samples: int, *, width: int = 2) -> bytes:
    """Write a WAV as Python's own library does, whose samples count up."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writing:
        writing.setparams((channels, width, rate, samples, "NONE", ""))
        writing.writeframes(counted(channels * samples) if width == 2 else bytes(width * channels * samples))
    return file.getvalue()


def counted(count: int) -> bytes:
    return array.array("h", [number % 30_000 for number in range(count)]).tobytes()


def to(track: str, file: bytes) -> bytes:
    return attach(MediaHeader(track, 0, 0, 0), file)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("channels", [1, 2], ids=["mono", "stereo"])
async def test_sound_comes_back_to_the_sample(server: RunningServer, rate: int, channels: int) -> None:
    async with controlling(server.url) as visitor:
        for samples in (1, rate // 50, rate // 3):
            await visitor.socket.send(to(f"in_{rate}", recorded(rate, channels, samples)))
            sound = await visitor.sound()
            assert sound.header.track == f"out_{rate}"
            assert (sound.sample_rate, sound.channels, sound.samples) == (rate, channels, samples)
            assert sound.pcm == counted(channels * samples)
    server.wait_for_health("ready")


async def test_long_sound_comes_back_in_pieces_end_to_end(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.socket.send(to("in_44100", recorded(44_100, 2, 2 * 44_100)))
        pieces: list[Sound] = []
        while sum(piece.samples for piece in pieces) < 2 * 44_100:
            pieces.append(await visitor.sound())
    server.wait_for_health("ready")
    assert b"".join(piece.pcm for piece in pieces) == counted(4 * 44_100)
    assert [piece.samples for piece in pieces] == [22_050] * 4
    began = pieces[0].header.pts_us
    assert [piece.header.pts_us - began for piece in pieces] == pytest.approx([0, 5e5, 1e6, 15e5], abs=1.01)


async def test_sound_alone_comes_in_real_time(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        began = time.monotonic()
        await visitor.send("set_speaks", {"speaks": True})
        pieces = [piece for piece in await visitor.unbroken(50) if isinstance(piece, Sound)]
        took_s = time.monotonic() - began
    server.wait_for_health("ready")
    assert [piece.pcm[:2] for piece in pieces] == [piece.header.seq.to_bytes(2, "little") for piece in pieces]
    passed_s = (pieces[-1].header.pts_us - pieces[0].header.pts_us) / 1e6
    assert passed_s >= 49 * 0.02 - 1e-5
    assert took_s > passed_s * 0.9


NOTHING_BUT_HEADER = recorded(48_000, 1, 0)
GOOD = recorded(48_000, 1, 480)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (recorded(44_100, 1, 441), "WAV at 44100 Hz for in_48000, which takes 48000 Hz"),
        (recorded(48_000, 6, 10), "6 channels"),
        (recorded(48_000, 1, 480, width=1), "8 bits a sample; send 16-bit PCM"),
        (recorded(48_000, 1, 480, width=4), "32 bits a sample; send 16-bit PCM"),
        (NOTHING_BUT_HEADER, "0 bytes of samples"),
        (GOOD[:-1], "truncated"),
        (GOOD[:20], "truncated"),
        (GOOD[:4] + b"\xff\xff\xff\xff" + GOOD[8:], "truncated"),
        (GOOD[:40] + b"\xff\xff\xff\xff" + GOOD[44:], "does not fit"),
        (GOOD[:12] + GOOD[36:] + GOOD[12:36], "samples before their format"),
        (recorded(1, 1, 480), "1 Hz"),
    ],
    ids=[
        "rate",
        "surround",
        "8 bits",
        "32 bits",
        "empty",
        "cut",
        "no format",
        "RIFF size",
        "data size",
        "order",
        "slow",
    ],
)
async def test_what_is_not_the_track_s_sound_is_answered_and_the_session_goes_on(
    server: RunningServer, data: bytes, words: str
) -> None:
    async with controlling(server.url) as visitor:
        file = data if len(data) < 40 or data[4:8] == b"\xff" * 4 else to("in_48000", data)
        await visitor.socket.send(file)
        error = await visitor.data("reactor.error")
        assert error["code"] == "bad_media"
        assert words in error["message"]
        await visitor.socket.send(to("in_48000", GOOD))
        assert (await visitor.sound()).pcm == counted(480)
    server.wait_for_health("ready")
