"""Reads the server's certificate before anything is started, and explains what is wrong with it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from reactor_runtime.errors import UsageError

_CERTIFICATE = re.compile(r"-----BEGIN ([A-Z0-9 ]*CERTIFICATE)-----.*?-----END \1-----\n?", re.DOTALL)


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Return a context for a certificate chain and its key in PEM; without `key` both are in one file.

    Raises UsageError if they can't be used.
    """
    _check_readable("--ssl-certfile", certificate)
    if key is not None:
        _check_readable("--ssl-keyfile", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # With a password OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise _unusable(certificate, key, error) from error
    return context


def first_certificate(file: Path) -> str:
    """Return the certificate of the server itself, without its chain and key, of a file that `tls_context` has read."""
    found = _CERTIFICATE.search(file.read_text(encoding="latin-1"))
    assert found is not None, "the file has been read before"
    return found[0]


def pinned_context(certificate: str) -> ssl.SSLContext:
    """Return a context for connections to servers that have this certificate, whatever their addresses are."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # Trust the certificate itself: its authority may be unknown here, and has signed those of others.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


def _check_readable(option: str, path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}", hint="it has to be a file in PEM format") from error


def _unusable(certificate: Path, key: Path | None, error: ssl.SSLError) -> UsageError:
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
