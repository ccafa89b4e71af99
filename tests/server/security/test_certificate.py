from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.certificate import first_certificate, tls_context

ECDSA = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def make_certificate(
    directory: Path, name: str = "own", *options: str, kind: tuple[str, ...] = ECDSA
) -> tuple[Path, Path]:
    """Make a certificate for this machine, and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", *kind, "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run([*command, *names, *files, *(options or ["-nodes"])], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_and_its_key_are_loaded(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    assert tls_context(certificate, key)
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    assert tls_context(both, None)


def test_the_first_certificate_of_a_file_is_without_its_chain_and_key(tmp_path: Path) -> None:
    (own, key), (authority, _) = make_certificate(tmp_path), make_certificate(tmp_path, "authority")
    chain = tmp_path / "chain.pem"
    chain.write_text(f"Subject: ü\n{key.read_text()}{own.read_text()}{authority.read_text()}")
    assert first_certificate(chain) == own.read_text()


def test_a_wrong_certificate_or_key_is_explained_in_one_line(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    other, locked = (
        make_certificate(tmp_path, "other")[1],
        make_certificate(tmp_path, "locked", "-passout", "pass:x")[1],
    )
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("-----BEGIN NOTHING-----\n")
    wrong: list[tuple[Path, Path | None, str]] = [
        (tmp_path / "none.pem", None, f"--ssl-certfile {tmp_path}/none.pem: No such file or directory"),
        (tmp_path, None, f"--ssl-certfile {tmp_path}: Is a directory"),
        (certificate, tmp_path / "none.key", f"--ssl-keyfile {tmp_path}/none.key: No such file or directory"),
        (certificate, None, f"there is no key in {certificate}"),
        (certificate, other, f"the key in {other} is not that of {certificate}"),
        (certificate, locked, f"the key in {locked} is encrypted"),
        (garbage, key, f"no certificate and key in PEM format in {garbage} and {key}"),
        (certificate, garbage, f"no certificate and key in PEM format in {certificate} and {garbage}"),
    ]
    for each, its_key, message in wrong:
        with pytest.raises(UsageError) as raised:
            tls_context(each, its_key)
        assert raised.value.message == message
        assert raised.value.hint


@pytest.mark.parametrize(
    ("kind", "warnings"),
    [(ECDSA, []), (("rsa:2048",), []), (("rsa:3072",), ["3072 bits"]), (("rsa:4096",), ["4096 bits"])],
)
def test_a_key_whose_signatures_take_long_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: tuple[str, ...], warnings: list[str]
) -> None:
    tls_context(*make_certificate(tmp_path, kind=kind))
    assert [record.getMessage().partition("RSA key of ")[2].partition(":")[0] for record in caplog.records] == warnings
