"""Rank args.me arguments for Touché topics and write TREC runs."""

if __name__ == "__main__":  # before other imports, so that Ctrl-C never prints a traceback
    from aragorn.signals import install_handlers
    from aragorn.threads import limit_library_threads

    install_handlers()
    limit_library_threads()

import sys

from aragorn import __version__, cli, signals, threads
from aragorn.errors import EXIT_CODES
from aragorn.paths import PROGRAM
from aragorn.verbs import COMMANDS


def main(argv: list[str] | None = None) -> int:
    """Run the verb in `argv` (None: the process's command line) and return the exit code."""
    parser = cli.ArgumentParser(
        prog=PROGRAM, description=__doc__, epilog=EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"aragorn {__version__}")
    cli.add_commands(cli.Commands(parser), COMMANDS)
    return cli.run_command(parser, argv)


def run() -> int:
    """Run the installed program `aragorn`."""
    signals.install_handlers()
    threads.limit_library_threads()
    return main()


if __name__ == "__main__":
    sys.exit(main())
