"""Reads the server's certificate before anything is started, and explains what is wrong with it."""

from __future__ import annotations

import base64
import logging
import re
import ssl
from pathlib import Path

from reactor_runtime.errors import UsageError

logger = logging.getLogger(__name__)

MOST_RSA_BITS = 2048
# The public key of a certificate in DER: rsaEncryption without parameters, and the length of the modulus, after a byte
# that is 0.
_RSA = re.compile(rb"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82..\x00\x30\x82..\x02\x82(..)", re.DOTALL)
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
    bits = _rsa_bits(certificate)
    if bits > MOST_RSA_BITS:
        logger.warning(
            "the certificate has an RSA key of %d bits: a new connection takes many times the CPU time that"
            " ECDSA takes, which is recommended",
            bits,
        )
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


def _rsa_bits(certificate: Path) -> int:
    """Return the number of bits of an RSA key; 0 for a key of another kind or below 2,048 bits."""
    lines = first_certificate(certificate).strip().splitlines()
    found = _RSA.search(base64.b64decode("".join(lines[1:-1])))
    return 0 if found is None else (int.from_bytes(found[1]) - 1) * 8


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
