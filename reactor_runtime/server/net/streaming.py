"""HTTP responses without an end, written by a client's sender as its WebSocket would be."""

from __future__ import annotations

import asyncio
import weakref
from asyncio.transports import Transport
from collections.abc import Callable
from typing import Any

from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.server import ServerState

from reactor_runtime.server.net.mjpeg import Parts
from reactor_runtime.server.net.protocols import HttpProtocol
from reactor_runtime.server.net.transport import keep_little_unsent, notice_silence, write_pieces

STALLED_S = 20.0
STATE = "reactor.http"  # in the scope's state, where the application finds the protocol that serves it


class StreamingHttp(HttpProtocol):
    """The edge's HTTP with little room for what is not sent yet; a peer that takes nothing for 20 s is let go."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, STATE: weakref.ref(self)}, _loop)
        self._on_writable: Callable[[], object] | None = None
        self._deaf = False
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        keep_little_unsent(transport)
        notice_silence(transport, round(STALLED_S))

    def data_received(self, data: bytes) -> None:
        if not self._deaf:
            super().data_received(data)

    def hear_no_more(self) -> None:
        """Drop whatever else the client says: unread, it would hide that the client has gone."""
        self._deaf = True
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unset_stalled()
        if self._on_writable is not None:
            self._on_writable()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the connection takes something again; None ends that."""
        self._on_writable = on_writable

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_stalled()
        super().connection_lost(exc)

    def _unset_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class FrameStream:
    """A response that goes on frame after frame, as a sender's socket; it says nothing but frames.

    It is the last one of its connection, of which nothing more is read.
    """

    def __init__(self, scope: Scope, parts: Parts) -> None:
        protocol: StreamingHttp | None = scope["state"][STATE]()
        assert protocol is not None, "it lives as long as the application that it calls"
        self._protocol = protocol
        self._chunked = scope["http_version"] != "1.0"
        self._parts = parts
        self._protocol.hear_no_more()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever the connection takes something again; None ends that."""
        self._protocol.notify_writable(on_writable)

    @property
    def ready(self) -> bool:
        """Tell whether what is posted goes to the kernel at once."""
        return not self._protocol.flow.write_paused

    def post(self, item: str | bytes) -> None:
        """Send a frame without waiting; nothing happens when the connection is over."""
        transport = self._protocol.transport
        if isinstance(item, str) or transport.is_closing():
            return
        before, after = self._parts.around(len(item))
        if self._chunked:  # as h11 would, without its copies (RFC 9112, 7.1)
            before, after = b"%x\r\n%s" % (len(before) + len(item) + len(after), before), after + b"\r\n"
        write_pieces(transport, before, item, after)

    def abort(self) -> None:
        """End the connection at once, whatever was not sent."""
        self._protocol.transport.abort()
