from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.errors import from_author
from reactor_runtime.errors.hints import hint_for
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video
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
    error = raised(call, **{keyword: 1})
    # Python 3.13 and newer name the nearest keyword of a function themselves.
    assert hint_for(error) == ("" if "Did you mean" in str(error) else hint)


def test_a_hint_is_a_note_of_what_is_logged_once() -> None:
    error = raised(lambda **named: MyOutput(**named), video=1)
    assert from_author(from_author(error)).__notes__ == ["hint: did you mean main_video?"]


def test_an_error_whose_str_fails_has_no_hint() -> None:
    class Silent(TypeError):
        def __str__(self) -> str:
            raise RuntimeError

    assert hint_for(Silent()) == ""


class MyState(InputState):
    speed: float = 1.0
    _latent: object = None


class MyModel(ReactorPipeline):
    state: MyState
    output: MyOutput
    size = 3

    def load(self, config: dict[str, Any]) -> None:
        self.config = config
        self.weights = {"unet": {"layers": 3}, 7: 1}

    def inference(self) -> Iterator[MyOutput]:
        yield MyOutput(main_video=np.zeros((8, 8, 3), np.uint8))


def made() -> Any:
    model = MyModel()
    model.state = MyState()
    model.load({"width": 640, "train": {"rate": 1e-5}})
    return model


def look_up(config: dict[str, Any], *keys: str) -> Any:
    for key in keys:
        config = config[key]
    return config


MODEL: Any = MyModel
LIBRARY: Any = np


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        pytest.param(lambda: made().state.sped, "did you mean speed?", id="field"),
        pytest.param(lambda: made().state._latnt, "did you mean _latent?", id="private field"),
        pytest.param(lambda: made().wieghts, "did you mean weights?", id="attribute"),
        pytest.param(lambda: MODEL.siez, "did you mean size?", id="of the class"),
        pytest.param(lambda: LIBRARY.zreos, "did you mean zeros?", id="of a module"),
        pytest.param(lambda: made().unlike_all, "", id="nothing near"),
        pytest.param(
            lambda: made().input,
            "declare it: `class MyInput(Input): camera: Video`, and `input: MyInput` in the model",
            id="input",
        ),
        pytest.param(lambda: look_up({"width": 1, "height": 2}, "widht"), "did you mean width?", id="key"),
        pytest.param(lambda: look_up({"train": {"rate": 1}}, "train", "rat"), "did you mean rate?", id="inner key"),
        pytest.param(lambda: look_up({"width": 1}, "colour"), "", id="no key near"),
        pytest.param(lambda: {"3": 1}[LIBRARY], "", id="no text"),
    ],
)
def test_the_hint_for_a_missing_name_is_the_nearest(mistake: Callable[[], object], hint: str) -> None:
    with pytest.raises((AttributeError, KeyError)) as caught:
        mistake()
    assert hint_for(caught.value) == hint


def test_a_missing_key_is_looked_for_in_the_attributes_of_self() -> None:
    class Reader:
        def __init__(self) -> None:
            self.config = {"width": 1, "inner": {"depth": {"heigth": 3}}}

        def read(self, key: str) -> object:
            return self.config[key]

    for key, hint in (("widht", "did you mean width?"), ("height", "did you mean heigth?")):
        with pytest.raises(KeyError) as caught:
            Reader().read(key)
        assert hint_for(caught.value) == hint


def test_an_attribute_error_that_was_raised_by_hand_has_no_hint() -> None:
    assert hint_for(AttributeError("nothing")) == ""
    assert hint_for(KeyError("width")) == ""
