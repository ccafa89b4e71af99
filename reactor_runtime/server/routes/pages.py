"""The routes of the page and its files."""

from __future__ import annotations

import asyncio
import io
import mimetypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import segno
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from reactor_runtime.server.net.application import on_thread
from reactor_runtime.server.routes.documents import Document, Documents
from reactor_runtime.server.routes.page_document import SavedPage
from reactor_runtime.server.routes.preloads import preload_links
from reactor_runtime.server.routes.streams import video_tracks
from reactor_runtime.server.security.middleware import NO_CACHE, NO_STORE, adding_headers
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.slot import S

PAGE = Path(__file__).parents[2] / "page"
# What clients/js/bundle.mjs makes of it for a release: index.html, and files below a folder with a hash for a name.
BUNDLE = Path(__file__).parents[1] / "bundle"
# The page that asks for the token.
TOKEN_PAGE = Path(__file__).parents[1] / "token_page"
# The page of the API, see `docs_page.py`.
DOCS_PAGE = Path(__file__).parents[1] / "docs_page"
TOKEN_SCRIPT = '  <script type="module" src="static/token.js"></script>\n'
# Relative, so that it is right below --root-path too.
CLIENT = 'export * from "./static/client/index.js";\n'
# For a file whose path has its hash.
IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable"}
# A code of this text takes 4 ms of the event loop.
LONGEST_QR_BYTES = 200


def page_routes(admission: Admission[S]) -> list[BaseRoute]:
    """Return the routes of the page, its files and the JavaScript client; without `/` if the author has a page."""
    options = admission.settings.options
    pages = Documents("text/html")
    saved = SavedPage(index_html(), options.manifest)

    async def page(request: Request) -> Response:
        document = saved.document if options.reload is None else await on_thread(request.scope, saved.read)
        contract = admission.slots.contract
        tracks = video_tracks(contract) if contract is not None else []
        snapshot = f"snapshot/{quote(tracks[0])}.jpg" if tracks else None
        url = str(request.base_url)

        def text() -> str:
            made = document.render(admission.settings.name_of(contract), url, snapshot)
            return made.replace("</head>", f"{TOKEN_SCRIPT}</head>", 1) if request.state.guarded else made

        return pages.response(request, contract, (url, document), text)

    files = file_routes(lambda: saved.document.images)
    return files if options.manifest.page is not None else [Route("/", page), qr_route(), *files]


def index_html(bundle: Path = BUNDLE) -> str:
    """Return the HTML that loads the files of `bundle`, or in a clone, which has none, the modules of the page."""
    if bundle.is_dir():
        return (bundle / "index.html").read_text(encoding="utf-8")
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    return html.replace("</head>", f"{preload_links(PAGE)}</head>", 1)


def qr_route() -> Route:
    """Return the route of `/qr.svg?text=…`, the QR code of a text of at most 200 bytes."""
    codes = Documents("image/svg+xml")

    async def code(request: Request) -> Response:
        text = request.query_params.get("text", "")
        if not 0 < len(text.encode()) <= LONGEST_QR_BYTES:
            message = f"text must have 1 to {LONGEST_QR_BYTES} bytes\n"
            return PlainTextResponse(message, status_code=400, headers=NO_STORE)
        return codes.response(request, None, text, lambda: qr_svg(text))

    return Route("/qr.svg", code)


def qr_svg(text: str) -> str:
    """Return a QR code as SVG, with a margin of four modules."""
    svg = io.BytesIO()
    # To choose among all masks takes four times as long.
    code = segno.make_qr(text, error="m", mask=0, boost_error=False)
    code.save(svg, kind="svg", border=4, light="#fff", xmldecl=False)
    return svg.getvalue().decode()


def file_routes(images: Callable[[], Mapping[str, Path]], bundle: Path = BUNDLE) -> list[BaseRoute]:
    """Return the routes of the page's files, the author's `images()` among them, and of the JavaScript client.

    The paths of `images()` have no links.
    """
    files = {name: file for folder in (PAGE, TOKEN_PAGE, DOCS_PAGE) for name, file in _documents(folder)}
    hashed = dict(_documents(bundle))
    client_module = Document(CLIENT.encode(), "text/javascript")

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name in hashed:
            zipped = hashed.get(f"{name}.gz") if "gzip" in request.headers.get("accept-encoding", "") else None
            encoding = {"Content-Encoding": "gzip"} if zipped else {}
            return (zipped or hashed[name]).response(request, {**IMMUTABLE, "Vary": "Accept-Encoding", **encoding})
        if name in files:
            return files[name].response(request)
        # The author may save another image.
        path = await asyncio.to_thread(_unlinked, images().get(name))
        return _no_file() if path is None else FileResponse(path, headers=NO_CACHE)

    async def client(request: Request) -> Response:
        return client_module.response(request)

    return [Route("/static/{name:path}", static), Route("/reactor.js", client)]


def own_page_route(folder: Path, embedders: Sequence[str]) -> BaseRoute:
    """Return the route of the author's own page: the files of a directory, at all paths without another route.

    Files and directories whose name begins with a dot, such as `.env` and `.git`, are not served.
    The author's HTML may load what it likes; as with our page, only `embedders` may show it in a frame.
    """
    frames = " ".join(each for each in embedders if each != "null")
    headers = {**NO_CACHE, "Content-Security-Policy": f"frame-ancestors 'self' {frames}".rstrip()}
    files = _PageFiles(directory=folder, html=True)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        served: ASGIApp = files if scope["type"] == "http" else WebSocketClose()
        await served(scope, receive, adding_headers(headers, send))

    return Mount("/", serve)


class _PageFiles(StaticFiles):
    """Serve the files of a directory, but no hidden ones, not even through a link with another name."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        found, status = super().lookup_path(path)
        assert self.directory is not None, "it is made with one"
        root = Path(self.directory).resolve()
        if status is None or any(part.startswith(".") for part in Path(found).relative_to(root).parts):
            return "", None
        return found, status


def _documents(folder: Path) -> Iterator[tuple[str, Document]]:
    """Yield the files of a folder, if there is one, with their names below `/static/`."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), Document(path.read_bytes(), _media_type(path))


def _unlinked(path: Path | None) -> Path | None:
    """Return a path unless a link has taken its place since it was resolved."""
    return path if path is not None and path.resolve() == path else None


def _media_type(path: Path) -> str:
    # The machine's table may have the suffix .ts for a video.
    return "text/plain" if path.suffix == ".ts" else mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def _no_file() -> Response:
    return PlainTextResponse("no such file\n", status_code=404)
