"""The instrument over the wire: the sound that a client puts together is the one that was played, to the sample."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
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


def played(synth: ModuleType, pieces: int) -> NDArray[np.int16]:
    """Play as much of the tune here, cut at its beats; the first frame by itself, since volume and echo rise in it."""
    instrument, sound = synth.Synth(), []
    for start, end in itertools.pairwise([0, 1600, *range(synth.BEAT, pieces * 1600 + synth.BEAT, synth.BEAT)]):
        for at, note, velocity in synth.tune(start, end):
            instrument.play(note, velocity, at=at)
        sound.append(instrument.samples(end - start, volume=0.8, echo=0.35))
    rounded: NDArray[np.int16] = np.rint(np.concatenate(sound, axis=1) * 32767).astype(np.int16)
    return rounded


async def test_received_sound_equals_the_played_sound(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(project) as server:
        async with visiting(server.url) as session:
            pieces, frames = await asyncio.gather(
                several(session.sound(), PIECES), several(session.frames(decode=False), PIECES - 10)
            )
    sound = np.concatenate([piece.array for piece in pieces], axis=1)
    assert sound.shape == (2, PIECES * 1600)
    seqs = np.array([piece.seq for piece in pieces])
    # The server drops sound for a client that a busy machine stops for a second, and then sends a second without a gap.
    assert seqs.tolist() == sorted(set(seqs))
    assert (np.diff(seqs, prepend=-1) > 1).sum() <= 2
    expected = played(synth_of(project, monkeypatch), seqs[-1] + 1)
    samples = (1600 * seqs[:, None] + np.arange(1600)).ravel()
    assert np.abs(sound - expected[:, samples].astype(int)).max() <= 1
    played_at = {piece.seq: piece.pts_s for piece in pieces}
    apart = [frame.pts_s - played_at[frame.seq] for frame in frames if frame.seq in played_at]
    assert len(apart) > 1
    # One microsecond is the rounding of a timestamp.
    assert np.abs(apart).max() < 1.5e-6
