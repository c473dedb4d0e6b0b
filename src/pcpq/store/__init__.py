"""Changes of an index in memory and on disk. docs/format.md describes the files."""
