"""The experiments of the paper, and an HTML report of results."""
