"""The presets of reactor.yaml against the model that they set."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.presets import check_presets
from reactor_runtime.config.yamlfile import read
from reactor_runtime.errors import ManifestError
from reactor_runtime.interface import InputField, InputState, ReactorModel, VideoModel, command, event

PRESETS = """\
model: pipeline:MyModel
presets:
  Day: {prompt: the sea, strength: 1}
  Night:
    prompt: a harbour
    strength: 0.5
"""


class Look(InputState):
    prompt: str = ""
    strength: float = InputField(default=0.5, ge=0.0, le=1.0)
    noise: float = 0.0
    score: int = InputField(default=0, read_only=True)


class Model(ReactorModel):
    state: Look

    @event(name="set_strength")
    def change(self, value: float = InputField(ge=0.0, le=1.0)) -> None: ...

    @event(name="set_noise")
    def set_noise(self, noise: float, seed: int) -> None: ...


class Stateless(VideoModel):
    @command("set_prompt")
    def set_prompt(self, prompt: str) -> None: ...

    def start_session(self) -> None: ...


def check(directory: Path, text: str, model: type = Model) -> None:
    path = directory / "reactor.yaml"
    path.write_text(text)
    presets: dict[str, dict[str, Any]] = read(path, ManifestError).values["presets"]
    check_presets(Contract.of(model), presets, directory)


def test_presets_set_fields_and_what_an_event_sets(tmp_path: Path) -> None:
    check(tmp_path, PRESETS)
    check(tmp_path, "presets: {Day: {prompt: the sea}}", Stateless)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint", "line"),
    [
        ("    strength: 0.5", "    strenght: 0.5", 'sets "strenght", which Model does not have', '"strength"?', 6),
        ("    strength: 0.5", "    x: 0.5", 'sets "x", which Model does not have', "are prompt, strength", 6),
        ("    strength: 0.5", "    noise: 0.5", 'sets "noise", which Model does not have', "the fields are", 6),
        ("strength: 0.5", "strength: 3", 'a wrong value for "strength": 3 is above 1', "what set_strength accepts", 6),
        ("prompt: a harbour", "prompt: [a]", 'a wrong value for "prompt": ', "what set_prompt accepts", 5),
        ("strength: 1", "strength: 2", 'has a wrong value for "strength"', "what set_strength accepts", 3),
    ],
)
def test_what_does_not_fit_is_an_error_at_its_line(
    tmp_path: Path, old: str, new: str, message: str, hint: str, line: int
) -> None:
    with pytest.raises(ManifestError) as caught:
        check(tmp_path, PRESETS.replace(old, new))
    assert caught.value.message.startswith(f'the preset "{"Day" if line == 3 else "Night"}" ')
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.where is not None
    assert caught.value.where.line == line


def test_a_model_without_fields_says_where_to_declare_one(tmp_path: Path) -> None:
    class Bare(ReactorModel):
        pass

    with pytest.raises(ManifestError) as caught:
        check(tmp_path, PRESETS, Bare)
    assert caught.value.hint == "declare it as a field of the model's state"


def test_a_file_that_changed_since_gives_no_wrong_place(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("a: [")
    with pytest.raises(ManifestError) as caught:
        check_presets(Contract.of(Model), {"Day": {"x": 1}}, tmp_path)
    assert caught.value.where is None


def test_a_date_of_a_preset_needs_no_quotes(tmp_path: Path) -> None:
    class Calendar(InputState):
        day: date = date(2026, 11, 24)
        start: datetime = datetime(2026, 11, 24, tzinfo=UTC)

    class Clock(ReactorModel):
        state: Calendar

    start = "model: pipeline:MyModel\npresets:\n  New Year: "
    check(tmp_path, f"{start}{{day: 2027-01-01, start: 2027-01-01T00:00:00Z}}\n", Clock)
    with pytest.raises(ManifestError, match="2027-02-30"):
        check(tmp_path, f"{start}{{day: 2027-02-30}}\n", Clock)


def test_a_preset_can_not_set_a_read_only_field(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match='the preset "Day" sets "score", which is read_only') as caught:
        check(tmp_path, "presets: {Day: {score: 3}}")
    assert caught.value.hint == "leave it out: the model alone sets it"
