"""The options of an agent, and how their texts are read. Pure: the command reads arguments and environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

from app.inference.predictor_options import ExecutionProvider
from app.kit.errors import BadInput
from app.kit.network.addresses import ANY_ADDRESS, Network, is_loopback, read_networks
from app.nodes.model import NAME, Side, TlsMode

DEFAULT_LISTEN = "127.0.0.1:9100"
_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}


@dataclass(frozen=True)
class AgentOptions:
    """The checked arguments of `modelmill node`."""

    name: str
    side: Side
    cloud: str
    """The http(s) URL of the web."""
    data: Path
    """The agent's folder."""
    token: str = ""
    """Token of the node; empty: that of its last run, or it registers itself."""
    admin_token: str = ""
    """An administrator's token, for registration."""
    listen_host: str = "127.0.0.1"
    listen_port: int = 9100
    """Port of the agent's own server; 0: any free one."""
    bind: str = "127.0.0.1"
    """The address on which workers listen."""
    address: str = "127.0.0.1"
    """The address at which others reach workers."""
    scripts: tuple[Path, ...] = ()
    """Folders that may contain users' programs."""
    videos: tuple[tuple[str, str], ...] = ()
    """(type, path or URL), in the order of their ids."""
    sources: tuple[str, ...] = ()
    """Folders, files and URL patterns that services may open, see app.inference.sources.allow_list."""
    discover: str = ""
    """This machine's address on the network where cameras are discovered; empty: no discovery."""
    media_server: str = ""
    """The URL below which video jobs broadcast their pictures, perhaps with user and password; empty: none."""
    sink_networks: tuple[Network, ...] = ()
    """Private networks to which results may be sent from here."""
    passed: tuple[str, ...] = ()
    """Names of further environment variables that workers inherit."""
    cpus: frozenset[int] = frozenset()
    provider: ExecutionProvider = ExecutionProvider.AUTO
    """Of services and stages without their own."""
    stops_workers: bool = False
    """SIGTERM also ends the workers."""
    replace: bool = False
    """Take over the name of a node that is already registered."""

    tls: TlsMode = TlsMode.AUTO
    """Whether links to other nodes are encrypted."""
    tls_files: tuple[Path, Path, Path] | None = None
    """Key, certificate and authorities that the node's administrator gives; None: the installation issues them."""

    @property
    def agent_host(self) -> str:
        """Returns the address at which others reach the agent's own server: where it listens, unless that is valid only
        on this machine."""
        is_unnamed = self.listen_host in ANY_ADDRESS or is_loopback(self.listen_host)
        return self.address if is_unnamed else self.listen_host


def check_name(text: str) -> str:
    """Returns a valid name of a node.

    Raises:
        BadInput: It is not valid.
    """
    if re.fullmatch(NAME, text) is None:
        raise BadInput(
            f"{text!r} is no name for a node",
            hint="Small letters, digits, hyphens and dots, at most 63; a letter or digit first and last.",
        )
    return text


def web_url(text: str) -> str:
    """Returns the http URL for ws://host:8080 and http://host:8080 alike.

    Raises:
        BadInput: It is not a URL.
    """
    try:
        parts = urlsplit(text.strip())
        parts.port  # noqa: B018  # is checked when it is read
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise BadInput(f"{text!r} is no address of the web", hint="It should look like ws://host:8080 or https://host.")
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}"


def socket_url(url: str) -> str:
    """Returns the ws:// or wss:// form of an http:// or https:// URL."""
    return "ws" + url.removeprefix("http")


def listen_address(text: str) -> tuple[str, int]:
    """Reads host:port; a port alone means loopback.

    Raises:
        BadInput: It is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"{text!r} is nothing to listen on", hint=f"It should look like {DEFAULT_LISTEN}.")
    return host.strip("[]") or "127.0.0.1", int(port)


def source(text: str) -> str:
    """Reads a URL pattern, or an absolute path.

    Raises:
        BadInput: It is neither.
    """
    if not text.strip():
        raise BadInput("an empty text offers no source", hint="It should look like /cameras or rtsp://10.0.0.*/*.")
    return text.strip() if "://" in text else str(Path(text.strip()).expanduser().absolute())


def media_server(text: str) -> str:
    """Reads an RTSP URL, without a slash at its end; empty: none.

    Raises:
        BadInput: It is not one.
    """
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        is_url = parts.scheme == "rtsp" and bool(parts.hostname) and not parts.query and (parts.port or 1) > 0
    except ValueError:
        is_url = False
    if url and not (is_url and url.isprintable()):
        raise BadInput(
            "this is no address of a media server", hint="It should look like rtsp://127.0.0.1:8554/modelmill."
        )
    return url


def networks(text: str) -> tuple[Network, ...]:
    """Reads networks, separated by commas or blanks; raises BadInput if one of them is none."""
    try:
        return read_networks(text)
    except ValueError as error:
        raise BadInput(f"{error}", hint="Networks look like 192.168.1.0/24, a single address like 10.0.0.7.") from None


def interface(text: str) -> str:
    """Reads an IPv4 address of this machine; empty: none.

    Raises:
        BadInput: It is not one.
    """
    try:
        return str(IPv4Address(text.strip())) if text.strip() else ""
    except ValueError:
        raise BadInput(
            f"{text!r} is no address", hint="Give this machine's on that network, as 192.168.1.10."
        ) from None


def cpu_numbers(text: str) -> frozenset[int]:
    """Reads `0,1` or `0-3`.

    Raises:
        BadInput: It is not a list of CPUs.
    """
    cpus = set[int]()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part, re.ASCII)
        if match is None:
            raise BadInput(f"{text!r} names no CPUs", hint="It should look like 0,1 or 0-3.")
        cpus |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(cpus)


def tls_files(key: Path | None, certificate: Path | None, authorities: Path | None) -> tuple[Path, Path, Path] | None:
    """Returns the three files together; None: none was given.

    Raises:
        BadInput: Only some were given.
    """
    if key is None and certificate is None and authorities is None:
        return None
    if key is None or certificate is None or authorities is None:
        raise BadInput(
            "a key, its certificate and the authorities of others belong together",
            hint="Give --tls-key, --tls-certificate and --tls-authorities.",
        )
    return key.absolute(), certificate.absolute(), authorities.absolute()


def reachable_address(bind: str, address: str | None) -> str:
    """Returns the address at which others reach the workers.

    Raises:
        BadInput: It cannot be determined.
    """
    if not address and bind in ANY_ADDRESS:
        raise BadInput(f"with --bind {bind} others cannot know where to reach the workers", hint="Give --address, too.")
    return address or bind
