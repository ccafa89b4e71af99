"""Defaults of a server from where it runs: HOST, PORT, a Hugging Face Space, a tunnel of cloudflared."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from reactor_runtime.server.options import Access

HOST, PORT = "127.0.0.1", 8080
SPACE_PORT = 7860
# The page of a Space shows the model in a frame.
SPACE_PAGE = "https://huggingface.co"
# The proxy of a Space has a private address. With `*` the first address of X-Forwarded-For would count, which a client
# can forge; with networks it is the last one outside them.
SPACE_PROXIES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8")

# The host names of quick tunnels.
TUNNELS = "*.trycloudflare.com"


def host_of(given: str | None, environment: Mapping[str, str]) -> str:
    """Return the address to listen on: the option, HOST, or a default.

    HOST is used only if it is an address: some shells and compilers set it to something else.
    """
    if given is not None:
        return given
    host = environment.get("HOST", "")
    if _is_address(host):
        return host
    return "0.0.0.0" if in_space(environment) else HOST


def port_of(given: int | None, environment: Mapping[str, str]) -> int:
    """Return the port to listen on: the option, PORT, or a default. Raises UsageError if PORT is not a port."""
    if given is not None:
        return given
    port = environment.get("PORT", "")
    if not port:
        return SPACE_PORT if in_space(environment) else PORT
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise UsageError(f'the environment variable PORT is "{port}", not a port', hint="unset it, or use --port")
    return int(port)


def visible_gpus(environment: Mapping[str, str]) -> int:
    """Return how many NVIDIA GPUs a process with this environment can use."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        # CUDA ignores what follows the first invalid number, such as -1.
        return len([name for name in chosen.split(",") if name.strip() and not name.strip().startswith("-")])
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def in_space(environment: Mapping[str, str]) -> bool:
    """Return whether this program runs in a Hugging Face Space."""
    return bool(environment.get("SPACE_ID"))


def space_access(access: Access, environment: Mapping[str, str]) -> Access:
    """Return the options on access for a Space: its host names, its page, and private networks for its proxy."""
    host = environment.get("SPACE_HOST", "").lower()
    return dataclasses.replace(
        access,
        hosts=(*access.hosts, "*.hf.space", *([host] if host else [])),
        origins=(*access.origins, SPACE_PAGE),
        proxies=access.proxies or SPACE_PROXIES,
    )


def tunnel_access(access: Access) -> Access:
    """Return the options on access for a server that a tunnel on this machine makes public."""
    return dataclasses.replace(access, hosts=(*access.hosts, TUNNELS), proxies=access.proxies or ("127.0.0.1", "::1"))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True
