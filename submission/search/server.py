"""The page's server: for this machine alone, over HTTP, with nothing but the standard library."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from submission.errors import InputError, SubmissionError, UsageError
from submission.input.directory import Input
from submission.paths import SAMPLE
from submission.search import asked, page
from submission.search.asked import Asked
from submission.search.page import Site
from submission.search.searcher import Searcher, Wish
from submission.systems.catalogue import SYSTEMS, System, find

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
STYLE = Path(__file__).with_name("style.css")
EXAMPLES = 8  # questions on the first page
PATIENCE = 10.0  # seconds, until a browser has said what it wants
HEADERS = {
    # Nothing but this page and its style: no scripts, no other places, no frames.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SearchServer(ThreadingHTTPServer):
    """A server on the loopback address. Browsers wait for each other: one question at a time is answered."""

    daemon_threads = True

    def __init__(self, searcher: Searcher, systems: Sequence[System], depth: int, port: int) -> None:
        """Listen on a port, 0 for any that is free; systems and depth are what a question is asked with at first.

        Raises:
            UsageError: the port is taken, or may not be used.
        """
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise UsageError(f"--serve {port}: cannot be listened on ({error.strerror}); choose another port") from None
        self.searcher, self.lock = searcher, Lock()
        self.default = Asked(systems=tuple(system.name for system in systems), depth=depth)
        ready = [name for name, system in SYSTEMS.items() if not system.missing(searcher.checkpoints)]
        directory = searcher.corpus.directory
        self.site = Site("the sample" if directory == SAMPLE else str(directory), ready, _examples(directory))
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def address(self) -> str:
        """Return the address of the first page."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def answered(self, query: str) -> tuple[HTTPStatus, str]:
        """The page for the part of an address behind `?`, and its status."""
        wanted = self.default
        try:
            wanted = replace(wanted, question=asked.read_question(query))  # which an error leaves in the box
            wanted = asked.read(query, self.default)
            if not wanted.question.strip():
                return HTTPStatus.OK, page.first_page(self.site, wanted)
            wish = Wish(wanted.depth, wanted.explains, shaded=True)
            with self.lock:
                answer = self.searcher.ask(wanted.question, [find(name) for name in wanted.systems], wish)
                arguments = self.searcher.size
        except UsageError as error:
            return HTTPStatus.BAD_REQUEST, page.error_page(self.site, wanted, str(error))
        except SubmissionError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, page.error_page(self.site, wanted, str(error))
        except Exception:
            log.exception("internal error")
            message = "internal error; the terminal that serves this page says more"
            return HTTPStatus.INTERNAL_SERVER_ERROR, page.error_page(self.site, wanted, message)
        return HTTPStatus.OK, page.answer_page(self.site, wanted, answer, arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is no error."""
        if not isinstance(sys.exception(), OSError):
            log.exception("internal error")


class _Handler(BaseHTTPRequestHandler):
    server: SearchServer
    server_version, sys_version = "aragorn", ""
    timeout = PATIENCE

    def parse_request(self) -> bool:
        """Read a request; refuse other hosts, methods and forms."""
        if not super().parse_request():
            return False
        if self.command in ("GET", "HEAD"):
            return True
        self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET", {"Allow": "GET, HEAD"})
        return False

    def do_GET(self) -> None:
        # Another host's name that leads here is another site's: it must not read what this machine serves (DNS rebinding).
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"expected the host {' or '.join(sorted(self.server.hosts))}")
            return
        path, _, query = self.path.partition("?")
        if path == "/":
            status, text = self.server.answered(query)
            self._send(status, "text/html", text)
        elif path == "/style.css":
            self._send(HTTPStatus.OK, "text/css", STYLE.read_text(encoding="utf-8"))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"nothing is here; the page is {self.server.address}")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _refuse(self, status: HTTPStatus, message: str, more: dict[str, str] | None = None) -> None:
        self._send(status, "text/plain", f"{status.value} {status.phrase}: {message}\n", more or {})

    def _send(self, status: HTTPStatus, kind: str, text: str, more: dict[str, str] | None = None) -> None:
        content = text.encode(errors="replace")
        self.send_response(status)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content)), **HEADERS, **(more or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Who looks at the page sees what was asked; the terminal stays quiet."""


def serve(searcher: Searcher, systems: Sequence[System], depth: int, port: int) -> None:
    """Serve the page until the process is stopped. Raises UsageError: the port cannot be listened on."""
    with SearchServer(searcher, systems, depth, port) as server:
        print(server.address, flush=True)
        print("open it in a browser of this machine; Ctrl-C ends", file=sys.stderr)
        server.serve_forever()


def _examples(directory: Path) -> list[str]:
    """The first topics of an input, if it has some."""
    try:
        return Input(directory).topics["query"].tolist()[:EXAMPLES]
    except InputError:
        return []
