"""The paper's experiments: data, true answers, protocols, measures, and which orderings must hold."""

import json
from functools import partial

import numpy as np
import pytest

import pcpq
from pcpq.cli import main
from pcpq.datasets import load_words
from pcpq.experiments.paper import extensions, operations
from pcpq.experiments.paper.experiment import prepare
from pcpq.experiments.paper.measures import measure
from pcpq.experiments.paper.protocols import RECALL_AT, probes_for, swept_probes
from pcpq.experiments.paper.published import METHODS, plateau, published
from pcpq.experiments.paper.run import Run, save
from pcpq.experiments.paper.sets import VectorSet, load_set
from pcpq.experiments.paper.single import single_clusters
from pcpq.experiments.paper.workers import Workers


@pytest.fixture(scope="module")
def words():
    vectors = load_words()[0][:6000]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = np.arange(len(vectors)) % 12 == 0
    return VectorSet("words", "bundled", vectors[~asked], vectors[asked], True, "")


@pytest.fixture(scope="module")
def four_bits(words):
    return Run(words, 4, threads=1, parts=()).go()


@pytest.fixture
def small():
    generator = np.random.default_rng(5)
    base, queries = (generator.normal(size=(n, 12)).astype(np.float32) for n in (400, 30))
    return prepare(base, queries, 7, seed=0, threads=1)


def quiet(share):
    pass


# Data


@pytest.fixture
def hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")

    def write(name="glove-100-angular", distance="angular", parts=("train", "test"), n=300, d=10):
        generator = np.random.default_rng(0)
        with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
            for part in parts:
                file[part] = 3 * generator.normal(size=(n if part == "train" else 20, d)).astype(np.float32)
            if distance is not None:
                file.attrs["distance"] = distance
        return tmp_path

    return write


def test_angular_files_are_read_as_unit_vectors(hdf5):
    found = load_set(hdf5(), "glove")
    assert (found.name, found.source, found.unit_norm) == ("glove", "glove-100-angular.hdf5", True)
    assert np.allclose(np.linalg.norm(found.base, axis=1), 1, atol=1e-6)
    assert found.note == "The paper's own set."
    assert load_set(None, str(hdf5() / "glove-100-angular.hdf5")).name == "glove"


def test_files_of_inner_products_keep_their_lengths(hdf5):
    found = load_set(hdf5("lastfm-64-dot", "dot"), "lastfm")
    assert found.name == "lastfm"
    assert np.linalg.norm(found.base, axis=1).std() > 0.1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"distance": "euclidean"}, "of distance 'euclidean'"),
        ({"parts": ("train",)}, "has no 'test'; it has train"),
    ],
)
def test_files_of_another_kind_are_refused(hdf5, wrong, message):
    with pytest.raises(ValueError, match=message):
        load_set(hdf5(**wrong), "glove")


def test_numpy_files_stand_for_the_papers(tmp_path):
    generator = np.random.default_rng(0)
    for part, n in (("base", 50), ("query", 5)):
        np.save(tmp_path / f"lastfm48k_{part}.npy", generator.normal(size=(n, 64)).astype(np.float16))
    found = load_set(tmp_path, "lastfm")
    raw = load_set(tmp_path, "lastfm48k")
    assert raw.base.shape[1] == 64
    # As in the paper's file: equally long, and every inner product as it was.
    assert found.base.shape[1] == 65
    assert np.ptp(np.linalg.norm(found.base, axis=1)) < 1e-3
    assert np.allclose(found.queries @ found.base.T, raw.queries @ raw.base.T, atol=1e-4)


def test_the_words_are_there_without_data():
    found = load_set(None, None)
    assert found.base.shape == (19_000, 100)
    assert found.queries.shape == (1_000, 100)


def test_a_set_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no set 'fish': looked for fish.hdf5, fish_base.npy"):
        load_set(tmp_path, "fish")
    with pytest.raises(ValueError, match="'glove' is in a folder"):
        load_set(None, "glove")


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    np.save(tmp_path / "x_base.npy", np.full((3, 4), np.inf, np.float32))
    np.save(tmp_path / "x_query.npy", np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match="vectors hold numbers that are not finite"):
        load_set(tmp_path, "x")


# The setting, and what is measured in it


def test_lists_and_true_answers_are_those_of_brute_force(small):
    distances = np.square(small.base[:, None] - small.centroids).sum(-1)
    lists = np.repeat(np.arange(small.n_lists), np.diff(small.starts))
    assert np.array_equal(distances.argmin(1), lists)
    products = small.queries @ small.base.T
    assert np.array_equal(products.argmax(1), small.top)
    assert np.array_equal(lists[small.top], small.top_lists)


@pytest.mark.parametrize("codebooks", ["shared", "per_list"])
@pytest.mark.parametrize(
    "quantizer",
    [
        pcpq.PQ(n_sections=3, n_centers=4, paper=True),
        pcpq.QAPCPQ(n_sections=3, n_centers=4, n_scales=2, paper=True),
        pcpq.QPCPQ(n_sections=3, n_centers=4, n_scales=2, gain=True, bias="anchor"),
    ],
    ids=["PQ", "QAPCPQ", "QPCPQ with gain and bias"],
)
def test_measures_are_those_of_sorting_all_estimates(small, quantizer, codebooks):
    with Workers(1) as workers:
        found = measure(small, quantizer, codebooks, workers, quiet)
    # The same quantizers again, every estimate in one matrix.
    estimates, lost = np.empty((len(small.queries), len(small.base))), 0.0
    shared = type(quantizer)(**quantizer.get_params()).fit(small.all_residuals(), directions=small.base)
    for number in range(small.n_lists):
        residuals, rows = small.parts(number)
        own = shared
        if codebooks == "per_list":
            own = type(quantizer)(**quantizer.get_params()).fit(residuals, directions=rows)
        codes = own.encode(residuals, directions=rows)
        estimates[:, small.rows(number)] = own.scores(small.queries, codes, anchors=small.centroids[number])
        lost += np.square(residuals - own.decode(codes)).sum()
    order = np.argsort(-estimates, axis=1, kind="stable")
    n = np.arange(len(order))
    exact = (small.queries * small.base[small.top]).sum(1)
    errors = np.abs(estimates[n, small.top] - exact) / np.abs(exact)
    assert np.allclose(found.errors, errors, atol=1e-4)
    assert found.numbers["relative_error"] == pytest.approx(errors.mean(), abs=1e-4)
    assert found.numbers["residual_error"] == pytest.approx(
        lost / np.square(small.all_residuals()).sum(), abs=1e-4
    )
    lists = np.repeat(np.arange(small.n_lists), np.diff(small.starts))
    ranked_lists = np.argsort(-(small.queries @ small.centroids.T), axis=1)
    for probes in (1, 3, small.n_lists):
        curves = found.ranks.curves(probes)
        for at in (1, 3, 10):
            hits = {"all": 0, "probed": 0, "reranked": 0}
            for query in n:
                target, probed = small.top[query], set(ranked_lists[query, :probes])
                hits["all"] += target in order[query, :at]
                in_probed = [row for row in order[query] if lists[row] in probed]
                hits["probed"] += target in in_probed[:at]
                own_list = [row for row in in_probed if lists[row] == lists[target]]
                hits["reranked"] += target in own_list[:at]
            for protocol, count in hits.items():
                assert curves[protocol][RECALL_AT.index(at)] == pytest.approx(count / len(n), abs=1e-4)


def test_more_probes_raise_the_ceiling_up_to_all(small):
    with Workers(1) as workers:
        ranks = measure(small, pcpq.PQ(n_sections=3, n_centers=4), "shared", workers, quiet).ranks
    swept = swept_probes(small.n_lists)
    assert swept[0] == 1
    assert swept[-1] == small.n_lists
    ceilings = [ranks.ceiling(probes) for probes in swept]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] == 1
    assert ranks.ceiling(probes_for(ranks, ceilings[1])) == pytest.approx(ceilings[1])


def test_processes_find_what_one_finds(small):
    found = []
    for count in (1, 2):
        with Workers(count) as workers:
            quantizer = pcpq.QPCPQ(n_sections=3, n_centers=4, n_scales=2, paper=True)
            numbers = measure(small, quantizer, "per_list", workers, quiet).numbers
            found.append({name: value for name, value in numbers.items() if not name.endswith("seconds")})
    assert found[0] == found[1]


# Which orderings must hold


def method(result, name):
    return next(row for row in result["methods"] if row["method"] == name)


def recall(row, protocol, at):
    return row["recall"][protocol][RECALL_AT.index(at)]


def check_four_bits(result):
    for projective, plain in (("QPCPQ", "PQ"), ("PCPQ", "PQ"), ("QAPCPQ", "APQ"), ("APCPQ", "APQ")):
        better, worse = method(result, projective), method(result, plain)
        assert better["relative_error"] < worse["relative_error"]
        assert better["residual_error"] < worse["residual_error"]
        for protocol in ("all", "probed", "reranked"):
            assert recall(better, protocol, 1) > recall(worse, protocol, 1)
            assert recall(better, protocol, 10) >= recall(worse, protocol, 10)
    # Quantizing the scales costs little, next to what having them gains.
    for quantized, exact, plain in (("QPCPQ", "PCPQ", "PQ"), ("QAPCPQ", "APCPQ", "APQ")):
        errors = [method(result, name)["relative_error"] for name in (quantized, exact, plain)]
        assert errors[0] - errors[1] < 0.3 * (errors[2] - errors[1])


def check_eight_bits(four, eight):
    for projective, plain in (("QPCPQ", "PQ"), ("QAPCPQ", "APQ")):
        gains = [
            recall(method(result, projective), "all", 10) - recall(method(result, plain), "all", 10)
            for result in (four, eight)
        ]
        assert gains[1] < 0.5 * gains[0]


def test_projective_codes_are_better_at_four_bits(four_bits):
    check_four_bits(four_bits)


def test_projective_codes_gain_little_at_eight_bits(words, four_bits):
    kinds = (pcpq.PQ, pcpq.QPCPQ)
    experiment = prepare(words.base, words.queries, 5, seed=0, threads=1)
    setting = extensions.Setting(25, 256, 8)
    found = []
    with Workers(1) as workers:
        for kind in kinds:
            one = measure(experiment, kind(paper=True, **setting.parameters(kind)), "per_list", workers, quiet)
            found.append(one.ranks.recall("all", 10, 1))
    before = [recall(method(four_bits, kind.__name__), "all", 10) for kind in kinds]
    assert abs(found[1] - found[0]) < 0.5 * (before[1] - before[0])


def test_every_result_says_what_it_ran_on_and_what_the_paper_has(four_bits):
    assert [row["method"] for row in four_bits["methods"]] == list(METHODS)
    assert four_bits["environment"]["simd"]
    assert four_bits["settings"]["sections"] == 25
    assert all(row["published"] is None for row in four_bits["methods"])  # the words are not in the paper
    assert published("glove", 4, "QPCPQ")["recall_1_at_10"] == 0.924
    assert published("lastfm", 8, "PQ")["relative_error"] is None
    assert plateau("glove") == 0.947
    bits = {row["method"]: row["code_bits"] for row in four_bits["methods"]}
    assert (bits["PQ"], bits["QPCPQ"], bits["PCPQ"]) == (100, 175, 900)


# Beyond the paper


def test_equal_bits_are_equal():
    for setting in (extensions.Setting(25, 16, 8), extensions.Setting(16, 256, 8)):
        for entry in extensions.equal_bits(setting, rows_per_list=1000):
            quantizer, scaled = entry.quantizer, entry.about["method"].startswith("Q")
            bits = quantizer.n_sections * ((quantizer.n_centers - 1).bit_length() + 3 * scaled)
            same = (quantizer.n_sections, quantizer.n_centers) == (setting.n_sections, setting.n_centers)
            if scaled or not same:  # the other is the paper's own comparison, of fewer bits
                assert abs(bits - setting.scaled_bits) <= 4


def test_steps_of_the_ablation_differ_one_by_one():
    entries = list(extensions.ablation(extensions.Setting(25, 16, 8)))
    families = {entry.about["family"] for entry in entries}
    assert families == {"PQ", "QPCPQ", "APQ", "QAPCPQ"}
    for family in families:
        keys = [entry.key for entry in entries if entry.about["family"] == family]
        assert len(set(keys)) == len(keys)


def test_operations_are_those_of_the_papers_formulas(small):
    rows = list(operations.table(extensions.Setting(3, 8, 4), small.all_residuals(), small.queries))
    assert len(rows) == 8
    for row in rows:
        assert row["counted"] == row["formula"]
    by_label = {(row["label"], row["vectors"]): row for row in rows}
    assert (
        by_label["PQ, 32 codewords", 1000]["index_bits"]
        == by_label["Q-PCPQ, 8 codewords, 4 scales", 1000]["index_bits"]
    )


def test_coordinates_that_fill_up_sections_are_counted_too(small):
    residuals, queries = (rows[:, :11].copy() for rows in (small.all_residuals(), small.queries))
    for row in operations.table(extensions.Setting(3, 8, 4), residuals, queries):
        codewords = 32 if "32" in row["label"] else 8
        assert row["padding"] == (0 if "clustering" in row["label"] else 1)
        assert row["counted"] == row["formula"] + codewords * row["padding"]


def test_alternation_comes_close_to_the_best_of_a_cluster(words):
    experiment = prepare(words.base, words.queries, 5, seed=0, threads=1)
    found = single_clusters(experiment, 4, 0.2, seed=0, clusters=8)
    assert -1e-6 <= found["mean_excess_together"] <= found["mean_excess_one_step_each"] < 0.02


# The command


def test_the_command_leaves_results_and_figures(hdf5, tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    # Two hundred clusters from twenty starts each are for a table, not for a test.
    monkeypatch.setattr("pcpq.experiments.paper.run.single_clusters", partial(single_clusters, clusters=4))
    folder = hdf5(n=300, d=8)
    out = tmp_path / "out"
    assert (
        main(["paper", "--data", str(folder), "--dataset", "glove", "--out", str(out), "--threads", "1"]) == 0
    )
    printed = capsys.readouterr().out
    assert "Q-APCPQ" in printed
    assert "0.633" in printed  # the paper's
    result = json.loads((out / "paper_glove_4bit.json").read_text())
    for part in ("equal_bits", "ablation", "joint", "operations"):
        assert result[part]
    assert str(tmp_path) not in json.dumps(result)
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"clustering.svg", "weights.png", "recall_glove_4bit.png"} <= names
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").exists()


def test_results_replace_those_before_them(four_bits, tmp_path):
    path = save(four_bits, tmp_path / "new")
    again = save({**four_bits, "seconds": {}}, tmp_path / "new")
    assert again == path
    assert json.loads(path.read_text())["seconds"] == {}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "nothing.hdf5"], "nothing.hdf5"),
        (["--data", "no-such-folder"], "no set 'glove'"),
        (["--data", "", "--dataset", "fish"], "looked for fish.hdf5"),
    ],
)
def test_errors_are_one_line(arguments, message, capsys):
    assert main(["paper", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
