"""The server of each connection: that of the client's address, or the worker to which this server, a front, redirects.

Has no sockets and no clock; `connection.py` connects.
"""

from __future__ import annotations

from reactor_runtime.client.address import Address
from reactor_runtime.client.errors import AddressError
from reactor_runtime.client.messages import Redirect
from reactor_runtime.wire.protocol import RETURN_PREFIX, SUBPROTOCOL


class Route:
    """Choose where the next connection goes, and with which query.

    A worker is entered with the ticket of its redirect, and after its welcome (`admitted`) with the secret of the
    session. A worker that does not admit this client is given up, and no redirect is followed from then on, so that
    the front relays the session; this also ends a loop of redirects. After a loss, the front gets the secret that came
    with the redirect.
    """

    def __init__(self, front: Address) -> None:
        self.front = front
        self.admitted = False
        self._worker: Address | None = None
        self._ticket: str | None = None
        self._returning: str | None = None
        self._follows_redirects = True

    @property
    def address(self) -> Address:
        """Return the address of the server for sockets and other requests; a worker's has no token."""
        return self._worker or self.front

    @property
    def at_worker(self) -> bool:
        return self._worker is not None

    @property
    def accepts_redirect(self) -> bool:
        """Return whether a redirect of the current server is followed: one of the front, while they are offered."""
        return self._follows_redirects and not self.at_worker

    def query(self, resume: str | None) -> dict[str, str | None]:
        """Return the additional query of the next connection; `resume` is the secret of a session that is kept."""
        if self.at_worker:
            return {"resume": resume} if self.admitted else {"ticket": self._ticket}
        return {"resume": resume, "redirect": "1" if self._follows_redirects else None}

    @property
    def subprotocols(self) -> list[str]:
        """Return the subprotocols of the next connection: for the front also the secret of a session that was lost.

        The secret can't be in the URL, which proxies log, nor in another header, which browsers don't let a page set.
        """
        returns = self._returning is not None and not self.at_worker
        return [SUBPROTOCOL, *([f"{RETURN_PREFIX}{self._returning}"] if returns else [])]

    def follow(self, redirect: Redirect) -> None:
        """Go to a worker. Raises `AddressError` for a URL that is not http, or not https if that of the front is."""
        self._ticket, self._returning = redirect.ticket, redirect.returning
        scheme = redirect.url.partition("://")[0].lower()
        if scheme != "https" and (scheme != "http" or self.front.secure):
            raise AddressError(f"{redirect.url} is not the address of a worker of {self.front}")
        session = redirect.session or ""
        self._worker = Address.parse(redirect.url, token="", role=self.front.role, session=session)
        self.admitted = False

    def on_welcome(self) -> None:
        """Note that the current server has accepted this client."""
        self.admitted = self.at_worker
        if not self.at_worker:
            self._returning = None

    def give_up(self, reason: str) -> str:
        """Go back to the front without redirects, after a worker that did not admit this client; return a message."""
        self._follows_redirects = False
        self._worker = None
        return (
            f"{reason}; the connection continues through {self.front}. If workers can't be reached from this network, "
            "it has to allow that, or the front needs --relay"
        )

    def leave(self, *, returns: bool) -> None:
        """Go back to the front; with `returns` show it the secret of the session that was lost."""
        self._worker = None
        self.admitted = False
        if not returns:
            self._returning = None
