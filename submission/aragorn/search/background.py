"""Search in background threads, so that a query that takes long is first answered by an
estimate."""

from concurrent.futures import Future
from threading import Condition, Thread

from aragorn.index.vectors import EncodingEstimate
from aragorn.search.page import PageParams
from aragorn.search.results import SearchResults
from aragorn.search.searcher import Searcher, SearchOptions
from aragorn.systems.catalogue import get_system

PATIENCE = 2.0  # seconds of encoding above which an estimate is the answer


class BackgroundSearches:
    """Running searches by the parameters of their page, so that a reloaded page continues its
    search."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher, self._change = searcher, Condition()
        self._running: dict[PageParams, Future[SearchResults]] = {}
        self._estimates: dict[PageParams, EncodingEstimate] = {}

    def search(self, params: PageParams) -> SearchResults | EncodingEstimate:
        """Return the results, or an estimate if the search is encoding texts; raise the errors of
        `Searcher.search`."""
        with self._change:
            if params not in self._running:
                self._running[params] = Future()
                Thread(target=self._run, args=(params, self._running[params]), daemon=True).start()
            future = self._running[params]
            while not (future.done() or params in self._estimates):
                if not self._change.wait(PATIENCE) and self._estimates:
                    # the search may need vectors of this encoding
                    return next(iter(self._estimates.values()))
            return future.result() if future.done() else self._estimates[params]

    def _run(self, params: PageParams, future: Future[SearchResults]) -> None:
        def set_estimate(estimate: EncodingEstimate) -> None:
            if estimate.remaining_seconds > PATIENCE:
                with self._change:
                    self._estimates[params] = estimate
                    self._change.notify_all()

        options = SearchOptions(
            params.depth, params.is_explained, highlight=True, on_encoding=set_estimate
        )
        try:
            systems = [get_system(name) for name in params.systems]
            future.set_result(self._searcher.search(params.query, systems, options))
        except Exception as error:
            future.set_exception(error)  # raised by `search`
        with self._change:
            del self._running[params]
            self._estimates.pop(params, None)
            self._change.notify_all()
