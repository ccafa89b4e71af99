"""Tests of the instrument without a server: PipelineExecutor makes its steps, and its parts are ordinary Python."""

import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from piano import HIGHEST, LOWEST, Piano
from pipeline import MIDDLE_C, PAUSE, MyModel
from scope import SKIES, Scope
from synth import MOST_VOICES, RATE, WAVES, Synth, frequency, samples_in, tune

SMALL = {"width": 96, "height": 64}


@pytest.fixture
def ex():
    """Return a session without the tune."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        ex.send_event("set_tune", tune=False)
        yield ex


def listen(ex, frames):
    """Make steps, and return their sound, (2, samples)."""
    return np.concatenate([next(ex).output.main_audio for _ in range(frames)], axis=1)


def biggest_step(sound):
    return np.abs(np.diff(sound.astype(float), axis=1)).max()


def test_a_frame_comes_with_sound_of_the_same_duration(ex):
    output = next(ex).output
    assert (output.main_video.shape, output.main_video.dtype) == ((64, 96, 3), np.uint8)
    assert (output.main_audio.shape, output.main_audio.dtype) == ((2, 1600), np.int16)


@pytest.mark.parametrize("fps", [24, 30, 50, 60, 7, 29])
def test_a_second_has_48000_samples_at_any_rate(fps):
    counts = [samples_in(frame_idx, fps) for frame_idx in range(10 * fps)]
    assert sum(counts) == 10 * RATE
    assert max(counts) - min(counts) <= 1


def test_without_notes_there_is_silence(ex):
    assert not listen(ex, 30).any()


def test_the_tune_plays_for_a_new_client():
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        assert listen(ex, 10).std() > 100


def test_the_tune_stops_for_a_client_and_continues_later():
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        listen(ex, 30)
        ex.send_event("stop")
        pause = listen(ex, PAUSE // 1600)
        assert not pause[:, -4800:].any()
        assert listen(ex, 15).any()


def test_the_same_notes_make_the_same_sound_and_frames():
    def play():
        with PipelineExecutor(MyModel, config=SMALL) as ex:
            ex.connect()
            listen(ex, 5)
            ex.send_event("play", note=64)
            output = next(ex).output
            return output.main_audio.tobytes() + output.main_video.tobytes()

    assert play() == play()


def test_the_reply_to_a_note_has_its_name(ex):
    played = ex.send_event("play", note=69)
    assert (played.name, played.hertz) == ("A4", 440.0)
    assert ex.send_event("play", note=60).name == "C4"


def test_a_held_key_plays_its_note_until_it_is_released(ex):
    ex.send_event("set_release", release=0.1)
    ex.send_event("set_echo", echo=0.0)
    ex.send_event("set_a", a=True)
    spectrum = np.abs(np.fft.rfft(listen(ex, 30)[0]))
    assert np.argmax(spectrum) == 440
    assert [voice.note for voice in ex.state._synth.voices] == [69]
    ex.send_event("set_a", a=False)
    assert not listen(ex, 10)[:, -1600:].any()


def test_every_key_of_the_octave_has_its_note(ex):
    names = ("c", "c_sharp", "d", "d_sharp", "e", "f", "f_sharp", "g", "g_sharp", "a", "a_sharp", "b", "high_c")
    for idx, name in enumerate(names):
        ex.send_event(f"set_{name}", **{name: True})
        next(ex)
        assert max(ex.state._held) == MIDDLE_C + idx


def test_a_finger_plays_the_key_below_it_and_slides_to_the_next(ex):
    piano = ex.model.piano
    for x, note in ((0.01, LOWEST), (0.99, HIGHEST)):
        ex.send_event("set_touch", touch=[x, 0.99])
        next(ex)
        assert ex.state._held == {note} == {piano.key_at(x, 0.99)}
    for above in ([0.5, 0.1], None):
        ex.send_event("set_touch", touch=above)
        next(ex)
        assert not ex.state._held


def test_every_key_of_the_piano_can_be_touched():
    piano = Piano(640, 360)
    touched = {piano.key_at(x, y) for x in np.linspace(0, 1, 640) for y in (piano.top, 1.0)}
    assert touched == set(range(LOWEST, HIGHEST + 1))


def test_held_keys_are_darker_and_keys_glow_while_they_sound():
    piano, above = Piano(320, 180), np.zeros((135, 320, 3), np.uint8)
    silent = piano.draw_below(above, set(), {}, "aurora").astype(int)
    held = piano.draw_below(above, {60}, {}, "aurora").astype(int)
    glowing = piano.draw_below(above, set(), {60: 0.5, 20: 1.0}, "aurora").astype(int)
    assert silent.shape == (180, 320, 3)
    columns = np.flatnonzero((held != silent).any(axis=(0, 2)))
    assert {piano.key_at(x / 320, 0.99) for x in columns} == {60}
    assert (held <= silent).all()
    assert (glowing[-1, columns[5]] != silent[-1, columns[5]]).any()


@pytest.mark.parametrize("wave", WAVES)
def test_a_note_has_its_pitch_with_every_wave(ex, wave):
    ex.send_event("set_wave", wave=wave)
    ex.send_event("play", note=69)
    spectrum = np.abs(np.fft.rfft(listen(ex, 30)[0]))
    assert np.argmax(spectrum) == 440


def test_a_high_note_has_no_frequencies_below_its_own():
    synth = Synth()
    synth.play(96, 0.5, wave="string", attack_s=0.1)
    sound = synth.samples(RATE, volume=0.2, echo=0.0)[0]
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(RATE)))
    assert spectrum[: int(frequency(96)) - 100].max() < spectrum.max() / 1000


def test_pieces_of_sound_join_exactly():
    def play(counts):
        synth = Synth()
        synth.volume, synth.echo = 0.8, 0.5
        synth.play(50, 0.7)
        synth.play(57, 0.7, at=1000)
        return np.concatenate([synth.samples(count, volume=0.8, echo=0.5) for count in counts], axis=1)

    assert np.allclose(play([16_000] * 2), play([1, 1599] * 20), atol=1e-6)


def test_neither_notes_nor_controls_click(ex):
    ex.send_event("set_wave", wave="sine")
    ex.send_event("set_echo", echo=0.0)
    pieces = []
    for volume in (1.0, 0.1, 1.0):
        ex.send_event("set_volume", volume=volume)
        ex.send_event("play", note=48, velocity=1.0)
        pieces.append(listen(ex, 3))
        ex.send_event("stop")
        pieces.append(listen(ex, 30))
    sound = np.concatenate(pieces, axis=1)
    steepest = 2 * np.pi * frequency(48) / RATE * np.abs(sound).max()
    assert biggest_step(sound) < 1.5 * steepest
    assert not sound[:, -1600:].any()


def test_voices_are_replaced_without_a_click():
    synth = Synth()
    pieces = []
    for lowest in range(36, 40):
        for note in range(lowest, lowest + MOST_VOICES):
            synth.play(note, 0.1, wave="sine")
        assert len(synth.voices) <= 2 * MOST_VOICES
        pieces.append(synth.samples(1600, volume=0.5, echo=0.0))
        assert len(synth.voices) <= MOST_VOICES
    assert biggest_step(np.concatenate(pieces, axis=1)) < 0.02


def test_a_thousand_notes_at_once_are_limited():
    synth = Synth()
    for idx in range(1000):
        synth.play(24 + idx % 73, 1.0)
    assert len(synth.voices) == MOST_VOICES
    assert np.abs(synth.samples(1600, volume=1.0, echo=0.8)).max() <= 1.0


def test_the_echo_alternates_between_the_sides_and_ends():
    synth = Synth()
    synth.echo = synth.volume = 0.8
    # Low, so more to the left.
    synth.play(24, 1.0, wave="flute")
    synth.stop(0.05)
    sound = np.concatenate([synth.samples(18_000, volume=0.8, echo=0.8) for _ in range(40)], axis=1)
    left, right = (np.abs(side).reshape(40, -1).max(axis=1) for side in sound)
    assert left[0] > right[0]
    assert right[1] > left[1] > 0
    assert not synth.line.any()


def test_the_tune_is_the_same_for_pieces_of_any_length():
    assert list(tune(0, 100_000)) == [*tune(0, 1), *tune(1, 28_800), *tune(28_800, 100_000)]


def test_sound_changes_the_frame_and_each_sky_has_its_colours():
    waves = 0.3 * np.sin(np.arange(16_000) / 20).reshape(10, 1, -1).repeat(2, axis=1)
    frames = set()
    for sky in SKIES:
        scope = Scope(96, 64)
        still = scope.draw(np.zeros((2, 1600)), sky)
        for wave in waves:
            moved = scope.draw(wave, sky)
        assert moved.mean() > still.mean()
        frames.add(moved.tobytes())
    assert len(frames) == len(SKIES)
