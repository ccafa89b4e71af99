"""The permission for private addresses, with a browser's answers: which hosts need it, and when it is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.node import node

CLIENT = Path(__file__).parents[2] / "reactor_runtime" / "page" / "client"
MODULE = CLIENT / "local_network.js"
SPACES = """
const { spaceOf } = await import(process.env.MODULE);
console.log(spaceOf(new URL(process.env.ADDRESS).hostname));
"""
CHECK = """
const { LocalNetwork } = await import(process.env.MODULE);
const { states, reachable, times } = JSON.parse(process.env.CASE);
const said = { asked: [], fetched: [], results: [] };
const permissions = { query: async ({ name }) => {
  if (states === null) throw new TypeError(name);
  return { state: states.length > 1 ? states.shift() : states[0] };
} };
const fetch = async (url, options) => {
  said.fetched.push({ url, ...options });
  if (!reachable) throw new TypeError("Failed to fetch");
};
const network = new LocalNetwork({ fetch, permissions });
const address = new URL("ws://192.168.1.5:8080/live/ws?token=secret");
for (let n = 0; n < times; n++) said.results.push(await network.check(address, (text) => said.asked.push(text)));
said.results.push(await network.check(address));
console.log(JSON.stringify(said));
"""
ASKS = "The browser asks whether this page may connect to the local network: allow it"
BLOCKED = "This page has no permission to connect to the local network, where 192.168.1.5:8080 is: "


@pytest.mark.parametrize(
    ("space", "hosts"),
    [
        ("loopback", ["localhost", "model.localhost", "127.0.0.1", "127.1.2.3", "[::1]"]),
        ("local", ["10.0.0.1", "172.16.0.1", "172.31.9.9", "192.168.0.2", "169.254.1.1", "box.local"]),
        ("local", ["100.64.0.1", "100.101.102.103", "100.127.255.254"]),
        ("local", ["[fd00::1]", "[fc01::2]", "[fe80::1]"]),
        (
            "public",
            [
                "models.example",
                "8.8.8.8",
                "172.32.0.1",
                "100.128.0.1",
                "[2001:db8::1]",
                "10.example.com",
                "localhost.example",
            ],
        ),
    ],
)
def test_the_kind_of_an_address_is_read_from_its_host(space: str, hosts: list[str]) -> None:
    for host in hosts:
        said = node("--input-type=module", "-e", SPACES, MODULE=MODULE.as_uri(), ADDRESS=f"http://{host}:8080/")
        assert said.split() == [space], host


NEEDED = """
const { needsPermission } = await import(process.env.MODULE);
const from = (hostname, isSecureContext = true) => ({ location: { hostname }, isSecureContext });
console.log(JSON.stringify([
  needsPermission("localhost", from("models.example")),
  needsPermission("10.0.0.1", from("models.example")),
  needsPermission("127.0.0.1", from("10.0.0.1")),
  needsPermission("10.0.0.1", from("models.example", false)),
  needsPermission("10.0.0.1", from("192.168.1.1")),
  needsPermission("10.0.0.1", from("localhost")),
  needsPermission("models.example", from("models.example")),
  needsPermission("10.0.0.1", {}),
]));
"""


def test_a_secure_page_needs_it_for_a_more_private_address() -> None:
    said = json.loads(node("--input-type=module", "-e", NEEDED, MODULE=MODULE.as_uri()))
    assert said == [True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("states", "reachable", "asked", "results"),
    [
        (["granted"], False, 0, ["", "", ""]),
        (None, False, 0, ["", "", ""]),
        (["prompt"], True, 1, ["", "", ""]),
        (["prompt", "prompt", "granted"], False, 1, ["", "", ""]),
        (["prompt"], False, 1, [f"{BLOCKED}if the server is running, reload the page and allow it"] * 3),
        (["denied"], False, 0, [f"{BLOCKED}allow it in the site settings, at the icon before the address"] * 3),
    ],
    ids=["granted", "no such permission", "allowed or not needed", "allowed, and down", "dismissed or down", "denied"],
)
def test_the_visitor_is_asked_once_and_told_what_to_do(
    states: list[str] | None, reachable: bool, asked: int, results: list[str]
) -> None:
    case = json.dumps({"states": states, "reachable": reachable, "times": 2})
    said = json.loads(node("--input-type=module", "-e", CHECK, MODULE=MODULE.as_uri(), CASE=case))
    assert said["results"] == results
    assert said["asked"] == [ASKS] * asked
    # The token stays here.
    request = {"url": "http://192.168.1.5:8080/live/live", "mode": "no-cors", "targetAddressSpace": "local"}
    assert said["fetched"] == [request] * asked
