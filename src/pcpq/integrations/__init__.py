"""Integrations with other libraries.

Each module needs the extra of its name (`pip install pcpq[langchain]`).
"""
