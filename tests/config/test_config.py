from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactor_runtime.config import Override, is_same, laid_over, load, override, to_text
from reactor_runtime.errors import ConfigError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_no_config_file_is_an_empty_config() -> None:
    assert load(None) == {}


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_an_empty_config_file_is_an_empty_config(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text)) == {}


def test_values_keep_their_yaml_types(tmp_path: Path) -> None:
    path = written(tmp_path, "width: 640\nscale: 0.5\nname: x\nlayers: [1, 2]\ndeep: {a: null, b: true}\non: yes\n")
    assert load(path) == {
        "width": 640,
        "scale": 0.5,
        "name": "x",
        "layers": [1, 2],
        "deep": {"a": None, "b": True},
        "on": True,
    }


@pytest.mark.parametrize(("text", "what"), [("- 1\n- 2\n", "a list"), ("hello\n", "text"), ("\n\n3\n", "a number")])
def test_a_config_that_is_no_mapping_is_refused(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, text))
    assert caught.value.message == f"config.yml is {what}, not a mapping"
    assert caught.value.where is not None
    assert caught.value.where.line == text.count("\n", 0, len(text) - len(text.lstrip("\n"))) + 1


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yml doesn't exist"):
        load(tmp_path / "gone.yml")


def test_a_duplicate_key_is_an_error_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is given twice") as caught:
        load(written(tmp_path, "width: 1\nheight: 2\nwidth: 3\n"))
    assert caught.value.where is not None
    assert (caught.value.where.line, caught.value.where.text) == (3, "width: 3")


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("a=3", {"a": 3}),
        ("a=0.5", {"a": 0.5}),
        ("a=true", {"a": True}),
        ("a=text", {"a": "text"}),
        ("a='3'", {"a": "3"}),
        ("a=[1, 2]", {"a": [1, 2]}),
        ("a={b: 1}", {"a": {"b": 1}}),
        ("a=", {"a": None}),
        ("a=b=c", {"a": "b=c"}),
        ("a.b.c=1", {"a": {"b": {"c": 1}}}),
        (" a . b = 1", {"a": {"b": 1}}),
    ],
)
def test_set_takes_yaml_values(assignment: str, expected: dict[str, Any]) -> None:
    assert load(None, [Override.parse(assignment)]) == expected


def test_set_overrides_what_the_file_says_and_later_ones_win(tmp_path: Path) -> None:
    path = written(tmp_path, "width: 640\ntrain: {steps: 10, rate: 0.1}\nempty:\n")
    config = load(path, list(map(Override.parse, ("width=1280", "train.steps=20", "train.steps=30", "empty.x=1"))))
    assert config == {"width": 1280, "train": {"steps": 30, "rate": 0.1}, "empty": {"x": 1}}


def test_override_leaves_its_argument_alone() -> None:
    config = {"a": {"b": 1}}
    assert override(config, [Override.parse("a.b=2")]) == {"a": {"b": 2}}
    assert config == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("assignment", "problem", "hint"),
    [
        ("width", 'there is no "="', "--set width=VALUE"),
        ("", 'there is no "="', "--set key=VALUE"),
        ("=3", "empty part", "--set key=value"),
        ("a..b=3", "empty part", "--set key.sub=value"),
        (".a=3", "empty part", "--set key.sub=value"),
        ("a.=3", "empty part", "--set key.sub=value"),
        ("width.x=3", "width is a number (640), not a mapping", "set width itself"),
        ("deep.list.x=3", "deep.list is a list ([1]), not a mapping", "set deep.list itself"),
        ("a=[1", "isn't valid YAML", "quote it"),
        ("a=!!timestamp 2026-13-01", "could not determine a constructor", "quote it"),
        ("a=\x07", "isn't valid YAML", "quote it"),
    ],
)
def test_a_bad_set_says_what_is_wrong_and_how_to_write_it(assignment: str, problem: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override({"width": 640, "deep": {"list": [1]}}, [Override.parse(each) for each in ("fine=1", assignment)])
    assert caught.value.message.startswith(f"--set {assignment}: ")
    assert problem in caught.value.message
    assert hint in caught.value.hint


def test_one_config_is_laid_over_another_mapping_by_mapping() -> None:
    base = {"size": {"width": 1, "height": 2}, "seeds": [1, 2], "name": "a"}
    over = {"size": {"width": 9}, "seeds": [3], "more": {"x": 1}}
    laid = laid_over(base, over)
    assert laid == {"size": {"width": 9, "height": 2}, "seeds": [3], "name": "a", "more": {"x": 1}}
    laid["more"]["x"] = laid["size"]["height"] = 0
    assert (over["more"], base["size"]) == ({"x": 1}, {"width": 1, "height": 2})


def overridden(config: dict[str, Any], assignment: str) -> dict[str, Any] | ConfigError:
    try:
        return override(config, [Override.parse(assignment)])
    except ConfigError as error:
        return error


@given(st.text(), st.dictionaries(st.text(max_size=3), st.integers() | st.none(), max_size=2))
@example("a=" + "[" * 300, {})
@example("a=" + "{a: " * 300, {})
@example("a=!!python/object/apply:os.system [true]", {})
@example("a=&a [*a]", {})
@example("a" + ".a" * 300 + "=1", {})
def test_any_set_gives_a_config_or_a_config_error(assignment: str, config: dict[str, Any]) -> None:
    came = overridden(config, assignment)
    assert not isinstance(came, ConfigError) or came.message.startswith("--set ")


@pytest.mark.parametrize(
    ("assignment", "warning"),
    [
        ("widht=3", "--set widht=3: the config has no widht; did you mean width?"),
        ("train.lrr=3", "--set train.lrr=3: the config has no train.lrr; did you mean train.lr?"),
        ("trian.lr=3", "--set trian.lr=3: the config has no trian; did you mean train?"),
        ("width=3", None),
        ("seed=3", None),
        ("train.steps=3", None),
    ],
)
def test_an_override_that_looks_misspelt_is_warned_of(tmp_path: Path, assignment: str, warning: str | None) -> None:
    path = tmp_path / "config.yml"
    path.write_text("width: 640\ntrain:\n  lr: 1\n")
    warnings: list[str] = []
    load(path, [Override.parse(assignment)], warn=warnings.append)
    assert warnings == ([] if warning is None else [warning])


@pytest.mark.parametrize("text", ["1_000e3", "1_000", "0b101", "-0x1F", "nan", "Infinity"])
def test_text_in_the_file_that_looks_like_a_number_is_warned_of(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, f"width: 640\ntrain:\n  lr: [{text}]\nquoted: '{text}'\n{text}: a\n")
    warnings: list[str] = []
    assert load(path, warn=warnings.append)["train"] == {"lr": [text]}
    wanted = "write a number as 1000, 1e-5 or 0x1f, or put quotes around text"
    assert warnings == [f"config.yml:3: {text} is text; {wanted}"]


@pytest.mark.parametrize("text", ["12:30", "2026-01-02", "1.2.3", "a1", "true", "1e-5", "0o17", ".inf"])
def test_other_values_of_the_file_are_not_warned_of(tmp_path: Path, text: str) -> None:
    warnings: list[str] = []
    load(written(tmp_path, f"key: {text}\n"), warn=warnings.append)
    assert warnings == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({1, 2}, "set a is a set"),
        ({1: 2}, "set a has keys that are no text"),
        ([0, {"b": b""}], "set a[1].b is a bytes"),
    ],
)
def test_a_value_in_python_that_json_has_not_is_refused(value: object, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Override.of("a", value)
    assert caught.value.message.startswith(f"{problem}, and a config has the values of JSON")


def test_a_value_in_python_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ConfigError, match="set a is nested too deeply"):
        Override.of("a", value)


def test_an_override_in_python_has_a_key_with_dots() -> None:
    assert override({"a": {"b": 1}}, [Override.of("a.c", (1, 2))]) == {"a": {"b": 1, "c": [1, 2]}}
    with pytest.raises(ConfigError, match="the key has an empty part"):
        Override.of("a..b", 1)


@pytest.mark.parametrize(("other", "same"), [(1, True), (1.0, False), (True, False), ("1", False)])
def test_configs_are_the_same_if_types_are_too(other: object, same: bool) -> None:
    assert is_same({"a": 1}, {"a": other}) is same


def test_a_config_with_objects_of_the_class_can_be_recorded() -> None:
    assert json.loads(to_text({"weights": Path("/a"), (1, 2): 3})) == {"weights": "/a"}  # type: ignore[dict-item]
