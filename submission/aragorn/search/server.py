"""Serve the search page, on the loopback interface only."""

import logging
import re
import select
import signal
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any
from urllib.parse import quote

from aragorn.errors import InputError, SubmissionError, UsageError
from aragorn.io.dataset import Dataset
from aragorn.paths import SAMPLE_INPUT
from aragorn.search import page
from aragorn.search.background import BackgroundSearches, BusyError
from aragorn.search.indexing import format_index_command
from aragorn.search.page import PageParams, SiteSettings
from aragorn.search.results import SearchResults
from aragorn.search.searcher import Searcher
from aragorn.systems.catalogue import SYSTEMS, System, list_incomplete

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
# any port may be forwarded
LOOPBACK_HOST = re.compile(r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]*)?", re.IGNORECASE)
ABSOLUTE_FORM = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
STYLESHEET = Path(__file__).with_name("style.css")
MAX_EXAMPLES = 8  # example queries on the home page
REQUEST_TIMEOUT = 2.0  # seconds for a request, during which its connection has a thread
RESPONSE_TIMEOUT = 10.0  # seconds for sending a page
MAX_CONNECTIONS = 64  # connections with a thread; more than MAX_WAITING, for pages without a search
RETRY_SECONDS = 5  # after which a refused request is to be repeated
HEADERS = {
    # Allow only this page and its stylesheet: no scripts, external resources or frames.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class SearchServer(ThreadingHTTPServer):
    """HTTP server on the loopback address, with at most MAX_CONNECTIONS threads."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(
        self,
        searcher: Searcher,
        dataset: Dataset,
        systems: Sequence[System],
        depth: int,
        port: int,
        hosts: Collection[str] = (),
    ) -> None:
        """Listen on `port` (0: any free port), or raise UsageError.

        `systems` and `depth` are defaults; `hosts` name the page besides the loopback addresses.
        """
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise UsageError(
                f"--serve {port}: cannot listen on port ({error.strerror}); choose another port"
            ) from None
        self._connections = BoundedSemaphore(MAX_CONNECTIONS)
        self._searches = BackgroundSearches(searcher)
        self._hosts = {host.lower() for host in hosts}
        self.searcher = searcher
        self.default_params = PageParams(
            systems=tuple(system.name for system in systems), depth=depth
        )
        self.index_command = format_index_command(dataset.paths)
        incomplete = list_incomplete(searcher.collection.session.checkpoints)
        available_names = [name for name in SYSTEMS if name not in incomplete]
        corpus_name = "sample" if dataset.paths == (SAMPLE_INPUT,) else dataset.name
        self.site = SiteSettings(corpus_name, available_names, _load_examples(*dataset.paths))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/"

    def is_allowed(self, host: str) -> bool:
        """Return whether the page answers to a host name, with or without a port."""
        name = re.sub(r":[0-9]*$", "", host).lower()
        return name in self._hosts or bool(LOOPBACK_HOST.fullmatch(host))

    def respond(
        self, query_string: str, is_gone: Callable[[], bool] = lambda: False
    ) -> tuple[HTTPStatus, str]:
        """Return status and page of a query string; raise ConnectionAbortedError if `is_gone`."""
        params = self.default_params
        try:
            # for the form of an error page
            params = replace(params, query=page.parse_query_text(query_string))
            params = page.parse_params(query_string, self.default_params)
            if not params.query.strip():
                return HTTPStatus.OK, page.render_home(self.site, params)
            answer = self._searches.search(params, is_gone)
            if isinstance(answer, SearchResults):
                return HTTPStatus.OK, page.render_results(
                    self.site, params, answer, self.searcher.n_documents
                )
            return self._answer(
                HTTPStatus.ACCEPTED,
                params,
                "Encoding",
                reload_seconds=2,
                estimate=answer,
                command=self.index_command,
            )
        except ConnectionAbortedError:
            raise
        except BusyError as error:
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return self._answer(
                status, params, "Busy", reload_seconds=RETRY_SECONDS, busy=str(error)
            )
        except UsageError as error:
            return self._answer(HTTPStatus.BAD_REQUEST, params, "Error", error=str(error))
        except SubmissionError as error:
            return self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, params, "Error", error=str(error))
        except Exception:
            log.exception("internal error")
            message = "internal error; see the log in the terminal"
            return self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, params, "Error", error=message)

    def _answer(
        self, status: HTTPStatus, params: PageParams, title: str, **blocks: Any
    ) -> tuple[HTTPStatus, str]:
        return status, page.render(self.site, params, f"{title} · Aragorn", **blocks)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread, or in this one if the system allows no further thread."""
        self._connections.acquire()
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self.process_request_thread(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request, then let the next connection have its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            log.exception("internal error")


class _Handler(BaseHTTPRequestHandler):
    server: SearchServer
    server_version = "aragorn"
    sys_version = ""
    timeout = REQUEST_TIMEOUT
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Parse a request; reject methods other than GET and HEAD."""
        # escape é, which curl does not
        self.raw_requestline = quote(self.raw_requestline, safe=bytes(range(128))).encode()
        if not super().parse_request():
            return False
        self.connection.settimeout(RESPONSE_TIMEOUT)
        if self.command in ("GET", "HEAD"):
            return True
        self._send_error(HTTPStatus.METHOD_NOT_ALLOWED, "expected GET", {"Allow": "GET, HEAD"})
        return False

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        target = self.path
        # sent to proxies; its host replaces the header
        if absolute_form := ABSOLUTE_FORM.match(target):
            hosts = [absolute_form[1]]
            target = target[absolute_form.end() :]
        # another host name: DNS rebinding
        if len(hosts) != 1 or not self.server.is_allowed(hosts[0]):
            self._send_error(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this server does not answer to that host; use {self.server.url}, or pass --host",
            )
            return
        # a page of another site must not start searches
        if self.headers.get("Sec-Fetch-Site", "").strip().lower() == "cross-site":
            self._send_error(
                HTTPStatus.FORBIDDEN, f"request of another site; enter {self.server.url} instead"
            )
            return
        path, _, query = target.partition("?")
        if path in ("", "/"):
            status, text = self.server.respond(query, self._is_gone)
            is_busy = status == HTTPStatus.SERVICE_UNAVAILABLE
            headers = {"Retry-After": str(RETRY_SECONDS)} if is_busy else {}
            self._send(status, "text/html", text, headers)
        elif path == "/style.css":
            self._send(HTTPStatus.OK, "text/css", STYLESHEET.read_text(encoding="utf-8"))
        else:
            self._send_error(HTTPStatus.NOT_FOUND, "no such page; the home page is /")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _is_gone(self) -> bool:
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        return bool(poller.poll(0)) and not self.connection.recv(1, socket.MSG_PEEK)

    def _send_error(
        self, status: HTTPStatus, message: str, extra_headers: dict[str, str] | None = None
    ) -> None:
        self._send(
            status, "text/plain", f"{status.value} {status.phrase}: {message}\n", extra_headers
        )

    def _send(
        self,
        status: HTTPStatus,
        content_type: str,
        text: str,
        extra_headers: dict[str, str] | None = None,
    ) -> None:
        content = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (HEADERS | (extra_headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress the access log."""


def serve(
    searcher: Searcher,
    dataset: Dataset,
    systems: Sequence[System],
    depth: int,
    port: int,
    hosts: Collection[str],
) -> None:
    """Serve the page until Ctrl-C; raise UsageError if the server cannot listen on the port."""
    with SearchServer(searcher, dataset, systems, depth, port, hosts) as server:
        print(server.url)
        print("Open this URL in a local browser; Ctrl-C to quit.", file=sys.stderr)
        # Ctrl-C is how to quit, so it is not reported as an interruption.
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
        signal.signal(signal.SIGINT, handler)
        print("stopped", file=sys.stderr)


def _load_examples(*paths: Path) -> list[str]:
    """Return the first MAX_EXAMPLES topic titles of an input; [] without valid topics."""
    try:
        return Dataset(*paths).topics["query"].tolist()[:MAX_EXAMPLES]
    except InputError:
        return []
