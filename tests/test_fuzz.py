"""What the fuzzer found worth keeping goes through the loader once more, and every crash it ever found."""

import sys
from pathlib import Path

import pytest

import pcpq

FUZZ = Path(__file__).parent / "fuzz"
INPUTS = sorted((FUZZ / "corpus").iterdir())


@pytest.fixture(scope="module")
def loader():
    sys.path.insert(0, str(FUZZ))
    before = [(module, module.uuid4) for module in (pcpq.scan, pcpq.storage.store)]
    try:
        import fuzz_loader

        yield fuzz_loader
    finally:
        sys.path.remove(str(FUZZ))
        for module, uuid4 in before:
            module.uuid4 = uuid4


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name[:8])
def test_an_input_of_the_corpus_is_answered_or_refused(path, loader):
    loader.one_input(path.read_bytes())


def test_files_as_they_are_open(loader, tmp_path):
    loader.use(loader.GOOD, guarded=True)
    loader.seeds(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3 * len(loader.FILES)
