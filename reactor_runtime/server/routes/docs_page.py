"""`/docs`: the API of the model as a page without scripts, with lines to paste for Python, JavaScript and curl."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from reactor_runtime.kinds import KINDS, kind_of
from reactor_runtime.server.routes.documents import Documents
from reactor_runtime.server.routes.pages import DOCS_PAGE
from reactor_runtime.server.security.middleware import NO_STORE
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S

TOKEN = "?token=TOKEN"


def docs_route(admission: Admission[S]) -> Route:
    """Return the route of the page."""
    pages = Documents("text/html")
    template = (DOCS_PAGE / "docs.html").read_text(encoding="utf-8")

    async def docs(request: Request) -> Response:
        contract = admission.slots.contract
        if contract is None:
            message = "the model's class is being imported; ask again\n"
            return PlainTextResponse(message, status_code=503, headers={**NO_STORE, "Retry-After": "1"})
        url = str(request.base_url).rstrip("/")

        def page() -> str:
            content = render(contract, url, TOKEN if request.state.guarded else "")
            named = template.replace("{{name}}", escape(admission.settings.name_of(contract)))
            return named.replace("{{content}}", content)

        return pages.response(request, contract, url, page)

    return Route("/docs", docs)


def render(contract: Mapping[str, Any], url: str, query: str = "") -> str:
    """Return the sections of the page; `query` has the place of a token."""
    tracks, schema = contract["tracks"], contract["schema"]
    return "\n".join(
        [
            _section("Connect", _connecting(url, query)),
            _section("Tracks", (_track(each, url, query) for each in tracks)),
            _section("Events", (_event(name, spec, url, query) for name, spec in schema["events"].items())),
            _section("Messages", (_message(name, spec) for name, spec in schema["messages"].items())),
            _section("State that only the model sets", _read_only(schema.get("state", {}))),
        ]
    )


def _connecting(url: str, query: str) -> Iterable[str]:
    socket = url.replace("http", "ws", 1)
    yield f"<p>Events and frames go over the WebSocket <code>{escape(socket)}/ws</code>; frames also over HTTP. "
    yield f'The <a href="schema{escape(query)}">schema</a> is this page for programs, as OpenAPI 3.1.</p>'
    if query:
        yield "<p>Replace <code>TOKEN</code> by the token of the server.</p>"
    yield _lines("Terminal", f"reactor connect '{url}/{query}'")
    yield _lines("curl", f"curl '{url}/schema{query}'")


def _track(track: Mapping[str, Any], url: str, query: str) -> str:
    name, kind = track["name"], track["kind"]
    sent = track["direction"] == "in"
    about = f"{kind}, {'from the client to the model' if sent else 'from the model'}"
    lines = []
    if sent:
        media = "np.zeros((480, 640, 3), np.uint8)" if kind == "video" else "np.zeros(4800, np.int16)"
        send = f'session.publish("{name}", {media}).result()'
        lines.append(_lines("Python", f"import numpy as np\n{_in_python(url, query, send)}"))
    elif kind == "video":
        shown = f'session.attach("{name}", document.querySelector("canvas"));'
        lines += [
            _lines("Python", _in_python(url, query, f'print(session.frame("{name}").array.shape)')),
            _lines("JavaScript", _in_javascript(url, query, shown)),
            _lines("curl", f"curl '{url}/snapshot/{name}.jpg{query}' --output {name}.jpg"),
        ]
    return _entry(name, about, "".join(lines))


def _event(name: str, spec: Mapping[str, Any], url: str, query: str) -> str:
    parameters = spec["parameters"]
    required = parameters.get("required", [])
    shown = {key: example(each) for key, each in parameters["properties"].items() if key in required}
    values = "".join(f", {key}={value!r}" for key, value in shown.items())
    plain = all(key.isidentifier() for key in shown)
    python = f'print(session.send("{name}"{values if plain else f", {shown!r}"}))'
    script = f"console.log(await session.send({json.dumps(name)}, {json.dumps(shown, ensure_ascii=False)}));"
    replies = [each for each in spec.get("replies") or () if each]
    replied = f"Replies with {' or '.join(replies)}" if replies else ""
    about = ". ".join(part for part in (spec["description"].rstrip("."), replied) if part)
    lines = _lines("Python", _in_python(url, query, python)) + _lines("JavaScript", _in_javascript(url, query, script))
    return _entry(name, about, _table(parameters) + lines)


def _message(name: str, spec: Mapping[str, Any]) -> str:
    return _entry(name, spec["description"], _table(spec["data"]))


def _read_only(fields: Mapping[str, Any]) -> Iterable[str]:
    if fields:
        yield _table({"properties": fields})


def _in_python(url: str, query: str, line: str) -> str:
    return f'from reactor_runtime.client import connect\nwith connect("{url}/{query}") as session:\n    {line}'


def _in_javascript(url: str, query: str, line: str) -> str:
    connected = f'const session = connect("{url}/{query}"); await session.ready();'
    return f'const {{ connect }} = await import("{url}/reactor.js");\n{connected}\n{line}'


def example(schema: Mapping[str, Any]) -> Any:
    """Return a valid value: the default, or the simplest one."""
    if "default" in schema:
        return schema["default"]
    for key in ("const", "enum", "examples", "minimum", "exclusiveMinimum"):
        if key in schema:
            return schema[key][0] if key in ("enum", "examples") else schema[key]
    for option in schema.get("anyOf", ()):
        return example(option)
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {key: example(each) for key, each in properties.items() if key in schema.get("required", ())}
    if schema.get("type") == "array":
        return []
    kind = kind_of(schema)
    return KINDS[kind].example if kind else None


def _table(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        f"<tr><th><code>{escape(name)}</code><td>{escape(_kind(each))}"
        f"<td>{'' if name in required and 'default' not in each else escape(_json(each.get('default')))}"
        f"<td>{escape(each.get('description', ''))}"
        for name, each in schema["properties"].items()
    ]
    head = "<tr><th>value<th>type<th>default<th>"
    return f"<table><thead>{head}<tbody>{''.join(rows)}</table>" if rows else ""


def _kind(schema: Mapping[str, Any]) -> str:
    """Describe a type with its limits: `number 0.0 to 2.0`."""
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " | ".join(map(_json, schema.get("enum") or [schema["const"]]))
    known = KINDS.get(kind_of(schema) or "")
    kind = known.noun if known else str(schema.get("type", "any"))
    if known and known.form:
        kind += f", as {known.form}"
    if "items" in schema:
        kind += f" of {_kind(schema['items'])}"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "multipleOf": "×"}
    kind += "".join(f" {sign} {schema[key]}" for key, sign in limits.items() if key in schema)
    return kind + (f", at most {schema['maxLength']} characters" if "maxLength" in schema else "")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _section(title: str, parts: Iterable[str]) -> str:
    content = "".join(parts)
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _entry(name: str, about: str, content: str) -> str:
    return f"<article><h3>{escape(name)}</h3><p>{escape(about)}</p>{content}</article>"


def _lines(language: str, text: str) -> str:
    return f'<figure><figcaption>{language}</figcaption><pre tabindex="0">{escape(text)}</pre></figure>'
