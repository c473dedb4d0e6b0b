import numpy as np
import pytest

import pcpq
from pcpq.cli import main


@pytest.fixture
def stored(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    pcpq.build(vectors, metric="dot").save(tmp_path / "index")
    return tmp_path / "index"


def test_verify_says_that_an_index_is_whole(stored, capsys):
    assert main(["verify", str(stored)]) == 0
    assert "500 vectors" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["codes", "kept", "ids"])
def test_verify_names_the_file_that_is_damaged(stored, part, capsys):
    from safetensors import safe_open

    path = next(stored.glob("segment-*"))
    with safe_open(path, "np") as file:
        damaged = file.get_tensor(part).tobytes()
    content = path.read_bytes()
    at = content.index(damaged) + len(damaged) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    assert main(["verify", str(stored)]) == 2
    error = capsys.readouterr().err
    assert path.name in error
    assert len(error.splitlines()) == 1


def test_verify_of_nothing_is_an_error(tmp_path, capsys):
    assert main(["verify", str(tmp_path / "nothing")]) == 2
    assert "is not there" in capsys.readouterr().err
