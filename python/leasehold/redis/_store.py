"""Makes a store URL for the server of a client of redis-py, with the same keys."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from leasehold.errors import InvalidInput

_SAME_KEYS = {"layout": "plain", "prefix": ""}
"""The layout in which redis-py and leasehold exclude each other."""

# The settings of a client that no store URL has.
_UNREAD = ("credential_provider", "ssl_ca_data", "ssl_ca_path", "ssl_password")


def url_of(client: Any) -> str:
    """The store URL of a client: its host or socket, TLS, user and database."""
    nodes = getattr(client, "nodes_manager", None)
    if nodes is not None:
        hosts = [(node.host, node.port) for node in nodes.startup_nodes.values()]
        return _url("redis+cluster", hosts, dict(nodes.connection_kwargs), "")
    pool = client.connection_pool
    options: dict[str, Any] = dict(pool.connection_kwargs)
    sentinels = getattr(pool, "sentinel_manager", None)
    if sentinels is not None:
        if any(not option.startswith("socket_") for option in sentinels.sentinel_kwargs):
            raise _refused("sentinel_kwargs")
        found = [it.connection_pool.connection_kwargs for it in sentinels.sentinels]
        hosts = [(it["host"], it["port"]) for it in found]
        return _url("redis+sentinel", hosts, options, f"/{quote(pool.service_name, safe='')}")
    if "path" in options:
        return _url("redis+unix", [], options, quote(options["path"]))
    host = (options.get("host", "localhost"), options.get("port", 6379))
    scheme = "rediss" if "SSL" in pool.connection_class.__name__ else "redis"
    return _url(scheme, [host], options, "")


def _refused(what: str) -> InvalidInput:
    text = "which is not taken over: give the store URL, as Lock(client, name, url=...)"
    return InvalidInput(f"the client has {what}, {text}")


def _url(scheme: str, hosts: list[tuple[str, int]], options: dict[str, Any], path: str) -> str:
    for option in _UNREAD:
        if options.get(option) is not None:
            raise _refused(option)
    if options.get("ssl"):
        scheme = scheme.replace("redis", "rediss", 1)
    user, password = options.get("username") or "", options.get("password") or ""
    who = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""
    where = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts
    )
    database = int(options.get("db") or 0)
    if database and scheme == "redis+unix":
        raise _refused(f"database {database} on a socket")
    number = f"/{database}" if database else ""
    return f"{scheme}://{who}{where}{path}{number}?{urlencode({**_SAME_KEYS, **_tls(options)})}"


def _tls(options: dict[str, Any]) -> dict[str, str]:
    files = {"ssl_ca_certs": "ca", "ssl_certfile": "cert", "ssl_keyfile": "key"}
    given = {ours: str(options[theirs]) for theirs, ours in files.items() if options.get(theirs)}
    requires = options.get("ssl_cert_reqs", "required")
    if requires in ("none", 0) or getattr(requires, "name", "") == "CERT_NONE":
        raise InvalidInput("the client trusts any server: replace ssl_cert_reqs by ssl_ca_certs")
    return given
