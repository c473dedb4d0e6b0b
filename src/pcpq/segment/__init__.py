"""Segments: encoded vectors in list order, packed for the scan, with ids, attributes and kept vectors."""
