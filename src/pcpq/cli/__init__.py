"""The command line: `pcpq COMMAND`.

terminal.py    what people read: tables, in colour on a terminal; what programs read: JSON
problems.py    exceptions as one line and an exit code
parsers.py     commands and the options that they share
inputs.py      files of vectors, queries and ids, as options name them
building.py    build
changing.py    add, remove
searching.py   search
exact.py       queries and their exact answers, to measure by
measuring.py   tune
benching.py    bench
looking.py     info, verify, export
doctor.py      doctor
extras.py      paper, report, demo, completion
program.py     all of them: main
"""

from pcpq.cli.program import main

__all__ = ["main"]
