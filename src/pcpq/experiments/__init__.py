"""Experiments: the paper's, and a report of results as a page."""
