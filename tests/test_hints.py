from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from reactor_runtime.errors import from_author
from reactor_runtime.hints import hint_for
from reactor_runtime.interface import Output, Video
from tests import processes as imported


class MyOutput(Output):
    main_video: Video


def render(width: int, height: int = 0) -> None: ...


def raised(call: Callable[..., object], **named: object) -> BaseException:
    with pytest.raises(TypeError) as caught:
        call(**named)
    return caught.value


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("PIL", "pillow"),
        ("PIL.Image", "pillow"),
        ("cv2", "opencv-python-headless"),
        ("yaml", "pyyaml"),
        ("sklearn.cluster", "scikit-learn"),
        ("skimage", "scikit-image"),
        ("einops", "einops"),
    ],
)
def test_the_hint_for_a_missing_module_names_its_package(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module.partition(".")[0], raising=False)
    assert hint_for(ModuleNotFoundError(name=module)).endswith(f"pip install {package}")


@pytest.mark.parametrize(
    ("call", "keyword", "hint"),
    [
        pytest.param(lambda **named: MyOutput(**named), "video", "did you mean main_video?", id="near"),
        pytest.param(lambda **named: MyOutput(**named), "pixels", "MyOutput takes main_video", id="far"),
        pytest.param(lambda **named: render(**named), "widht", "did you mean width?", id="function"),
        pytest.param(lambda **named: imported.alive(**named), "pdi", "did you mean pid?", id="imported"),
        pytest.param(lambda **named: sorted([], **named), "kye", "", id="function of Python"),
        pytest.param(lambda **_: render(1, 2, 3), "x", "", id="another TypeError"),  # type: ignore[call-arg]
    ],
)
def test_the_hint_for_an_unexpected_keyword_names_the_nearest(call: Any, keyword: str, hint: str) -> None:
    assert hint_for(raised(call, **{keyword: 1})) == hint


def test_a_hint_is_a_note_of_what_is_logged_once() -> None:
    error = raised(lambda **named: MyOutput(**named), video=1)
    assert from_author(from_author(error)).__notes__ == ["hint: did you mean main_video?"]


def test_an_error_whose_str_fails_has_no_hint() -> None:
    class Silent(TypeError):
        def __str__(self) -> str:
            raise RuntimeError

    assert hint_for(Silent()) == ""
