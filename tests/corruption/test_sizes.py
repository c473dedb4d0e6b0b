"""Sizes that claim terabytes."""

import os
import shutil

import pytest
from damage import HEADERS, in_entry
from forging import file_of, forge, forge_manifest, set_entry
from small_indexes import another_process

import pcpq
from pcpq.store.manifest import MANIFEST

pytestmark = [pytest.mark.kernels, pytest.mark.torture]

LIMITED = """
import resource, sys, time
import numpy as np, pcpq
np.ones((50, 50)) @ np.ones((50, 50))
size = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (size + (300 << 20), size + (300 << 20)))
print("ready")
for line in sys.stdin:
    start = time.monotonic()
    try:
        index = pcpq.open(line[:-1])
        index.search(np.ones(8, np.float32))
        index.reconstruct([0])
        print("answered")
    except pcpq.FormatError:
        print("refused" if time.monotonic() - start < 5 else "slow")
    except BaseException as error:
        print(repr(error)[:300].replace("\\n", " "))
"""


def sized(**numbers):
    return lambda about: about.update(numbers)


@pytest.mark.linux
def test_sizes_that_claim_terabytes_take_no_memory(made, tmp_path):
    def manifest_of(size):
        def forge_it(path):
            with open(path / MANIFEST, "ab") as file:
                file.write(b" " * size)

        return forge_it

    def sparse(path):
        """A file that is a terabyte long, and takes no room."""
        file = file_of(path, "first")
        os.truncate(path / file, 1 << 40)
        forge_manifest(
            path,
            lambda content: (
                [
                    part["segment"].update(bytes=1 << 40)
                    for part in content["parts"]
                    if part["segment"]["file"] == file
                ]
                and None
            ),
        )

    huge = 1 << 44
    cases = {
        "manifest of 100 MB": manifest_of(100 << 20),
        "sparse": sparse,
        "counts": lambda path: forge(path, "first", lambda a: a["counts"].__setitem__(slice(None), 0xFFFFFFFF)),
        "dimensions": lambda path: forge(path, "trained", edit_about=sized(dimensions=huge)),
        "sections": lambda path: forge(path, "trained", edit_about=sized(sections=[huge, huge])),
        "many sections": lambda path: forge(path, "trained", edit_about=sized(sections=[1 << 30, 1])),
        "rows a page": lambda path: forge(path, "first", edit_about=sized(rows_a_page=-1)),
        "no rows a page": lambda path: forge(path, "first", edit_about=sized(rows_a_page=0)),
        "bytes": lambda path: forge_manifest(path, in_entry("segment", bytes=huge)),
        "shape": lambda path: forge(path, "first", edit_header=HEADERS["terabytes"]),
        "nothing of enormous things": lambda path: forge(
            path, "first", edit_header=HEADERS["nothing of enormous things"]
        ),
        "header": lambda path: set_entry(
            path, file_of(path, "first"), (1 << 40).to_bytes(8, "little") + bytes(100), check=1
        ),
    }
    said = {}
    with another_process(LIMITED) as process:
        assert process.stdout.readline() == "ready\n"
        for number, (name, forge_it) in enumerate(cases.items()):
            path = tmp_path / str(number)
            shutil.copytree(made / "numbers", path)
            forge_it(path)
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            said[name] = process.stdout.readline().strip()
            shutil.rmtree(path)
    # An address space that is too small for a file is not the file's fault.
    assert said.pop("sparse") in ("refused", "OSError(12, 'Cannot allocate memory')")
    del cases["sparse"]
    assert said == dict.fromkeys(cases, "refused")


def test_a_manifest_just_small_enough_to_be_read_is_read(numbers):
    with open(numbers / MANIFEST, "ab") as file:
        file.write(b" " * (1 << 20))
    assert len(pcpq.open(numbers)) > 0
