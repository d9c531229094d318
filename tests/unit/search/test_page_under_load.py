"""Tests of the search page under load: refused, shared and dropped searches."""

import asyncio
import resource
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from socket import create_connection
from threading import Event, Thread

import pytest

from aragorn.search.background import MAX_SEARCHES, MAX_WORKERS
from aragorn.search.server import MAX_CONNECTIONS, REQUEST_TIMEOUT
from tests.conftest import fetch_page, serve_sample, wait_until


class Gate:
    """Searches that wait until the gate is open, and the queries that have passed it."""

    def __init__(self, searcher, monkeypatch):
        self.is_open = Event()
        self.queries = Counter()
        search = searcher.search

        def wait_and_search(query, *arguments):
            self.queries[query] += 1
            assert self.is_open.wait(60)
            return search(query, *arguments)

        monkeypatch.setattr(searcher, "search", wait_and_search)


@pytest.fixture
def server():
    with serve_sample("bm25") as server:
        yield server


@pytest.fixture
def gate(server, monkeypatch):
    instance = Gate(server.searcher, monkeypatch)
    yield instance
    instance.is_open.set()


async def fetch_all(server, n_requests, gate):
    """Connect `n_requests` clients, then let all ask at the same time; open the gate when only the
    searches are unanswered. Return the responses and the largest number of threads."""
    address = ("127.0.0.1", server.server_port)
    streams = await asyncio.gather(*(asyncio.open_connection(*address) for _ in range(n_requests)))
    for index, (_, writer) in enumerate(streams):
        writer.write(b"GET /?q=zoos+%d HTTP/1.0\r\nHost: localhost\r\n\r\n" % index)
    answers = [asyncio.create_task(reader.read()) for reader, _ in streams]
    n_threads = 0
    deadline = time.monotonic() + 60
    while sum(not answer.done() for answer in answers) > MAX_SEARCHES:
        assert time.monotonic() < deadline
        n_threads = max(n_threads, threading.active_count())
        await asyncio.sleep(0.01)
    gate.is_open.set()
    responses = await asyncio.gather(*answers)
    for _, writer in streams:
        writer.close()
    return responses, n_threads


@pytest.mark.parametrize("n_requests", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_requests_at_once_are_answered_or_told_to_wait(n_requests, server, gate):
    _, n_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, n_files), n_files))
    n_threads_before = threading.active_count()
    responses, n_threads = asyncio.run(fetch_all(server, n_requests, gate))
    statuses = Counter()
    for response in responses:
        status = response.split()[1]
        statuses[status] += 1
        assert (b"Retry-After: 5" in response) == (status == b"503")
        assert (b"<article" in response) == (status == b"200")
    assert statuses == {b"200": MAX_SEARCHES, b"503": n_requests - MAX_SEARCHES}
    assert n_threads <= n_threads_before + MAX_CONNECTIONS + MAX_WORKERS


def test_connections_without_a_request_do_not_use_up_threads(server):
    limit = threading.active_count() + MAX_CONNECTIONS
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + 50):
            stack.enter_context(create_connection(("127.0.0.1", server.server_port)))
        wait_until(lambda: threading.active_count() >= limit)
        time.sleep(0.2)
        assert threading.active_count() == limit
        start = time.monotonic()
        assert fetch_page(server, "/")[0] == 200  # idle connections are closed
        assert time.monotonic() - start < 2 * REQUEST_TIMEOUT + 2


def test_searches_beyond_the_queue_are_told_to_reload(server, gate):
    with ThreadPoolExecutor(MAX_SEARCHES) as pool:
        paths = [f"/?q=zoos+{index}" for index in range(MAX_SEARCHES)]
        answers = [pool.submit(fetch_page, server, path) for path in paths]
        wait_until(lambda: len(server._searches._searches) == MAX_SEARCHES)
        status, headers, text = fetch_page(server, "/?q=cars")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert '<meta http-equiv="refresh" content="5">' in text
        assert "Busy: too many searches at the same time." in text
        assert 'value="cars"' in text
        assert fetch_page(server, "/")[0] == 200
        assert len(gate.queries) == MAX_WORKERS
        gate.is_open.set()
        assert [answer.result()[0] for answer in answers] == [200] * MAX_SEARCHES
    assert fetch_page(server, "/?q=cars")[0] == 200


def test_equal_requests_share_a_search(server, gate):
    with ThreadPoolExecutor(20) as pool:
        answers = [pool.submit(fetch_page, server, "/?q=zoos") for _ in range(20)]
        wait_until(lambda: [s.n_waiting for s in server._searches._searches.values()] == [20])
        gate.is_open.set()
        assert [answer.result()[0] for answer in answers] == [200] * 20
    assert gate.queries == {"zoos": 1}


def test_queued_search_of_a_gone_client_is_dropped(server, gate):
    searches = server._searches._searches
    with ThreadPoolExecutor(MAX_WORKERS) as pool:
        for index in range(MAX_WORKERS):
            pool.submit(fetch_page, server, f"/?q=zoos+{index}")
        wait_until(lambda: len(gate.queries) == MAX_WORKERS)
        with create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.sendall(b"GET /?q=cars HTTP/1.0\r\nHost: localhost\r\n\r\n")
            wait_until(lambda: len(searches) == MAX_WORKERS + 1)
        wait_until(lambda: len(searches) == MAX_WORKERS)
        gate.is_open.set()
    assert sorted(gate.queries) == [f"zoos {index}" for index in range(MAX_WORKERS)]


def test_pages_are_served_when_no_thread_can_be_started(server, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert fetch_page(server, "/")[0] == 200
    status, headers, text = fetch_page(server, "/?q=zoos")
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "the system allows no further thread" in text
