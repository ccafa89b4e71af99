"""`reactor run --share`, with a program in place of cloudflared."""

from __future__ import annotations

import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from reactor_cli.share import qr_code
from reactor_runtime.errors import UsageError
from reactor_runtime.options.run_options import RunOptions
from tests.cli.command import reactor
from tests.server.bare import MODEL
from tests.server.running import serving, write_project
from tests.timeouts import TIMEOUT_S

HOST = "some-quiet-words.trycloudflare.com"
# It prints what cloudflared prints, waits for SIGTERM, and leaves a file when it ends as it should.
FAKE = f"""\
#!{sys.executable}
import pathlib, signal, sys
here = pathlib.Path(__file__).parent
def end(*_):
    here.joinpath("ended").touch()
    sys.exit()
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, signal.SIG_IGN)
here.joinpath("arguments").write_text(" ".join(sys.argv[1:]))
print("INF Requesting new quick Tunnel on trycloudflare.com...", file=sys.stderr)
print("INF |  https://{HOST}  |", file=sys.stderr, flush=True)
signal.pause()
"""
FAILING = """\
#!/bin/sh
echo 'failed to request quick Tunnel: Post "https://api.trycloudflare.com/tunnel": dial tcp: lookup \
api.trycloudflare.com: no such host' >&2
exit 1
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty directory that comes first on the PATH."""
    directory = tmp_path / "tools"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


def install(directory: Path, program: str) -> None:
    file = directory / "cloudflared"
    file.write_text(program)
    file.chmod(0o755)


def status_of(port: int, path: str) -> int:
    """Request a path as it comes through the tunnel."""
    headers = {"Host": HOST, "X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_shared_server_prints_its_public_link_and_ends_the_tunnel(tools: Path, tmp_path: Path) -> None:
    install(tools, FAKE)
    with serving(write_project(tmp_path / "project", MODEL), "--share") as server:
        server.wait_for(rf"https://{HOST}/\?token=\S+")
        found = re.search(rf"https://{HOST}/\S+", server.log)
        assert found is not None
        server.wait_for("█")
        assert (tools / "arguments").read_text().endswith(f"--url http://127.0.0.1:{server.port}")
        assert status_of(server.port, "/") == 401
        link = urlsplit(found[0])
        assert len(parse_qs(link.query)["token"][0]) >= 16
        assert status_of(server.port, f"/?{link.query}") == 200
    assert (tools / "ended").exists()


def test_a_tunnel_that_fails_is_reported_and_the_server_goes_on(tools: Path, tmp_path: Path) -> None:
    install(tools, FAILING)
    with serving(write_project(tmp_path / "project", MODEL), "--share") as server:
        server.wait_for("warning: cloudflared ended, the model is not shared: failed to request quick Tunnel")
        assert server.get("/live")[0] == 200
        assert "trycloudflare.com/?token=" not in server.log


def test_without_cloudflared_the_error_says_what_to_install(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", MODEL)
    outcome = reactor("run", str(project), "--share", cwd=tmp_path, PATH=str(tmp_path))
    assert outcome.code == 2
    assert "error: --share needs cloudflared, which is not on the PATH" in outcome.err
    assert "hint: install it: brew install cloudflared" in outcome.err


def test_sharing_adds_a_token_the_host_names_and_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REACTOR_TOKEN", raising=False)
    monkeypatch.delenv("SPACE_ID", raising=False)
    access = RunOptions(share=True).access()
    assert access.token is not None
    assert (access.hosts, access.proxies) == (("*.trycloudflare.com",), ("127.0.0.1", "::1"))
    assert RunOptions(share=True, token="correct-horse").access().token == "correct-horse"


def test_a_shared_server_has_no_certificate_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--share serves https by itself"):
        RunOptions(share=True, certificate=tmp_path).access()


def test_a_qr_code_fits_into_a_terminal() -> None:
    lines = qr_code(f"https://{HOST}/?token=abcdefghijklmnopqrstuv").split("\n")
    assert len(lines) <= 24
    assert len({len(line) for line in lines}) == 1
    assert set("".join(lines)) <= set("█▀▄ ")
