"""A server that speaks reactor.v1 to the page and does on command what a real one does only when things go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import mimetypes
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import simplejpeg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from reactor_runtime.server.routes.pages import qr_svg
from reactor_runtime.wire.containers import detach
from reactor_runtime.wire.reload import ReloadMessage
from reactor_runtime.wire.welcome import WelcomeMessage
from tests.server.running import reserved_port
from tests.timeouts import TIMEOUT_S

from .fake_sound import chord, piece
from .schemas import SCHEMA, defaults

PAGE = Path(__file__).parents[2] / "reactor_runtime" / "page"
CSP = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self' ws: wss:; "
    "style-src 'self'; script-src 'self'; base-uri 'none'; frame-ancestors 'self'"
)
# Each frame costs the browser ten milliseconds of CPU, in every test of a page.
FPS = 10
# The frames of three seconds are drawn once for all tests.
PERIOD = 30
RESUME_GRACE_S = 300.0


@dataclass
class Script:
    """What the next connections meet; a test sets it from its own thread."""

    model: str = "aurora"
    session: str | None = "s-1a2b"
    events: dict[str, Any] = field(default_factory=lambda: dict(SCHEMA))
    messages: dict[str, Any] = field(default_factory=dict)
    read_only: dict[str, Any] = field(default_factory=dict)  # field → JSON Schema with a default
    tracks: tuple[str, ...] = ("main_video",)
    size: tuple[int, int] = (480, 640)
    sounds: dict[str, int] = field(default_factory=dict)  # name → sample rate
    inputs: dict[str, int | None] = field(default_factory=dict)  # name → sample rate, None for pictures
    loading: tuple[str, ...] = ()
    loading_s: float = 0.5
    progress: float | None = None
    held_loading: bool = False
    shared: bool = False
    failed: str = ""
    refuse: int = 0
    role: str = ""
    seats: int = 1
    resume: str | None = None
    reply_delay_s: float = 0.0
    too_often: int = 0  # so many events are refused
    media_delay_s: float = 0.0  # what reading a picture or a piece of sound takes
    frames: bool = True
    html: str = ""  # in place of index.html
    skip_every: int = 0
    reload: ReloadMessage | None = None
    encodings: tuple[str, ...] = ("jpeg",)


@dataclass(frozen=True, slots=True)
class Received:
    type: str
    data: dict[str, Any]
    id: str | int | None


class Announced(uvicorn.Server):
    """Tell when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[uvicorn.Server], None]) -> None:
        super().__init__(config)
        self._announce = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce(self)


class FakeServer:
    """Serve the page, or a `bundle` of it, on a free port from a thread; use as a context manager."""

    def __init__(self, bundle: Path | None = None) -> None:
        self._begin()
        if bundle is not None:
            self.serve_bundle(bundle)
        self.url = ""
        self._sockets: set[WebSocket] = set()
        self._handlers: set[asyncio.Task[Any]] = set()
        self.changed = threading.Condition()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        # Keeps the port between a stop and the next start.
        self._reserved = contextlib.ExitStack()
        self._port = 0

    def _begin(self) -> None:
        self.script = Script()
        self._files = read_page()
        self.received: list[Received] = []
        self.published: list[tuple[str, bytes]] = []  # track and file
        self.queries: list[dict[str, str]] = []
        self.state: dict[str, Any] = {}
        # The `seq` of the next frame.
        self._seq = 0
        # Of events, the ones before that the state has too.
        self._numbers = itertools.count(1)
        self._applied = 0

    def serve_bundle(self, bundle: Path) -> None:
        """Serve the files of a bundle until `reset`, in place of those that it replaces."""
        self._files = {**read_page(), **read_files(bundle)}

    def reset(self) -> None:
        """Close what is left of clients, and go on as a server that has just started."""

        async def end() -> None:
            for client in list(self._sockets):
                # It may be closing.
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await client.close()
            await asyncio.gather(*self._handlers)

        if self._server is None:
            self.start()
        self._run(end())
        self._begin()

    def __enter__(self) -> Self:
        self._port = self._reserved.enter_context(reserved_port())
        self.url = f"http://127.0.0.1:{self._port}/"
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        self._reserved.close()

    def start(self) -> None:
        """Listen; after a stop() on the same port as before."""
        self._ready.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S), "the fake server did not start"

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(TIMEOUT_S)
        self._server = self._thread = None

    def release(self) -> None:
        """Let a held loading phase end."""
        self.script.held_loading = False
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._released.set)

    def change_contract(self, **changes: Any) -> None:
        """Reload the model with other members of the script; the values of fields that stay are kept."""

        async def change() -> None:
            # On the loop where events change the state too.
            self.script = replace(self.script, **changes)
            fields = self._defaults()
            self.state = {name: self.state.get(name, value) for name, value in fields.items()}
            for client in list(self._sockets):
                await send(client, "reactor.contract", **self._contract())
                await send(client, "reactor.state", **self.state)

        self._run(change())

    def report_reload(self, reload: ReloadMessage) -> None:
        self.script.reload = reload
        self.broadcast("reactor.reload", **reload)

    def crash(self, message: str) -> None:
        """End the session as a model does that died."""
        self.broadcast("reactor.error", code="model_error", message=message)
        self.broadcast("reactor.session", phase="ended", reason="model_died", message=message)
        self.close(1011)

    def close(self, code: int) -> None:
        async def close(client: WebSocket) -> None:
            await client.close(code)

        self._for_each(close)

    def broadcast(self, kind: str, **data: Any) -> None:
        self.send_raw(json.dumps({"type": kind, "data": data}))

    def send_raw(self, payload: str | bytes) -> None:
        async def send(client: WebSocket) -> None:
            await (client.send_text(payload) if isinstance(payload, str) else client.send_bytes(payload))

        self._for_each(send)

    def wait_for(
        self, kind: str, check: Callable[[dict[str, Any]], bool] = lambda _: True, *, count: int = 1
    ) -> dict[str, Any]:
        """Return the data of the first message of this type that passes the check, waiting for `count` of them."""

        def found() -> list[dict[str, Any]]:
            return [message.data for message in self.received if message.type == kind and check(message.data)]

        with self.changed:
            came = self.changed.wait_for(lambda: len(found()) >= count, TIMEOUT_S)
            assert came, f"no such {kind}; received {self.received[-5:]}"
            return found()[0]

    def wait_for_frames(self, count: int = 1) -> None:
        """Wait until the page acknowledges so many frames that are sent after all answers up to now."""
        with self.changed:
            start, seq = len(self.received), self._seq

            def acknowledged() -> bool:
                acks = [each.data["seq"] for each in self.received[start:] if each.type == "reactor.ack"]
                return len([acked for acked in acks if acked >= seq]) >= count

            came = self.changed.wait_for(acknowledged, TIMEOUT_S)
            assert came, f"no {count} frames from {seq} on; received {self.received[-5:]}"

    def wait_for_media(self, track: str, count: int = 1) -> list[bytes]:
        """Return the next so many files for this track, waiting for them."""
        with self.changed:
            start = len(self.published)

            def found() -> list[bytes]:
                return [file for name, file in self.published[start:] if name == track]

            assert self.changed.wait_for(lambda: len(found()) >= count, TIMEOUT_S), f"no {count} files for {track}"
            return found()

    def _for_each(self, action: Callable[[WebSocket], Awaitable[None]]) -> None:
        async def run() -> None:
            for client in list(self._sockets):
                await action(client)

        self._run(run())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run on the loop of the server, and wait for its end."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._released = asyncio.Event()
        config = uvicorn.Config(
            self._app(),
            log_config=None,
            port=self._port,
            lifespan="off",
            log_level="error",
            ws="websockets-sansio",
            ws_per_message_deflate=False,
        )
        self._server = Announced(config, self._started)
        await self._server.serve()
        for connection in self._server.server_state.connections:  # such as that of a page that was loading a module
            connection.transport.abort()
        await asyncio.sleep(0)

    def _started(self, _server: uvicorn.Server) -> None:
        self._ready.set()

    def _app(self) -> ASGIApp:
        async def index(_: Request) -> Response:
            page = self.script.html or self._files["index.html"]
            return Response(page, media_type="text/html", headers={"Content-Security-Policy": CSP})

        async def icon(_: Request) -> Response:
            # A whole Chromium asks for it where a page names none.
            return Response(status_code=204)

        async def static(request: Request) -> Response:
            name: str = request.path_params["name"]
            content = self._files.get(name)
            if content is None:
                return Response(status_code=404)
            headers = {"Cache-Control": "max-age=3600"}
            return Response(content, media_type=mimetypes.guess_type(name)[0], headers=headers)

        async def qr(request: Request) -> Response:
            return Response(qr_svg(request.query_params["text"]), media_type="image/svg+xml")

        async def health(_: Request) -> Response:
            return JSONResponse({"status": "ready"})

        return Starlette(
            routes=[
                Route("/", index),
                Route("/favicon.ico", icon),
                Route("/qr.svg", qr),
                Route("/health", health),
                WebSocketRoute("/ws", self._socket),
                Route("/static/{name:path}", static),
            ]
        )

    async def _socket(self, client: WebSocket) -> None:
        self.queries.append(dict(client.query_params))
        await client.accept("reactor.v1" if "reactor.v1" in client.scope["subprotocols"] else None)
        if self.script.refuse:
            await client.close(self.script.refuse)
            return
        self._sockets.add(client)
        handler = asyncio.current_task()
        assert handler is not None, "each socket has a task"
        self._handlers.add(handler)
        tasks = [asyncio.create_task(work) for work in self._both_ways(client)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not isinstance(task.exception(), WebSocketDisconnect | RuntimeError | None):
                    task.result()
        finally:
            self._sockets.discard(client)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._handlers.discard(handler)

    def _both_ways(self, client: WebSocket) -> list[Coroutine[Any, Any, None]]:
        return [self._session(client), self._read(client)]

    async def _session(self, client: WebSocket) -> None:
        script = self.script
        if script.failed:
            await send(client, "reactor.session", phase="failed", message=script.failed)
            await asyncio.Event().wait()
        await self._load(client)
        self.state = self._defaults()
        self._applied = 0
        await send(client, "reactor.welcome", **self._welcome(client))
        await self._frames(client)

    async def _load(self, client: WebSocket) -> None:
        started = time.monotonic()
        for line in self.script.loading:
            elapsed_s = time.monotonic() - started
            await send(
                client,
                "reactor.session",
                phase="loading",
                model=self.script.model,
                detail=line,
                progress=self.script.progress,
                elapsed_s=elapsed_s,
            )
            await asyncio.sleep(self.script.loading_s)
        if self.script.held_loading:
            self._released.clear()
            await self._released.wait()

    def _welcome(self, client: WebSocket) -> WelcomeMessage:
        return {
            "protocol": "reactor.v1",
            "session": self.script.session,
            "client": "c-1",
            "role": self.script.role or client.query_params.get("role", "controller"),
            "seat": 0,
            "seats": self.script.seats,
            "room": None,
            "model": self.script.model,
            "resume": self.script.resume,
            "upload_key": None,
            "generation": "realtime",
            "environment": {},
            "shared": self.script.shared,
            "tracks": self._contract()["tracks"],
            "schema": self._contract()["schema"],
            "state": self.state,
            "encodings": list(self.script.encodings),
            "limits": {
                "max_text_bytes": 262144,
                "max_media_bytes": 16777216,
                "max_upload_bytes": 268435456,
                "max_session_s": None,
                "idle_timeout_s": None,
                "resume_grace_s": RESUME_GRACE_S if self.script.resume else None,
            },
            "reload": self.script.reload,
        }

    def _defaults(self) -> dict[str, Any]:
        read_only = {name: schema["default"] for name, schema in self.script.read_only.items()}
        return {**defaults(self.script.events), **read_only}

    def _contract(self) -> dict[str, Any]:
        tracks = [
            *({"name": name, "kind": "video", "direction": "out"} for name in self.script.tracks),
            *(
                {"name": name, "kind": "audio", "direction": "out", "sample_rate": rate}
                for name, rate in self.script.sounds.items()
            ),
            *map(describe_input, self.script.inputs.items()),
        ]
        schema = {"events": self.script.events, "messages": self.script.messages}
        read_only = {"state": self.script.read_only} if self.script.read_only else {}
        return {"tracks": tracks, "schema": {**schema, **read_only}}

    async def _frames(self, client: WebSocket) -> None:
        seq, started = 0, time.monotonic()
        while True:
            elapsed_s = time.monotonic() - started
            self._seq = seq + 1
            if self.script.frames and not (self.script.skip_every and seq % self.script.skip_every == 0):
                for index, track in enumerate(self.script.tracks):
                    step = int((elapsed_s + index) * FPS) % PERIOD
                    jpeg = draw(self.script.size, step, float(self.state.get("brightness", 1.0)))
                    await client.send_bytes(frame(jpeg, track, seq, elapsed_s, self._applied))
            for name, rate in self.script.sounds.items() if self.script.frames else ():
                start, end = seq * rate // FPS, (seq + 1) * rate // FPS
                await client.send_bytes(piece(name, seq, start / rate, chord(start, end, rate), rate))
            seq += 1
            await asyncio.sleep(max(0.0, started + seq / FPS - time.monotonic()))

    async def _read(self, client: WebSocket) -> None:
        while True:
            came = await client.receive()
            if came["type"] == "websocket.disconnect":
                return
            if came.get("bytes") is not None:
                await asyncio.sleep(self.script.media_delay_s)
                self._take(came["bytes"])
                continue
            message = json.loads(came["text"])
            received = Received(message["type"], message.get("data", {}), message.get("id"))
            with self.changed:
                self.received.append(received)
                self.changed.notify_all()
            if received.type == "reactor.ping":
                await send(client, "reactor.pong", t=received.data["t"], server_us=time.time_ns() // 1000)
            elif not received.type.startswith("reactor."):
                await asyncio.sleep(self.script.reply_delay_s)
                await self._apply(client, received)

    def _take(self, message: bytes) -> None:
        header, file = detach(message)
        assert header is not None
        with self.changed:
            self.published.append((header.track, file))
            self.changed.notify_all()

    async def _apply(self, client: WebSocket, event: Received) -> None:
        if self.script.too_often > 0:
            self.script.too_often -= 1
            await send(client, "reactor.error", event.id, code="rate_limited", message="too often", event=event.type)
            return
        faults = list(check(self.script.events[event.type], event))
        if faults:
            message = "; ".join(f"{fault['path']}: {fault['message']}" for fault in faults)
            await send(
                client,
                "reactor.error",
                event.id,
                code="invalid_event",
                message=message,
                fields=faults,
                event=event.type,
            )
            return
        spec = self.script.events[event.type]
        number = next(self._numbers)
        reply: dict[str, Any] = {"n": number}
        if event.type == "save":
            reply["message"] = {"type": "saved", "data": {"path": "aurora.png", "bytes": 18231}}
        await send(client, "reactor.reply", event.id, **reply)
        if spec["field"] is not None:
            self.state[spec["field"]] = next(iter(event.data.values()))
            await send(client, "reactor.state", **{spec["field"]: self.state[spec["field"]]})
        # A page that has a frame with this number knows the state too.
        self._applied = max(self._applied, number)


@functools.cache
def read_page() -> dict[str, bytes]:
    """Read the files of the page by their paths, once for all tests: each page loads 70 of them."""
    return read_files(PAGE)


def read_files(folder: Path) -> dict[str, bytes]:
    files = filter(Path.is_file, folder.rglob("*"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def describe_input(named: tuple[str, int | None]) -> dict[str, Any]:
    """Describe an input track as reactor.welcome does."""
    name, rate = named
    if rate is None:
        return {"name": name, "kind": "video", "direction": "in"}
    return {"name": name, "kind": "audio", "direction": "in", "sample_rate": rate}


async def send(client: WebSocket, kind: str, id: str | int | None = None, /, **data: Any) -> None:
    envelope = {"type": kind, "data": data} if id is None else {"type": kind, "data": data, "id": id}
    await client.send_text(json.dumps(envelope))


def check(spec: dict[str, Any], event: Received) -> list[dict[str, str]]:
    """Check bounds and required arguments, which is all these tests need."""
    faults = []
    parameters = spec["parameters"]
    for name, schema in parameters["properties"].items():
        value = event.data.get(name)
        path = f"{event.type}.{name}"
        if name not in event.data:
            if name in parameters.get("required", ()):
                faults.append({"path": path, "message": "a value is needed"})
        elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get(
            "maximum", value
        ):
            faults.append({"path": path, "message": f"{value} is outside {schema['minimum']} to {schema['maximum']}"})
        elif isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
            faults.append({"path": path, "message": f"{len(value)} characters, at most {schema['maxLength']}"})
    return faults


@functools.lru_cache(maxsize=4 * PERIOD)
def draw(size: tuple[int, int], step: int, brightness: float) -> bytes:
    """Return a JPEG of a slow aurora; its mean follows `brightness`, which tests read off the canvas."""
    height, width = size
    t = step / FPS
    y, x = np.mgrid[0 : 1 : height // 4 * 1j, 0 : 1 : width // 4 * 1j]
    waves = [
        np.sin(6 * x + 3 * y + t * speed + phase) * 0.5 + 0.5 for speed, phase in ((0.9, 0.0), (1.3, 2.1), (0.7, 4.2))
    ]
    picture = np.stack(waves, axis=-1) * np.array([90.0, 120.0, 140.0]) * brightness
    small = np.clip(picture, 0, 255).astype(np.uint8)
    whole = np.ascontiguousarray(small.repeat(4, axis=0).repeat(4, axis=1))
    jpeg: bytes = simplejpeg.encode_jpeg(whole, quality=85, colorsubsampling="420")
    return jpeg


def frame(jpeg: bytes, track: str, seq: int, elapsed_s: float, applied: int) -> bytes:
    """Put the header of PROTOCOL.md directly after SOI."""
    name = track.encode()
    times = struct.pack(">QQ", int(elapsed_s * 1e6), time.time_ns() // 1000)
    body = b"REACTOR\0" + struct.pack(">BBI", 1, 0, seq) + times + struct.pack(">IB", applied, len(name)) + name
    return jpeg[:2] + struct.pack(">HH", 0xFFEF, len(body) + 2) + body + jpeg[2:]
