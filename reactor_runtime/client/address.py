"""Where a server is, read from any address of it that people have at hand."""

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
    """A server: `place` is host and port, `root` the path a proxy serves it under, without the slash at its end.

    `session` is the one to watch where there are several, empty for the one that has run longest.
    """

    secure: bool
    place: str
    root: str = ""
    token: str = field(default="", repr=False)
    role: Role = "controller"
    session: str = ""
    watch: bool = False

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        token: str | None = None,
        role: Role | None = None,
        session: str | None = None,
        watch: bool = False,
    ) -> Self:
        """Read a page's, a socket's or a bare host's address; what is given beside it wins over its query.

        Raises `AddressError` for anything that can't be an address of a server.
        """
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise AddressError(f"{url} is no address: {error}", hint=_EXAMPLE) from None
        if parts.scheme not in _SCHEMES or not host or "@" in parts.netloc or port == 0:
            raise AddressError(f"{url} is no address of a server", hint=_EXAMPLE)
        asked = dict(parse_qsl(parts.query))
        root = parts.path.rstrip("/").removesuffix("/ws")
        token = asked.get("token", "") if token is None else token
        return cls(
            _SCHEMES[parts.scheme],
            parts.netloc,
            root,
            token,
            _role(role or asked.get("role") or "controller"),
            asked.get("session", "") if session is None else session,
            watch or asked.get("watch") == "1",
        )

    def socket(self, *, resume: str | None = None) -> str:
        """Return the WebSocket's address; the token is left to the headers, which nobody logs."""
        wanted = {"session": self.session, "watch": "1" if self.watch else "", "resume": resume}
        query = {"role": self.role} | {name: value for name, value in wanted.items() if value}
        return f"{'wss' if self.secure else 'ws'}://{self.place}{self.root}/ws?{urlencode(query)}"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.place}{self.root}"


def _role(given: str) -> Role:
    if given not in ("controller", "viewer"):
        raise AddressError(f'the role is controller or viewer, not "{given}"')
    return cast("Role", given)
