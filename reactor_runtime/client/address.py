"""The address of a server, read from the URL of its page or of its socket, or from host and port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from reactor_runtime.client.errors import AddressError

Role = Literal["controller", "viewer"]

_SCHEMES = {"http": False, "ws": False, "https": True, "wss": True}
_EXAMPLE = "as in http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server: `place` is host and port, `root` the path under which a proxy serves it, without a trailing slash.

    `session` is the id of the session to watch, empty for the one that has run longest. With `stepped` the session
    makes the steps that this client requests. `room` is the code of the session to join, and `seat` the place there,
    or the one to watch.
    """

    secure: bool
    place: str
    root: str = ""
    token: str = field(default="", repr=False)
    role: Role = "controller"
    session: str = ""
    watch: bool = False
    stepped: bool = False
    room: str = ""
    seat: int | None = None

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        token: str | None = None,
        role: Role | None = None,
        session: str | None = None,
        watch: bool = False,
        stepped: bool = False,
        room: str | None = None,
        seat: int | None = None,
    ) -> Self:
        """Read the address of a page, a socket or a bare host; the other arguments win over its query.

        Raises `AddressError` if it is not the address of a server.
        """
        if not isinstance(url, str):
            # For example None, from an environment variable that is not set.
            raise AddressError(f"the address is {url!r}, not text", hint=_EXAMPLE)
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise AddressError(f"{url} is not an address: {error}", hint=_EXAMPLE) from None
        if parts.scheme not in _SCHEMES or not host or "@" in parts.netloc or port == 0:
            raise AddressError(f"{url} is not the address of a server", hint=_EXAMPLE)
        query = dict(parse_qsl(parts.query))
        root = parts.path.rstrip("/").removesuffix("/ws")
        token = query.get("token", "") if token is None else token
        return cls(
            _SCHEMES[parts.scheme],
            parts.netloc,
            root,
            token,
            _role(role or query.get("role") or "controller"),
            query.get("session", "") if session is None else session,
            watch or query.get("watch") == "1",
            stepped or query.get("generation") == "stepped",
            query.get("room", "") if room is None else room,
            _seat(query.get("seat")) if seat is None else seat,
        )

    def socket(self, **more: str | None) -> str:
        """Return the WebSocket's URL, with `more` in its query, without the token: URLs are logged, headers are not."""
        watch, generation = "1" if self.watch else "", "stepped" if self.stepped else ""
        seat = None if self.seat is None else str(self.seat)
        options = {"session": self.session, "watch": watch, "generation": generation, "room": self.room, "seat": seat}
        options |= more
        query = {"role": self.role} | {name: value for name, value in options.items() if value}
        return f"{'wss' if self.secure else 'ws'}://{self.place}{self.root}/ws?{urlencode(query)}"

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.place}{self.root}"


def _seat(seat: str | None) -> int | None:
    if seat is None or seat.isdecimal():
        return None if seat is None else int(seat)
    raise AddressError(f'the seat is a number from 0, not "{seat}"')


def _role(role: str) -> Role:
    if role not in ("controller", "viewer"):
        raise AddressError(f'the role is controller or viewer, not "{role}"')
    return cast("Role", role)
