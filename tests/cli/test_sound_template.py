"""The instrument over the wire: the sound that a client puts together is the one that was played, to the sample."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.server.running import scaffolded, serving
from tests.server.session_client import several, visiting

# One and a half seconds: several notes of the tune, and the first echo.
PIECES = 45


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return scaffolded(tmp_path, "sound")


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


async def test_received_sound_equals_the_played_sound(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project) as server:
        async with visiting(server.url) as session:
            pieces, frames = await asyncio.gather(
                several(session.sound(), PIECES), several(session.frames(decode=False), PIECES - 10)
            )
    sound = np.concatenate([piece.array for piece in pieces], axis=1)
    assert [piece.seq for piece in pieces] == list(range(PIECES))
    assert sound.shape == (2, PIECES * 1600)
    assert np.abs(sound - played(synth_of(project, monkeypatch)).astype(int)).max() <= 1
    played_at = {piece.seq: piece.pts_s for piece in pieces}
    apart = [frame.pts_s - played_at[frame.seq] for frame in frames if frame.seq in played_at]
    assert len(apart) > 1
    assert set(apart) == {0}
