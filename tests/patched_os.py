"""Another `os` for the modules that change files of an index."""

from pcpq.store import backup, files
from pcpq.util import durable_files

MODULES = (files, backup, durable_files)


def patch_os(patch, other):
    """Until a monkeypatch is undone."""
    for module in MODULES:
        patch.setattr(module, "os", other)
