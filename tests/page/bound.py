"""Events of models whose author has bound them, and what a browser's test needs to press, push and touch."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from .schemas import NULL, action, setter

KEYWORD = "x-reactor-bind"
AXIS = {"type": "number", "minimum": -1.0, "maximum": 1.0, "default": 0.0}
PAIR = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2}


def key(code: str) -> dict[str, Any]:
    return {"kind": "key", "key": code}


def keys(*codes: str) -> dict[str, Any]:
    return {"kind": "keys", "keys": list(codes)}


def button(name: str, index: int) -> dict[str, Any]:
    return {"kind": "button", "button": name, "index": index}


def stick(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "stick", "stick": name, **more}


def bound(schema: dict[str, Any], *sources: dict[str, Any]) -> dict[str, Any]:
    return {**schema, KEYWORD: list(sources)}


def sent_by(event: dict[str, Any], *sources: dict[str, Any]) -> dict[str, Any]:
    return {**event, "parameters": bound(event["parameters"], *sources)}


NUMBER = {"type": "number"}
LOOK = {"kind": "look", "unit": "radians", "sensitivity": 1.0}
WALKER: dict[str, Any] = {
    "set_walk": setter("walk", "", bound(AXIS, keys("KeyS", "KeyW"), stick("left", axis="y"))),
    "set_run": setter("run", "", bound({"type": "boolean", "default": False}, key("Shift"), button("lt", 6))),
    "set_gas": setter(
        "gas", "", bound({**AXIS, "minimum": 10, "maximum": 90, "default": 50}, key("KeyG"), button("rt", 7))
    ),
    "set_name": setter("name", "", {"type": "string", "default": ""}),
    "set_speed": setter("speed", "", {"type": "number", "minimum": 0, "maximum": 10, "default": 5}),
    "look": sent_by(action("", dx=NUMBER, dy=NUMBER), LOOK, stick("right", speed=2.0)),
    "jump": sent_by(action("", height={"type": "number", "default": 1.0}), key("Space"), button("a", 0)),
}
PAINTER: dict[str, Any] = {
    "set_way": setter(
        "way", "", bound({**PAIR, "default": [0, 0]}, keys("ArrowLeft", "ArrowRight", "ArrowDown", "ArrowUp"))
    ),
    "set_aim": setter("aim", "", bound({"anyOf": [PAIR, NULL], "default": None}, {"kind": "pointer", "hover": True})),
    "set_zoom": setter(
        "zoom",
        "",
        bound({"type": "number", "minimum": 1, "maximum": 2, "default": 1.5}, {"kind": "wheel", "step": 0.25}),
    ),
    "paint": sent_by(action("", x=NUMBER, y=NUMBER), {"kind": "pointer", "hover": False}),
    "drop": sent_by(action("", x=NUMBER, y=NUMBER, size={"type": "number", "default": 1.0}), {"kind": "tap"}),
}

PADS = """
window.pads = [null, null, null, null];
navigator.getGamepads = () => window.pads;
window.plug = (axes = [0, 0, 0, 0], pressed = {}) => {
  const buttons = Array.from({ length: 17 }, (_, i) => ({ value: pressed[i] ?? 0, pressed: (pressed[i] ?? 0) > 0.5 }));
  window.pads[0] = { connected: true, mapping: "standard", axes, buttons };
  window.dispatchEvent(new Event("gamepadconnected"));
};
window.unplug = () => {
  window.pads[0] = null;
  window.dispatchEvent(new Event("gamepaddisconnected"));
};
"""


class Fingers:
    """Fingers on the screen, as the browser's input sees them."""

    def __init__(self, page: Page) -> None:
        self._browser = page.context.new_cdp_session(page)

    def put(self, *places: tuple[float, float]) -> None:
        self._say("touchStart", places)

    def move(self, *places: tuple[float, float]) -> None:
        self._say("touchMove", places)

    def lift(self) -> None:
        self._say("touchEnd", ())

    def _say(self, kind: str, places: tuple[tuple[float, float], ...]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        self._browser.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
