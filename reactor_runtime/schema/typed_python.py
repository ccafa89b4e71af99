"""Generates a typed Python module for a model's events, messages and state, on top of `reactor_runtime.client`."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from reactor_runtime.schema.typed import (
    Records,
    Schema,
    TypeNames,
    camel,
    is_upload,
    literals,
    members,
    snake,
    state_of,
)

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_RESERVED = {
    *keyword.kwlist, *dir(builtins), "Any", "AsyncIterator", "BlockingSession", "Iterator", "Literal", "Mapping",
    "Message", "NotRequired", "Reply", "Said", "Session", "TypedDict", "cast", "dataclass",
}  # fmt: skip
_METHODS = {*keyword.kwlist, "messages", "notify", "session", "state", "__init__"}
Way = Literal["async", "blocking", "notify"]
_WAYS: dict[Way, tuple[str, str]] = {
    "async": ("async def", "await self.session.send"),
    "blocking": ("def", "self.session.send"),
    "notify": ("def", "self.session.notify"),
}
_HEAD = '''\
"""A typed client of {name}. Made by `reactor schema --format python`; make it anew instead of changing it."""

# ruff: noqa
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict, cast

from reactor_runtime.client import BlockingSession, Message, Reply, Session

_UNSET: Any = object()
'''


def module(name: str, contract: Mapping[str, Any]) -> str:
    """Return the module for the model called `name`; `contract` is the JSON form of a Contract."""
    events, messages = contract["schema"]["events"], contract["schema"]["messages"]
    names = TypeNames(_RESERVED)
    model, blocking = names.choose(camel(name)), names.choose(f"Blocking{camel(name)}")
    notify = names.choose(f"{camel(name)}Notify")
    types = _Types(names)
    state = types.records.name(state_of(events), "State")
    message_names = {kind: names.choose(f"{camel(kind)}Message") for kind in messages}
    said = [_message(message_names[kind], kind, spec, types) for kind, spec in messages.items()]
    replies = {event: _reply_name(event, spec, names) for event, spec in events.items()}
    classes = [
        _notify(notify, name, events, types),
        _class(model, name, _methods(events, types, "async", replies), state, notify, is_async=True),
        _class(blocking, name, _methods(events, types, "blocking", replies), state, notify, is_async=False),
    ]
    parts = [
        _HEAD.format(name=_safe(name)),
        *types.records.definitions,
        *said,
        _reader(message_names),
        *(_reply(reply, event, events[event]["replies"], message_names) for event, reply in replies.items() if reply),
        *classes,
    ]
    return "\n\n".join(part.rstrip() + "\n" for part in parts)


class _Types:
    """Convert JSON Schemas to Python types."""

    def __init__(self, names: TypeNames) -> None:
        self.records = Records(names, self._record)

    def of(self, schema: Schema, wanted: str = "Record") -> str:
        values = literals(schema)
        if values is not None and not any(isinstance(value, float | list | dict) for value in values):
            return f"Literal[{', '.join(_literal(value) for value in values)}]"
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(self.of(each, wanted) for each in schema["anyOf"]))
        match schema.get("type"):
            case "array":
                return self._array(schema, wanted)
            case "object":
                return self._object(schema, wanted)
            case str() as kind:
                return _PLAIN[kind]
        return "Any"

    def taken(self, schema: Schema, wanted: str) -> str:
        """Return the type of a parameter: a list for an array of any length, a tuple for one of fixed length."""
        if "prefixItems" in schema:
            return f"tuple[{', '.join(self.of(each, wanted) for each in schema['prefixItems'])}]"
        return self.of(schema, wanted)

    def _array(self, schema: Schema, wanted: str) -> str:
        items = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list[{' | '.join(dict.fromkeys(self.of(each, wanted) for each in items))}]"

    def _object(self, schema: Schema, wanted: str) -> str:
        if is_upload(schema):
            return "dict[str, str]"
        if "properties" in schema:
            return self.records.name(schema, wanted)
        values = schema.get("additionalProperties")
        return f"dict[str, {self.of(values, wanted) if isinstance(values, Mapping) else 'Any'}]"

    def _record(self, name: str, schema: Schema) -> str:
        lines = []
        for member, of, required in members(schema):
            written = self.of(of, f"{name}{camel(member)}")
            lines.append(f"    {member}: {written if required else f'NotRequired[{written}]'}")
        return "\n".join(
            [f"class {name}(TypedDict):", *_docstring(schema.get("description", ""), 4), *(lines or ["    pass"])]
        )


def _message(name: str, kind: str, spec: Schema, types: _Types) -> str:
    """Return the class of a message, which `messages()` yields and replies hold."""
    data = types.records.name({**spec["data"], "title": camel(kind)}, camel(kind))
    return "\n".join([
        "@dataclass(frozen=True, slots=True)",
        f"class {name}(Message):",
        *_docstring(spec["description"], 4),
        f"    type: Literal[{_quoted(kind)}]",
        f"    data: {data}",
    ])  # fmt: skip


def _reader(message_names: Mapping[str, str]) -> str:
    """Return the union of the messages, and the function that converts a message to its class."""
    entries = [f"    {_quoted(kind)}: {name}," for kind, name in message_names.items()]
    return "\n".join([
        f"Said = {' | '.join(message_names.values()) or 'Message'}",
        "_MESSAGES: dict[str, Any] = {",
        *entries,
        "}",
        "",
        "",
        "def _typed(message: Message | None) -> Any:",
        "    if message is None or message.type not in _MESSAGES:",
        "        return message",
        "    return _MESSAGES[message.type](message.type, message.data, message.id)",
    ])  # fmt: skip


def _reply_name(event: str, spec: Schema, names: TypeNames) -> str | None:
    """Return a name for the class of an event's reply; None if the model does not declare the reply."""
    return names.choose(f"{camel(event)}Reply") if any(spec.get("replies") or ()) else None


def _reply(name: str, event: str, replies: Iterable[str | None], message_names: Mapping[str, str]) -> str:
    held = " | ".join("None" if kind is None else message_names[kind] for kind in replies)
    return "\n".join([
        "@dataclass(frozen=True, slots=True)",
        f"class {name}(Reply):",
        *_docstring(f"The reply to {event}.", 4),
        f"    message: {held}",
    ])  # fmt: skip


def _notify(name: str, model: str, events: Mapping[str, Schema], types: _Types) -> str:
    return "\n".join([
        f"class {name}:",
        f'    """The events of {_safe(model)}, sent without waiting for an answer."""',
        "",
        "    def __init__(self, session: Session | BlockingSession) -> None:",
        "        self.session = session",
        *_methods(events, types, "notify"),
    ])  # fmt: skip


def _class(name: str, model: str, methods: Iterable[str], state: str, notify: str, *, is_async: bool) -> str:
    session, each, prefix = ("Session", "AsyncIterator", "async ") if is_async else ("BlockingSession", "Iterator", "")
    return "\n".join([
        f"class {name}:",
        f'    """The events, state and messages of {_safe(model)}, over a session that `connect` gave."""',
        "",
        f"    def __init__(self, session: {session}) -> None:",
        "        self.session = session",
        f"        self.notify = {notify}(session)",
        "",
        "    @property",
        f"    def state(self) -> {state}:",
        f"        return cast({state}, dict(self.session.state))",
        "",
        f"    {prefix}def messages(self) -> {each}[Said]:",
        f"        {prefix}for message in self.session.messages():",
        "            if message.type in _MESSAGES:",
        "                yield cast(Said, _typed(message))",
        *methods,
    ])  # fmt: skip


def _methods(
    events: Mapping[str, Schema], types: _Types, way: Way, replies: Mapping[str, str | None] | None = None
) -> Iterator[str]:
    names = TypeNames(_METHODS)
    for event, spec in events.items():
        yield _method(names.choose(snake(event)), event, spec, types, way, (replies or {}).get(event))


def _method(name: str, event: str, spec: Schema, types: _Types, way: Way, reply: str | None) -> str:
    parameters, data = [], []
    local = TypeNames({"self", "_data", "_reply", *keyword.kwlist})
    for member, schema, required in members(spec["parameters"]):
        argument = local.choose(member)
        parameters.append(f"{argument}: {types.taken(schema, camel(member))}" + ("" if required else " = _UNSET"))
        data.append(f"{_quoted(member)}: {argument}")
    marked = f", *, {', '.join(parameters)}" if parameters else ""
    define, send = _WAYS[way]
    result = "bool" if way == "notify" else reply or "Reply"
    optional = any(not required for _, _, required in members(spec["parameters"]))
    lines = ["", f"    {define} {name}(self{marked}) -> {result}:", *_docstring(spec["description"], 8)]
    lines.append(f"        _data: dict[str, Any] = {{{', '.join(data)}}}")
    if optional:
        lines.append("        _data = {name: value for name, value in _data.items() if value is not _UNSET}")
    if way == "notify":
        return "\n".join([*lines, f"        return {send}({_quoted(event)}, _data)"])
    lines.append(f"        _reply = {send}({_quoted(event)}, _data)")
    return "\n".join([*lines, f"        return {result}(_reply.n, _typed(_reply.message))"])


def _docstring(text: str, indent: int) -> list[str]:
    """Return a description as the lines of a docstring, with quotes and backslashes escaped."""
    margin = " " * indent
    lines = [line for each in _safe(text).splitlines() for line in textwrap.wrap(each, 116 - indent) or [""]]
    if not lines:
        return []
    if len(lines) == 1 and len(lines[0]) <= 110 - indent:
        return [f'{margin}"""{lines[0]}"""']
    return [f'{margin}"""', *(f"{margin}{line}".rstrip() for line in lines), f'{margin}"""']


def _safe(text: str) -> str:
    return text.strip().replace("\\", "\\\\").replace('"""', "'''").removesuffix('"')


def _literal(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
