"""Every HTTP route with whatever may stand in a request: no status but those that are documented, no traceback."""

from __future__ import annotations

import http.client
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.running import RunningServer
from tests.timeouts import TIMEOUT_S

slow = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
DOCUMENTED = {200, 206, 400, 403, 404, 405, 413, 415, 416, 421, 426, 429}
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "WHATEVER")
words = st.text(max_size=30) | st.sampled_from(["..", "../..", "main_video", "index.html", "\0", "%", "%ff", "a" * 300])
header_text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40)
HEADERS = {
    "Accept": ("text/html", "*/*;q=a", "application/openmetrics-text; version=1.0.0; escaping=x", ",;,", "image/"),
    "Range": ("bytes=0-", "bytes=9-1", "bytes=-5", "bytes=0-0,1-1,2-2", "lines=1-", "bytes=" + "9" * 30 + "-"),
    "If-None-Match": ("*", '"', "W/"),
    "If-Modified-Since": ("yesterday", "Thu, 01 Jan 1970 00:00:00 GMT"),
    "Cookie": ("=;;;", 'a="\\"', "reactor=x; reactor=y"),
    "Authorization": ("Bearer", "Bearer \xff", "Basic Og==", "bearer  x"),
    "Origin": ("null", "http://", "http://[::1", "file://"),
    "Content-Type": ("", ";", "text/plain; charset=nothing", "multipart/form-data", "a" * 500),
    "X-Forwarded-For": ("1.2.3.4", "::1, junk", "unknown"),
    "Accept-Encoding": ("gzip;q=2", "\xff"),
}
headers = st.dictionaries(st.sampled_from(sorted(HEADERS)), header_text, max_size=3) | st.sampled_from(
    [{name: value} for name, values in HEADERS.items() for value in values]
)


def asked(
    server: RunningServer, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    """Ask once; gives status and body, of a stream without an end nothing."""
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    try:
        client.request(method, path, body, headers)
        answer = client.getresponse()
        endless = answer.getheader("Content-Type", "").startswith("multipart/")
        return answer.status, b"" if endless else answer.read()
    finally:
        client.close()


paths = st.one_of(
    words.map(lambda word: f"/{quote(word)}"),
    words.map(lambda word: f"/static/{quote(word)}"),
    words.map(lambda word: f"/snapshot/{quote(word)}.jpg"),
    words.map(lambda word: f"/stream/{quote(word, safe='')}.mjpg"),
    st.sampled_from(
        ["/", "//", "/health", "/ready", "/live", "/schema", "/metrics", "/uploads", "/ws", "/static/%2e%2e/"]
    ),
)
queries = st.dictionaries(st.sampled_from(["fps", "key", "name", "token", "role", "x"]), words, max_size=3).map(
    lambda query: "?" + "&".join(f"{name}={quote(word)}" for name, word in query.items()) if query else ""
)


@given(method=st.sampled_from(METHODS), path=paths, query=queries, headers=headers)
@slow
def test_any_request_is_answered(
    server: RunningServer, method: str, path: str, query: str, headers: dict[str, str]
) -> None:
    status, _ = asked(server, method, path + query, headers)
    assert status in DOCUMENTED


@given(fps=words | st.floats().map(str) | st.integers().map(str) | st.sampled_from(["٣", "1_0", "0x1", "1e-9", " 5 "]))
@slow
def test_a_stream_s_rate_is_a_number_or_is_refused(server: RunningServer, fps: str) -> None:
    status, body = asked(server, "GET", f"/stream/main_video.mjpg?fps={quote(fps)}", {})
    assert status == 200 or (status == 400 and b"fps is" in body)


@given(name=words, kind=header_text, body=st.binary(max_size=100))
@slow
def test_a_file_without_the_session_s_key_is_refused_whatever_it_is_called(
    server: RunningServer, name: str, kind: str, body: bytes
) -> None:
    path = f"/uploads?name={quote(name)}&key={quote(name)}"
    assert asked(server, "POST", path, {"Content-Type": kind}, body)[0] == 403


@pytest.mark.parametrize("path", ["/health", "/schema"])
def test_what_is_json_is_json_whatever_is_asked_for(server: RunningServer, path: str) -> None:
    for accept in HEADERS["Accept"]:
        assert json.loads(asked(server, "GET", path, {"Accept": accept})[1])
