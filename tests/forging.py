"""Files of an index written again with other content, and all checksums made right: what an attacker does."""

import json
from dataclasses import replace

import numpy as np

from pcpq import _core
from pcpq.segment.codebooks import PackedCodes
from pcpq.segment.packing import Blocks
from pcpq.segment.second_codes import SecondCodes
from pcpq.store.manifest import MANIFEST, check_of, read_manifest
from pcpq.store.serialization import ABOUT, ROW_COLUMNS, _by_row, second_guard
from pcpq.store.tensors import METADATA, FileEntry, checksum, lay_out


def load(file):
    """Return the arrays of a file without padding, its metadata, and the JSON in the metadata."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop(METADATA)
    types = {"U8": "u1", "I8": "i1", "I16": "<i2", "U32": "<u4", "I32": "<i4", "I64": "<i8", "U64": "<u8"}
    types |= {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
    arrays = {}
    for name, entry in header.items():
        if not name.startswith("padding."):
            start, stop = (8 + length + place for place in entry["data_offsets"])
            array = np.frombuffer(content[start:stop], types[entry["dtype"]]).reshape(entry["shape"])
            arrays[name] = array.copy()
    return arrays, metadata, json.loads(metadata.get(ABOUT, "{}"))


def seal(arrays, about, block_rows):
    """Make all checksums right, where arrays have the right shapes for it."""
    if "list_checks" in arrays:
        try:
            blocks = Blocks.of(arrays["counts"].astype(np.int64), about["dense"], block_rows)
            unpacked = "code_biases" in arrays
            n = int(arrays["counts"].sum())
            codes = [_by_row(arrays["codes"], len(arrays["codes"]))]
            columns = ("code_scales", "code_biases", *ROW_COLUMNS)
            by_row = [_by_row(arrays[column], n) for column in columns if column in arrays]
            by_block, by_row = ([], codes + by_row) if unpacked else (codes, by_row)
            guard = _core.Guard(
                file="",
                rows=blocks.rows,
                places=blocks.places,
                by_block=by_block,
                by_row=by_row,
                kept=_by_row(arrays["kept"], n),
                rows_per_block=blocks.size,
                rows_per_page=about["rows_a_page"],
                list_checks=arrays["list_checks"],
                page_checks=arrays["page_checks"],
            )
            guard.compute(out_lists=arrays["list_checks"], out_pages=arrays["page_checks"])
            if "second_checks" in arrays:
                seal_second(arrays, blocks)
        except (KeyError, TypeError, ValueError):
            pass  # of the wrong shape: they cannot be right
    for checks in ("checks", "later"):
        if isinstance(about.get(checks), dict):
            about[checks] = {name: checksum(arrays[name]) for name in about[checks] if name in arrays}


def seal_second(arrays, first):
    """Make the checksums of second lists right."""
    blocks = Blocks.of(arrays["second_counts"].astype(np.int64), first.dense, first.size)
    codes = SecondCodes(first, blocks, PackedCodes(arrays["second_codes"]), arrays["second_rows"])
    guard = second_guard(codes, "", arrays["second_checks"])
    guard.compute(out_lists=arrays["second_checks"], out_pages=np.zeros(1, np.uint32))


def set_entry(path, file, content, check=None):
    """Put a file of other content in a file's place, and make the manifest name it."""
    (path / file).write_bytes(content)
    length = int.from_bytes(content[:8], "little")
    header = np.frombuffer(content[: 8 + length], np.uint8)
    entry = FileEntry(file, len(content), checksum(header) if check is None else check)
    manifest = read_manifest(path)

    def renewed(old):
        return entry if old is not None and old.file == file else old

    parts = tuple(
        replace(part, segment=renewed(part.segment), live=renewed(part.live)) for part in manifest.parts
    )
    (path / MANIFEST).write_bytes(replace(manifest, trained=renewed(manifest.trained), parts=parts).text())


def file_of(path, kind):
    """Return the name of a file: "trained", "live", "first" or "second" of the segments."""
    manifest = read_manifest(path)
    if kind == "trained":
        return manifest.trained.file
    if kind == "live":
        return next(part.live.file for part in manifest.parts if part.live is not None)
    return manifest.parts[kind == "second"].segment.file


def forge(path, kind, edit=None, edit_header=None, edit_about=None):
    """Write a file again with other arrays, other metadata or another header, and right checksums."""
    file = file_of(path, kind)
    arrays, metadata, about = load(path / file)
    if edit is not None:
        edit(arrays)
    if kind == "live":
        metadata = {"check": str(checksum(arrays["words"]))} if "words" in arrays else metadata
    else:
        seal(arrays, about, 64 if read_manifest(path).wide else 32)
        if edit_about is not None:
            about = edit_about(about) or about
        metadata = {ABOUT: about if isinstance(about, str) else json.dumps(about)}
    header, chunks = lay_out(arrays, metadata)
    data = b"".join(chunk.tobytes() for chunk in chunks)
    if edit_header is not None:
        entries = json.loads(header[8:])
        changed = edit_header(entries)
        text = changed
        if not isinstance(changed, bytes):
            text = json.dumps(entries).encode()
            text += b" " * (-(len(text) + 8) % 64)  # so that arrays stay where their types may lie
        header = len(text).to_bytes(8, "little") + text
    set_entry(path, file, header + data)


def forge_manifest(path, edit):
    """Write a manifest with changes and a right checksum."""
    content = json.loads((path / MANIFEST).read_text())
    content.pop("check")
    content = edit(content) or content
    (path / MANIFEST).write_text(json.dumps(content | {"check": check_of(content)}))
