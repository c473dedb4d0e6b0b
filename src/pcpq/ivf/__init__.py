"""Inverted lists: k-means, centroids, and the ranking of lists for a query."""
