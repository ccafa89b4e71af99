"""`examples/speech` with the weights of the package silero-vad."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.testing import Studio
from tests.examples.example_modules import import_from

RATE = 16_000
PIECE = RATE // 50
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.* deprecated:DeprecationWarning")
pytest.importorskip("silero_vad", reason="pip install silero-vad brings its weights")


@pytest.fixture
def studio(monkeypatch: pytest.MonkeyPatch) -> Iterator[Studio[Any]]:
    with Studio(import_from("speech", "pipeline", monkeypatch).Speech) as studio:
        studio.connect()
        yield studio


def resonance(source: NDArray[np.float64], frequency: float, bandwidth: float) -> NDArray[np.float64]:
    """Filter as one resonance of a mouth does."""
    radius = np.exp(-np.pi * bandwidth / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -radius * radius
    filtered = np.zeros_like(source)
    for number, value in enumerate(source):
        filtered[number] = value + first * filtered[number - 1] + second * filtered[number - 2]
    return filtered


def vowels(seconds: float) -> NDArray[np.int16]:
    """Synthesise a voice at 120 Hz that says vowels, each for 180 ms."""
    times = np.arange(int(seconds * RATE)) / RATE
    phase = np.cumsum(120 * (1 + 0.15 * np.sin(2 * np.pi * 0.9 * times))) / RATE
    pulses = (np.diff(np.floor(phase), prepend=0) > 0).astype(float)
    syllables = np.array_split(pulses, round(seconds / 0.18))
    mouths = ((700, 1200, 2600), (300, 2300, 3000), (350, 800, 2400), (500, 1800, 2500))
    said = [
        sum(resonance(pulse, frequency, 80 + 30 * number) / (number + 1) for number, frequency in enumerate(mouth))
        * np.sqrt(np.hanning(len(pulse)))
        for pulse, mouth in zip(syllables, mouths * len(syllables), strict=False)
    ]
    sound: NDArray[np.float64] = np.concatenate(said)
    return np.asarray(9000 * sound / np.abs(sound).max(), np.int16)


def hear(studio: Studio[Any], sound: NDArray[np.int16]) -> list[bool]:
    """Send sound as a microphone does; return whether somebody spoke after each piece."""
    spoken = []
    for start in range(0, len(sound) - PIECE + 1, PIECE):
        studio.push_media("microphone", sound[start : start + PIECE])
        studio.run(PIECE / RATE)
        spoken.append(studio.model.state.speaking)
    return spoken


def test_noise_is_no_speech(studio: Studio[Any]) -> None:
    noise = np.random.default_rng(1).normal(0, 300, RATE).astype(np.int16)
    assert not any(hear(studio, noise))
    assert studio.model.state.spoken_s == 0


def test_a_voice_turns_the_light_on_and_is_timed(studio: Studio[Any]) -> None:
    spoken = hear(studio, vowels(2))
    assert sum(spoken) > 0.4 * len(spoken)
    assert studio.model.state.spoken_s == pytest.approx(sum(spoken) * PIECE / RATE, abs=0.3)
    green = (studio.frames[-1].array == (79, 209, 139)).all(-1)
    assert green.any()
