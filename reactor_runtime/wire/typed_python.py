"""A model's events, messages and state as a Python module with types, on top of `reactor_runtime.client`."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from reactor_runtime.wire.typed import (
    Names,
    Records,
    Schema,
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
    "NotRequired", "Reply", "Said", "Session", "TypedDict", "cast",
}  # fmt: skip
_METHODS = {*keyword.kwlist, "messages", "notify", "session", "state", "__init__"}
Way = Literal["async", "blocking", "notify"]
_WAYS: dict[Way, tuple[str, str, str]] = {
    "async": ("async def", "Reply", "return await self.session.send"),
    "blocking": ("def", "Reply", "return self.session.send"),
    "notify": ("def", "bool", "return self.session.notify"),
}
_HEAD = '''\
"""A typed client of {name}. Made by `reactor schema --format python`; make it anew instead of changing it."""

# ruff: noqa
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, NotRequired, TypedDict, cast

from reactor_runtime.client import BlockingSession, Reply, Session

_UNSET: Any = object()
'''


def module(name: str, contract: Mapping[str, Any]) -> str:
    """Write the module for the model called `name`; `contract` is the JSON form of a Contract."""
    events, messages = contract["schema"]["events"], contract["schema"]["messages"]
    names = Names(_RESERVED)
    model, blocking = names.choose(camel(name)), names.choose(f"Blocking{camel(name)}")
    notify = names.choose(f"{camel(name)}Notify")
    types = _Types(names)
    state = types.records.name(state_of(events), "State")
    said = [_message(kind, spec, types, names) for kind, spec in messages.items()]
    classes = [
        _notify(notify, name, events, types),
        _class(model, name, _methods(events, types, "async"), state, notify, is_async=True),
        _class(blocking, name, _methods(events, types, "blocking"), state, notify, is_async=False),
    ]
    union = f"Said = {' | '.join(kind for kind, _ in said) or 'Any'}\n"
    parts = [_HEAD.format(name=_safe(name)), *types.records.definitions, *(text for _, text in said), union, *classes]
    return "\n\n".join(part.rstrip() + "\n" for part in parts)


class _Types:
    """Write the type of a value."""

    def __init__(self, names: Names) -> None:
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
        """Write the type of a parameter: what may be longer or shorter as a list, what may not as a tuple."""
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


def _message(kind: str, spec: Schema, types: _Types, names: Names) -> tuple[str, str]:
    """Write a message as what `messages()` yields, and give its type's name."""
    data = types.records.name({**spec["data"], "title": camel(kind)}, camel(kind))
    name = names.choose(f"{camel(kind)}Said")
    doc = _docstring(spec["description"], 4)
    return name, "\n".join(
        [f"class {name}(TypedDict):", *doc, f"    type: Literal[{_quoted(kind)}]", f"    data: {data}"]
    )


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
        "            yield cast(Said, {'type': message.type, 'data': dict(message.data)})".replace("'", '"'),
        *methods,
    ])  # fmt: skip


def _methods(events: Mapping[str, Schema], types: _Types, way: Way) -> Iterator[str]:
    names = Names(_METHODS)
    for event, spec in events.items():
        yield _method(names.choose(snake(event)), event, spec, types, way)


def _method(name: str, event: str, spec: Schema, types: _Types, way: Way) -> str:
    parameters, data = [], []
    local = Names({"self", *keyword.kwlist})
    for member, schema, required in members(spec["parameters"]):
        argument = local.choose(member)
        parameters.append(f"{argument}: {types.taken(schema, camel(member))}" + ("" if required else " = _UNSET"))
        data.append(f"{_quoted(member)}: {argument}")
    marked = f", *, {', '.join(parameters)}" if parameters else ""
    define, result, send = _WAYS[way]
    optional = any(not required for _, _, required in members(spec["parameters"]))
    lines = ["", f"    {define} {name}(self{marked}) -> {result}:", *_docstring(spec["description"], 8)]
    lines.append(f"        _data: dict[str, Any] = {{{', '.join(data)}}}")
    if optional:
        lines.append("        _data = {name: value for name, value in _data.items() if value is not _UNSET}")
    lines.append(f"        {send}({_quoted(event)}, _data)")
    return "\n".join(lines)


def _docstring(text: str, indent: int) -> list[str]:
    """Write a description as a docstring; whatever is in it, it ends where it should."""
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
