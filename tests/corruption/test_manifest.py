"""Manifests that lie although their checksums are right."""

import json

import pytest
from damage import ids_of, in_entry, refused
from forging import file_of, forge_manifest

import pcpq
from pcpq.store.manifest import MANIFEST

pytestmark = [pytest.mark.kernels, pytest.mark.torture]


def in_part(**changes):
    return lambda content: content["parts"][0].update(changes)


HEX = "0123456789abcdef" * 2
BAD_NAMES = [
    "../secret.safetensors",
    f"../segment-{HEX}.safetensors",
    f"/etc/segment-{HEX}.safetensors",
    "/etc/passwd",
    f"sub/segment-{HEX}.safetensors",
    f"segment-{HEX}.safetensors/../x",
    f"segment-{HEX}.safetensors\n",
    f"segment-{HEX}.safetensors\0",
    f"segment-{HEX.upper()}.safetensors",
    f"segment-{HEX[1:]}.safetensors",
    "manifest.json",
    "lock",
    "",
    ".",
    None,
    5,
    ["segment"],
]


@pytest.mark.parametrize("where", ["trained", "segment", "live"])
@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_manifest_names_only_files_of_its_own(name, where, numbers):
    (numbers.parent / f"segment-{HEX}.safetensors").write_bytes(b"elsewhere")
    name = name.replace("segment", where) if isinstance(name, str) else name
    forge_manifest(numbers, in_entry(where, file=name))
    with pytest.raises(pcpq.FormatError, match=r"is not the name of a \w+ file"):
        pcpq.open(numbers)


def test_a_manifest_names_files_of_the_right_kind(numbers):
    named = {
        kind: file_of(numbers, {"segment": "first"}.get(kind, kind)) for kind in ("trained", "segment", "live")
    }
    original = (numbers / MANIFEST).read_bytes()
    for where in named:
        for kind, name in named.items():
            if kind != where:
                forge_manifest(numbers, in_entry(where, file=name))
                with pytest.raises(pcpq.FormatError, match="is not the name of"):
                    pcpq.open(numbers)
                (numbers / MANIFEST).write_bytes(original)


WHOLE = [None, True, "1", -1, 1.0, 1.5, 1 << 62, 1 << 64, 10**400, [], {}, float("nan"), float("inf")]


@pytest.mark.parametrize("number", WHOLE, ids=repr)
@pytest.mark.parametrize("where", ["generation", "next_id", "count", "bytes", "check"])
def test_numbers_of_a_manifest_are_whole(where, number, numbers):
    edits = {
        "generation": lambda content: content.update(generation=number),
        "next_id": lambda content: content.update(next_id=number),
        "count": in_part(count=number),
        "bytes": in_entry("segment", bytes=number),
        "check": in_entry("segment", check=number),
    }
    try:
        forge_manifest(numbers, edits[where])
    except ValueError:
        pytest.skip("cannot even be written")
    if (where, number) == ("next_id", 1 << 62):
        assert len(pcpq.open(numbers)) > 0  # an id can be as large
        return
    with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
        pcpq.open(numbers)


def recall(**changes):
    """A curve that could be right, but for the number of lists and for changes."""
    curve = {
        "results": [1],
        "probes": [1, 999_999],
        "candidates": [1.0],
        "rows": [10.0, 100.0],
        "means": [[[0.5], [1.0]]],
        "errors": [[[0.1], [0.0]]],
        "queries": 9,
        "kind": "given",
    }
    return lambda content: content.update(recall=curve | changes)


MANIFESTS = {
    "recall in words": lambda content: content.update(recall="high"),
    "recall of nothing": lambda content: content.update(recall={}),
    "recall of other lists": recall(),
    "recall of no lists": recall(probes=[]),
    "more than all": recall(means=[[[0.5], [1.5]]]),
    "recall that is ragged": recall(means=[[[0.5], [1.0, 1.0]]]),
    "recall of numbers without end": recall(rows=[1.0, 10**400]),
    "no parts": lambda content: content.pop("parts") and None,
    "parts of words": lambda content: content.update(parts="abc"),
    "a part that is null": lambda content: content.update(parts=[None]),
    "parts in an object": lambda content: content.update(parts={"a": content["parts"][0]}),
    "a part without a segment": lambda content: content["parts"][0].pop("segment") and None,
    "a part without live": lambda content: content["parts"][0].pop("live", 0) and None,
    "counts that wrap": in_part(count=(1 << 62) - 1),
    "another count": lambda content: (
        [part.update(count=part["count"] - 1) for part in content["parts"]] and None
    ),
    "no rows": in_part(count=0),
    "terabytes": in_entry("segment", bytes=1 << 44),
    "terabytes of lists": in_entry("trained", bytes=1 << 44),
    "terabytes of removals": in_entry("live", bytes=1 << 44),
    "no bytes": in_entry("segment", bytes=0),
    "a part twice": lambda content: content["parts"].append(content["parts"][0]),
    "no settings": lambda content: content.pop("settings") and None,
    "settings in a list": lambda content: content.update(settings=[]),
    "unknown settings": lambda content: content["settings"].update(__class__="x"),
    "no metric": lambda content: content["settings"].pop("metric") and None,
    "unknown metric": lambda content: content["settings"].update(metric="manhattan"),
    "unknown keep": lambda content: content["settings"].update(keep=["int16"]),
    "lists in words": lambda content: content["settings"].update(n_lists="3"),
    "a seed of nothing": lambda content: content["settings"].update(seed=None),
    "a quantizer in words": lambda content: content["settings"].update(quantizer="PQ"),
    "an unknown quantizer": lambda content: content["settings"]["quantizer"].update(name="Quantizer"),
    "a quantizer of another module": lambda content: content["settings"]["quantizer"].update(name="os.system"),
    "unknown parameters": lambda content: content["settings"]["quantizer"]["parameters"].update(x=1),
    "centers in words": lambda content: content["settings"]["quantizer"]["parameters"].update(init=[["a"]]),
    "unknown kind": lambda content: content.update(kind="float"),
    "kind in a list": lambda content: content.update(kind=["int"]),
    "kind in an object": lambda content: content.update(kind={}),
    "ids are words, it says": lambda content: content.update(kind="str"),
    "no kind": lambda content: content.update(kind=None),
    "no trained": lambda content: content.update(trained=None),
    "trained in words": lambda content: content.update(trained="trained"),
}


@pytest.mark.parametrize("edit", MANIFESTS.values(), ids=list(MANIFESTS))
def test_a_manifest_that_lies_is_refused(edit, numbers):
    forge_manifest(numbers, edit)
    assert refused(numbers, ids_of("numbers"))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"pcpq"',
        b"{}",
        b"\xff\xfe\x00",
        b'{"format": "pcpq", "format": "pcpq", "version": 1}',
        b'{"format": "pcpq", "version": 1, "check": 5}',
        b'{"format": "pcpq", "version": 1}',
        b'{"format": "pcpq", "version": NaN}',
        b'{"format": "pcpq", "version": ' + b"1" * 5000 + b"}",
        b"[" * 2_000_000,
        b'{"a":' * 500_000,
        b'{"format": "pcpq", "version": 1, "settings": ' + b'{"a":' * 900 + b"1" + b"}" * 901,
        b"\x80\x04\x95",
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_manifest_of_anything_else_is_refused(text, numbers):
    (numbers / MANIFEST).write_bytes(text)
    for mode in ("r", "a"):
        with pytest.raises(pcpq.FormatError, match=r"manifest\.json"):
            pcpq.open(numbers, mode=mode)


def test_a_manifest_with_a_wrong_checksum_is_refused(numbers):
    content = json.loads((numbers / MANIFEST).read_text())
    for check in (
        content["check"] ^ 1,
        str(content["check"]),
        None,
        float(content["check"]) + 0.5,
        [content["check"]],
    ):
        (numbers / MANIFEST).write_text(json.dumps(content | {"check": check}))
        with pytest.raises(pcpq.FormatError, match="checksum"):
            pcpq.open(numbers)
    (numbers / MANIFEST).write_text(
        json.dumps(content, indent=5, sort_keys=True)
    )  # written otherwise, the same
    pcpq.open(numbers)
