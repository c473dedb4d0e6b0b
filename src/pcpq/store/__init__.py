"""An index that changes, in memory and on disk; docs/format.md describes the files."""
