"""Search in few background threads, which answer a slow query first by an estimate."""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread

from aragorn.errors import SubmissionError
from aragorn.index.vectors import EncodingEstimate
from aragorn.search.page import PageParams
from aragorn.search.results import SearchResults
from aragorn.search.searcher import Searcher, SearchOptions
from aragorn.systems.catalogue import get_system

PATIENCE = 2.0  # seconds of encoding above which an estimate is the answer
POLL_INTERVAL = 0.5  # seconds between two checks whether a client is still connected
MAX_WORKERS = 4  # searches at the same time
MAX_SEARCHES = 32  # running and queued searches
MAX_WAITING = 48  # requests that wait for a search


class BusyError(SubmissionError):
    """Too many searches at the same time; the next request may succeed."""


@dataclass(eq=False)
class _Search:
    """Running or queued search."""

    params: PageParams
    future: Future[SearchResults] = field(default_factory=Future)
    estimate: EncodingEstimate | None = None
    n_waiting: int = 0  # requests


class BackgroundSearches:
    """Searches by the parameters of their page, so that equal requests share one."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._change = Condition()
        self._searches: dict[PageParams, _Search] = {}
        self._queue: deque[_Search] = deque()
        self._n_workers = 0

    def search(
        self, params: PageParams, is_gone: Callable[[], bool] = lambda: False
    ) -> SearchResults | EncodingEstimate:
        """Return the results, or an estimate if the search is encoding texts.

        Raises BusyError if too many searches or requests wait, ConnectionAbortedError if the client
        `is_gone`; a queued search that no other client waits for is dropped.
        """
        with self._change:
            search = self._searches.get(params) or self._enqueue(params)
            if sum(active.n_waiting for active in self._searches.values()) >= MAX_WAITING:
                raise BusyError("too many requests at the same time")
            search.n_waiting += 1
            try:
                return self._wait(search, is_gone)
            finally:
                search.n_waiting -= 1

    def _enqueue(self, params: PageParams) -> _Search:
        if len(self._searches) >= MAX_SEARCHES:
            raise BusyError("too many searches at the same time")
        if self._n_workers < MAX_WORKERS:
            try:
                Thread(target=self._work, daemon=True).start()
            except RuntimeError:
                raise BusyError("the system allows no further thread") from None
            self._n_workers += 1
        search = self._searches[params] = _Search(params)
        self._queue.append(search)
        return search

    def _wait(
        self, search: _Search, is_gone: Callable[[], bool]
    ) -> SearchResults | EncodingEstimate:
        deadline = time.monotonic() + PATIENCE
        while not search.future.done():
            if is_gone():
                if search in self._queue and search.n_waiting == 1:
                    self._queue.remove(search)
                    del self._searches[search.params]
                raise ConnectionAbortedError
            if search.estimate:
                return search.estimate
            estimates = [active.estimate for active in self._searches.values() if active.estimate]
            if estimates and time.monotonic() >= deadline:
                # the search may need vectors of this encoding
                return estimates[0]
            self._change.wait(POLL_INTERVAL)
        return search.future.result()

    def _work(self) -> None:
        while True:
            with self._change:
                if not self._queue:
                    self._n_workers -= 1
                    return
                search = self._queue.popleft()
            self._run(search)

    def _run(self, search: _Search) -> None:
        def set_estimate(estimate: EncodingEstimate) -> None:
            if estimate.remaining_seconds > PATIENCE:
                with self._change:
                    search.estimate = estimate
                    self._change.notify_all()

        params = search.params
        options = SearchOptions(
            params.depth, params.is_explained, highlight=True, on_encoding=set_estimate
        )
        try:
            systems = [get_system(name) for name in params.systems]
            search.future.set_result(self._searcher.search(params.query, systems, options))
        except Exception as error:
            search.future.set_exception(error)  # raised by `search`
        with self._change:
            del self._searches[params]
            self._change.notify_all()
