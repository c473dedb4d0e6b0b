"""General helpers, independent of vectors: lazy attributes, threads, batches, durable files, progress."""
