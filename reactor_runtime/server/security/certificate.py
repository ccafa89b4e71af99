"""The server's certificate: read before anything is started, and what is wrong with it in one line."""

from __future__ import annotations

import ssl
from pathlib import Path

from reactor_runtime.errors import UsageError


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Read a certificate chain and its key, in PEM; without `key` both are in one file. Raises UsageError."""
    _check_readable("--ssl-certfile", certificate)
    if key is not None:
        _check_readable("--ssl-keyfile", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")  # a password of our own, so that none is asked for
    except ssl.SSLError as error:
        raise _useless(certificate, key, error) from error
    return context


def _check_readable(option: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}", hint="it takes a file in PEM format") from error


def _useless(certificate: Path, key: Path | None, error: ssl.SSLError) -> UsageError:
    holder = certificate if key is None else key
    if b"ENCRYPTED" in holder.read_bytes():
        return UsageError(
            f"the key in {holder} is encrypted", hint=f"openssl pkey -in {holder} writes it without a password"
        )
    if "MISMATCH" in (error.reason or ""):
        return UsageError(f"the key in {holder} is not that of {certificate}", hint="--ssl-keyfile names the key")
    if key is None and b"PRIVATE KEY" not in certificate.read_bytes():
        return UsageError(f"there is no key in {certificate}", hint="--ssl-keyfile names the file it is in")
    return UsageError(
        f"no certificate and key in PEM format in {certificate} and {holder}", hint="they start -----BEGIN"
    )
