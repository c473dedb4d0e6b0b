"""The command line: `pcpq verify INDEX`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pcpq.opening import open_index


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 2 after an error, which is one line on stderr."""
    parser = argparse.ArgumentParser(prog="pcpq", description="Vector search in little memory.")
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser("verify", help="check every byte of an index against its checksums")
    verify.add_argument("index", metavar="INDEX", help="the directory of the index")
    options = parser.parse_args(arguments)
    try:
        with open_index(options.index) as index:
            index.verify()
            print(f"{options.index}: {len(index):,} vectors, all as they were written")
    except (ValueError, OSError) as error:
        print(f"pcpq: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
