"""Files: docs/format.md says what is in them.

system.py    what POSIX and Windows have different words for
files.py     files that are there as a whole or not at all, and locks
tensors.py   arrays in a file
tables.py    attributes in a file
limits.py    what numbers in a file may be
objects.py   segments and what is trained, as arrays
manifest.py  which files make up an index
store.py     a directory: load, commit, tidy
backup.py    a second directory of one generation
"""
