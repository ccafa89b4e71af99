"""`/ws`: serves one client from its handshake to its end.

`net/http_server.py` has the socket below the messages, `sessions/inbound.py` routes what is received here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from reactor_runtime.clock import Clock
from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.socket_sender import Socket, SocketSender
from reactor_runtime.server.net.application import serving
from reactor_runtime.server.net.limits import (
    MEDIA_BYTES_A_MESSAGE,
    MESSAGES_AT_ONCE,
    MESSAGES_PER_S,
    OVER_S,
    TEXT_BYTES_A_MESSAGE,
    TokenBucket,
)
from reactor_runtime.server.net.message_reader import Allowance, Violation
from reactor_runtime.server.net.other_server import receive_messages, socket_sender
from reactor_runtime.server.net.shares import VIEWER_PER_S
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.wire.codec import ClientMessage, decode_ack, decode_text
from reactor_runtime.wire.messages import Ack, Event, Here, Keep, KeyRequest, Ping, Reload, Step, View
from reactor_runtime.wire.protocol import (
    MAX_MEDIA_BYTES,
    MAX_TEXT_BYTES,
    MAX_VIEWER_BYTES,
    CloseCode,
    choose_subprotocol,
    return_secret,
)

logger = logging.getLogger(__name__)

INVALID_DATA = 1007
REALTIME, STEPPED = "realtime", "stepped"
CONTROLLER_SHARE = 0.05
MOST_VALUES = 16_384
ROOM, SEAT = re.compile(r"[a-z0-9-]{1,32}"), re.compile(r"[0-9]{1,4}")
TEXT = Allowance(MAX_TEXT_BYTES, MAX_TEXT_BYTES, f"a text message may have {MAX_TEXT_BYTES} bytes")
TEXT_OF_WAITING = replace(TEXT, kept_bytes=MAX_VIEWER_BYTES)
MEDIA = Allowance(MAX_MEDIA_BYTES, MAX_MEDIA_BYTES, f"a binary message may have {MAX_MEDIA_BYTES} bytes")
MEDIA_OF_WAITING = replace(MEDIA, kept_bytes=0)
OF_VIEWER = Allowance(MAX_VIEWER_BYTES, MAX_VIEWER_BYTES, f"a viewer's text message may have {MAX_VIEWER_BYTES} bytes")
NO_MEDIA = Allowance(MAX_VIEWER_BYTES, 0, "a viewer sends no frames and no sound")


class MessageRouter(Protocol):
    """Routes what clients send to the models of their sessions, after sizes and rates were limited."""

    @property
    def has_stepped_sessions(self) -> bool:
        """Return whether sessions may step when their controller says so."""
        ...

    def controls(self, client: Client) -> bool:
        """Return whether a client controls a session that is not ending."""

    def may_send(self, client: Client) -> bool:
        """Return whether a client may send to a session: its controller, or any client of one that is shared."""

    def route_event(self, client: Client, event: Event) -> None:
        """Send a client's event to its model, or answer with an error."""

    def route_step(self, client: Client, step: Step) -> None:
        """Send a controller's request for steps to its model, or answer with an error."""

    def route_media(self, client: Client, data: bytes) -> None:
        """Send a controller's image or sound to its model, or answer with an error."""

    def refuse_dropped(self, client: Client) -> None:
        """Answer a message that was too large to be kept for a client without a session."""

    def record_activity(self, client: Client) -> None:
        """Restart the idle timeout of the session that a client controls."""

    def keep_recording(self, client: Client, keep: Keep) -> None:
        """Save a recording of the session that a client controls, which gets the answer."""


@dataclass(frozen=True, slots=True)
class Services(Generic[S]):
    """The parts of the server that each client needs; `clients` are those whose connection is served.

    `reload` executes the project's modules again.
    """

    admission: Admission[S]
    inbound: MessageRouter
    clock: Clock
    clients: set[Client]
    reload: Callable[[], None] = lambda: None


def socket_routes(services: Services[S]) -> list[BaseRoute]:
    """Return the routes of `/ws`: the WebSocket, and the response to a request without an upgrade."""

    async def socket(websocket: WebSocket) -> None:
        await serve_socket(websocket, services)

    async def upgrade_required(request: Request) -> Response:  # noqa: ARG001  (the signature Starlette calls)
        message = "/ws is a WebSocket: the request has no Upgrade header, or a proxy removed it\n"
        headers = {"Cache-Control": "no-store", "Upgrade": "websocket", "Connection": "Upgrade"}
        return PlainTextResponse(message, status_code=426, headers=headers)

    return [WebSocketRoute("/ws", socket), Route("/ws", upgrade_required)]


async def serve_socket(websocket: WebSocket, services: Services[S]) -> None:
    """Serve one client from its handshake to its end."""
    try:
        subprotocol = choose_subprotocol(websocket.scope["subprotocols"])
        role = _role(websocket.query_params.get("role", Role.CONTROLLER.value))
        stepped = _is_stepped(websocket.query_params.get("generation", REALTIME))
        room, seat = room_of(websocket.query_params), seat_of(websocket.query_params)
    except WireError as error:
        await _deny(websocket, 400, error.message)
        return
    if refusal := services.admission.slots.why_refused(seat, stepped=stepped):
        await _deny(websocket, 400, refusal)
        return
    if stepped and not services.inbound.has_stepped_sessions:
        await _deny(websocket, 400, "a cluster has no stepped sessions: connect to a server that runs the model itself")
        return
    slots, resume = services.admission.slots, websocket.query_params.get("resume", "")
    if resume and slots.resumed_by(resume) is None and (unknown := slots.unknown()):
        # Its session may not be known yet: the client would lose it by waiting for another one.
        await _deny(websocket, 503, unknown)
        return
    await websocket.accept(subprotocol)
    address = websocket.client.host if websocket.client is not None else "unknown"
    watches = websocket.query_params.get("watch") == "1"
    by_gate = websocket.scope["state"]
    ids = by_gate.get("ids", {})
    client = Client(
        role,
        address,
        services.admission.settings.client_options,
        watches=watches,
        follows_redirects=websocket.query_params.get("redirect") == "1",
        id=ids.get("client", ""),
        used_s=by_gate.get("used_s", 0.0),
        stepped=stepped,
        room=room,
        seat=seat,
        slot=by_gate.get("slot", 0),
        waits=by_gate.get("waits", False),
    )
    client.ids.update(ids)
    resume = websocket.query_params.get("resume", "") if role is Role.CONTROLLER else ""
    query = websocket.query_params
    returning = return_secret(websocket.scope["subprotocols"])
    services.admission.attach(client, resume, query.get("session", "") or room, returning=returning)
    receiver = ClientReceiver(client, services)
    protocol = serving(websocket.scope, SocketProtocol)
    if protocol is None:
        await _serve_elsewhere(websocket, client, services, receiver)
        return
    protocol.serve(receiver)
    duties = _disconnected(websocket), _send(websocket, protocol, client, services)
    await serve_client(client, services, *duties, is_lost=lambda: _is_lost(client, protocol.left_for_good))
    await _close_given_up(websocket, client)


async def _deny(websocket: WebSocket, status_code: int, message: str) -> None:
    """Refuse a handshake, with a reason where the server can send one."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(PlainTextResponse(f"{message}\n", status_code=status_code))
    else:
        await websocket.close()


async def _serve_elsewhere(
    websocket: WebSocket, client: Client, services: Services[S], receiver: ClientReceiver[S]
) -> None:
    """Serve a client whose connection another server has."""
    sender = socket_sender(websocket)
    left_for_good = False

    async def receive() -> None:
        nonlocal left_for_good
        try:
            left_for_good = await receive_messages(websocket, receiver)
        except Violation as violation:
            left_for_good = True
            await websocket.close(violation.code, violation.message)

    duties = receive(), sender.run(), _send(websocket, sender, client, services)
    await serve_client(client, services, *duties, is_lost=lambda: _is_lost(client, left_for_good))
    await _close_given_up(websocket, client)


async def serve_client(
    client: Client,
    services: Services[S],
    *duties: Coroutine[Any, Any, None],
    is_lost: Callable[[], bool] = lambda: False,
) -> None:
    """Serve an attached client until the first of the duties ends, then detach it.

    `is_lost` is called at the end: whether the connection broke, so that the client may resume its session.
    """
    services.clients.add(client)
    tasks = [asyncio.create_task(duty) for duty in (*duties, _given_up(client))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        services.admission.detach(client, lost=is_lost())
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                logger.error("a client's socket failed id=%s", client.id, exc_info=result, extra=client.ids)
        services.clients.discard(client)
        client.gone.set()
        logger.info("client gone id=%s from=%s", client.id, client.address, extra=client.log_fields)


async def _close_given_up(websocket: WebSocket, client: Client) -> None:
    """Send a client that was given up the reason, in case it reads again; what was queued is not sent."""
    if client.given_up.is_set() and websocket.application_state is WebSocketState.CONNECTED:
        assert client.closing is not None, "it is closed when it is given up"
        with contextlib.suppress(WebSocketDisconnect):
            await websocket.close(client.closing.code, client.closing.reason)


def _is_lost(client: Client, left_for_good: bool) -> bool:
    """Return whether a connection broke, or was given up, rather than closed by either side."""
    if client.closing is not None and not client.given_up.is_set():
        return False
    return not left_for_good


async def _given_up(client: Client) -> None:
    await client.given_up.wait()


def _role(value: str) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown role {value[:40]!r}: controller or viewer") from None


def _is_stepped(value: str) -> bool:
    if value not in (REALTIME, STEPPED):
        raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown generation {value[:40]!r}: {REALTIME} or {STEPPED}")
    return value == STEPPED


def room_of(query: Mapping[str, str]) -> str:
    """Return the code of the room that a request names, "" for none; raise WireError for one that is none."""
    room = query.get("room", "").lower()
    if room and not ROOM.fullmatch(room):
        raise WireError(ErrorCode.INVALID_MESSAGE, "a room has a code of at most 32 letters, digits and hyphens")
    return room


def seat_of(query: Mapping[str, str]) -> int | None:
    """Return the seat that a request names; raise WireError for one that is no number."""
    seat = query.get("seat")
    if seat is None:
        return None
    if not SEAT.fullmatch(seat):
        raise WireError(ErrorCode.INVALID_MESSAGE, f"unknown seat {seat[:40]!r}: seats are numbered from 0")
    return int(seat)


async def _disconnected(websocket: WebSocket) -> None:
    """Wait until the client has gone."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass


async def _send(websocket: WebSocket, socket: Socket, client: Client, services: Services[S]) -> None:
    try:
        await SocketSender(client.outbox, socket, services.clock, client.on_item_sent).run()
        closing = client.closing
        assert closing is not None, "an outbox is finished by closing its connection"
        await websocket.close(closing.code, closing.reason)
    except WebSocketDisconnect:
        return


class ClientReceiver(Generic[S]):
    """Receive the messages of one client: limit them by its role, decode them, and pass them on."""

    def __init__(self, client: Client, services: Services[S]) -> None:
        self._client = client
        self._services = services
        self._rate = TokenBucket(MESSAGES_PER_S, MESSAGES_AT_ONCE)

    @property
    def share(self) -> float:
        """Return the seconds of each second that may be spent on what this client sends."""
        return CONTROLLER_SHARE if self._services.inbound.may_send(self._client) else VIEWER_PER_S

    def allowance(self, *, is_text: bool) -> Allowance:
        """Return the limits by role and kind; a controller without a session may send, but nothing large is kept."""
        if self._services.inbound.may_send(self._client):
            return TEXT if is_text else MEDIA
        if self._client.role is Role.VIEWER:
            return OF_VIEWER if is_text else NO_MEDIA
        return TEXT_OF_WAITING if is_text else MEDIA_OF_WAITING

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:
        """Pass a message on; return for how long to pause reading, 0 for a client within its rate."""
        client = self._client
        client.metrics.received(size, is_text=is_text)
        most = TEXT_BYTES_A_MESSAGE if is_text else MEDIA_BYTES_A_MESSAGE
        if not self._rate.take(client.clock.now(), 1 + size // most):
            self._refuse_rate(message if is_text else None)
            return 1 / MESSAGES_PER_S
        if message is None:
            self._services.inbound.refuse_dropped(client)
        elif client.upstream is not None and self._is_passed_on(message, is_text=is_text):
            if is_text and (ack := decode_ack(message)) is not None:
                client.outbox.acknowledge(ack.track, ack.seq, ack.held_ms / 1e3)
            client.upstream.pass_on(message, is_text=is_text)
        elif is_text:
            self._receive_text(message)
        else:
            self._services.inbound.route_media(client, message)
        return 0.0

    def _is_passed_on(self, message: bytes, *, is_text: bool) -> bool:
        """Return whether to pass a message on; of a client that watches while it waits, only what a viewer may send."""
        if self._client.role is Role.VIEWER or self._services.inbound.controls(self._client):
            return True
        try:
            return is_text and isinstance(decode_text(message.decode()), Ack | KeyRequest | Ping | View)
        except (WireError, UnicodeDecodeError):
            return False

    def _receive_text(self, text: bytes) -> None:
        client = self._client
        ack = decode_ack(text)
        if ack is not None:
            client.metrics.traffic.received_messages.add("ack")
            client.outbox.acknowledge(ack.track, ack.seq, ack.held_ms / 1e3)
            return
        if len(text) > TEXT_BYTES_A_MESSAGE and _values(text) > MOST_VALUES:
            client.metrics.traffic.received_messages.add("invalid")
            client.send_error(ErrorCode.INVALID_JSON, f"a message may hold {MOST_VALUES} values, 64 deep")
            return
        try:
            decoded = text.decode()
        except UnicodeDecodeError:
            raise Violation(INVALID_DATA, "a text message is UTF-8") from None
        try:
            message = decode_text(decoded)
        except WireError as error:
            client.metrics.traffic.received_messages.add("invalid")
            client.send_error(error.code, error.message, message_id=error.id)
            return
        client.metrics.traffic.received_messages.add(type(message).__name__.lower())
        self._pass_on(message)

    def _pass_on(self, message: ClientMessage) -> None:
        client, services = self._client, self._services
        match message:
            case Event():
                services.inbound.route_event(client, message)
            case Step():
                services.inbound.route_step(client, message)
            case Ack():
                client.outbox.acknowledge(message.track, message.seq, message.held_ms / 1e3)
            case Here():
                services.inbound.record_activity(client)
            case Ping():
                client.send_message("reactor.pong", {"t": message.t, "server_us": time.time_ns() // 1000})
            case KeyRequest():
                client.outbox.request_key(message.track)
            case Keep():
                self._act_for_author(
                    message, "keeps no sessions", lambda: services.inbound.keep_recording(client, message)
                )
            case Reload():
                self._act_for_author(message, "does not reload", services.reload)
            case View():
                services.admission.assignment.set_view(client, message.among(services.admission.slots.tracks))

    def _act_for_author(self, request: Keep | Reload, lacks: str, act: Callable[[], None]) -> None:
        """Act on the request of a controller that may read error messages, with `--reload`; else answer with an error.

        `lacks` completes the message of a server without `--reload`.
        """
        client, services = self._client, self._services
        options = services.admission.settings.options
        if options.reload is None:
            message = f"the server {lacks}: start it with --reload"
            client.send_error(ErrorCode.INVALID_MESSAGE, message, message_id=request.id)
        elif not services.inbound.controls(client) or not options.exposes_errors:
            message = "only the controller may do this, on a server that only its own machine reaches, or with --dev"
            client.send_error(ErrorCode.NOT_CONTROLLER, message, message_id=request.id)
        else:
            act()

    def _refuse_rate(self, text: bytes | None) -> None:
        """Answer a message above the rate, with its id where that is cheap to read."""
        message_id = None
        if text is not None and len(text) <= TEXT_BYTES_A_MESSAGE:
            with contextlib.suppress(WireError, UnicodeDecodeError):
                message = decode_text(text.decode())
                message_id = message.id if isinstance(message, Event | Keep | Reload | Step) else None
        why = f"more than {MESSAGES_PER_S:.0f} messages a second"
        self._client.send_error(ErrorCode.RATE_LIMITED, f"{why}: this one changed nothing", message_id=message_id)
        if self._rate.over_s >= OVER_S:
            self._client.close(CloseCode.RATE_LIMITED, f"{why} for {OVER_S:.0f} s")


def _values(text: bytes) -> int:
    """Estimate the number of values in a JSON text, each of which takes as long to decode as 20 letters or more.

    Commas and brackets in strings count as well, which makes this a hundred times as fast as decoding.
    """
    return sum(map(text.count, (b",", b"[", b"{")))
