"""`python -m pcpq.cli` runs `pcpq`."""

import sys

from pcpq.cli import main

if __name__ == "__main__":
    sys.argv[0] = "pcpq"  # the name that results store as their command
    sys.exit(main())
