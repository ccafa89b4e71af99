from __future__ import annotations

import importlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn.protocols.http.flow_control
import uvicorn.server
import websockets.server
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from reactor_runtime.errors import UsageError
from reactor_runtime.server.net import http_server
from reactor_runtime.server.net.internals import METHODS, SUPPORTED

NAME = "reactor_runtime.server.net.internals"


def failure(monkeypatch: pytest.MonkeyPatch) -> UsageError:
    """Import the module anew, and return the error that it raises."""
    monkeypatch.delitem(sys.modules, NAME)
    with pytest.raises(UsageError) as caught:
        importlib.import_module(NAME)
    return caught.value


def without_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(WebSocketsSansIOProtocol, "handle_ping")


def with_another_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    def data_received(self: H11Protocol, data: bytes, more: bool) -> None: ...

    monkeypatch.setattr(H11Protocol, "data_received", data_received)


def without_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    class FlowControl:
        __module__ = "uvicorn.protocols.http.flow_control"

        def resume_reading(self) -> None: ...

    monkeypatch.setattr(uvicorn.protocols.http.flow_control, "FlowControl", FlowControl)


def without_uvicorn_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(uvicorn.server, "ServerState")


def without_websockets_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(websockets.server, "ServerProtocol")


@pytest.mark.parametrize(
    ("change", "library", "reason"),
    [
        (without_method, "uvicorn", "WebSocketsSansIOProtocol has no method handle_ping"),
        (with_another_parameter, "uvicorn", "H11Protocol.data_received takes other parameters"),
        (without_attribute, "uvicorn", "FlowControl has no attribute write_paused"),
        (without_uvicorn_class, "uvicorn", "cannot import name 'ServerState'"),
        (without_websockets_class, "websockets", "cannot import name 'ServerProtocol'"),
    ],
)
def test_a_missing_internal_is_reported_at_import_with_the_supported_versions(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None], library: str, reason: str
) -> None:
    change(monkeypatch)
    error = failure(monkeypatch)
    version = importlib.metadata.version(library)
    assert error.message.startswith(f"{library} {version} does not work with this version of Reactor: {reason}")
    assert error.hint == f"pip install '{library}{SUPPORTED[library]}'"


def test_the_supported_versions_are_those_of_the_package() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    required = pyproject["project"]["dependencies"]
    assert {f"{library}{versions}" for library, versions in SUPPORTED.items()} <= set(required)


@pytest.mark.parametrize("name", ["HttpProtocol", "HttpServer", "SocketProtocol"])
def test_each_overridden_method_is_checked(name: str) -> None:
    subclass = vars(http_server)[name]
    (library_class,) = subclass.__bases__
    overridden = {name for name in vars(subclass) if hasattr(library_class, name) and not hasattr(object, name)}
    assert overridden - {"__annotations__", "__static_attributes__", "__firstlineno__"} <= METHODS[library_class].keys()
