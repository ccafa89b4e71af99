from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from reactor_runtime.wire.reload import ReloadError, ReloadMessage
from reactor_runtime.wire.welcome import WelcomeLimits, WelcomeMessage, welcome_schema


def test_every_member_is_required() -> None:
    schema = welcome_schema()
    assert schema["required"] == list(schema["properties"]) == list(WelcomeMessage.__annotations__)
    limits = schema["properties"]["limits"]
    assert limits["required"] == list(limits["properties"]) == list(WelcomeLimits.__annotations__)


@pytest.mark.parametrize("shape", [WelcomeMessage, WelcomeLimits, ReloadMessage, ReloadError])
def test_a_member_may_be_null_in_the_schema_if_it_may_be_none_in_the_type(shape: type) -> None:
    for name, hint in get_type_hints(shape, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind, schema = get_args(hint)
            assert ("null" in _types(schema)) is (type(None) in get_args(kind)), name


def _types(schema: dict[str, Any]) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types
