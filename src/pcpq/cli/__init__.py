"""The command line: `pcpq COMMAND`.

terminal.py    output: tables, in colour on a terminal, and JSON
problems.py    exit codes, and exceptions as one line
parsers.py     commands, and the options that they share
inputs.py      vectors, queries, ids and attributes from the files named by options
building.py    build
changing.py    add, remove
searching.py   search
exact.py       queries with their exact answers, for measurements
measuring.py   tune
benching.py    bench
looking.py     info, verify, backup, export
exploring.py   explore
doctor.py      doctor
demo.py        the demo
extras.py      paper, report, demo, completion
program.py     main, and the list of all commands
"""

from pcpq.cli.program import main

__all__ = ["main"]
