// Bindings of scoring: scores by lookup tables, counted operations, decoded points.
#include <cstddef>
#include <cstdint>

#include "bindings/arrays.h"
#include "training/scoring.h"

using namespace nb::literals;

namespace pcpq {
namespace {

// Each function exists for uint8 and for uint16 codes.
template <class Code>
ScoreJob score_job(const Array<const float, 3>& codewords, const Maybe<const float, 2>& scales,
                   const Array<const Code, 2>& codes, const Maybe<const uint8_t, 2>& scale_codes,
                   const Maybe<const float, 2>& alphas) {
    const size_t m = codewords.shape(0), k = codewords.shape(1), d = codewords.shape(2), n = codes.shape(0);
    require(m > 0 && k > 0 && d > 0, "codewords must not be empty");
    require(codes.shape(1) == m, "codes do not have one column per section");
    require(!scale_codes || has_shape(*scale_codes, n, m), "scale codes have the wrong shape");
    require(!scale_codes || (scales && scales->shape(0) == m), "scales have the wrong shape");
    require(!alphas || has_shape(*alphas, n, m), "alphas have the wrong shape");
    const size_t s = scale_codes ? scales->shape(1) : 0;
    require(all_below(codes.data(), n * m, k), "a code names a codeword that is not there");
    require(!scale_codes || all_below(scale_codes->data(), n * m, s), "a code names a scale that is not there");
    return {.sections = static_cast<int64_t>(m),
            .section_size = static_cast<int64_t>(d),
            .n_codewords = static_cast<int64_t>(k),
            .n_scales = static_cast<int64_t>(s),
            .n = static_cast<int64_t>(n),
            .n_queries = 0,
            .codewords = codewords.data(),
            .scales = data_or_null(scales),
            .queries = nullptr,
            .codes = codes.data(),
            .wide_codes = sizeof(Code) == 2,
            .scale_codes = data_or_null(scale_codes),
            .alphas = data_or_null(alphas),
            .scores = nullptr};
}

void set_queries(ScoreJob& job, const Array<const float, 2>& queries) {
    require(has_shape(queries, queries.shape(0), job.sections * job.section_size),
            "queries do not have sections * section_size columns");
    job.n_queries = static_cast<int64_t>(queries.shape(0));
    job.queries = queries.data();
}

template <class Code>
void bind_scoring_of(nb::module_& m) {
    m.def(
        "score",
        [](Array<const float, 2> queries, Array<const float, 3> codewords, Maybe<const float, 2> scales,
           Array<const Code, 2> codes, Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas,
           Array<float, 2> out_scores) {
            ScoreJob job = score_job(codewords, scales, codes, scale_codes, alphas);
            set_queries(job, queries);
            require(has_shape(out_scores, queries.shape(0), codes.shape(0)), "out_scores has the wrong shape");
            job.scores = out_scores.data();
            nb::gil_scoped_release unlocked;
            score(job);
        },
        nb::kw_only(), "queries"_a.noconvert(), "codewords"_a.noconvert(), "scales"_a.noconvert().none(),
        "codes"_a.noconvert(), "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none(),
        "out_scores"_a.noconvert());
    m.def(
        "count_score_operations",
        [](Array<const float, 2> queries, Array<const float, 3> codewords, Maybe<const float, 2> scales,
           Array<const Code, 2> codes, Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas) {
            ScoreJob job = score_job(codewords, scales, codes, scale_codes, alphas);
            set_queries(job, queries);
            nb::gil_scoped_release unlocked;
            return count_score_operations(job);
        },
        nb::kw_only(), "queries"_a.noconvert(), "codewords"_a.noconvert(), "scales"_a.noconvert().none(),
        "codes"_a.noconvert(), "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none());
    m.def(
        "decode",
        [](Array<const float, 3> codewords, Maybe<const float, 2> scales, Array<const Code, 2> codes,
           Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas, Array<float, 2> out_points) {
            ScoreJob job = score_job(codewords, scales, codes, scale_codes, alphas);
            require(has_shape(out_points, codes.shape(0), job.sections * job.section_size),
                    "out_points has the wrong shape");
            job.scores = out_points.data();
            nb::gil_scoped_release unlocked;
            decode(job);
        },
        nb::kw_only(), "codewords"_a.noconvert(), "scales"_a.noconvert().none(), "codes"_a.noconvert(),
        "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none(), "out_points"_a.noconvert());
}

}  // namespace

void bind_scoring(nb::module_& m) {
    nb::class_<OperationCounts>(m, "OperationCounts", "Operations on floats, counted while scores were computed.")
        .def_ro("multiply_adds", &OperationCounts::multiply_adds)
        .def_ro("multiplications", &OperationCounts::multiplications)
        .def_ro("look_ups", &OperationCounts::look_ups)
        .def_ro("additions", &OperationCounts::additions);
    bind_scoring_of<uint8_t>(m);
    bind_scoring_of<uint16_t>(m);
}

}  // namespace pcpq
