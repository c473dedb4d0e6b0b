"""Vectors in and out: checks of arrays and ids, arrays of other libraries, streams, file formats."""
