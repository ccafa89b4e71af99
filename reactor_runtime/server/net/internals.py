"""Internals of Uvicorn and websockets that the server depends on, checked at import.

`http_server.py` overrides the methods listed here. No other module of the server imports anything of these libraries
that is not their public interface.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import NoReturn

from reactor_runtime.errors import UsageError

# The bounds of pyproject.toml. CI runs all tests with the oldest and the newest version within them.
SUPPORTED = {"uvicorn": ">=0.54,<0.55", "websockets": ">=15.0,<18"}


class UnsupportedLibrary(UsageError):
    """Report an installed library without an internal that the server depends on."""


def _fail(library: str, reason: str) -> NoReturn:
    raise UnsupportedLibrary(
        f"{library} {importlib.metadata.version(library)} does not work with this version of Reactor: {reason}",
        hint=f"pip install '{library}{SUPPORTED[library]}'",
    )


try:
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
    from uvicorn.server import Server, ServerState
except ImportError as error:
    _fail("uvicorn", str(error))
try:
    from websockets.frames import Opcode
    from websockets.http11 import Request
    from websockets.protocol import OPEN
    from websockets.server import ServerProtocol

    try:
        from websockets.speedups import apply_mask
    except ImportError:
        # Built without the C extension.
        from websockets.utils import apply_mask
except ImportError as error:
    _fail("websockets", str(error))

__all__ = [
    "OPEN",
    "H11Protocol",
    "Opcode",
    "Request",
    "Server",
    "ServerState",
    "WebSocketsSansIOProtocol",
    "apply_mask",
]

_PROTOCOL = "config server_state app_state _loop"
# The methods that are overridden or called, with their parameters.
METHODS: Mapping[type, Mapping[str, str]] = {
    H11Protocol: {
        "__init__": _PROTOCOL,
        "_unset_keepalive_if_required": "",
        "connection_lost": "exc",
        "connection_made": "transport",
        "data_received": "data",
        "handle_websocket_upgrade": "event",
        "pause_writing": "",
        "resume_writing": "",
        "send_400_response": "msg",
    },
    WebSocketsSansIOProtocol: {
        "__init__": _PROTOCOL,
        "connection_lost": "exc",
        "connection_made": "transport",
        "data_received": "data",
        "handle_connect": "event",
        "handle_ping": "",
        "keepalive_timeout": "",
        "on_task_complete": "task",
        "resume_writing": "",
        "send": "message",
    },
    Server: {
        "capture_signals": "",
        "main_loop": "",
        "on_tick": "counter",
        "serve": "sockets",
        "shutdown": "sockets",
        "startup": "sockets",
    },
    FlowControl: {"resume_reading": ""},
}
# The attributes that are read or set.
ATTRIBUTES: Mapping[type, str] = {
    H11Protocol: "app_state conn cycle flow loop transport",
    RequestResponseCycle: "disconnected message_event response_complete",
    FlowControl: "write_paused",
    WebSocketsSansIOProtocol: (
        "close_sent close_timer conn disconnected handshake_complete handshake_initiated loop queue response scope"
        " transport writable"
    ),
    ServerProtocol: "close_rcvd data_to_send handshake_exc parser send_close send_text state",
    Server: "config lifespan server_state should_exit",
    ServerState: "connections",
}


def _missing() -> Iterator[tuple[str, str]]:
    """List the library and a description of each internal that is not as expected."""
    for owner, methods in METHODS.items():
        for name, parameters in methods.items():
            method = getattr(owner, name, None)
            if method is None:
                yield owner.__module__, f"{owner.__name__} has no method {name}"
            elif [*inspect.signature(method).parameters][1:] != parameters.split():
                yield owner.__module__, f"{owner.__name__}.{name} takes other parameters"
    for owner, attributes in ATTRIBUTES.items():
        present = _attributes(owner)
        for name in attributes.split():
            if name not in present:
                yield owner.__module__, f"{owner.__name__} has no attribute {name}"


def _attributes(owner: type) -> set[str]:
    """Return the attributes of a class, and all names in its methods: instances get theirs in `__init__` or later."""
    names: set[str] = set()
    for each in owner.__mro__[:-1]:
        names.update(vars(each))
        for value in vars(each).values():
            if isinstance(value, FunctionType):
                names.update(value.__code__.co_names)
    return names


for _module, _reason in _missing():
    _fail(_module.partition(".")[0], _reason)
