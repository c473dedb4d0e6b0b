"""Search: a snapshot of segments, and how a request becomes a plan and a plan becomes results."""
