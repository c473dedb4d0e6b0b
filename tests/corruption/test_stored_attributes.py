"""Tables of attributes that lie although their checksums are right."""

from dataclasses import replace

import numpy as np
import pytest
from damage import ids_of, refused
from small_indexes import TORTURE

from pcpq.store.manifest import MANIFEST, read_manifest
from pcpq.store.tensors import FileEntry, checksum

pytestmark = [pytest.mark.kernels, pytest.mark.torture]


@pytest.mark.parametrize("which", [0, 1])
def test_tables_that_lie_do_no_harm(which, numbers):
    entry = read_manifest(numbers).parts[which].attributes
    content = (numbers / entry.file).read_bytes()
    lies = [b"", b"ARROW1", content[:-1], content[: len(content) // 2], content + content, bytes(len(content))]
    generator = np.random.default_rng(2)
    for _ in range(2000 if TORTURE else 60):
        lie = bytearray(content)
        for place in generator.integers(len(content), size=generator.integers(1, 4)):
            lie[place] ^= 1 << int(generator.integers(8))
        lies.append(bytes(lie))
    wrong = []
    for lie in lies:
        forged = FileEntry(entry.file, len(lie), checksum(np.frombuffer(lie, np.uint8)))
        (numbers / entry.file).write_bytes(lie)
        manifest = read_manifest(numbers)
        parts = list(manifest.parts)
        parts[which] = replace(parts[which], attributes=forged)
        (numbers / MANIFEST).write_bytes(replace(manifest, parts=tuple(parts)).text())
        try:
            assert refused(numbers, ids_of("numbers")) or len(lie) >= len(content), lie
        except Exception as error:
            wrong.append(repr(error))
    assert not wrong, "\n".join(wrong)


def test_a_table_of_other_rows_is_refused(numbers):
    manifest = read_manifest(numbers)
    first, second = manifest.parts
    for change in (replace(first, attributes=second.attributes), replace(first, attributes=None)):
        (numbers / MANIFEST).write_bytes(replace(manifest, parts=(change, second)).text())
        with np.errstate(all="ignore"):
            told = refused(numbers, ids_of("numbers"))
        assert told or change.attributes is None
