"""`connect`, which opens a session for `async with`, `with` or `await`, and closes it after the block."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from types import TracebackType
from typing import Any

from reactor_runtime.client.address import Address, Role
from reactor_runtime.client.blocking import BlockingSession, LoopThread
from reactor_runtime.client.connection import Connection
from reactor_runtime.client.session import Session


def connect(
    url: str,
    *,
    token: str | None = None,
    role: Role | None = None,
    session: str | None = None,
    watch: bool = False,
    stepped: bool = False,
    room: str | None = None,
    seat: int | None = None,
    wait: bool = True,
    wait_s: float = 0.0,
    reconnect: bool = True,
    tls: ssl.SSLContext | None = None,
) -> Connecting:
    """Connect to a server: `async with connect(url) as session`, or `with connect(url) as session` without a loop.

    `url` is the address of the page or of the socket; arguments win over its query. `session` is the id of the session
    to watch, where several run; `watch` shows the sessions of others during the wait for the turn. With `stepped` the
    model makes steps only in `session.step()`. In a session with several seats, `room` is the code of the session to
    join, or to open, and `seat` the number of the seat there; a viewer watches it. Without `wait` the session is
    returned before its turn: `status` shows the phase and `ready()` waits. While no server answers, for example because
    it is starting, `connect` tries again for `wait_s` seconds. A broken connection is restored, unless `reconnect` is
    false: to the same session if the server keeps it (`--resume-grace`); otherwise a controller's session is lost, and
    `ready()` waits for another one.

    Raises `AddressError` for a wrong address; `Refused`, `Busy` or another `ConnectError` when connecting fails.
    """
    address = Address.parse(
        url, token=token, role=role, session=session, watch=watch, stepped=stepped, room=room, seat=seat
    )
    return Connecting(address, tls=tls, wait=wait, wait_s=wait_s, reconnects=reconnect)


class Connecting:
    """The result of `connect`: opens the session when it is entered or awaited."""

    def __init__(
        self, address: Address, *, tls: ssl.SSLContext | None, wait: bool, wait_s: float, reconnects: bool
    ) -> None:
        self._address = address
        self._tls = tls
        self._wait = wait
        self._wait_s = wait_s
        self._reconnects = reconnects
        self._session: Session | None = None
        self._thread: LoopThread | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        """Open the session without a block; the caller closes it with `aclose()`."""
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._session is not None, "`__aenter__` has set it"
        await self._session.aclose()

    def __enter__(self) -> BlockingSession:
        self._thread = LoopThread()
        try:
            self._session = self._thread.run(self._open())
        except BaseException:
            self._thread.close()
            raise
        return BlockingSession(self._session, self._thread)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._session is not None, "`__enter__` has set it"
        assert self._thread is not None, "`__enter__` has set it"
        try:
            self._thread.run(self._session.aclose())
        finally:
            self._thread.close()

    async def _open(self) -> Session:
        connection = Connection(self._address, tls=self._tls, reconnects=self._reconnects)
        await connection.open(wait_s=self._wait_s)
        session = Session(connection)
        if self._wait:
            try:
                await session.ready()
            except BaseException:
                await session.aclose()
                raise
        return session
