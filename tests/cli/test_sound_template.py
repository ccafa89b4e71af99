"""The instrument over the wire: the sound that a client puts together is the one that was played, to the sample."""

from __future__ import annotations

import importlib.util
import io
import sys
import wave
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_cli.scaffold import find, write
from tests.server.client import Client, controlling, parse_frame, parse_sound
from tests.server.running import serving

PIECES = 45  # one and a half seconds: several notes of the tune, and the first echo


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(find("sound"), tmp_path / "instrument", "instrument")
    return tmp_path / "instrument"


def synth_of(project: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("synth_of_the_template", project / "synth.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def played(synth: ModuleType) -> NDArray[np.int16]:
    """Play the same tune here, cut elsewhere; the first frame by itself, since volume and echo rise in it."""
    instrument = synth.Synth()
    for at, note, velocity in synth.tune(0, PIECES * 1600):
        instrument.play(note, velocity, at=at)
    counts = [1600, 8 * 1600, *[9 * 1600] * 4]
    sound = np.concatenate([instrument.samples(count, volume=0.8, echo=0.35) for count in counts], axis=1)
    rounded: NDArray[np.int16] = np.rint(sound * 32767).astype(np.int16)
    return rounded


async def received(visitor: Client) -> tuple[NDArray[np.int16], list[int], dict[int, int]]:
    """Collect so many pieces of sound, their numbers, and the time of each frame less that of its sound."""
    pieces: list[NDArray[np.int16]] = []
    seqs: list[int] = []
    times: dict[tuple[str, int], int] = {}
    while len(pieces) < PIECES:
        media = await visitor.next()
        if not isinstance(media, bytes):
            continue
        if media[:4] == b"RIFF":
            header = parse_sound(media).header
            with wave.open(io.BytesIO(media)) as file:
                pieces.append(np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, 2).T)
            seqs.append(header.seq)
        else:
            header = parse_frame(media).header
        times[header.track, header.seq] = header.pts_us
    apart = {seq: times["main_video", seq] - times["main_audio", seq] for seq in seqs if ("main_video", seq) in times}
    return np.concatenate(pieces, axis=1), seqs, apart


async def test_what_is_heard_is_what_was_played_without_a_seam(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project) as server:
        async with controlling(server.url) as visitor:
            sound, seqs, apart = await received(visitor)
    assert seqs == list(range(PIECES))
    assert sound.shape == (2, PIECES * 1600)
    assert np.abs(sound - played(synth_of(project, monkeypatch)).astype(int)).max() <= 1
    assert len(apart) > PIECES // 2
    assert set(apart.values()) == {0}
