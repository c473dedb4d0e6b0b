from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.text import Text

from pcpq.experiments.paper import figures, illustrations

METHODS = {
    "PQ": "k-means++",
    "QPCPQ": "Q-PCPQ",
    "PCPQ": "PCPQ",
    "APQ": "ScaNN",
    "QAPCPQ": "Q-APCPQ",
    "APCPQ": "APCPQ",
}
RECALL_AT = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100]
SWEPT = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 340]


def measures(error, code_bits=100, codebook_bits=51.2):
    """What a result has of every method, step and code; the smaller the error, the better the recall."""
    curve = 1 - 2.5 * error / np.sqrt(RECALL_AT)
    return {
        "relative_error": error,
        "code_bits": code_bits,
        "codebook_bits": codebook_bits,
        "recall": {
            "all": list(curve),
            "probed": list(0.95 * curve),
            "reranked": list(0.95 * np.sqrt(curve)),
        },
    }


def made_up_method(place, name):
    error = 0.2 - 0.02 * place
    return {
        "method": name,
        "paper_name": METHODS[name],
        **measures(error),
        "errors": list(np.linspace(0, 1, 200) ** 2 * 3 * error),
        "recall_at_10_by_probes": list(0.9 * (1 - np.exp(-np.sqrt(SWEPT))) - error / 4),
        "published": {"relative_error": None, "recall_1_at_1": 0.5, "recall_1_at_10": 0.9}
        if place < 3
        else None,
    }


def made_up_result(name="glove", bits=4):
    ladder = ("the paper", "+ assignment by loss", "+ scales for every section", "+ joint refinement", "+ gain")
    return {
        "kind": "paper",
        "data": {"name": name},
        "settings": {"bits": bits, "probes": 12},
        "recall_at": RECALL_AT,
        "methods": [made_up_method(place, method) for place, method in enumerate(METHODS)],
        "probes": {
            "swept": SWEPT,
            "ceiling": list(1 - np.exp(-np.sqrt(SWEPT))),
            "chosen": 12,
            "published_plateau": 0.947,
        },
        "equal_bits": [
            {"label": label, "method": method, "codebooks": codebooks, **measures(error, bits, books)}
            for codebooks, books in (("per_list", 51.2), ("shared", 0.2))
            for method, label, error, bits in (
                ("PQ", "PQ, 16 centers, 25 sections", 0.2, 100),
                ("PQ", "PQ, 128 centers, 25 sections", 0.15, 175),
                ("QPCPQ", "16 centers, 8 scales, 25 sections", 0.12, 175),
            )
        ],
        "ablation": [
            {"family": family, "step": step, "codebooks": codebooks, **measures(0.2 - 0.03 * place)}
            for family in ("QPCPQ", "QAPCPQ")
            for codebooks in ("per_list", "shared")
            for place, step in enumerate(ladder)
        ],
    }


ILLUSTRATIONS = ["clustering", "scaling", "weights"]
FROM_RESULTS = ["errors", "recall", "probes", "ablation", "bits"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Every figure, drawn once."""
    return figures.draw_all([made_up_result()], tmp_path_factory.mktemp("figures"))


def words(path):
    """All text in an SVG file."""
    return " ".join(
        "".join(node.itertext()) for node in ElementTree.parse(path).iter() if node.tag.endswith("text")
    )


def test_every_figure_is_there_as_png_and_svg(drawn):
    names = ILLUSTRATIONS + [f"{name}_glove_4bit" for name in FROM_RESULTS]
    assert [path.name for path in drawn] == [f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    for path in drawn:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ElementTree.parse(path).getroot().tag.endswith("svg")


@pytest.mark.parametrize("name", ["errors_glove_4bit", "recall_glove_4bit", "probes_glove_4bit"])
def test_methods_are_named_in_words_that_can_be_searched(drawn, name):
    text = words(next(path for path in drawn if path.name == f"{name}.svg"))
    for label in ("PQ (k-means++)", "QPCPQ", "PCPQ", "APQ (ScaNN)", "QAPCPQ", "APCPQ"):
        assert label in text
    assert name.split("_")[1] in text


def test_steps_codes_and_axes_are_named(drawn):
    text = {path.stem: words(path) for path in drawn if path.suffix == ".svg"}
    for word in ("QPCPQ", "QAPCPQ", "+ joint refinement", "relative error", "Recall1@10", "0.200"):
        assert word in text["ablation_glove_4bit"]
    for word in ("128 codewords, 25 sections", "16 codewords, 8 scales", "bits per vector", "Recall1@1"):
        assert word in text["bits_glove_4bit"]
    for word in ("published plateau, 0.947", "chosen: 12 lists", "lists probed"):
        assert word in text["probes_glove_4bit"]
    for word in ("codes only, all lists", "codes only, 12 lists probed", "re-ranked exactly", "published"):
        assert word in text["recall_glove_4bit"]


def test_drawing_again_gives_the_same_bytes_whatever_the_user_has_set(drawn, tmp_path):
    import matplotlib

    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 7, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        again = figures.draw_all([made_up_result()], tmp_path / "new" / "folder")
        assert dict(matplotlib.rcParams) == before
    assert [path.read_bytes() for path in drawn] == [path.read_bytes() for path in again]


def test_figures_are_named_by_set_and_bits_and_left_out_where_their_part_is_missing(tmp_path):
    result = made_up_result("lastfm", 8)
    del result["ablation"], result["probes"]
    result["equal_bits"] = []
    with illustrations.shared_look():
        paths = figures.draw_result(result, tmp_path)
    assert [path.name for path in paths if path.suffix == ".svg"] == [
        "errors_lastfm_8bit.svg",
        "recall_lastfm_8bit.svg",
    ]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_numbers_that_the_paper_does_not_have_are_not_drawn():
    result = made_up_result()
    result["probes"]["published_plateau"] = None
    result["methods"] = [method | {"published": None} for method in result["methods"]]
    for figure in (figures.draw_recall(result), figures.draw_probes(result)):
        assert not [text for text in figure.findobj(Text) if "published" in text.get_text()]


def test_ablation_puts_both_codebooks_of_a_step_in_one_row():
    rows = figures.ablation_rows(made_up_result()["ablation"])
    assert [(family, step) for family, step, _ in rows][:3] == [
        ("QPCPQ", None),
        ("QPCPQ", "the paper"),
        ("QPCPQ", "+ assignment by loss"),
    ]
    assert len(rows) == 2 * (1 + 5)
    assert all(set(found) == {"per_list", "shared"} for _, step, found in rows if step)


def test_every_method_has_a_look_of_its_own():
    assert list(figures.LOOKS) == list(METHODS)
    assert len({look.marker for look in figures.LOOKS.values()}) == 6
    assert len({(look.colour, look.line) for look in figures.LOOKS.values()}) == 6


def test_plain_panels_approximate_by_codewords_and_projective_ones_on_lines_through_the_origin():
    for panel in illustrations.four_clusterings():
        assert set(panel.assigned) == {0, 1}
        own = panel.codewords[panel.assigned]
        if panel.projective:
            across = own[:, 0] * panel.approximations[:, 1] - own[:, 1] * panel.approximations[:, 0]
            assert np.abs(across).max() < 1e-5
            assert len(np.unique(panel.approximations, axis=0)) > 2
        else:
            assert np.allclose(panel.approximations, own, atol=1e-6)


def test_the_isotropic_panels_have_means_and_projections():
    plain, projective = illustrations.four_clusterings()[:2]
    for code in (0, 1):
        mean = plain.points[plain.assigned == code].mean(axis=0)
        assert np.allclose(plain.codewords[code], mean, atol=1e-4)
    missed = projective.points - projective.approximations
    assert np.abs(np.einsum("ij,ij->i", missed, projective.approximations)).max() < 1e-4


def test_the_anisotropic_panels_lie_farther_from_the_origin():
    plain, projective, anisotropic, both = illustrations.four_clusterings()
    assert (np.linalg.norm(anisotropic.codewords, axis=1).min()) > np.linalg.norm(plain.codewords, axis=1).max()
    same = both.assigned == projective.assigned
    longer = np.linalg.norm(both.approximations, axis=1) / np.linalg.norm(projective.approximations, axis=1)
    assert same.mean() > 0.8
    assert longer[same].mean() > 1.03


@pytest.mark.parametrize("seed", range(5))
def test_scaling_goes_from_the_projection_to_the_exact_inner_product_with_the_point(seed):
    generator = np.random.default_rng(seed)
    point, codeword = generator.normal(size=(2, 4))
    projection, exact = illustrations.best_scaling(np.array([1.0, 0.0]), point, codeword)
    assert (point - projection * codeword) @ codeword == pytest.approx(0, abs=1e-12)
    assert exact * codeword @ point == pytest.approx(point @ point)
    ends = illustrations.scaling_curve(np.array([0.0, 1.0]), point, codeword, 4)
    assert ends == pytest.approx([projection, exact])


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8])
def test_scaling_in_between_has_the_least_loss(threshold):
    point, codeword = np.array(illustrations.POINT), np.array(illustrations.CODEWORD)
    norm = np.linalg.norm(point)
    parallel, orthogonal, _ = illustrations.weight_curves(np.array([norm]), threshold * norm, 4)
    best = illustrations.scaling_curve(np.array([threshold]), point, codeword, 4)[0]

    def loss(alpha):
        missed = point - alpha * codeword
        along = missed @ point / norm
        return parallel[0] * along**2 + orthogonal[0] * (missed @ missed - along**2)

    assert loss(best) < min(loss(best - 1e-3), loss(best + 1e-3))


def test_scaling_rises_with_the_threshold():
    point, codeword = np.array(illustrations.POINT), np.array(illustrations.CODEWORD)
    assert (np.diff(illustrations.scaling_curve(np.linspace(0, 1, 101), point, codeword, 4)) > 0).all()


def test_weights_have_the_limits_that_the_paper_states():
    norms = np.array([0.2, 0.2 * (1 + 1e-9), 0.5, 2.0, 2e3])
    parallel, orthogonal, ratio = illustrations.weight_curves(norms, 0.2, 4)
    assert ratio[0] == 0.0
    assert ratio[1] < 1e-8
    assert ratio[-1] == pytest.approx(1, abs=1e-3)
    assert (np.diff(ratio) > 0).all()
    assert (parallel >= orthogonal).all()
    assert orthogonal[-1] == pytest.approx(3 * np.pi / 16, abs=1e-3)  # the integral of sin^4 up to pi / 2


def test_weights_are_the_integrals_up_to_arccos():
    parallel, orthogonal, _ = illustrations.weight_curves(np.array([0.7]), 0.2, 4)
    angle = (np.arange(100_000) + 0.5) / 100_000 * np.arccos(0.2 / 0.7)
    step = angle[1] - angle[0]
    assert orthogonal[0] == pytest.approx((np.sin(angle) ** 4).sum() * step, rel=1e-6)
    assert parallel[0] == pytest.approx(3 * (np.sin(angle) ** 2 - np.sin(angle) ** 4).sum() * step, rel=1e-6)
