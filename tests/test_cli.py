"""The command line, by its arguments, what it prints and how it ends."""

import importlib.util
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import pcpq
from pcpq.cli import main
from pcpq.cli.program import make_commands
from pcpq.datasets import load_words
from pcpq.formats import write_vectors

ROOT = Path(__file__).parent.parent
COMMANDS = make_commands()[1].by_name
SUFFIXES = ["npy", "npz", "fvecs", "bvecs", "ivecs", "fbin", "u8bin", "i8bin"]
SUFFIXES += ["hdf5", "parquet", "arrow", "jsonl", "txt"]


@pytest.fixture(scope="module")
def rows():
    """(2500, 16) float32: more than are searched exactly."""
    generator = np.random.default_rng(5)
    middles = generator.normal(size=(30, 16))
    return (middles[generator.integers(30, size=2500)] + 0.4 * generator.normal(size=(2500, 16))).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def names(rows):
    return [f"word{i}" for i in range(len(rows))]


@pytest.fixture(scope="module")
def built(rows, names, tmp_path_factory):
    """Files and indexes that no test changes."""
    folder = tmp_path_factory.mktemp("built")
    np.save(folder / "rows.npy", rows)
    np.save(folder / "queries.npy", rows[:7] + np.float32(0.05))
    write_vectors(folder / "rows.jsonl", rows, names)
    pcpq.build(rows, metric="cosine").save(folder / "numbers.pcpq")
    pcpq.build(rows, names, metric="cosine").save(folder / "words.pcpq")
    pcpq.build(rows, metric="cosine", keep=None).save(folder / "codes.pcpq")
    return folder


@pytest.fixture
def stored(tmp_path, rows):
    """An index that a test may change."""
    pcpq.build(rows[:500], metric="dot").save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def run(capsys):
    """A command: its exit code, and what it wrote."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def found(run):
    """The JSON of a command that must succeed."""

    def found(*arguments):
        code, out, error = run(*arguments, "--json")
        assert (code, error) == (0, "")
        return json.loads(out)

    return found


def program(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "pcpq.cli", *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings,
        preexec_fn=hear_ctrl_c,
    )


def hear_ctrl_c():
    """A shell that starts these tests in its background has told them, and who they start, not to."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_terminal(*arguments, until=b"", **environment):
    """A command on a terminal: its exit code and all that it wrote; Ctrl-C as soon as it wrote `until`."""
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


# Every command


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_in_an_example_that_is_understood(name, run):
    code, out, _ = run(name, "--help")
    examples = [line.strip() for line in out.split("example")[-1].splitlines()[1:] if line.strip()]
    assert code == 0
    assert examples == COMMANDS[name].examples != []
    parser = make_commands()[0]
    for example in examples:
        words = shlex.split(example.split(" > ")[0])
        assert words[:2] == ["pcpq", name]
        parser.parse_args(words[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_and_what_each_option_means(name):
    assert len(COMMANDS[name].about) > 20
    for action in COMMANDS[name]._actions:
        assert action.help, f"{name} {action.dest} lacks help"
    assert name == "completion" or "--json" in COMMANDS[name]._option_string_actions


def test_the_page_of_commands_is_up_to_date():
    spec = importlib.util.spec_from_file_location("cli_docs", ROOT / "tools" / "cli_docs.py")
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    page = docs.PAGE.read_text()
    assert page == docs.generate(), "run python tools/cli_docs.py"
    for name in COMMANDS:
        assert f"## pcpq {name}\n" in page


def test_start_up_is_quick_in_what_it_imports():
    code = "import sys, pcpq.cli.program as p; p.make_parser(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pyarrow", "h5py", "duckdb", "rich", "shtab", "matplotlib", "sklearn"} & set(loaded)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["search"], "INDEX"),
        (["info", "a", "--colour"], "--colour"),
        (["search", "a", "b", "-k", "many"], "many"),
        (["info", "nothing.pcpq"], "nothing.pcpq is not there"),
        (["build", "nothing.npy", "new.pcpq", "--metric", "dot"], "nothing.npy: No such file"),
        (["build", "nothing.xyz", "new.pcpq", "--metric", "dot"], "nothing.xyz"),
        (["search", "nothing.pcpq"], "give FILE or --word"),
        (["remove", "nothing.pcpq"], "give FILE or --id"),
        (["demo", "xyzzyplugh"], "not among the 20,000 words: xyzzyplugh"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments, message, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one_line(run(*arguments), message)
    assert list(tmp_path.iterdir()) == []


def test_help_and_pipes_of_the_real_program(built):
    process = program("--help")
    out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    assert b"pcpq COMMAND --help" in out
    process = program("search", built / "numbers.pcpq", built / "rows.npy", "-k", "40")
    process.stdout.readline()
    process.stdout.close()  # as head does
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 0


def test_the_version_is_the_packages(run):
    assert run("--version") == (0, f"pcpq {pcpq.__version__}\n", "")


# Build


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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_goes_in_and_is_found(suffix, rows, names, found, run, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    some = np.abs(np.rint(20 * rows[:400]))  # whole numbers, which every format holds
    path, options = save_as(tmp_path, f"vectors.{suffix}", some, names[:400])
    metric = [] if suffix == "hdf5" else ["--metric", "cosine"]
    told = found("build", path, tmp_path / "index", *metric, *options)
    assert (told["vectors"], told["dimensions"], told["metric"]) == (400, 16, "cosine")
    part = ["--part", "train"] if suffix == "hdf5" else []
    code, out, _ = run("search", tmp_path / "index", path, "-k", 1, "--json", *options, *part)
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["ids"] for answer in answers] == [[answer["query"]] for answer in answers]
    named = suffix in ("npz", "parquet", "arrow", "jsonl", "txt")
    assert [answer["query"] for answer in answers] == (names[:400] if named else list(range(400)))


def test_queries_of_ann_benchmarks_are_its_test_part(rows, names, found, run, tmp_path):
    path, _ = save_as(tmp_path, "set.hdf5", rows[:300], names)
    found("build", path, tmp_path / "index")
    _, out, _ = run("search", tmp_path / "index", path, "--json")
    assert len(out.splitlines()) == 3


def test_a_metric_must_be_known_and_what_is_said_counts(rows, names, built, found, run, tmp_path):
    one_line(run("build", built / "rows.npy", tmp_path / "index"), "--metric")
    path, _ = save_as(tmp_path, "set.hdf5", rows[:50], names)
    assert found("build", path, tmp_path / "index", "--metric", "dot")["metric"] == "dot"


def test_settings_reach_the_index(built, found, tmp_path):
    settings = [
        "--keep",
        "int8",
        "--lists",
        "9",
        "--rotation",
        "random",
        "--codebooks",
        "per_list",
        "--seed",
        "3",
    ]
    found("build", built / "rows.npy", tmp_path / "index", "--metric", "euclidean", *settings, "--threads", 1)
    told = found("info", tmp_path / "index")
    wanted = {
        "metric": "euclidean",
        "keep": "int8",
        "n_lists": 9,
        "rotation": "random",
        "codebooks": "per_list",
        "seed": 3,
    }
    assert {name: told["settings"][name] for name in wanted} == wanted
    assert told["lists"] == 9
    found("build", built / "rows.npy", tmp_path / "codes", "--metric", "dot", "--keep", "none")
    assert found("info", tmp_path / "codes")["settings"]["keep"] is None


def test_a_budget_of_bytes_is_kept_and_explained(built, run, found, tmp_path):
    code, out, _ = run(
        "build", built / "rows.npy", tmp_path / "index", "--metric", "dot", "--bytes-per-vector", 40
    )
    assert code == 0
    assert len(out.splitlines()) == 2  # what was built, and what was chosen and why
    assert sum(found("info", tmp_path / "index")["bytes_per_vector"].values()) < 48
    arguments = ["build", built / "rows.npy", tmp_path / "other", "--metric", "dot", "--keep", "int8"]
    one_line(run(*arguments, "--bytes-per-vector", 40), "bytes_per_vector")


def test_an_index_is_replaced_only_by_force(stored, built, run, found, tmp_path):
    arguments = ["build", built / "rows.npy", stored, "--metric", "cosine"]
    one_line(run(*arguments), "--force")
    assert found("info", stored)["vectors"] == 500
    assert found(*arguments, "--force")["vectors"] == 2500
    assert found("info", stored)["vectors"] == 2500
    one_line(run("build", built / "rows.npy", built / "rows.npy", "--metric", "dot", "--force"), "is a file")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("mine")
    one_line(run("build", built / "rows.npy", tmp_path / "letters", "--metric", "dot", "--force"), "mine.txt")


def test_a_build_that_fails_leaves_nothing(tmp_path, run):
    np.save(tmp_path / "bad.npy", np.full((10, 4), np.nan, np.float32))
    one_line(run("build", tmp_path / "bad.npy", tmp_path / "index", "--metric", "dot"), "vectors[0, 0] is nan")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("place", ["write_new", "replace_file"])
def test_ctrl_c_while_writing_leaves_nothing(place, built, run, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"pcpq.store.store.{place}", stop)
    assert run("build", built / "rows.npy", tmp_path / "index", "--metric", "dot") == (
        130,
        "",
        "pcpq: stopped\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_during_a_build_leaves_nothing(tmp_path):
    # So many that a busy machine does not finish before it is told to stop.
    rows = np.random.default_rng(0).normal(size=(300_000, 32)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    arguments = ["build", tmp_path / "rows.npy", tmp_path / "index", "--metric", "dot"]
    code, said, out = on_terminal(*arguments, until=b"learning")
    assert (code, out) == (130, "")
    assert "pcpq: stopped" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


# A terminal


@pytest.mark.parametrize("with_rich", [True, False])
def test_a_bar_with_rate_and_time_left_shows_on_a_terminal(with_rich, tmp_path):
    if with_rich:
        pytest.importorskip("rich")
    (tmp_path / "hidden").mkdir()
    if not with_rich:
        (tmp_path / "hidden" / "rich.py").write_text("raise ImportError('hidden')")
    path = os.pathsep.join([str(tmp_path / "hidden"), os.environ.get("PYTHONPATH", "")])
    generator = np.random.default_rng(0)
    np.save(tmp_path / "few.npy", generator.normal(size=(3000, 64)).astype(np.float32))
    np.save(tmp_path / "rows.npy", generator.normal(size=(60_000, 64)).astype(np.float32))
    assert main(["build", str(tmp_path / "few.npy"), str(tmp_path / "index"), "--metric", "dot"]) == 0
    code, said, out = on_terminal("add", tmp_path / "index", tmp_path / "rows.npy", PYTHONPATH=path)
    assert code == 0
    assert "adding vectors" in said
    assert re.search(r"[\d,]+ vectors/s", said)
    assert re.search(r"\d+%", said)
    assert re.search(r"0:00:0\d left", re.sub(r"\x1b\[[\d;?]*\w", "", said))
    assert "63,000 vectors now" in out


def test_tables_are_coloured_on_a_terminal_and_nowhere_else(built, run, monkeypatch, capsys):
    pytest.importorskip("rich")
    plain = run("info", built / "words.pcpq")[1]
    assert "\x1b" not in plain
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich asks a terminal that is none
    coloured = run("info", built / "words.pcpq")[1]
    assert "\x1b[" in coloured
    assert "cosine" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("info", built / "words.pcpq")[1] == plain


def test_words_cannot_move_the_cursor(rows, run, tmp_path):
    names = ["\x1b[2Jevil", *map(str, range(len(rows) - 1))]
    pcpq.build(rows, names, metric="dot").save(tmp_path / "index")
    _, out, _ = run("search", tmp_path / "index", "--word", "\x1b[2Jevil", "-k", 2)
    assert "evil" in out
    assert "\x1b" not in out


# Search


def test_results_come_in_every_form(built, run, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    expected = pcpq.open(built / "words.pcpq").search(np.load(built / "queries.npy"), k=3)
    search = ["search", built / "words.pcpq", built / "queries.npy", "-k", 3]
    _, out, _ = run(*search)
    assert out.splitlines()[0].split() == ["query", "rank", "id", "score"]
    assert out.splitlines()[1].split()[:3] == ["0", "1", expected.ids[0, 0]]
    _, out, _ = run(*search, "--format", "csv")
    assert [line.split(",")[2] for line in out.splitlines()[1:]] == expected.ids.ravel().tolist()
    _, out, _ = run(*search, "--json")
    assert [json.loads(line)["ids"] for line in out.splitlines()] == expected.ids.tolist()
    code, out, _ = run(*search, "--out", tmp_path / "found.parquet")
    assert code == 0
    assert "7 queries" in out
    assert parquet.read_table(tmp_path / "found.parquet")["id"].to_pylist() == expected.ids.ravel().tolist()
    _, out, _ = run(*search, "--out", tmp_path / "found.csv", "--format", "jsonl", "--json")
    assert json.loads(out)["queries"] == 7
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 7


def test_a_word_is_looked_up_and_is_no_answer_to_itself(built, rows, found, run):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    best = np.argsort(-(unit @ unit[4]))[1:4].tolist()
    assert found("search", built / "words.pcpq", "--word", "word4", "-k", 3) == {
        "query": "word4",
        "ids": [f"word{i}" for i in best],
        "scores": pytest.approx((unit @ unit[4])[best].tolist(), abs=1e-4),
    }
    assert found("search", built / "numbers.pcpq", "--id", 4, "-k", 3)["ids"] == best
    one_line(run("search", built / "words.pcpq", "--word", "nobody"), "nobody is not in the index")
    one_line(run("search", built / "numbers.pcpq", "--word", "nobody"), "whole numbers")


def test_queries_come_from_standard_input(built, rows, run, monkeypatch):
    lines = "\n".join(json.dumps({"id": f"q{i}", "vector": rows[i].tolist()}) for i in range(3))
    process = program("search", built / "numbers.pcpq", "-", "-k", 1, "--json", stdin=subprocess.PIPE)
    out, error = process.communicate(lines.encode(), timeout=60)
    assert error == b""
    answers = [json.loads(line) for line in out.splitlines()]
    assert [(answer["query"], answer["ids"]) for answer in answers] == [("q0", [0]), ("q1", [1]), ("q2", [2])]
    process = program("search", built / "numbers.pcpq", "-", stdin=subprocess.PIPE)
    _, error = process.communicate(b"{]", timeout=60)
    assert error.startswith(b"pcpq: stdin, line 1: is not JSON")


def test_settings_of_a_search_are_those_of_the_library(built, run):
    queries, index = np.load(built / "queries.npy"), pcpq.open(built / "numbers.pcpq")
    search = ["search", built / "numbers.pcpq", built / "queries.npy", "--json"]
    for options, settings in (
        (["--probes", "2", "--rerank", "20"], {"probes": 2, "rerank": 20}),
        (["--target-recall", "0.5"], {"target_recall": 0.5}),
    ):
        _, out, _ = run(*search, *options)
        expected = index.search(queries, **settings).ids.tolist()
        assert [json.loads(line)["ids"] for line in out.splitlines()] == expected
    one_line(run(*search, "--probes", "2", "--target-recall", "0.5"), "give one of them")
    one_line(run(*search, "-k", "0"), "k is 0")
    one_line(run(*search, "--format", "csv"), "--json and --format csv")


def test_a_target_out_of_reach_is_one_line_on_stderr(built, run):
    code, _, error = run("search", built / "codes.pcpq", built / "queries.npy", "--target-recall", 1)
    assert code == 0
    assert error.startswith("pcpq: a recall of 1.0 at k=10 is out of reach")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_columns_become_attributes_to_ask_about(format, rows, tmp_path, found, run):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    from pyarrow import parquet

    years = (2000 + np.arange(300) % 30).tolist()
    path = tmp_path / f"pages.{format}"
    if format == "parquet":
        parquet.write_table(pyarrow.table({"vector": list(rows[:300]), "year": years}), path)
    else:
        lines = [json.dumps({"vector": rows[i].tolist(), "year": year}) for i, year in enumerate(years)]
        path.write_text("\n".join(lines))
    found("build", path, tmp_path / "index", "--metric", "dot", "--attributes", "year")
    _, out, _ = run("search", tmp_path / "index", path, "-k", 4, "--where", "year >= 2029", "--json")
    assert {i % 30 for line in out.splitlines() for i in json.loads(line)["ids"]} == {29}
    found("add", tmp_path / "index", path, "--attributes", "year")
    arguments = ["build", path, tmp_path / "other", "--metric", "dot", "--attributes", "colour"]
    one_line(run(*arguments), "no column 'colour'")


# Changes


def test_adding_removing_and_replacing_last(built, rows, names, found, run, tmp_path):
    write_vectors(tmp_path / "first.jsonl", rows[:100], names[:100])
    write_vectors(tmp_path / "second.jsonl", -rows[90:120], names[90:120])
    index = tmp_path / "index"
    found("build", tmp_path / "first.jsonl", index, "--metric", "dot")
    one_line(run("add", index, tmp_path / "second.jsonl"), "word90 is in the index already; --replace")
    told = found("add", index, tmp_path / "second.jsonl", "--replace")
    assert told == {"index": str(index), "added": 20, "replaced": 10, "vectors": 120}
    (tmp_path / "gone.txt").write_text("word3\nword4\nnobody\n")
    told = found("remove", index, tmp_path / "gone.txt", "--id", "word5")
    assert told == {"index": str(index), "asked": 4, "removed": 3, "vectors": 117}
    assert found("remove", index, tmp_path / "second.jsonl")["removed"] == 30
    stored = pcpq.open(index)
    assert "word3" not in stored
    assert "word6" in stored
    assert "word119" not in stored


def test_numbers_are_removed_by_lines_and_arrays(stored, found, run, tmp_path):
    np.save(tmp_path / "gone.npy", np.arange(10))
    assert found("remove", stored, tmp_path / "gone.npy")["removed"] == 10
    assert found("remove", stored, "--id", "9", "--id", "10")["removed"] == 1
    one_line(run("remove", stored, "--id", "king"), "whole numbers")
    one_line(run("add", stored, tmp_path / "gone.npy"), "axes")
    (tmp_path / "empty.npy").touch()
    one_line(run("remove", stored, tmp_path / "empty.npy"), "empty.npy: cannot be read")
    np.save(tmp_path / "all.npy", np.arange(500))
    assert found("remove", stored, tmp_path / "all.npy")["vectors"] == 0
    one_line(run("bench", stored), "has 0 vectors")
    assert found("info", stored)["vectors"] == 0


def test_a_locked_index_says_who_writes(stored, built, run):
    with pcpq.open(stored, mode="a"):
        one_line(run("remove", stored, "--id", "1"), "is being written by process")


@pytest.mark.parametrize("suffix", ["npy", "fvecs", "fbin", "parquet", "jsonl", "txt"])
def test_vectors_come_out_as_they_went_in(suffix, rows, names, found, run, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    index, out = tmp_path / "index", tmp_path / f"out.{suffix}"
    with_ids = suffix in ("parquet", "jsonl", "txt")
    pcpq.build(rows[:300], names[:300], metric="dot", keep="float32").save(index)
    with pcpq.open(index, mode="a") as writer:  # several parts, and holes in them
        writer.add(rows[300:350], names[300:350])
        writer.remove(["word7"])
        writer.commit()
    told = found("export", index, out)
    assert told == {
        "out": str(out),
        "format": "text" if suffix == "txt" else suffix,
        "vectors": 349,
        "with_ids": with_ids,
    }
    read = pcpq.formats.read_vectors(out)
    np.testing.assert_array_equal(read.array(), np.delete(rows[:350], 7, axis=0))
    if with_ids:
        assert read.ids() == [name for name in names[:350] if name != "word7"]
    one_line(run("export", index, out), "--force")
    _, said, _ = run("export", index, out, "--force")
    assert ("without ids" in said) == (not with_ids)


# What is there, and how good


def test_info_tells_what_an_index_is(built, run, found):
    told = found("info", built / "words.pcpq")
    assert (told["vectors"], told["dimensions"], told["ids"], told["segments"]) == (2500, 16, "str", 1)
    assert [choice["target_recall"] for choice in told["recall"]["choices"]] == [0.8, 0.9, 0.95, 0.99]
    _, out, _ = run("info", built / "words.pcpq")
    for part in ("2,500", "cosine", "kept", "codes", "as float32", "64.0", "target recall"):
        assert part in out


def test_tuning_is_kept(built, rows, found, run, tmp_path):
    index = tmp_path / "index"
    pcpq.build(rows, metric="cosine").save(index)
    told = found("tune", index, built / "queries.npy")
    assert (told["measured"], told["queries"]) == ("given", 7)
    assert found("info", index)["recall"]["measured"] == "given"
    _, out, _ = run("tune", index, "-k", 5)
    assert out.splitlines()[0].startswith("k=5, measured with")
    assert found("info", index)["recall"]["measured"] == "held out"


def test_codes_alone_are_tuned_by_the_vectors_they_were_made_of(built, rows, found, run, tmp_path):
    index = tmp_path / "index"
    pcpq.build(rows, metric="cosine", keep=None).save(index)
    one_line(run("tune", index), "--vectors")
    one_line(run("tune", index, "--vectors", built / "rows.npy"), "QUERIES")
    told = found("tune", index, built / "queries.npy", "--vectors", built / "rows.npy")
    assert told["queries"] == 7


@pytest.mark.parametrize("name", ["numbers", "words", "codes"])
def test_bench_finds_the_recall_that_brute_force_finds(name, built, rows, found, monkeypatch):
    monkeypatch.setattr("pcpq.cli.benching.SECONDS", 0)
    vectors = built / ("rows.jsonl" if name == "words" else "rows.npy")
    own = [] if name == "numbers" else ["--vectors", vectors]
    told = found("bench", built / f"{name}.pcpq", built / "queries.npy", *own, "-k", 5, "--targets", 0.3, 0.9)
    unit, queries = (
        a / np.linalg.norm(a, axis=1, keepdims=True) for a in (rows, np.load(built / "queries.npy"))
    )
    best = np.argsort(-(queries @ unit.T), axis=1)[:, :5]
    index = pcpq.open(built / f"{name}.pcpq")
    for row in told["rows"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # codes alone may not reach a target
            ids = index.search(queries, 5, target_recall=row["target_recall"]).ids
        numbers = [[int(str(i).removeprefix("word")) for i in line] for line in ids]
        expected = np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(numbers, best, strict=True)])
        assert row["recall"] == pytest.approx(expected, abs=1e-6)
        assert row["queries_per_second"]["1"] > 0


@pytest.mark.parametrize(
    "arguments", [[], ["rows.npy"], ["rows.npy", "--vectors", "rows.npy"], ["--vectors", "rows.npy"]]
)
def test_no_vector_is_an_answer_to_itself_in_bench(arguments, built, found, run, monkeypatch):
    from pcpq.cli.exact import Exam

    exams = []
    recall = Exam.recall
    monkeypatch.setattr(Exam, "recall", lambda self, ids, k: exams.append((self, ids)) or recall(self, ids, k))
    monkeypatch.setattr("pcpq.cli.benching.SECONDS", 0)
    paths = [built / part if part.endswith("npy") else part for part in arguments]
    told = found("bench", built / "numbers.pcpq", *paths, "--targets", 0.95)
    exam, ids = exams[0]
    assert (exam.own >= 0).all()
    assert not (ids == exam.own[:, None]).any()
    assert not (exam.truth.ids == exam.own[:, None]).any()
    assert ids.shape == (told["queries"], 10)
    assert told["rows"][0]["recall"] > 0.85


def test_bench_refuses_answers_that_are_not_of_the_index(built, rows, run, tmp_path):
    np.save(tmp_path / "half.npy", rows[:1000])
    one_line(run("bench", built / "codes.pcpq"), "--vectors")
    one_line(
        run("bench", built / "codes.pcpq", "--vectors", tmp_path / "half.npy"), "1000 vectors, the index 2500"
    )
    one_line(run("bench", built / "words.pcpq", "--vectors", built / "rows.npy"), "are words")
    one_line(run("bench", built / "words.pcpq", "-k", 1000), "k is 1000")


def test_verify_says_that_an_index_is_whole(stored, run, found):
    assert "500 vectors" in run("verify", stored)[1]
    assert found("verify", stored)["ok"]


@pytest.mark.parametrize("part", ["codes", "kept", "ids"])
def test_verify_names_the_file_that_is_damaged(stored, part, run):
    from safetensors import safe_open

    path = next(stored.glob("segment-*"))
    with safe_open(path, "np") as file:
        damaged = file.get_tensor(part).tobytes()
    content = path.read_bytes()
    at = content.index(damaged) + len(damaged) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    one_line(run("verify", stored), path.name, code=1)
    code, out, _ = run("verify", stored, "--json")
    assert code == 1
    assert not json.loads(out)["ok"]


def test_a_backup_is_an_index(stored, tmp_path, run, found):
    assert "500 vectors" in run("backup", stored, tmp_path / "backup")[1]
    assert found("verify", tmp_path / "backup")["vectors"] == 500
    assert found("backup", stored, tmp_path / "copy", "--copy")["vectors"] == 500
    assert found("verify", tmp_path / "copy")["ok"]
    one_line(run("backup", stored, tmp_path / "backup"), "is an index already")


def test_verify_of_nothing_is_an_error(tmp_path, built, run):
    one_line(run("verify", tmp_path / "nothing"), "is not there")
    one_line(run("verify", built / "rows.npy"), "is not a directory")


def test_the_doctor_finds_all_well(run, found):
    from pcpq import _core

    level = _core.simd_level()
    code, out, _ = run("doctor")
    assert code == 0
    assert "all tests passed" in out
    assert _core.simd_level() == level
    told = found("doctor")
    assert told["ok"]
    assert told["simd_levels"] == _core.simd_levels()
    assert len(told["checks"]) == 3 * len(_core.simd_levels()) + 1


def test_the_doctor_notices_wrong_answers(run, monkeypatch):
    from pcpq.cli import doctor

    exact = doctor.exact_scores
    monkeypatch.setattr(doctor, "exact_scores", lambda *rows: exact(*rows) + 1)
    code, out, error = run("doctor")
    assert code == 1
    assert "FAILED" in out
    assert error.startswith("pcpq: self-test: ")


# What is optional


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("shtab", "cli", ["completion", "bash"]),
        ("h5py", "paper", ["build", "set.hdf5", "index", "--metric", "dot"]),
        ("pyarrow", "attributes", ["build", "set.parquet", "index", "--metric", "dot"]),
    ],
)
def test_what_is_missing_is_named_with_how_to_get_it(package, extra, arguments, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("set.hdf5", "set.parquet"):
        (tmp_path / name).write_bytes(b"something")
    monkeypatch.setitem(sys.modules, package, None)
    one_line(run(*arguments), f'{package} is missing: pip install "pcpq[{extra}]"')


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shells_complete_commands(shell, run):
    pytest.importorskip("shtab")
    code, out, _ = run("completion", shell)
    assert code == 0
    assert "bytes-per-vector" in out
    if shell == "bash":
        ask = "COMP_WORDS=(pcpq bu); COMP_CWORD=1; _shtab_pcpq pcpq bu pcpq; echo ${COMPREPLY[@]}"
        shown = subprocess.run(["bash", "-c", f"{out}\n{ask}"], capture_output=True, text=True, check=False)
        assert shown.stdout.split() == ["build"]


def test_the_demo_is_a_command(found, monkeypatch):
    vectors, words = load_words()
    monkeypatch.setattr("pcpq.cli.demo.load_words", lambda: (vectors[:3000], words[:3000]))  # quicker
    told = found("demo", "france")
    assert "germany" in told["neighbours"]["france"]
    kept, codes, plain = told["measured"]
    assert kept["recall"] > 0.93
    assert codes["bytes_per_vector"] < kept["bytes_per_vector"] < plain["bytes_per_vector"] == 400


# Where results go


def test_results_replace_no_file_that_nobody_said_to_replace(built, run, tmp_path):
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes((built / "rows.jsonl").read_bytes()[:2000].rsplit(b"\n", 1)[0])
    before = queries.read_bytes()
    arguments = ("search", built / "numbers.pcpq", queries, "-k", 2, "--out", queries)
    assert "exists already" in run(*arguments)[2]
    assert queries.read_bytes() == before
    assert run(*arguments, "--force")[0] == 0
    assert queries.read_bytes() != before


def test_results_are_written_where_a_link_leads(built, run, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    arguments = ("search", built / "numbers.pcpq", built / "queries.npy", "--out", tmp_path / "link.csv")
    assert run(*arguments, "--force")[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert "query,rank" in (tmp_path / "real.csv").read_text()


def test_a_pipe_stays_a_pipe(built, tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    reader = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    assert main(["search", str(built / "numbers.pcpq"), str(built / "queries.npy"), "--out", str(path)]) == 0
    assert reader.communicate(timeout=60)[0].startswith(b"query,rank")
    assert path.is_fifo()


def test_results_of_no_known_kind_are_refused(built, run, tmp_path):
    code, _, error = run("search", built / "numbers.pcpq", built / "queries.npy", "--out", tmp_path / "x.npy")
    assert code == 2
    assert "x.npy: has none of the suffixes .csv, .jsonl" in error
    assert not (tmp_path / "x.npy").exists()


def test_attributes_of_an_index_come_along_with_what_is_added(run, tmp_path, rows):
    def lines(first, count):
        objects = ({"id": f"w{i}", "vector": rows[i].tolist(), "len": i} for i in range(first, first + count))
        return "".join(json.dumps(one) + "\n" for one in objects)

    (tmp_path / "some.jsonl").write_text(lines(0, 50))
    (tmp_path / "more.jsonl").write_text(lines(50, 20))
    index = tmp_path / "index"
    assert run("build", tmp_path / "some.jsonl", index, "--metric", "dot", "--attributes", "len")[0] == 0
    assert run("add", index, tmp_path / "more.jsonl")[0] == 0
    with pcpq.open(index) as opened:
        assert len(opened) == 70
        assert set(opened.search(rows[60], k=3, where="len = 60").ids) == {"w60", None}


def test_a_budget_that_reaches_little_says_so(run, tmp_path, rows):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(3000, 32)).astype(np.float32))
    code, out, _ = run(
        "build", tmp_path / "rows.npy", tmp_path / "index", "--metric", "dot", "--bytes-per-vector", 30
    )
    assert code == 0
    assert re.search(r"recall of a search for 10 is at most about 0\.\d+", out)
