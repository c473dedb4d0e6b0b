"""pcpq inside other libraries; each module needs the extra of its own name (`pip install pcpq[langchain]`)."""
