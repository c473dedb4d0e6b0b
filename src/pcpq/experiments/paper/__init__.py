"""The paper's experiments, and what it could not show: `pcpq paper`."""
