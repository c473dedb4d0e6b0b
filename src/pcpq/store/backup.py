"""A second directory with the files of one generation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from pcpq.errors import FormatError
from pcpq.store.files import open_plain
from pcpq.store.manifest import MANIFEST, Manifest
from pcpq.store.store import Store, add_note
from pcpq.util.durable_files import directory_sync, replace_file, write_new

COPIED_AT_ONCE = 1 << 22


def back_up(directory: Path, manifest: Manifest, target: Path, copy: bool) -> None:
    """Make `target` an index of the generation that a manifest of `directory` names.

    Files of an index never change, so a hard link is as good as a copy, unless the disk or a program damages
    them: then both are damaged. `copy` makes copies even where links are possible.
    """
    if target.exists() and target.resolve() == directory.resolve():
        raise ValueError(f"{target} is the index itself")
    store = Store.create(target)
    try:
        if store.manifest is not None:
            raise FileExistsError(f"{target} is an index already; back up to a new directory")
        store.empty()  # of a backup that was interrupted
        _fill(directory, manifest, target, copy)
    except BaseException as error:
        if store.manifest is None and (target / MANIFEST).exists():
            add_note(error, f"the backup {target} is there")
        elif store.manifest is None:
            store.empty()
        raise
    finally:
        store.close()


def _fill(directory: Path, manifest: Manifest, target: Path, copy: bool) -> None:
    with directory_sync(target) as sync:
        for name in sorted(manifest.files):
            try:
                _place(directory / name, target / name, copy)
            except FileNotFoundError as error:
                raise FormatError(f"{directory / name}: is missing") from error
        Store(target).snapshot_of(manifest)
        new_manifest = target / f"manifest-{uuid4().hex}"
        write_new(new_manifest, [manifest.text()])
        sync()
        replace_file(target / MANIFEST, new_manifest)
        sync()


def _place(source: Path, target: Path, copy: bool) -> None:
    """Link a file, or copy it where the file system cannot link or does not allow it."""
    descriptor = open_plain(source)
    try:
        if not copy:
            with contextlib.suppress(OSError, NotImplementedError):
                os.link(source, target, follow_symlinks=False)
                return
        write_new(target, _chunks(descriptor))
    finally:
        os.close(descriptor)


def _chunks(descriptor: int) -> Iterator[bytes]:
    while chunk := os.read(descriptor, COPIED_AT_ONCE):
        yield chunk
