"""Feed damaged files to the loader: python tests/fuzz/fuzz_loader.py CORPUS -max_total_time=600

An input is which file of a small index to replace, how, and its new content. Checksums are made to agree, or
are not looked at, so that what is tried gets behind them as a hostile file would. Whatever the content, it is
answered, or a FormatError: no other exception, no crash, no hang.
"""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import pcpq
from pcpq.storage import manifest as manifests
from pcpq.storage import objects, tensors

HERE = Path(tempfile.mkdtemp(prefix="pcpq-fuzz-"))
atexit.register(shutil.rmtree, HERE, ignore_errors=True)
VECTORS = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)


class Numbered:
    """Names of files that are the same in every run, so that a corpus keeps its meaning."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> "Numbered":
        self.count += 1
        return self

    @property
    def hex(self) -> str:
        """As of a UUID."""
        return f"{self.count:032x}"


def small_index() -> Path:
    """Two segments, removed rows, words."""
    path = HERE / "index"
    pcpq.scan.uuid4 = pcpq.storage.store.uuid4 = Numbered()
    index = pcpq.build(VECTORS[:100], [f"w{i}" for i in range(100)], metric="dot", n_lists=3)
    index.add(VECTORS[100:], [f"w{i}" for i in range(100, 120)])
    index.remove(["w3", "w110"])
    index.save(path)
    return path


GOOD = small_index()
FILES = sorted(
    (file for file in GOOD.iterdir() if file.name != "lock"),
    key=lambda file: (file.name[:4], file.stat().st_size),
)
CHECKS = {tensors.Tensors: ("check",), objects.Checks: ("ids", "rows", "everything")}


def seeds(folder: Path) -> None:
    """The files as they are, to begin with."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(FILES):
        for how in (0, 1, 3):
            (folder / f"seed{number}{how}").write_bytes(bytes([number, how]) + file.read_bytes())


def with_checks(path: Path, name: str, content: bytes) -> None:
    """Make the manifest, and the header, agree with new content."""
    file = path / manifests.MANIFEST
    described = tensors.parse_object(file.read_bytes(), file)
    described.pop("check")
    length = min(int.from_bytes(content[:8], "little"), len(content))
    check = tensors.checksum(np.frombuffer(content[: 8 + length] or b"\0", np.uint8))
    kinds = ("segment", "live")
    for entry in [described["trained"], *(part[kind] for part in described["parts"] for kind in kinds)]:
        if entry is not None and entry["file"] == name:
            entry |= {"bytes": len(content), "check": check}
    text = objects.in_words(described | {"check": manifests.check_of(described)})
    file.write_text(text)


def one_input(data: bytes) -> None:
    """Replace a file, open the index and use everything in it."""
    if len(data) < 2:
        return
    name, how, content = FILES[data[0] % len(FILES)].name, data[1], data[2:]
    path = HERE / "try"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(GOOD, path)
    (path / name).write_bytes(content)
    before = [(kind, method, getattr(kind, method)) for kind, methods in CHECKS.items() for method in methods]
    try:
        if how & 1 and name != manifests.MANIFEST:
            with_checks(path, name, content)
        if how & 2:
            for kind, method, _ in before:
                setattr(kind, method, lambda *_: None)
        use(path, guarded=not how & 2)
    except (pcpq.FormatError, OSError):
        pass
    finally:
        for kind, method, function in before:
            setattr(kind, method, function)


def use(path: Path, guarded: bool) -> None:
    """Everything that reads files."""
    with pcpq.open(path) as index:
        if not guarded:
            for part in index._state.snapshot.parts:
                part.segment.guard.native = None
        index.search(VECTORS[:3], k=5, probes=3)
        index.search(VECTORS[0], k=5, filter=["w1", "w2"])
        "w5" in index  # noqa: B015
        index.stats()
        for part in index._state.snapshot.parts:
            part.segment.rows()


def main() -> None:
    """Fuzz until somebody stops it."""
    import atheris

    corpus = next((Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if corpus is not None and not any(corpus.glob("seed*")):
        seeds(corpus)
    atheris.instrument_all()
    # Whole files are what is interesting, not short ones.
    atheris.Setup([*sys.argv, "-len_control=0", "-reduce_inputs=0", "-max_len=20000"], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
