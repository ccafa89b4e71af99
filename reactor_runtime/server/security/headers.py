"""What every answer says to browsers of how it may be used, and the page of what it may load."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.datastructures import Headers

from reactor_runtime.server.net.listening import is_loopback

_HOST = re.compile(r"[a-z0-9_.:\[\]-]+")  # whatever else may be called a host has no place in a policy
PLAIN = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def security_headers(request: Headers, *, secure: bool, embedders: Sequence[str]) -> Mapping[str, str]:
    """Give the headers of an answer to `request`; pages of `embedders` may show ours in a frame.

    Browsers complain of an opener policy where they don't trust the connection, so it is sent where they do.
    """
    host = request.get("host", "").lower()
    isolated = secure or is_loopback(host.rpartition(":")[0].strip("[]") or host)
    return {
        **PLAIN,
        "Content-Security-Policy": _content_policy(host, embedders),
        "Cross-Origin-Resource-Policy": "cross-origin" if embedders else "same-origin",
        **({} if embedders else {"X-Frame-Options": "SAMEORIGIN"}),
        **({"Cross-Origin-Opener-Policy": "same-origin"} if isolated else {}),
    }


def _content_policy(host: str, embedders: Sequence[str]) -> str:
    """List what a page of ours may load: its own files, and pictures and sound it made itself.

    Not every browser counts a WebSocket to the page's own host as 'self', so it is named too.
    """
    frames = " ".join(each for each in embedders if each != "null")
    sockets = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            "worker-src 'self'",
            "style-src 'self'",
            "img-src 'self' blob: data:",
            "media-src 'self' blob:",
            f"connect-src 'self'{sockets}",
            "form-action 'self'",
            "base-uri 'none'",
            f"frame-ancestors 'self' {frames}".rstrip(),
        ]
    )
