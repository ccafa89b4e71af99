"""Documents that are made once for each contract and host."""

from __future__ import annotations

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reactor_runtime.server.routes.documents import MOST, Documents


class Site:
    """An application with one document, and how often that was made."""

    def __init__(self) -> None:
        self.contract: object = {}
        self.guarded = False
        self.made: list[str] = []
        documents = Documents("text/plain")

        async def document(request: Request) -> Response:
            request.state.guarded = self.guarded
            host = request.headers["host"]

            def make() -> str:
                self.made.append(host)
                return f"made for {host}"

            return documents.response(request, self.contract, host, make)

        app = Starlette(routes=[Route("/", document)])
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")

    async def get(self, host: str = "localhost", **headers: str) -> httpx.Response:
        return await self._client.get("/", headers={"Host": host, **headers})


async def test_a_document_is_made_once_for_each_host_and_contract() -> None:
    site = Site()
    assert [(await site.get(host)).text for host in ("a", "b", "a", "b")] == ["made for a", "made for b"] * 2
    assert site.made == ["a", "b"]
    site.contract = {}
    await site.get("a")
    assert site.made == ["a", "b", "a"]


async def test_few_documents_are_kept_whatever_hosts_are_sent() -> None:
    site = Site()
    for number in range(MOST + 1):
        await site.get(f"host-{number}")
    await site.get(f"host-{MOST}")
    assert len(site.made) == MOST + 1
    await site.get("host-0")
    assert len(site.made) == MOST + 2


async def test_a_client_that_has_the_document_gets_304() -> None:
    site = Site()
    first = await site.get()
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    again = await site.get(**{"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert (await site.get("another", **{"If-None-Match": first.headers["etag"]})).status_code == 200


async def test_what_needs_a_token_is_not_stored_and_not_mixed_with_the_rest() -> None:
    site = Site()
    await site.get()
    site.guarded = True
    assert (await site.get()).headers["cache-control"] == "no-store"
    assert len(site.made) == 2
