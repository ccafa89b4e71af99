from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reactor_cli.access_options import TOKEN_VARIABLE, parse_access
from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.access import Access

NOTHING: dict[str, Any] = {
    "token": None, "hosts": [], "origins": [], "per_address": 244, "certificate": None, "key": None,
    "root_path": "", "proxies": "", "dev": False,
}  # fmt: skip


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


def read(**options: Any) -> Access:
    return parse_access(**{**NOTHING, **options})


def test_nothing_said_is_the_default() -> None:
    assert read() == Access()


def test_the_token_comes_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "from-outside")
    assert read().token == "from-outside"
    assert read(token="from-option").token == "from-option"
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    assert read().token is None
    made = read(token="auto").token
    assert made not in (None, "auto")


def test_an_empty_token_asked_for_is_an_error_and_not_none() -> None:
    with pytest.raises(UsageError):
        read(token="")


def test_lists_are_read() -> None:
    access = read(hosts=["A.example"], origins=["https://A.example/"], proxies="127.0.0.1,10.0.0.0/8")
    assert access.hosts == ("a.example",)
    assert access.origins == ("https://a.example",)
    assert access.proxies == ("127.0.0.1", "10.0.0.0/8")


@pytest.mark.parametrize(("given", "path"), [("/demo", "/demo"), ("/a/b/", "/a/b"), ("/", ""), ("", "")])
def test_a_root_path_is_read(given: str, path: str) -> None:
    assert read(root_path=given).root_path == path


@pytest.mark.parametrize("given", ["demo", "//demo", "/a b", "/a?b", "http://a/demo", "/caf\xe9"])
def test_what_is_no_path_is_a_usage_error(given: str) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        read(root_path=given)


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(UsageError, match="without a certificate"):
        read(key=Path("key.pem"))
