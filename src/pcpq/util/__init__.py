"""Helpers that know nothing of vectors: lazy attributes, threads, batches, durable files, progress."""
