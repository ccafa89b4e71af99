"""Requests out of bytes, however these are split, and the limits of both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.net.http_reader import (
    LEAST_CHUNK_BYTES,
    MOST_CHUNKS,
    MOST_HEAD_BYTES,
    MOST_HEADERS,
    MOST_LINE_BYTES,
    PIECE_BYTES,
    BadRequest,
    HttpReader,
    Request,
)

HOST = b"Host: localhost\r\n"
CHUNKED = b"POST /uploads HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
SOCKET = b"GET /ws HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def get(path: bytes, headers: bytes = b"") -> bytes:
    return b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path, HOST, headers)


def post(body: bytes) -> bytes:
    return b"POST /uploads HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (HOST, len(body), body)


def read(*pieces: bytes) -> tuple[list[Request], str]:
    """Read pieces as they arrive; return the requests, and why reading failed."""
    reader, requests = HttpReader(), list[Request]()
    try:
        for piece in pieces:
            reader.feed(piece)
            while reader.step() or reader.requests:
                requests += [reader.requests.popleft() for _ in range(len(reader.requests))]
    except BadRequest as error:
        return requests, error.message
    return requests, ""


@given(st.lists(st.integers(1, 300), max_size=30))
def test_requests_are_the_same_however_their_bytes_are_split(sizes: list[int]) -> None:
    said = get(b"/a", b"X-A: 1\r\n") + post(b"hello") + CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + get(b"/b?c=%20")
    pieces = []
    for size in sizes:
        pieces.append(said[:size])
        said = said[size:]
    requests, error = read(*pieces, said)
    found = [(each.method, each.target, bytes(each.body), each.complete, each.has_body) for each in requests]
    assert error == ""
    assert found == [
        ("GET", b"/a", b"", True, False),
        ("POST", b"/uploads", b"hello", True, True),
        ("POST", b"/uploads", b"abcde", True, True),
        ("GET", b"/b?c=%20", b"", True, False),
    ]
    assert requests[0].headers == [(b"host", b"localhost"), (b"x-a", b"1")]


def test_a_step_reads_4_kib_of_small_chunks() -> None:
    reader = HttpReader()
    reader.feed(CHUNKED + b"1\r\nx\r\n" * 900)
    steps = 0
    while reader.step():
        steps += 1
        assert len(reader.requests[0].body) <= steps * PIECE_BYTES / 6
    assert (steps, len(reader.requests[0].body)) == (2, 900)


def test_a_body_of_known_length_is_read_in_large_pieces() -> None:
    reader = HttpReader()
    reader.feed(post(bytes(100_000)))
    steps = 0
    while reader.step():
        steps += 1
    assert (steps, reader.requests[0].complete) == (3, True)


@pytest.mark.parametrize(
    ("chunks", "error"), [(MOST_CHUNKS, ""), (MOST_CHUNKS + 20, "the chunks of a body are too small")]
)
def test_many_small_chunks_are_refused(chunks: int, error: str) -> None:
    assert read(CHUNKED, b"1\r\nx\r\n" * chunks, b"0\r\n\r\n")[1].startswith(error)
    assert bool(error) == bool(read(CHUNKED + b"1\r\nx\r\n" * chunks)[1])


def test_any_number_of_chunks_of_a_fair_size_is_read() -> None:
    chunk = b"%x\r\n%s\r\n" % (LEAST_CHUNK_BYTES, bytes(LEAST_CHUNK_BYTES))
    (request,), error = read(CHUNKED, chunk * (5 * MOST_CHUNKS), b"0\r\n\r\n")
    assert (error, request.complete, len(request.body)) == ("", True, 5 * MOST_CHUNKS * LEAST_CHUNK_BYTES)


def test_requests_before_a_wrong_one_are_served() -> None:
    requests, error = read(get(b"/a") + get(b"/b") + b"garbage\r\n\r\n")
    assert [each.target for each in requests] == [b"/a", b"/b"]
    assert error == "not a request of HTTP/1.1\n"


def test_a_request_with_a_wrong_body_in_its_first_bytes_is_not_served() -> None:
    assert read(CHUNKED + b"zz\r\n") == ([], "not a request of HTTP/1.1\n")


@pytest.mark.parametrize(
    "head",
    [
        get(b"/", b"X: y\r\n" * MOST_HEADERS),
        get(b"/", b"X: " + b"y" * MOST_LINE_BYTES + b"\r\n"),
        get(b"/" + b"y" * MOST_LINE_BYTES),
        b"GET / HTTP/1.1\r\n"
        + b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 20
        + b"Z: " * MOST_HEAD_BYTES,
    ],
    ids=["headers", "line", "target", "bytes"],
)
def test_a_head_is_limited(head: bytes) -> None:
    requests, error = read(head)
    assert (requests, error[:21]) == ([], "the head of a request")


def test_a_head_at_the_limits_is_read() -> None:
    headers = b"".join(b"X-%d: y\r\n" % number for number in range(MOST_HEADERS - 1))
    assert len(read(get(b"/", headers))[0][0].headers) == MOST_HEADERS


def test_one_line_end_before_a_request_is_skipped_and_more_are_refused() -> None:
    requests, error = read(get(b"/a"), b"\r\n" + get(b"/b"))
    assert ([each.target for each in requests], error) == ([b"/a", b"/b"], "")
    assert read(b"\r\n\r\n")[1] == "not a request of HTTP/1.1\n"


def test_what_follows_a_handshake_is_left_for_the_socket() -> None:
    reader = HttpReader()
    reader.feed(SOCKET + b"\x89\x80abcd")
    reader.step()
    assert not reader.step()
    assert (reader.requests[0].upgrade, reader.rest()) == (b"websocket", b"\x89\x80abcd")


def test_another_upgrade_is_not_made() -> None:
    requests, error = read(get(b"/a", b"Connection: Upgrade\r\nUpgrade: h2c\r\n") + get(b"/b"))
    assert ([each.target for each in requests], error) == ([b"/a", b"/b"], "")


@pytest.mark.parametrize(
    ("said", "keeps"),
    [
        (get(b"/"), True),
        (get(b"/", b"Connection: close\r\n"), False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False),
    ],
    ids=["1.1", "close", "1.0", "1.0 that would stay"],
)
def test_a_connection_stays_open_with_http_1_1(said: bytes, keeps: bool) -> None:
    (request,), _ = read(said)
    assert request.keeps_alive is keeps
