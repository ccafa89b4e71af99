"""`reactor.d.ts` declares what the client has: no less, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.schemas import from_server
from tests.clients.node import node

CLIENT = Path(__file__).parents[2] / "reactor_runtime" / "page" / "client"
DECLARED = (CLIENT / "reactor.d.ts").read_text(encoding="utf-8")
OURS = {"closed", "failed", "lost", "refused", "unreachable"}  # reasons of the client's own
LIST = """
import(process.env.CLIENT).then((client) => {
  const members = Object.getOwnPropertyNames(client.Session.prototype).filter((name) => name !== "constructor");
  console.log(JSON.stringify({ exported: Object.keys(client), members }));
});
"""


def body(name: str) -> str:
    """Read the declaration of a class or interface."""
    found = re.search(rf"^export (?:class|interface) {name}\b.*?{{\n(.*?)^}}", DECLARED, re.M | re.S)
    assert found is not None
    return found[1]


def members(name: str) -> set[str]:
    """Read the names of a declared class or interface."""
    return set(re.findall(r"^  (?:readonly )?(\w+)\??[(:<]", body(name), re.M))


def test_every_name_is_declared_and_no_other() -> None:
    client = json.loads(node("-e", LIST, CLIENT=(CLIENT / "index.js").as_uri()))
    assert set(re.findall(r"^export (?:class|function) (\w+)", DECLARED, re.M)) == set(client["exported"])
    listeners = {"addEventListener", "removeEventListener"}
    assert members("Session") - listeners == {*client["members"], "speaker"}


def test_every_event_of_a_session_is_declared() -> None:
    text = "".join((CLIENT / f"{name}.js").read_text(encoding="utf-8") for name in ("frames", "session", "protocol"))
    said = re.search(r"// (.*)\n.*\bemit\(phase, rest\)", text)
    assert said is not None
    emitted = {*re.findall(r'\bemit\("(\w+)"', text), *said[1].split(", ")}
    assert members("SessionEvents") == emitted


def union(name: str) -> set[str]:
    """Read the strings of a declared union."""
    found = re.search(rf"^export type {name} =\n(.*?);$", DECLARED, re.M | re.S)
    assert found is not None
    return set(re.findall(r'"(\w+)"', found[1]))


def data_of(kind: str) -> Any:
    """Return the schema of what a message of the server carries."""
    return from_server(replies=[])[kind]["properties"]["data"]


def test_the_reasons_and_codes_are_those_of_the_server() -> None:
    phases = {
        phase["properties"]["phase"]["const"]: phase["properties"] for phase in data_of("reactor.session")["oneOf"]
    }
    assert union("EndReason") == OURS.union(phases["ended"]["reason"]["enum"])
    assert union("ErrorCode") == {*ErrorCode}


def test_the_metrics_are_those_of_the_server() -> None:
    assert members("Stats") == data_of("reactor.stats")["properties"].keys()


def nullable(name: str) -> set[str]:
    """Read the names of an interface's members that may be null."""
    return {member for member in members(name) if re.search(rf"^  {member}\??:.*\bnull;$", body(name), re.M)}


def test_the_welcome_is_that_of_the_server() -> None:
    welcome = data_of("reactor.welcome")["properties"]
    event = welcome["schema"]["properties"]["events"]["additionalProperties"]["properties"]
    for name, schema in (("Welcome", welcome), ("Limits", welcome["limits"]["properties"]), ("EventSchema", event)):
        assert members(name) == schema.keys()
        assert nullable(name) == {key for key, value in schema.items() if "null" in value.get("type", ())}
