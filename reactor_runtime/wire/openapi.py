"""A model's interface as an OpenAPI 3.1 document: the HTTP routes, and every text message as a component.

OpenAPI knows no WebSocket: `GET /ws` is described as a request that is answered by 101 and, from then on, by messages.
What it has no place for stands under `x-reactor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from reactor_runtime.wire import schemas
from reactor_runtime.wire.codec import LOWEST_FPS
from reactor_runtime.wire.protocol import LONGEST_NAME, SUBPROTOCOL
from reactor_runtime.wire.schemas import Schema, record, ref

ABOUT = """\
A real-time video model. `GET /ws` becomes a WebSocket: its text messages are JSON, each binary one is a whole JPEG or
WAV file. `ClientMessage` lists what a client may say, `ServerMessage` what it is told; messages of a type that a client
does not know are to be ignored."""

SESSION: Mapping[str, Any] = MappingProxyType(
    {
        "name": "session",
        "in": "query",
        "description": "The session to be seen, where several run; the one that has run longest without",
        "schema": {"type": "string"},
    }
)


def document(name: str, version: str, contract: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the model called `name`, from what its class says; `contract` is the JSON form of a Contract."""
    events, messages = contract["schema"]["events"], contract["schema"]["messages"]
    event_names, message_names = _components("Event", events), _components("Message", messages)
    said = schemas.from_client()
    told = schemas.from_server(replies=list(message_names.values()))
    components = {
        "ClientMessage": _one_of({**event_names, **{kind: kind for kind in said}}),
        "ServerMessage": _one_of({**message_names, **{kind: kind for kind in told}}),
        **{event_names[event]: _event(event, spec) for event, spec in events.items()},
        **{message_names[kind]: _message(kind, spec) for kind, spec in messages.items()},
        "State": _state(events.values()),
        **said,
        **told,
        "Track": schemas.track(),
        "Health": schemas.health(),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": version, "description": ABOUT},
        "paths": _paths(contract["tracks"]),
        "components": {"schemas": components},
        "x-reactor": {
            "protocol": SUBPROTOCOL,
            "tracks": contract["tracks"],
            "messages": {"to_server": ref("ClientMessage"), "to_client": ref("ServerMessage")},
        },
    }


def _components(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """Choose a component's name for each; OpenAPI allows fewer characters than we do."""
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
    """Describe any one of the messages, told apart by their type."""
    mapping = {kind: ref(component)["$ref"] for kind, component in components.items()}
    return {
        "oneOf": [ref(component) for component in components.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }


def _event(name: str, spec: Mapping[str, Any]) -> Schema:
    schema = schemas.said_by_client(name, spec["parameters"], spec["description"])
    return schema if spec["field"] is None else {**schema, "x-reactor-field": spec["field"]}


def _message(kind: str, spec: Mapping[str, Any]) -> Schema:
    return schemas.message(kind, spec["data"], spec["description"])


def _state(events: Iterable[Mapping[str, Any]]) -> Schema:
    """Describe the public state, each field as the event that sets it takes it."""
    fields = {
        spec["field"]: spec["parameters"]["properties"].get(spec["field"], {}) for spec in events if spec["field"]
    }
    return record({}, fields, description="Fields of the model's public state.")


def _paths(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    health, schema = _json(ref("Health")), _json({"type": "object"})
    return {
        "/": {"get": _get("page", "The page that shows the model", {"200": _answer("The page", {"text/html": {}})})},
        "/health": {
            "get": _get(
                "health",
                "Would a client that comes now be served",
                {"200": _answer("It is ready, or busy", health), "503": _answer("It is not", health)},
            )
        },
        "/live": {"get": _get("live", "Does the process answer", {"200": _answer("It does", {"text/plain": {}})})},
        "/metrics": {
            "get": _get("metrics", "Figures for Prometheus", {"200": _answer("Its text format", {"text/plain": {}})})
        },
        "/ready": {
            "get": _get(
                "ready",
                "Would a controller that comes now be served",
                {
                    "200": _answer("It would, at once or in its turn", {"text/plain": {}}),
                    "503": _answer("It would not: the reason, in one word", {"text/plain": {}}),
                },
            )
        },
        "/schema": {
            "get": _get(
                "schema",
                "This document",
                {
                    "200": _answer("OpenAPI 3.1", schema),
                    "503": _answer("The model isn't known yet", {"text/plain": {}}),
                },
            )
        },
        "/snapshot/{track}.jpg": {"get": _snapshot(tracks)},
        "/stream/{track}.mjpg": {"get": _stream(tracks)},
        "/uploads": {"post": _upload()},
        "/ws": {"get": _socket(tracks)},
    }


def _upload() -> dict[str, Any]:
    """Describe how a file comes to the model; an event then carries what the answer says."""
    text: Schema = {"text/plain": {}}
    answers = {
        "201": _answer("What an event carries in place of the file", _json(record({"upload": {"type": "string"}}))),
        "400": _answer("The name is none, or the connection ended too soon", text),
        "403": _answer("No session has this key", text),
        "408": _answer("Nothing came for a while", text),
        "410": _answer("The session is over", text),
        "413": _answer("The file is too large", text),
        "415": _answer("A form, and not the file itself", text),
        "429": _answer("Too many files at once", text),
        "507": _answer("There is no room for the file", text),
    }
    key = {
        "name": "key",
        "in": "query",
        "required": True,
        "description": "The `upload_key` of `reactor.welcome`",
        "schema": {"type": "string"},
    }
    name = {
        "name": "name",
        "in": "query",
        "description": "The file's name, printable",
        "schema": {"type": "string", "maxLength": LONGEST_NAME},
    }
    body = {"required": True, "description": "The file itself", "content": {"*/*": {}}}
    upload = _get("upload", "Send a file for an event of this session to name", answers)
    return {**upload, "parameters": [key, name], "requestBody": body}


def _snapshot(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    answers = {
        "200": _answer("A JPEG file", {"image/jpeg": {}}),
        "404": _answer("Nothing has been shown yet, or there is no such track or session", {"text/plain": {}}),
        "503": _answer("The model isn't known yet", {"text/plain": {}}),
    }
    parameters = [_video_track(tracks), dict(SESSION)]
    return {**_get("snapshot", "The frame on screen", answers), "parameters": parameters}


def _stream(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    answers = {
        "200": _answer(
            "JPEG files, each in a part of its own, until the server stops", {"multipart/x-mixed-replace": {}}
        ),
        "400": _answer("`fps` is no rate", {"text/plain": {}}),
        "404": _answer("There is no such track or session", {"text/plain": {}}),
        "503": _answer("As many viewers as may are watching, or the model isn't known yet", {"text/plain": {}}),
    }
    fps = {
        "name": "fps",
        "in": "query",
        "description": "The most frames a second",
        "schema": {"type": "number", "minimum": LOWEST_FPS},
    }
    return {**_get("stream", "Watch one track", answers), "parameters": [_video_track(tracks), fps, dict(SESSION)]}


def _video_track(tracks: Iterable[Mapping[str, Any]]) -> Schema:
    names = [track["name"] for track in tracks if (track["direction"], track["kind"]) == ("out", "video")]
    schema = {"type": "string", "enum": names} if names else {"type": "string"}
    return {"name": "track", "in": "path", "required": True, "schema": schema}


def _socket(tracks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe the WebSocket, as far as a request and its answer can."""
    files = {"video": "image/jpeg", "audio": "audio/wav"}
    ways = [(track["direction"], files[track["kind"]]) for track in tracks]
    streams: dict[str, Any] = {media_type: {} for direction, media_type in ways if direction == "out"}
    taken = sorted({media_type for direction, media_type in ways if direction == "in"})
    role = {
        "name": "role",
        "in": "query",
        "description": "A controller has the model to itself when its turn comes; viewers watch",
        "schema": {"type": "string", "enum": ["controller", "viewer"], "default": "controller"},
    }
    token = {
        "name": "token",
        "in": "query",
        "description": "Where the server wants one; it may come as a header too, for every route",
        "schema": {"type": "string"},
    }
    watch = {
        "name": "watch",
        "in": "query",
        "description": "1: see the sessions of others while waiting in line",
        "schema": {"type": "string", "enum": ["1"]},
    }
    resume = {
        "name": "resume",
        "in": "query",
        "description": "The secret of `reactor.welcome`, of a controller that has lost its connection",
        "schema": {"type": "string"},
    }
    subprotocol = {
        "name": "Sec-WebSocket-Protocol",
        "in": "header",
        "description": f"{SUBPROTOCOL}, or none; only others: 400",
        "schema": {"type": "string", "examples": [SUBPROTOCOL]},
    }
    answers = {
        "101": _answer("A WebSocket, over which messages come", {**_json(ref("ServerMessage")), **streams}),
        "400": _answer("Unknown role, or only unknown subprotocols", {"text/plain": {}}),
        "401": _answer("No or wrong token, where one is wanted", {"text/plain": {}}),
        "403": _answer("A page of another site", {"text/plain": {}}),
    }
    text = "Send `ClientMessage` as text messages, and take each message that comes as one of the contents of 101."
    if taken:
        text += f" What goes into the model's own tracks is sent in binary messages: {', '.join(taken)}."
    socket = _get("connect", "Control the model, or watch", answers)
    return {**socket, "description": text, "parameters": [role, watch, dict(SESSION), resume, token, subprotocol]}


def _get(operation: str, summary: str, responses: Schema) -> dict[str, Any]:
    return {"operationId": operation, "summary": summary, "responses": responses}


def _answer(description: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": content}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
