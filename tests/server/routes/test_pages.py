from __future__ import annotations

import contextlib
import gzip
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from reactor_runtime import manifest
from reactor_runtime.server.options import ReloadOptions, ServeOptions
from reactor_runtime.server.routes.pages import (
    LONGEST_QR_BYTES,
    file_routes,
    index_html,
    own_page_route,
    page_routes,
    qr_route,
)
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import Slot, SlotSettings
from tests.fakes import FakeClock


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a page of an author, with a file beside its directory."""
    page = tmp_path / "my_page"
    (page / "parts").mkdir(parents=True)
    (page / "index.html").write_text("mine")
    (page / "parts" / "app.js").write_text("let a")
    (page / "reactor.js").write_text("not this one")
    (page / ".env").write_text("secret")
    (page / ".git").mkdir()
    (page / ".git" / "config").write_text("secret")
    (tmp_path / "secret.txt").write_text("secret")
    (page / "link.txt").symlink_to(tmp_path / "secret.txt")
    (page / "shown.txt").symlink_to(".env")
    (page / "shown").symlink_to(".git")
    (tmp_path / "logo.png").write_text("an image")
    images = {"author/logo.png": tmp_path / "logo.png"}
    app = Starlette(routes=[*file_routes(lambda: images), own_page_route(page, ["https://a.example", "null"])])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


async def test_the_page_of_the_author_is_served_with_its_files(http: httpx.AsyncClient) -> None:
    answer = await http.get("/")
    assert (answer.status_code, answer.text) == (200, "mine")
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self' https://a.example"
    assert answer.headers["Cache-Control"] == "no-cache"
    script = await http.get("/parts/app.js")
    assert (script.text, script.headers["Content-Type"]) == ("let a", "text/javascript; charset=utf-8")
    assert (await http.get("/nothing.js")).status_code == 404


async def test_the_client_stays_where_it_is(http: httpx.AsyncClient) -> None:
    assert "static/client/index.js" in (await http.get("/reactor.js")).text
    assert (await http.get("/static/client/reactor.js")).status_code == 200


async def test_a_bundle_is_kept_by_caches_for_a_year_and_the_client_is_checked_each_time(tmp_path: Path) -> None:
    (tmp_path / "0a1b").mkdir()
    (tmp_path / "0a1b" / "main.js").write_text("let a")
    (tmp_path / "index.html").write_text("bundled")
    assert index_html(tmp_path) == "bundled"
    async with serving(file_routes(dict, tmp_path)) as http:
        bundled = await http.get("/static/0a1b/main.js")
        assert (bundled.text, bundled.headers["Content-Type"]) == ("let a", "text/javascript; charset=utf-8")
        assert bundled.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert (await http.get("/static/client/index.js")).headers["Cache-Control"] == "no-cache"


async def test_a_bundle_is_sent_compressed_to_clients_that_take_it(tmp_path: Path) -> None:
    (tmp_path / "0a1b").mkdir()
    (tmp_path / "0a1b" / "main.js").write_text("let a")
    (tmp_path / "0a1b" / "main.js.gz").write_bytes(gzip.compress(b"let a"))
    async with serving(file_routes(dict, tmp_path)) as http:
        zipped, plain = [
            await http.get("/static/0a1b/main.js", headers={"Accept-Encoding": accepted})
            for accepted in ("gzip, br", "identity")
        ]
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert [answer.text for answer in (zipped, plain)] == ["let a", "let a"]
        assert zipped.headers["ETag"] != plain.headers["ETag"]
        for answer in (zipped, plain):
            assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
            assert answer.headers["Vary"] == "Accept-Encoding"


def test_without_a_bundle_the_page_loads_its_modules(tmp_path: Path) -> None:
    html = index_html(tmp_path / "none")
    assert 'src="static/main.js"' in html
    assert '<link rel="modulepreload" href="static/stage.js">' in html


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/parts/..%2f..%2fsecret.txt", "/link.txt"])
async def test_files_outside_of_the_directory_are_not_served(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(httpx.URL(f"http://localhost{path}", raw_path=path.encode()))
    assert answer.status_code == 404


async def test_an_image_that_a_link_has_replaced_is_not_served(http: httpx.AsyncClient, tmp_path: Path) -> None:
    assert (await http.get("/static/author/logo.png")).text == "an image"
    (tmp_path / "logo.png").unlink()
    (tmp_path / "logo.png").symlink_to(tmp_path / "secret.txt")
    assert (await http.get("/static/author/logo.png")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/.git/",
        "/parts/../.env",
        "/parts/..%2f.env",
        "/shown.txt",
        "/shown/config",
        "/parts/../shown.txt",
    ],
)
async def test_hidden_files_are_not_served(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(httpx.URL(f"http://localhost{path}", raw_path=path.encode()))
    assert answer.status_code == 404


@contextlib.asynccontextmanager
async def serving(routes: Sequence[BaseRoute]) -> AsyncIterator[httpx.AsyncClient]:
    """Serve routes without a token."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {"guarded": False}}, receive, send)

    app = Starlette(routes=routes)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(serve), base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("reload", [None, ReloadOptions()], ids=["no reload", "reload"])
async def test_the_page_is_sent_again_only_when_it_has_changed(tmp_path: Path, reload: ReloadOptions | None) -> None:
    (tmp_path / "pipeline.py").write_text("")
    file = tmp_path / "reactor.yaml"
    file.write_text("model: pipeline:MyModel\ntitle: Aurora\n")
    options = ServeOptions(manifest=manifest.load(tmp_path), config={}, reload=reload)
    admission: Admission[Slot] = Admission(SlotSettings(options=options, clock=FakeClock()))
    async with serving(page_routes(admission)) as http:
        first = await http.get("/")
        assert "Aurora" in first.text
        known = {"If-None-Match": first.headers["ETag"]}
        assert [(await http.get("/", headers=known)).status_code for _ in range(2)] == [304, 304]
        file.write_text("model: pipeline:MyModel\ntitle: Borealis\n")
        changed = await http.get("/", headers=known)
        assert changed.status_code == (304 if reload is None else 200)
        assert ("Borealis" in changed.text) == (reload is not None)


@pytest.fixture
async def codes() -> AsyncIterator[httpx.AsyncClient]:
    """Serve QR codes."""
    async with serving([qr_route()]) as client:
        yield client


async def test_a_qr_code_is_an_image_of_its_text(codes: httpx.AsyncClient) -> None:
    answer = await codes.get("/qr.svg", params={"text": "https://a.example/?role=viewer"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/svg+xml")
    # Version 3 has 29 modules, and the margin 4 on each side.
    assert ElementTree.fromstring(answer.text).attrib["width"] == str(29 + 8)
    assert (await codes.get("/qr.svg", params={"text": "https://b.example/?role=viewer"})).text != answer.text


@pytest.mark.parametrize("text", ["", "h" * (LONGEST_QR_BYTES + 1), "é" * (LONGEST_QR_BYTES // 2 + 1)])
async def test_an_empty_or_long_text_has_no_qr_code(codes: httpx.AsyncClient, text: str) -> None:
    assert (await codes.get("/qr.svg", params={"text": text})).status_code == 400
    assert (await codes.get("/qr.svg")).status_code == 400


async def test_the_longest_text_has_a_qr_code(codes: httpx.AsyncClient) -> None:
    assert (await codes.get("/qr.svg", params={"text": "h" * LONGEST_QR_BYTES})).status_code == 200
