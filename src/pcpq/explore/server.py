"""The server of the page, on 127.0.0.1 only."""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Callable

import uvicorn

from pcpq.explore.application import make_application
from pcpq.explore.view import View

HOST = "127.0.0.1"
TOKEN_BYTES = 24
# Seconds that answers under way may take after Ctrl-C.
GRACE = 2


class Server:
    """A server that shows a view at `address`. It listens at once, and answers while `run` runs."""

    def __init__(self, view: View, port: int = 0) -> None:
        token = secrets.token_urlsafe(TOKEN_BYTES)
        application = make_application(view, token)
        self._socket = listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.address = f"http://{HOST}:{self.port}/{token}/"
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                interface="asgi3",
                proxy_headers=False,
                server_header=False,
                access_log=False,  # it would show the token
                log_config=None,
                log_level="critical",  # answers log errors themselves; Ctrl-C during a request is none
                limit_concurrency=100,
                timeout_graceful_shutdown=GRACE,
            )
        )

    def run(self) -> None:
        """Answer requests until Ctrl-C, which is a KeyboardInterrupt, or until `stop` is called."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end, from another thread."""
        self._server.should_exit = True


def listening(port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1; port 0 is any that is free."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # the port of a server that has just ended is free; elsewhere this would share it
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(100)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use: give another one, or none") from error
        raise
    return found


def serve(view: View, port: int, ready: Callable[[str], None]) -> None:
    """Serve a view until Ctrl-C; `ready` is called with its address."""
    server = Server(view, port)
    ready(server.address)
    server.run()
