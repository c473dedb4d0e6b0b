"""The order of the modules is the way of a vector: an earlier one never imports a later one."""

import ast
from pathlib import Path

import pcpq

ORDER = [
    "_core",
    "errors",
    "once",
    "arrays",
    "memory",
    "parallel",
    "streams",
    "partition",
    "coarse",
    "sections",
    "clustering",
    "quantizers.loss",
    "quantizers.scales",
    "quantizers.options",
    "quantizers.codes",
    "quantizers.encoder",
    "quantizers.trainer",
    "quantizers.corrections",
    "quantizers.scorer",
    "quantizers.family",
    "quantizers",
    "rotation",
    "packing",
    "names",
    "attributes",
    "codebooks",
    "rerank",
    "rows",
    "trained",
    "fitting",
    "recall",
    "scan",
    "snapshot",
    "lookup",
    "refit",
    "search",
    "truth",
    "tuning",
    "storage.files",
    "storage.tensors",
    "storage.tables",
    "storage.objects",
    "storage.manifest",
    "storage.store",
    "storage",
    "state",
    "index",
    "budget",
    "opening",
    "",
    "datasets",
    "environment",
    "progress",
    "formats.files",
    "formats.vector_file",
    "formats.npy",
    "formats.binary",
    "formats.hdf5",
    "formats.columns",
    "formats.jsonl",
    "formats.text",
    "formats.reading",
    "formats.writing",
    "formats.results",
    "formats",
    "paper.published",
    "paper.sets",
    "paper.experiment",
    "paper.protocols",
    "paper.workers",
    "paper.measures",
    "paper.extensions",
    "paper.operations",
    "paper.single",
    "paper.run",
    "paper.summary",
    "paper.illustrations",
    "paper.figures",
    "paper",
    "report.parts",
    "report.model",
    "report.markup",
    "report.measures",
    "report.paper",
    "report.extensions",
    "report.codes",
    "report.peers",
    "report.page",
    "report",
    "cli.terminal",
    "demo",
    "cli.problems",
    "cli.parsers",
    "cli.inputs",
    "cli.building",
    "cli.changing",
    "cli.searching",
    "cli.exact",
    "cli.measuring",
    "cli.benching",
    "cli.looking",
    "cli.doctor",
    "cli.extras",
    "cli.program",
    "cli",
    "cli.__main__",
]
ROOT = Path(pcpq.__file__).parent


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pcpq":
            base = node.module.removeprefix("pcpq").removeprefix(".")
            names = [".".join(filter(None, [base, alias.name])) for alias in node.names]
            yield from (name if name in ORDER else base for name in names)


def test_no_module_imports_a_later_one():
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        place = ORDER.index(name)  # a new module must be given its place
        for other in imported(path):
            assert ORDER.index(other) < place, f"{name or 'pcpq'} imports {other}, which comes later"


def test_files_stay_short():
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path.name
