"""Make the samples of notes. Each piece of sound continues exactly where the previous one ended."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RATE = 48_000
NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
MOST_VOICES = 16
WAVES = ("string", "reed", "flute", "sine")
# A note falls to about a third of its loudness in this many samples.
RINGING = 1.4 * RATE
SILENT = 1e-4
# The fade of a voice that another one replaces.
HURRY = RATE // 50
# Longer than a frame, so that the samples that are repeated exist already.
ECHO = RATE * 3 // 8
BEAT = RATE * 3 // 10
CHORDS = ((45, 57, 60, 64, 67), (41, 57, 60, 65, 69), (48, 55, 60, 64, 71), (43, 55, 59, 62, 69))

CYCLE = 2048
PLACES = np.arange(CYCLE + 1)


@dataclass
class Voice:
    """One note. Its samples depend only on the time since it began, so that its pieces join without a click."""

    note: int
    velocity: float
    wave: str
    attack: int
    began: int
    # Start and length of each fade; their effects multiply.
    fades: tuple[tuple[int, int], ...] = ()
    leaving: bool = False

    def samples(self, start: int, count: int) -> np.ndarray:
        """Return the samples from `start` on, (2, count): low notes on the left, high notes on the right."""
        age = np.arange(start - self.began, start - self.began + count)
        place = age * (frequency(self.note) / RATE) % 1 * CYCLE
        dull = np.interp(place, PLACES, cycle("sine", self.note))
        bright = np.interp(place, PLACES, cycle(self.wave, self.note))
        # The overtones die away first, as they do on a string.
        sound = dull + (bright - dull) * np.exp(-age / (RINGING / 3))
        angle = np.pi / 2 * np.clip((self.note - 30) / 60, 0.1, 0.9)
        return np.outer((np.cos(angle), np.sin(angle)), sound * self.loudness(age))

    def loudness(self, age: np.ndarray) -> np.ndarray:
        """Return the envelope: attack, decay, fades. It has no step, which would be heard as a click."""
        loudness = self.velocity * ease(age / self.attack) * np.exp(-age / RINGING)
        for start, length in self.fades:
            loudness = loudness * ease((start + length - self.began - age) / length)
        return loudness

    def fade(self, now: int, length: int) -> None:
        self.fades = (*self.fades[-3:], (now, length))

    def over(self, now: int) -> bool:
        age = now - self.began
        return age > self.attack and bool(self.loudness(np.array(age)) < SILENT)


class Synth:
    """The voices and the echo of one session."""

    def __init__(self) -> None:
        # The number of samples made so far.
        self.now = 0
        self.voices: list[Voice] = []
        self.volume = 0.0
        self.echo = 0.0
        self.line = np.zeros((2, ECHO))

    def play(self, note: int, velocity: float, *, wave: str = "string", attack_s: float = 0.01, at: int = 0) -> None:
        """Begin a note now or at a later sample. It replaces the same note, and the oldest of too many."""
        staying = [voice for voice in self.voices if not voice.leaving]
        too_many = staying[: max(0, len(staying) - MOST_VOICES + 1)]
        for voice in [voice for voice in staying if voice.note == note or voice in too_many]:
            self.leave(voice)
        self.voices.append(Voice(note, velocity, wave, max(1, round(attack_s * RATE)), max(at, self.now)))

    def leave(self, voice: Voice) -> None:
        """Fade a voice quickly; remove it at once if it has not begun."""
        if voice.began >= self.now:
            self.voices.remove(voice)
        voice.fade(self.now, HURRY)
        voice.leaving = True

    def stop(self, release_s: float, note: int | None = None) -> None:
        """Fade one note out, or all."""
        for voice in self.voices:
            if note is None or voice.note == note:
                voice.fade(self.now, max(1, round(release_s * RATE)))

    def loudness(self) -> dict[int, float]:
        """Return how loud each note is now, from 0 to 1."""
        heard = [voice for voice in self.voices if voice.began < self.now and not voice.leaving]
        return {voice.note: float(voice.loudness(np.array(self.now - voice.began))) for voice in heard}

    def samples(self, count: int, *, volume: float, echo: float) -> np.ndarray:
        """Return the next samples of all voices with their echo, (2, count), from -1 to 1."""
        sound = sum((voice.samples(self.now, count) for voice in self.voices), np.zeros((2, count)))
        # A slider moves in steps; each step is spread over the piece.
        sound = self.repeat(sound, np.linspace(self.echo, echo, count + 1)[1:])
        sound *= np.linspace(self.volume, volume, count + 1)[1:]
        self.volume, self.echo = volume, echo
        self.now += count
        self.voices = [voice for voice in self.voices if not voice.over(self.now)]
        # Limits loud samples without clipping.
        return np.tanh(sound)

    def repeat(self, sound: np.ndarray, strength: np.ndarray) -> np.ndarray:
        """Add the echo, which alternates between the sides and has half the strength each time."""
        places = np.arange(self.now, self.now + sound.shape[1]) % ECHO
        heard = self.line[:, places]
        again = sound + heard / 2
        again[np.abs(again) < SILENT / 10] = 0
        self.line[:, places] = again[::-1]
        return sound + strength * heard


def frequency(note: int) -> float:
    """Return the frequency of a note in hertz. 69 is the A that orchestras tune to; 12 more doubles the frequency."""
    return 440.0 * 2.0 ** ((note - 69) / 12)


def note_name(note: int) -> str:
    """Return the name of a note: A4 for 69."""
    return f"{NAMES[note % 12]}{note // 12 - 1}"


def samples_in(frame_idx: int, fps: int) -> int:
    """Return how many samples last as long as this frame: 1600 at 30 fps, and 48,000 a second at any rate."""
    return (frame_idx + 1) * RATE // fps - frame_idx * RATE // fps


def to_int16(sound: np.ndarray) -> np.ndarray:
    """Convert samples from -1 to 1 into 16-bit integers."""
    return np.rint(sound * 32767).astype(np.int16)


def ease(x: np.ndarray) -> np.ndarray:
    """Return values from 0 to 1 for x from 0 to 1, with a slope of 0 at both ends."""
    return 0.5 - 0.5 * np.cos(np.pi * np.clip(x, 0, 1))


@lru_cache(maxsize=512)
def cycle(wave: str, note: int) -> np.ndarray:
    """Return one period of a wave. Overtones above half the sample rate are left out: they would alias."""
    overtone = np.arange(1, min(200, int(RATE / 2 / frequency(note))) + 1)
    strength = {
        "string": 1 / overtone,
        "reed": overtone % 2 / overtone,
        "flute": overtone % 2 / overtone**2,
        "sine": 0.0 + (overtone == 1),
    }[wave]
    spectrum = np.zeros(CYCLE // 2 + 1, complex)
    spectrum[overtone] = -1j * strength * np.cos(np.pi / 2 * overtone / (len(overtone) + 1))
    swing = np.fft.irfft(spectrum)
    swing /= 3 * np.sqrt(np.mean(swing**2))
    return np.append(swing, swing[0])


def tune(start: int, end: int) -> Iterator[tuple[int, int, float]]:
    """Yield the notes of the tune between two samples: time, note and loudness, always the same."""
    for beat in range(-(-start // BEAT), -(-end // BEAT)):
        chance = random.Random(beat)
        chord = CHORDS[beat // 16 % len(CHORDS)]
        if beat % 8 == 0:
            yield beat * BEAT, chord[0], 0.35
        if chance.random() < (0.8 if beat % 2 == 0 else 0.35):
            yield beat * BEAT, chance.choice(chord[1:]) + 12 * (chance.random() < 0.4), chance.uniform(0.12, 0.3)
        if chance.random() < 0.15:
            yield beat * BEAT, chance.choice(chord[2:]) + 24, chance.uniform(0.06, 0.14)
