"""The program by itself or on a terminal, what it says of errors, and files for it to read."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pcpq.cli.program import make_commands
from pcpq.formats import write_vectors

ROOT = Path(__file__).parent.parent
COMMANDS = make_commands()[1].by_name
SUFFIXES = ["npy", "npz", "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin"]
SUFFIXES += ["hdf5", "parquet", "arrow", "jsonl", "txt"]


def program(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "pcpq.cli", *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c():
    """Make Ctrl-C work: a shell that runs tests in its background lets child processes ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_terminal(*arguments, until=b"", **environment):
    """A command on a terminal: its exit code and all that it wrote; Ctrl-C as soon as it wrote `until`."""
    import pty  # Windows has none

    own, other = pty.openpty()
    settings = {"TERM": "xterm", "COLUMNS": "120", **environment}
    process = program(*arguments, stderr=other, env={k: v for k, v in {**os.environ, **settings}.items() if v})
    os.close(other)
    said, deadline, pressed = b"", time.monotonic() + 60, None
    while time.monotonic() < deadline:
        # Python drops what a signal raises within a callback of its own: a user presses again.
        if pressed is not None and time.monotonic() - pressed > 2:
            process.send_signal(signal.SIGINT)
            pressed = time.monotonic()
        if not select.select([own], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(own, 65536)
        except OSError:  # the other side is closed
            break
        said += part
        if not part:
            break
        if until and until in said:
            process.send_signal(signal.SIGINT)
            until, pressed = b"", time.monotonic()
    os.close(own)
    out, _ = process.communicate(timeout=60)
    return process.returncode, said.decode(), out.decode()


def one_line(code_out_error, message, code=2):
    ended, out, error = code_out_error
    assert ended == code
    assert out == ""
    assert error.startswith("pcpq: ")
    assert message in error
    assert len(error.splitlines()) == 1


def save_as(folder, name, rows, names):
    """A file of vectors in a format, and the options that it needs."""
    path = folder / name
    if name.endswith(".npz"):
        np.savez(path, vectors=rows, id=np.array(names))
    elif name.endswith((".hdf5", ".arrow")):
        package = pytest.importorskip("h5py" if name.endswith(".hdf5") else "pyarrow")
        if name.endswith(".hdf5"):
            with package.File(path, "w") as file:
                file.attrs["distance"] = "angular"
                file["train"], file["test"] = rows, rows[:3]
        else:
            table = package.table({"name": names, "embedding": list(rows), "other": list(rows[:, :2])})
            with package.OSFile(str(path), "wb") as out, package.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
            return path, ["--column", "embedding", "--id-column", "name"]
    elif name.endswith((".bvecs", ".ivecs", ".u8bin", ".i8bin")):
        save_integers(path, rows)
    else:
        with_ids = name.endswith((".parquet", ".jsonl", ".txt"))
        write_vectors(path, rows, names if with_ids else None)
    return path, []


def save_integers(path, rows):
    kind = {".bvecs": "u1", ".ivecs": "<i4", ".u8bin": "u1", ".i8bin": "i1"}[path.suffix]
    values = np.rint(rows).astype(kind)
    if path.suffix.endswith("vecs"):
        lengths = np.full((len(rows), 1), rows.shape[1], "<i4")
        values = np.concatenate([lengths.view("u1"), values.view("u1").reshape(len(rows), -1)], axis=1)
        path.write_bytes(values.tobytes())
    else:
        path.write_bytes(np.array(rows.shape, "<u4").tobytes() + values.tobytes())
