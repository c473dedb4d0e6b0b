"""Backups: a second directory with the files of one generation."""

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
    """Make `target` an index with the generation of a manifest of `directory`.

    Files are hard links where possible: files of an index never change. A file that is damaged later is then
    damaged in both directories; `copy` always makes copies instead.
    """
    if target.exists() and target.resolve() == directory.resolve():
        raise ValueError(f"{target} is the index itself")
    store = Store.create(target)
    try:
        if store.manifest is not None:
            raise FileExistsError(f"{target} is an index already; back up to a new directory")
        store.empty()  # remove files of an interrupted backup
        _fill(directory, manifest, target, copy)
    except BaseException as error:
        if store.manifest is None and (target / MANIFEST).exists():
            add_note(error, f"the backup {target} is complete")
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
    """Make a hard link to a file, or a copy if `copy` is set or the file system refuses links."""
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
