"""Every command: help, errors, what is optional."""

import importlib.util
import re
import shlex
import subprocess
import sys

import pytest
from command_line import COMMANDS, ROOT, one_line, program

import pcpq
from pcpq.cli.program import make_commands
from pcpq.datasets import load_words

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


@pytest.mark.repository
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
        (["info", "nothing.pcpq"], "nothing.pcpq does not exist"),
        (["build", "nothing.npy", "new.pcpq", "--metric", "dot"], "nothing.npy: No such file"),
        (["build", "nothing.xyz", "new.pcpq", "--metric", "dot"], "nothing.xyz"),
        (["search", "nothing.pcpq"], "give FILE or --word"),
        (["remove", "nothing.pcpq"], "give FILE, --id or --where"),
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


def test_what_the_demo_says_to_type_next_works(run, tmp_path, monkeypatch):
    vectors, words = load_words()
    few = vectors[:4000], words[:4000]  # quicker
    monkeypatch.setattr("pcpq.cli.demo.load_words", lambda: few)
    monkeypatch.setattr("pcpq.datasets.load_words", lambda: few)
    monkeypatch.chdir(tmp_path)
    code, told, _ = run("demo", "france")
    assert code == 0
    assert re.search(r"target +recall 10@10", told)
    lines = [line.strip() for line in told[told.index("Next,") :].splitlines() if line.startswith("  ")]
    program = re.compile(r"(?:\S*/)?pcpq |\S+ -m pcpq\.cli ")
    exec("\n".join(line for line in lines if not program.match(line)), {})
    called = [shlex.split(program.sub("", line, count=1)) for line in lines if program.match(line)]
    assert [words[0] for words in called] == ["demo", "search", "info"]
    for words in called:
        code, told, wrong = run(*words)
        assert (code, wrong) == (0, "")
        assert told


def test_the_demo_prints_nothing_but_json_if_asked(found, monkeypatch):
    vectors, words = load_words()
    monkeypatch.setattr("pcpq.cli.demo.load_words", lambda: (vectors[:1000], words[:1000]))
    assert set(found("demo", "france")) == {"words", "seconds", "neighbours", "measured"}


def test_a_program_is_typed_by_its_name_if_the_shell_finds_it(tmp_path, monkeypatch):
    from pcpq.cli.demo import typed

    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pcpq"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert typed(program) == "bin/pcpq"
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert typed(program) == "pcpq"


def test_the_demo_is_a_command(found, monkeypatch):
    vectors, words = load_words()
    monkeypatch.setattr("pcpq.cli.demo.load_words", lambda: (vectors[:3000], words[:3000]))  # quicker
    told = found("demo", "france")
    assert "germany" in told["neighbours"]["france"]
    kept, codes, plain = told["measured"]
    assert kept["recall"] > 0.93
    assert codes["bytes_per_vector"] < kept["bytes_per_vector"] < plain["bytes_per_vector"] == 400
