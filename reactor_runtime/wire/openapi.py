"""A model's interface as an OpenAPI 3.1 document: the HTTP routes, and every text message as a component.

OpenAPI has no WebSockets: `GET /ws` is described as a request with the response 101, followed by messages. The
extension `x-reactor` lists the tracks, the encodings of video and the messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reactor_runtime.wire import schemas
from reactor_runtime.wire.codec import LOWEST_FPS
from reactor_runtime.wire.json_schema import STRING, Schema, record, ref
from reactor_runtime.wire.protocol import LONGEST_NAME, MAX_UPLOAD_BYTES, SUBPROTOCOL

ABOUT = """\
A real-time video model. `GET /ws` becomes a WebSocket: its text messages are JSON, each binary one is a whole JPEG or
WAV file, or an NPY for a client that asks for raw frames. `ClientMessage` lists the messages of clients,
`ServerMessage` those of the server; a client must ignore messages of unknown types."""

LOCAL_SERVER = "http://127.0.0.1:8080"
TOKEN_SCHEMES: Mapping[str, Any] = MappingProxyType(
    {
        "bearer": {"type": "http", "scheme": "bearer", "description": "The token of `reactor run --token`"},
        "header": {"type": "apiKey", "in": "header", "name": "X-Reactor-Token", "description": "The same token"},
        "query": {"type": "apiKey", "in": "query", "name": "token", "description": "The same token"},
    }
)
REQUIRED_TOKEN: list[dict[str, list[str]]] = [{scheme: []} for scheme in TOKEN_SCHEMES]
OPTIONAL_TOKEN: list[dict[str, list[str]]] = [{}, *REQUIRED_TOKEN]
WITHOUT_TOKEN = ("/health", "/live", "/ready")
NO_CONTROL_CHARACTERS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
FILE: Schema = {"type": "string", "format": "binary"}
TEXT: Mapping[str, Any] = MappingProxyType({"text/plain": {"schema": STRING}})

SESSION: Mapping[str, Any] = MappingProxyType(
    {
        "name": "session",
        "in": "query",
        "description": "The session to watch, if several run; the longest running one by default",
        "schema": {"type": "string"},
    }
)


def document(
    name: str,
    version: str,
    contract: Mapping[str, Any],
    *,
    server_url: str = LOCAL_SERVER,
    token_required: bool = False,
    encodings: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Describe the model called `name`; `contract` is the JSON form of a Contract.

    `server_url` may be relative to the document's address. Without `token_required` a token is optional. A server names
    its `encodings` of video.
    """
    events, messages = contract["schema"]["events"], contract["schema"]["messages"]
    event_names, message_names = _components("Event", events), _components("Message", messages)
    from_client = schemas.from_client()
    from_server = schemas.from_server(replies=list(message_names.values()))
    components = {
        "ClientMessage": _one_of({**event_names, **{kind: kind for kind in from_client}}),
        "ServerMessage": _one_of({**message_names, **{kind: kind for kind in from_server}}),
        **{event_names[event]: _event(event, spec, message_names) for event, spec in events.items()},
        **{message_names[kind]: _message(kind, spec) for kind, spec in messages.items()},
        "State": _state(contract["schema"]),
        **from_client,
        **from_server,
        "Track": schemas.track(),
        "Health": schemas.health(),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": version, "description": ABOUT},
        "servers": [{"url": server_url}],
        "security": REQUIRED_TOKEN if token_required else OPTIONAL_TOKEN,
        "paths": _paths(contract["tracks"]),
        "components": {"schemas": components, "securitySchemes": dict(TOKEN_SCHEMES)},
        "x-reactor": {
            "protocol": SUBPROTOCOL,
            "tracks": contract["tracks"],
            **({} if encodings is None else {"encodings": list(encodings)}),
            "messages": {"to_server": ref("ClientMessage"), "to_client": ref("ServerMessage")},
        },
    }


def _components(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Map each name to a unique component name; OpenAPI allows fewer characters than names may have."""
    chosen: dict[str, str] = {}
    for name in names:
        wanted = component = f"{prefix}.{re.sub(r'[^A-Za-z0-9._-]', '-', name)}"
        number = 1
        while component in chosen.values():
            number += 1
            component = f"{wanted}-{number}"
        chosen[name] = component
    return chosen


def _one_of(components: Mapping[str, str]) -> Schema:
    """Describe any of the messages, with `type` as the discriminator."""
    mapping = {kind: ref(component)["$ref"] for kind, component in components.items()}
    return {
        "oneOf": [ref(component) for component in components.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _event(name: str, spec: Mapping[str, Any], message_names: Mapping[str, str]) -> Schema:
    schema = schemas.client_message(name, spec["parameters"], spec["description"])
    field = {} if spec["field"] is None else {"x-reactor-field": spec["field"]}
    return {**schema, **field, **_replies(spec.get("replies"), message_names)}


def _replies(replies: Iterable[str | None] | None, message_names: Mapping[str, str]) -> Schema:
    """Return the possible `message`s of an event's reply if the model declares them; null stands for none."""
    if replies is None:
        return {}
    return {"x-reactor-replies": [{"type": "null"} if each is None else ref(message_names[each]) for each in replies]}


def _message(kind: str, spec: Mapping[str, Any]) -> Schema:
    return schemas.message(kind, spec["data"], spec["description"])


def _state(schema: Mapping[str, Any]) -> Schema:
    """Describe the public state with the schemas of the events that set its fields, and those of the read-only ones."""
    fields = {
        spec["field"]: spec["parameters"]["properties"].get(spec["field"], {})
        for spec in schema["events"].values()
        if spec["field"]
    }
    return record({}, {**fields, **schema.get("state", {})}, description="Fields of the model's public state.")


def _paths(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    described = {
        "/": _get("page", "The page that shows the model", {"200": _answer("The page", _content("text/html", STRING))}),
        "/docs": _docs(),
        "/health": _health(),
        "/live": _get("live", "Liveness", {"200": _answer("The process answers", TEXT)}),
        "/metrics": _get("metrics", "Metrics for Prometheus", {"200": _answer("The text format of Prometheus", TEXT)}),
        "/ready": _ready(),
        "/schema": _schema(),
        "/snapshot/{track}.jpg": _snapshot(tracks),
        "/stream/{track}.mjpg": _stream(tracks),
        "/ws": _socket(tracks),
    }
    described["/live"] = {**described["/live"], "security": []}
    refused = {path: {**get, "responses": {**get["responses"], **_refusals(path)}} for path, get in described.items()}
    return {**{path: {"get": get} for path, get in refused.items()}, "/uploads": {"post": _upload()}}


def event_paths(contract: Mapping[str, Any]) -> dict[str, Any]:
    """Describe each event as an operation `/events/<name>`, whose body is its data; the wire is a WebSocket."""
    taken = {each["operationId"] for path in _paths(()).values() for each in path.values()}
    names = {name: f"{name}_event" if name in taken else name for name in contract["schema"]["events"]}
    events = contract["schema"]["events"]
    return {f"/events/{name}": {"post": _operation(names[name], spec)} for name, spec in events.items()}


def webhooks(contract: Mapping[str, Any]) -> dict[str, Any]:
    """Describe each message of the model as a webhook, whose body is its data."""
    return {
        kind: {"post": _posted(spec["description"], spec["data"])}
        for kind, spec in contract["schema"]["messages"].items()
    }


def _operation(name: str, spec: Mapping[str, Any]) -> Schema:
    return {"operationId": name, **_posted(spec["description"], spec["parameters"])}


def _posted(description: str, schema: Schema) -> Schema:
    body = {"required": True, "content": _content("application/json", schema)}
    return {"description": description, "requestBody": body, "responses": {"200": {"description": "Applied"}}}


def _refusals(path: str) -> dict[str, Any]:
    """Return the error responses that a route gives before it reads the request."""
    wrong_host = {"421": _answer("The request is for a host name that is not this server's", TEXT)}
    no_token = {"401": _answer("The server requires a token, and the request has none or a wrong one", TEXT)}
    too_many = {"429": _answer("Too many connections from this address", TEXT)}
    return {
        **(no_token if path not in WITHOUT_TOKEN else {}),
        **(wrong_host if path != "/live" else {}),
        **too_many,
    }


def _health() -> dict[str, Any]:
    health = _content("application/json", ref("Health"))
    answers = {"200": _answer("Ready or busy", health), "503": _answer("Loading, stopping or failed", health)}
    return {**_get("health", "The status of the server", answers), "security": OPTIONAL_TOKEN}


def _ready() -> dict[str, Any]:
    answers = {
        "200": _answer("A new controller gets a slot or waits in the queue", TEXT),
        "503": _answer("A new controller is refused; the body is the reason in one word", TEXT),
    }
    return {**_get("ready", "Whether the server accepts a new controller", answers), "security": []}


def _schema() -> dict[str, Any]:
    answers = {
        "200": _answer("OpenAPI 3.1", _content("application/json", {"type": "object"})),
        "503": _answer("The model isn't known yet", TEXT),
    }
    return _get("schema", "This document", answers)


def _docs() -> dict[str, Any]:
    answers = {
        "200": _answer("The page", _content("text/html", STRING)),
        "503": _answer("The model isn't known yet", TEXT),
    }
    return _get("docs", "The model's events, messages and tracks as a page, with lines to paste", answers)


def _upload() -> dict[str, Any]:
    """Describe the upload of a file; events refer to it by the id in the response."""
    upload_id = record({"upload": {"type": "string"}})
    answers = {
        "201": _answer("The value to send in an event", _content("application/json", upload_id)),
        "400": _answer("The name is invalid, or the connection ended too soon", TEXT),
        "403": _answer("No session has this key, or the request comes from a page of another site", TEXT),
        "408": _answer("The upload stalled", TEXT),
        "410": _answer("The session is over", TEXT),
        "413": _answer("The file is too large", TEXT),
        "415": _answer("The body is a form, not the file itself", TEXT),
        **_refusals("/uploads"),
        "429": _answer("Too many files at once, or too many connections from this address", TEXT),
        "507": _answer("There is no room for the file", TEXT),
    }
    key = {
        "name": "key",
        "in": "query",
        "required": True,
        "description": "The `upload_key` of `reactor.welcome`",
        "schema": STRING,
    }
    name = {
        "name": "name",
        "in": "query",
        "description": "The file's name, without control characters",
        "schema": {"type": "string", "maxLength": LONGEST_NAME, "pattern": NO_CONTROL_CHARACTERS},
    }
    body = {
        "required": True,
        "description": f"The file itself, of any media type but a form, {MAX_UPLOAD_BYTES >> 20} MiB at most",
        "content": _content("application/octet-stream", FILE),
    }
    upload = _get("upload", "Upload a file that an event of this session may refer to", answers)
    return {**upload, "parameters": [key, name], "requestBody": body}


def _snapshot(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    answers = {
        "200": _answer("A JPEG file", _content("image/jpeg", FILE)),
        "404": _answer("Nothing has been shown yet, or there is no such track or session", TEXT),
        "503": _answer("The model isn't known yet", TEXT),
    }
    parameters = [_video_track(tracks), dict(SESSION)]
    return {**_get("snapshot", "The latest frame of a track", answers), "parameters": parameters}


def _stream(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    files = _content("multipart/x-mixed-replace", FILE)
    answers = {
        "200": _answer("JPEG files, each in a part of its own, until the server stops", files),
        "400": _answer("`fps` is not a valid rate", TEXT),
        "404": _answer("There is no such track or session", TEXT),
        "503": _answer("The limit of viewers is reached, or the model isn't known yet", TEXT),
    }
    fps = {
        "name": "fps",
        "in": "query",
        "description": "The maximum of frames a second",
        "schema": {"type": "number", "minimum": LOWEST_FPS},
    }
    return {**_get("stream", "Watch one track", answers), "parameters": [_video_track(tracks), fps, dict(SESSION)]}


def _video_track(tracks: Iterable[Mapping[str, Any]]) -> Schema:
    names = [track["name"] for track in tracks if (track["direction"], track["kind"]) == ("out", "video")]
    schema = {"type": "string", "enum": names} if names else {"type": "string"}
    return {"name": "track", "in": "path", "required": True, "schema": schema}


def _socket(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the WebSocket as a request and its response."""
    files = {"video": "image/jpeg", "audio": "audio/wav"}
    media = [(track["direction"], files[track["kind"]]) for track in tracks]
    streams: dict[str, Any] = {media_type: {"schema": FILE} for direction, media_type in media if direction == "out"}
    taken = sorted({media_type for direction, media_type in media if direction == "in"})
    messages = _content("application/json", ref("ServerMessage"))
    answers = {
        "101": _answer("A WebSocket, over which the server sends messages", {**messages, **streams}),
        "400": _answer("Unknown role, or only unknown subprotocols", TEXT),
        "403": _answer("The request comes from a page of another site", TEXT),
        "426": _answer("The request is not a WebSocket handshake", TEXT),
    }
    text = "Send `ClientMessage` as text messages; each message of the server is one of the contents of 101."
    if taken:
        text += f" Send media for the model's input tracks as binary messages: {', '.join(taken)}."
    socket = _get("connect", "Control the model, or watch", answers)
    return {**socket, "description": text, "parameters": _socket_parameters()}


def _socket_parameters() -> list[Schema]:
    role = {
        "name": "role",
        "in": "query",
        "description": "A controller drives the model when it gets a slot; viewers watch",
        "schema": {"type": "string", "enum": ["controller", "viewer"], "default": "controller"},
    }
    watch = {
        "name": "watch",
        "in": "query",
        "description": "1: watch the sessions of others while waiting in the queue",
        "schema": {"type": "string", "enum": ["1"]},
    }
    resume = {
        "name": "resume",
        "in": "query",
        "description": "The `resume` of `reactor.welcome`, to resume a session after a lost connection",
        "schema": {"type": "string"},
    }
    subprotocol = {
        "name": "Sec-WebSocket-Protocol",
        "in": "header",
        "description": f"{SUBPROTOCOL}, or absent; a request that offers only others gets 400",
        "schema": {"type": "string", "examples": [SUBPROTOCOL]},
    }
    return [role, watch, dict(SESSION), resume, subprotocol]


def _get(operation: str, summary: str, responses: Schema) -> dict[str, Any]:
    return {"operationId": operation, "summary": summary, "responses": responses}


def _answer(description: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": dict(content)}


def _content(media_type: str, schema: Schema) -> dict[str, Any]:
    return {media_type: {"schema": schema}}
