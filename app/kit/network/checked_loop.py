"""An event loop that connects to allowed addresses only, for libraries that open connections by themselves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from app.kit.network.addresses import Network
from app.kit.network.answer_limit import AnswerLimit, AnswerTooLong
from app.kit.network.public_hosts import AddressRefused, resolve


class CheckedLoop(asyncio.SelectorEventLoop):
    """Resolves each name itself, checks its addresses, and connects to one that passed. Of all its connections together
    no more is read than an AnswerLimit allows.

    Args:
        networks: private networks that may be reached.

    Attributes:
        problem: why the last connection could not be opened, or has sent too much; empty for none.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__()
        self._networks = networks
        self._limit = AnswerLimit()
        self._opened: list[asyncio.Transport] = []
        self.problem = ""

    def close(self) -> None:
        """Also ends connections that are closing, as by TLS, which asyncio would leave to the garbage collector."""
        if not self.is_closed():
            for transport in self._opened:
                transport.abort()
            self.run_until_complete(asyncio.sleep(0))
        super().close()

    @property
    def has_read_too_much(self) -> bool:
        return self._limit.is_spent

    async def create_connection(  # type: ignore[override]  # only what is called
        self, protocol_factory: Any, host: str, port: int, *, ssl: Any = None
    ) -> Any:
        """As asyncio's, with a certificate checked against the name.

        Args:
            protocol_factory: makes the protocol of the connection.
            host: name or address.
            port: of the server.
            ssl: context for TLS; None: clear text.

        Returns:
            Transport and protocol.

        Raises:
            OSError: The name has no address, none that may be reached, or nothing answers there.
        """
        try:
            address = await self.run_in_executor(None, resolve, host, port, self._networks)
            name = host if ssl else None
            factory = partial(self._make_bounded, protocol_factory)
            opened = await super().create_connection(factory, str(address), port, ssl=ssl, server_hostname=name)
            self._opened.append(opened[0])
            return opened
        except AddressRefused as error:
            self.problem = error.message.rstrip(".")
            raise OSError(self.problem) from error
        except (OSError, UnicodeError) as error:  # the latter: no name of a host, as one with a label of 64 letters
            number = error.errno if isinstance(error, ConnectionError) else None
            # asyncio's own text of these names the address again
            reason = os.strerror(number) if number else getattr(error, "strerror", None) or error
            self.problem = f"{host}:{port} cannot be reached: {reason}"
            raise OSError(self.problem) from error

    def _make_bounded(self, protocol_factory: Any) -> Any:
        """Returns a protocol whose connection is closed when too much was read."""
        protocol = protocol_factory()
        received = protocol.data_received

        def data_received(data: bytes) -> None:
            try:
                self._limit.spend(len(data))
            except AnswerTooLong as error:
                self.problem = str(error)
                raise
            received(data)

        protocol.data_received = data_received
        return protocol
