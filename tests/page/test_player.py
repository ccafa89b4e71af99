"""The page's Player alone, its clock made up: what sounds when, whatever clocks, pieces and models do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

RIG = Path(__file__).with_name("player_rig.js").read_text()
# Ten minutes are computed in a second; its blocks are 16 ms long.
SLOW = {"sampleRate": 8000, "outputRate": 8000}


def play(still: Page, **options: Any) -> dict[str, Any]:
    result = still.evaluate(RIG, options)
    assert isinstance(result, dict)
    return result


def errors(result: dict[str, Any], after_s: float = 0.0) -> list[float]:
    return [click["error"] for click in result["heard"] if click["at"] > after_s]


def test_a_click_is_heard_when_its_picture_is_shown(still: Page) -> None:
    result = play(still)
    assert len(errors(result)) == 5
    assert max(map(abs, errors(result))) < 0.001


def test_what_comes_after_its_picture_is_heard_as_soon_as_it_can_be(still: Page) -> None:
    late = errors(play(still, shown=0.0, late=[0.03]))
    assert 0.03 < min(late) < max(late) < 0.05


@pytest.mark.parametrize("ppm", [-500, -50, 0, 200, 500])
def test_clocks_that_differ_neither_drift_nor_break_the_sound_in_ten_minutes(still: Page, ppm: int) -> None:
    result = play(still, seconds=600, **SLOW, ppm=ppm, late=[0.004, 0.009, 0.006])
    assert len(errors(result)) in (599, 600)
    assert max(map(abs, errors(result, after_s=5))) < 0.006
    assert not [at for at in result["silent"] if at > 1]


def test_sound_without_pictures_does_not_fall_behind_in_ten_minutes(still: Page) -> None:
    result = play(still, seconds=600, **SLOW, ppm=-200, shown=None)
    assert abs(errors(result)[-1] - errors(result)[3]) < 0.003
    assert not [at for at in result["silent"] if at > 1]


def test_a_model_that_is_late_leaves_a_gap_and_no_delay(still: Page) -> None:
    result = play(still, gap={"piece": 50, "seconds": 0.4})
    heard = [click["at"] for click in result["heard"]]
    np.testing.assert_allclose(heard, [0.05, 1.05, 2.45, 3.45, 4.45], atol=0.001)
    gap = [at for at in result["silent"] if at > 0.5]
    assert 0.38 < max(gap) - min(gap) < 0.43


def test_one_late_piece_does_not_delay_those_after_it(still: Page) -> None:
    result = play(still, seconds=12, lateTimes={"150": 0.3})
    assert result["needs"][-1] < 0.02
    assert max(map(abs, errors(result, after_s=7))) < 0.001


def test_uneven_pieces_are_waited_for_after_a_few(still: Page) -> None:
    result = play(still, seconds=20, shown=0.0, late=[0.002, 0.002, 0.002, 0.002, 0.002, 0.06])
    assert not [at for at in result["silent"] if at > 2]
    assert max(errors(result)) < 0.08


def test_pieces_that_come_evenly_again_bring_the_delay_down(still: Page) -> None:
    late = {str(n): 0.06 for n in range(50, 100, 5)}
    result = play(still, seconds=30, shown=0.0, lateTimes=late)
    assert errors(result)[3] > 0.05
    assert errors(result)[-1] < 0.015


def test_cut_is_silent_at_once(still: Page) -> None:
    result = play(still, cutAt=2.5)
    assert [click["at"] for click in result["heard"] if click["at"] > 2.5] == []
    assert min(at for at in result["silent"] if at > 1) < 2.53


@pytest.mark.parametrize(("sample_rate", "tone"), [(16000, 1000), (44100, 5000), (48000, 5000), (96000, 5000)])
def test_any_rate_sounds_clean(still: Page, sample_rate: int, tone: int) -> None:
    wave = np.array(play(still, sampleRate=sample_rate, outputRate=48000, seconds=2, tone=tone)["wave"][48000:])
    spectrum = np.abs(np.fft.rfft(wave * np.blackman(len(wave))))
    peak = int(np.argmax(spectrum))
    assert peak * 48000 / len(wave) == pytest.approx(tone, rel=0.004)
    spectrum[peak - 20 : peak + 21] = 0
    assert np.abs(wave).max() == pytest.approx(0.5, abs=0.01)
    assert 20 * np.log10(spectrum.max() / 12000) < -60
