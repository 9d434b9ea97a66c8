"""The pages of a folder of runs in a browser on this machine; nothing here imports TensorFlow."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.config.schema import Integer, Text, key, settings
from ptycho.report.site import Answer, Site

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")  # by which a browser on this machine may call it
PATIENCE = 10  # seconds for a request to arrive
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@settings()
class ServeConfig:
    """The keys of ``conf/serve.yaml``."""

    folder: Text = key("outputs", "folder whose runs are shown, with those of its subfolders")
    port: Integer = key(8765, "port on this machine; 0: any available port", ge=0, le=65535)


def serve(config: ServeConfig) -> list[str]:
    """Serve until Ctrl-C."""
    try:
        site = Site(Path(config.folder))
    except OSError as error:
        raise ConfigError(f"folder={config.folder}: cannot be read ({error.strerror})") from error
    with open_server(site, config.port) as server:
        log.info("http://%s:%d/ shows %s; Ctrl-C ends it", HOST, server.server_port, site.folder)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return ["ended"]
    return []


def open_server(site: Site, port: int) -> ThreadingHTTPServer:
    """A server on this machine alone.

    Raises:
        ConfigError: the port is taken or not allowed.
    """
    try:
        server = ThreadingHTTPServer((HOST, port), partial(Handler, site.answer))
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise ConfigError(f"port={port}: {why}; choose another, or port=0 for any available port") from error
    server.daemon_threads = True
    return server


class Handler(BaseHTTPRequestHandler):
    """Answers GET from this machine under its own names; all else is refused.

    A page of another site whose name is made to lead to this machine (DNS rebinding) sends its own as Host.
    """

    server_version, sys_version, timeout = "PtychoPINN", "", PATIENCE

    def __init__(self, answer: Callable[[str], Answer], *arguments: Any) -> None:
        self._answer = answer
        super().__init__(*arguments)

    def do_GET(self) -> None:
        port = self.server.server_port  # type: ignore[attr-defined]
        allowed = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == 80 else set())
        if self.headers.get_all("Host", []) not in [[name] for name in allowed]:
            return self.send_error(421, "Misdirected Request")
        found = self._answer(self.path)
        self.send_response(found.status)
        headers = HEADERS | {"Content-Type": found.kind, "Content-Security-Policy": found.policy}
        for name, value in (headers | {"Content-Length": str(len(found.body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(found.body)

    def refuse(self) -> None:
        self.send_response(405)
        self.send_header("Allow", "GET")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = refuse

    def log_message(self, format: str, *arguments: Any) -> None:
        log.debug(format, *arguments)
