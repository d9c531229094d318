"""Run the subcommand `search`: a single query, a prompt, or a web page."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from aragorn.errors import InputError, UsageError, escape_unprintable, raise_failures
from aragorn.io.dataset import Dataset
from aragorn.pipeline.session import Collection, open_session
from aragorn.search.indexing import format_index_command
from aragorn.search.results import SearchResults, to_json
from aragorn.search.searcher import FALLBACK_DIR, Searcher, SearchOptions
from aragorn.systems import catalogue
from aragorn.systems.catalogue import System, get_system
from aragorn.verbs import QueryOptions

log = logging.getLogger(__name__)

DEFAULT_LEXICAL_SYSTEM = "dirichlet"  # fast, and among the best (README, Results)
PROMPT = "query> "


def search(options: QueryOptions) -> None:
    """Print the results of one query or of queries at a prompt, or serve the web page.

    Raises SystemsFailedError if some, but not all, systems failed; the others' results are printed.
    """
    dataset = Dataset(*options.inputs, has_topics=False)
    with open_session(options, options.cache_dir, FALLBACK_DIR) as session:
        searcher = Searcher(Collection(dataset, session))
        systems, message = choose_systems(options.systems, searcher, options.inputs)
        if message:
            log.info("%s", message)
        if options.serve is not None:
            from aragorn.search.server import serve

            serve(searcher, dataset, systems, options.depth, options.serve, options.hosts)
        elif options.query is not None:
            results = _search_and_print(options, searcher, systems, options.query).system_results
            errors = {result.system: result.error for result in results if result.error}
            message = "; the results of the other systems are printed above"
            raise_failures(errors, len(results), message)
        else:
            for query in filter(str.strip, _read_queries()):
                try:
                    _search_and_print(options, searcher, systems, query)
                except UsageError as error:
                    print(f"error: {escape_unprintable(str(error))}", file=sys.stderr)


def choose_systems(
    names: Sequence[str], searcher: Searcher, paths: Sequence[Path]
) -> tuple[list[System], str]:
    """Return the named systems and "", or else the default one and a message about it.

    The default is the primary system if its checkpoints exist and it answers quickly: on a GPU, or
    with indexed premises of the input `paths`.
    """
    if names:
        return [get_system(name) for name in dict.fromkeys(names)], ""
    primary = get_system(catalogue.PRIMARY_SYSTEM)
    session = searcher.collection.session
    if missing_names := primary.stage.find_missing_checkpoints(session.checkpoints):
        reason = f"{primary.name}: checkpoint {', '.join(missing_names)} not found"
    elif session.device == "cuda" or searcher.is_indexed(primary):
        return [primary], f"Using {primary.name} (default). Choose another with --system NAME."
    else:
        command = format_index_command(paths)
        reason = (
            f"{primary.name} takes seconds per query until `{command}` has encoded all premises"
        )
    choice = f"Using {DEFAULT_LEXICAL_SYSTEM}, a fast lexical system: {reason}"
    return [get_system(DEFAULT_LEXICAL_SYSTEM)], f"{choice}. Choose another with --system NAME."


def _search_and_print(
    options: QueryOptions, searcher: Searcher, systems: Sequence[System], query: str
) -> SearchResults:
    results = searcher.search(
        query, systems, SearchOptions(options.depth, lambda system, docno: options.explain)
    )
    if options.json:
        print(to_json(results), end="")
    else:
        from aragorn.search.terminal import open_console, print_results

        print_results(results, searcher.n_documents, open_console())
    return results


def _read_queries() -> Iterator[str]:
    """Yield lines from a prompt, or from stdin if stdin or stdout is not a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        try:
            yield from iter(sys.stdin.readline, "")
        except OSError as error:
            raise InputError(
                f"standard input: cannot be read ({error.strerror}); pass the query as an argument"
            ) from None
        return
    import readline  # noqa: F401  enables line editing and history

    print("Enter a query; Ctrl-D to quit.", file=sys.stderr)
    with suppress(EOFError):
        while True:
            yield input(PROMPT)
    print()
