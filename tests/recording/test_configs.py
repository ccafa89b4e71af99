from __future__ import annotations

import pytest

from reactor_runtime.recording.configs import parse_config


def test_the_config_of_a_recording_of_an_earlier_version_is_yaml() -> None:
    assert parse_config("width: 64\nlr: 1.0e-05\n") == {"width": 64, "lr": 1e-5}
    assert parse_config("") == {}


@pytest.mark.parametrize(
    "text",
    ["[1]", "a: !!python/name:os.system", "a: !!timestamp x", "<<: {a: 1}", "{", "[" * 100_000, '{"a": ' * 100 + "1"],
)
def test_what_no_project_has_as_its_config_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_config(text)
