"""Addresses of servers: is one usable, and is it this machine's own? Nothing here connects."""

from urllib.parse import urlsplit

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_server_address(url: str) -> bool:
    """Whether ``url`` names a server over http or https."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_loopback(url: str | None) -> bool:
    """Whether an address is this machine's own."""
    return url is not None and urlsplit(url).hostname in LOOPBACK
