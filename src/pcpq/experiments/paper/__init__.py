"""The experiments of the paper and extensions of them: `pcpq paper`."""
