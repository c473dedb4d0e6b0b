"""`python -m pcpq.cli` is `pcpq`."""

import sys

from pcpq.cli import main

if __name__ == "__main__":
    sys.argv[0] = "pcpq"  # as results that note their command have it
    sys.exit(main())
