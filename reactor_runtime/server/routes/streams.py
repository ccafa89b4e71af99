"""Video tracks over plain HTTP: the latest frame as an image, and all frames as a stream of JPEGs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Generic

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from reactor_runtime.errors import WireError
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.socket_sender import SocketSender
from reactor_runtime.server.net.application import serving
from reactor_runtime.server.net.http_protocol import HttpProtocol
from reactor_runtime.server.net.mjpeg import MEDIA_TYPE, FrameStream, Parts, is_painted
from reactor_runtime.server.net.other_server import ItemSender
from reactor_runtime.server.routes.websocket import Services, seat_of, serve_client
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.wire.codec import LOWEST_FPS
from reactor_runtime.wire.messages import View

HEADERS = {"Cache-Control": "no-store"}
STREAM_HEADERS = {**HEADERS, "Content-Type": MEDIA_TYPE, "X-Accel-Buffering": "no"}
END = {"type": "http.response.body", "body": b"", "more_body": False}


def watch_routes(services: Services[S]) -> list[BaseRoute]:
    """Return the routes of video tracks."""

    async def snapshot(request: Request) -> Response:
        track = request.path_params["track"]
        session = request.query_params.get("session", "")
        missing = _missing(services.admission, track, session)
        if missing is not None:
            return missing
        slot = services.admission.slots.watched(session)
        try:
            seat = seat_of(request.query_params) or 0
        except WireError as error:
            return _refusal(400, error.message)
        image = None if slot is None else await slot.subscribers.snapshot(track, seat)
        if image is None:
            return _refusal(404, f"there is no frame on {track} yet: frames come when a client controls the model")
        return Response(image.data, media_type=image.media_type, headers=HEADERS)

    return [
        Route("/snapshot/{track}.jpg", snapshot),
        Route("/stream/{track}.mjpg", _Streams(services), methods=["GET"]),
    ]


class _Streams(Generic[S]):
    """Serve each request as a viewer of one track."""

    def __init__(self, services: Services[S]) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        admitted = self._admit(request)
        if isinstance(admitted, Client):
            await self._stream(admitted, request, send)
        else:
            await admitted(scope, receive, send)

    def _admit(self, request: Request) -> Client | Response:
        """Return a viewer for a request, or the response that refuses it."""
        track = request.path_params["track"]
        session = request.query_params.get("session", "")
        missing = _missing(self._services.admission, track, session)
        if missing is not None:
            return missing
        try:
            view = View(tracks=(track,), max_fps=_fps(request.query_params.get("fps")))
            seat = seat_of(request.query_params)
        except (ValueError, WireError) as error:
            return _refusal(400, str(error))
        if request.method == "HEAD":
            head = Response(headers=STREAM_HEADERS)
            del head.headers["Content-Length"]
            return head
        address = request.client.host if request.client is not None else "unknown"
        options, full_size = self._services.admission.settings.client_options, not _is_painted(request)
        viewer = Client(Role.VIEWER, address, options, only=view, full_size_only=full_size, seat=seat)
        self._services.admission.attach(viewer, session=session)
        if viewer.closing is not None:
            return _refusal(503, viewer.closing.reason, {"Retry-After": "5"})
        return viewer

    async def _stream(self, viewer: Client, request: Request, send: Send) -> None:
        parts = Parts(viewer.outbox.encoding.container.media_type, painted=_is_painted(request))
        protocol = serving(request.scope, HttpProtocol)
        sender = ItemSender(partial(_send_part, send, parts))
        stream = None
        if protocol is not None:
            stream = FrameStream(protocol, parts, chunked=request.scope["http_version"] != "1.0")
        ended = False

        async def frames() -> None:
            nonlocal ended
            given = STREAM_HEADERS if stream is None else {**STREAM_HEADERS, "Connection": "close"}
            headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": parts.opening, "more_body": True})
            await SocketSender(viewer.outbox, stream or sender, self._services.clock, viewer.on_item_sent).run()
            await send(END)
            ended = True

        await serve_client(viewer, self._services, frames(), _disconnected(request), sender.run())
        if not ended:
            if stream is not None:
                stream.abort()
            # Uvicorn would log a response without its end.
            await send(END)


async def _send_part(send: Send, parts: Parts, item: str | bytes) -> None:
    if isinstance(item, bytes):
        body = item.join(parts.around(len(item)))
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _is_painted(request: Request) -> bool:
    return is_painted(request.headers.get("accept", ""))


def video_tracks(contract: Mapping[str, Any]) -> list[str]:
    """Return the names of the video tracks that the model sends."""
    return [each["name"] for each in contract["tracks"] if each["direction"] == "out" and each["kind"] == "video"]


async def _disconnected(request: Request) -> None:
    """Wait until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _missing(admission: Admission[S], track: str, session: str) -> Response | None:
    """Return the response to a request for a track or a session that does not exist, and else None."""
    contract = admission.slots.contract
    if contract is None:
        return _refusal(503, "the model's class is being imported; ask again", {"Retry-After": "1"})
    names = video_tracks(contract)
    if track in names and session and admission.slots.find_session(session) is None:
        return _refusal(404, f"there is no session {session[:40]!r}; /health lists those that run")
    if track in names:
        return None
    return _refusal(404, f"the model has no video track {track[:40]!r}; it has: {', '.join(names) or 'none'}")


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status, headers={**HEADERS, **(headers or {})})


def _fps(text: str | None) -> float | None:
    try:
        fps = None if text is None else float(text)
    except ValueError:
        fps = math.nan
    if fps is not None and not LOWEST_FPS <= fps < math.inf:
        raise ValueError(f"fps is the most frames a second, a number from {LOWEST_FPS} up")
    return fps
