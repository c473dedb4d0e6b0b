// The native boundary: checks shapes, releases the GIL, calls a kernel. No logic, no state.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "bindings/arrays.h"
#include "kernels/kernels.h"
#include "search/recall.h"
#include "training/codebook.h"
#include "training/scoring.h"
#include "training/training.h"

using namespace nb::literals;
using namespace pcpq;

namespace {

// Without a way out of the loop, so that it runs eight or more at a time.
template <class Code>
size_t largest(const Code* codes, size_t count) {
    Code most = 0;
    for (size_t i = 0; i < count; i++) most = codes[i] > most ? codes[i] : most;
    return most;
}

Loss loss_named(const std::string& name) {
    if (name == "isotropic") return Loss::isotropic;
    if (name == "section") return Loss::section;
    if (name == "whole") return Loss::whole;
    throw nb::value_error(("unknown loss " + name).c_str());
}

Scale scale_named(const std::string& name) {
    if (name == "none") return Scale::none;
    if (name == "exact") return Scale::exact;
    if (name == "quantized") return Scale::quantized;
    if (name == "vector") return Scale::vector;
    throw nb::value_error(("unknown scale " + name).c_str());
}

void encode_points(Array<const float, 2> points, Array<const float, 3> centers, Maybe<const float, 2> scales,
                   Maybe<const float, 2> directions, Maybe<const float, 2> ratios, const std::string& loss_name,
                   const std::string& scale_name, bool by_distance, int sweeps, Array<uint16_t, 2> out_centers,
                   Maybe<uint8_t, 2> out_scales, Maybe<float, 2> out_alphas) {
    const Loss loss = loss_named(loss_name);
    const Scale scale = scale_named(scale_name);
    const size_t n = points.shape(0), m = centers.shape(0), k = centers.shape(1), d = centers.shape(2);
    const bool levels = scale == Scale::quantized || scale == Scale::vector;
    const bool whole = loss == Loss::whole;
    require(m > 0 && k > 0 && d > 0, "centers must not be empty");
    require(points.shape(1) == m * d, "points do not have sections * section_size columns");
    require(k <= (scale == Scale::vector ? 32768u : 65536u), "too many centers");
    require(out_centers.shape(0) == n && out_centers.shape(1) == m, "out_centers has the wrong shape");
    require(!levels || (scales && scales->shape(0) == m && scales->shape(1) >= 1 && scales->shape(1) <= 256),
            "scales have the wrong shape");
    require(!levels ||
                (out_scales && out_scales->shape(0) == n && out_scales->shape(1) == (scale == Scale::vector ? 1 : m)),
            "out_scales has the wrong shape");
    require(scale != Scale::exact || (out_alphas && out_alphas->shape(0) == n && out_alphas->shape(1) == m),
            "out_alphas has the wrong shape");
    require(!whole || (directions && directions->shape(0) == n && directions->shape(1) == m * d),
            "directions have the wrong shape");
    require(!whole || scale != Scale::vector, "whole-vector encoding has no form with one scale a vector");
    require(loss == Loss::isotropic || (ratios && ratios->shape(0) == n && ratios->shape(1) == (whole ? 1 : m)),
            "ratios have the wrong shape");
    nb::gil_scoped_release unlocked;
    const PreparedCodebook book(centers.data(), levels ? scales->data() : nullptr, m, k, d,
                                levels ? scales->shape(1) : 1);
    std::vector<float> scratch(encode_scratch_floats(book.view(), scale));
    EncodeJob job{book.view(),
                  loss,
                  scale,
                  by_distance,
                  sweeps,
                  static_cast<int64_t>(n),
                  points.data(),
                  data_or_null(directions),
                  data_or_null(ratios),
                  out_centers.data(),
                  data_or_null(out_scales),
                  data_or_null(out_alphas),
                  scratch.data()};
    kernels().encode(job);
}

void seed(Array<const float, 2> points, Array<const double, 1> uniforms, bool sign_symmetric,
          Array<int64_t, 1> out_rows) {
    require(points.shape(0) > 0 && out_rows.shape(0) == uniforms.shape(0),
            "no points, or out_rows has the wrong shape");
    nb::gil_scoped_release unlocked;
    seed_rows(points.data(), points.shape(0), points.shape(1), uniforms.data(), uniforms.shape(0), sign_symmetric,
              out_rows.data());
}

// The first five arguments of every function below.
Clustered clustered(const Array<const float, 2>& points, const Array<const uint16_t, 1>& assigned,
                    const Array<const float, 2>& centers, const Maybe<const float, 1>& ratios,
                    const Maybe<const float, 1>& weights) {
    const size_t n = points.shape(0);
    require(assigned.shape(0) == n && centers.shape(1) == points.shape(1), "points, assigned and centers do not match");
    require(!ratios || ratios->shape(0) == n, "ratios have the wrong shape");
    require(!weights || weights->shape(0) == n, "weights have the wrong shape");
    require(n == 0 || largest(assigned.data(), n) < centers.shape(0), "assigned names a center that is not there");
    return {static_cast<int64_t>(n),
            static_cast<int64_t>(points.shape(1)),
            static_cast<int64_t>(centers.shape(0)),
            points.data(),
            assigned.data(),
            centers.data(),
            data_or_null(ratios),
            data_or_null(weights)};
}

using Points = Array<const float, 2>;
using Assigned = Array<const uint16_t, 1>;
using Centers = Array<const float, 2>;
using PerPoint = Maybe<const float, 1>;

ScoreJob score_job(const Array<const float, 3>& centers, const Maybe<const float, 2>& scales,
                   const Array<const uint8_t, 2>* narrow, const Array<const uint16_t, 2>* wide,
                   const Maybe<const uint8_t, 2>& scale_codes, const Maybe<const float, 2>& alphas) {
    const size_t m = centers.shape(0), k = centers.shape(1), d = centers.shape(2);
    const size_t n = narrow ? narrow->shape(0) : wide->shape(0);
    require(m > 0 && k > 0 && d > 0, "centers must not be empty");
    require((narrow ? narrow->shape(1) : wide->shape(1)) == m, "codes do not have one column a section");
    require(!scale_codes || (scale_codes->shape(0) == n && scale_codes->shape(1) == m),
            "scale codes have the wrong shape");
    require(!scale_codes || (scales && scales->shape(0) == m), "scales have the wrong shape");
    require(!alphas || (alphas->shape(0) == n && alphas->shape(1) == m), "alphas have the wrong shape");
    const size_t s = scale_codes ? scales->shape(1) : 0;
    require((narrow ? largest(narrow->data(), n * m) : largest(wide->data(), n * m)) < k || n == 0,
            "a code names a center that is not there");
    require(!scale_codes || n == 0 || largest(scale_codes->data(), n * m) < s,
            "a code names a scale that is not there");
    return {static_cast<int64_t>(m),
            static_cast<int64_t>(d),
            static_cast<int64_t>(k),
            static_cast<int64_t>(s),
            static_cast<int64_t>(n),
            0,
            centers.data(),
            data_or_null(scales),
            nullptr,
            narrow ? static_cast<const void*>(narrow->data()) : wide->data(),
            narrow == nullptr,
            data_or_null(scale_codes),
            data_or_null(alphas),
            nullptr};
}

// Each scoring function exists for uint8 and for uint16 codes.
template <class Code>
ScoreJob score_job_of(const Array<const float, 3>& centers, const Maybe<const float, 2>& scales,
                      const Array<const Code, 2>& codes, const Maybe<const uint8_t, 2>& scale_codes,
                      const Maybe<const float, 2>& alphas) {
    if constexpr (sizeof(Code) == 1)
        return score_job(centers, scales, &codes, nullptr, scale_codes, alphas);
    else
        return score_job(centers, scales, nullptr, &codes, scale_codes, alphas);
}

void set_queries(ScoreJob& job, const Array<const float, 2>& queries) {
    require(queries.shape(1) == static_cast<size_t>(job.sections * job.section_size),
            "queries do not have sections * section_size columns");
    job.n_queries = queries.shape(0);
    job.queries = queries.data();
}

template <class Code>
void bind_scoring(nb::module_& m) {
    m.def(
        "score",
        [](Array<const float, 2> queries, Array<const float, 3> centers, Maybe<const float, 2> scales,
           Array<const Code, 2> codes, Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas,
           Array<float, 2> out_scores) {
            ScoreJob job = score_job_of<Code>(centers, scales, codes, scale_codes, alphas);
            set_queries(job, queries);
            require(out_scores.shape(0) == queries.shape(0) && out_scores.shape(1) == codes.shape(0),
                    "out_scores has the wrong shape");
            job.scores = out_scores.data();
            nb::gil_scoped_release unlocked;
            score(job);
        },
        "queries"_a.noconvert(), "centers"_a.noconvert(), "scales"_a.noconvert().none(), "codes"_a.noconvert(),
        "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none(), "out_scores"_a.noconvert());
    m.def(
        "count_score_operations",
        [](Array<const float, 2> queries, Array<const float, 3> centers, Maybe<const float, 2> scales,
           Array<const Code, 2> codes, Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas) {
            ScoreJob job = score_job_of<Code>(centers, scales, codes, scale_codes, alphas);
            set_queries(job, queries);
            std::vector<float> scores(job.n * job.n_queries);
            job.scores = scores.data();
            const OperationCounts c = count_score_operations(job);
            return std::make_tuple(c.multiply_adds, c.multiplications, c.look_ups, c.additions);
        },
        "queries"_a.noconvert(), "centers"_a.noconvert(), "scales"_a.noconvert().none(), "codes"_a.noconvert(),
        "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none());
    m.def(
        "decode",
        [](Array<const float, 3> centers, Maybe<const float, 2> scales, Array<const Code, 2> codes,
           Maybe<const uint8_t, 2> scale_codes, Maybe<const float, 2> alphas, Array<float, 2> out_points) {
            ScoreJob job = score_job_of<Code>(centers, scales, codes, scale_codes, alphas);
            require(out_points.shape(0) == codes.shape(0) &&
                        out_points.shape(1) == static_cast<size_t>(job.sections * job.section_size),
                    "out_points has the wrong shape");
            job.scores = out_points.data();
            nb::gil_scoped_release unlocked;
            decode(job);
        },
        "centers"_a.noconvert(), "scales"_a.noconvert().none(), "codes"_a.noconvert(),
        "scale_codes"_a.noconvert().none(), "alphas"_a.noconvert().none(), "out_points"_a.noconvert());
}

std::vector<std::string> available_levels() {
    std::vector<std::string> names;
    for (const char* name : kLevelNames)
        if (level_available(name)) names.push_back(name);
    return names;
}

void choose_level(const std::string& name) {
    if (select_kernels(name.c_str())) return;
    std::string there = "auto";
    for (const std::string& level : available_levels()) there += ", " + level;
    throw nb::value_error(("PCPQ_SIMD is '" + name + "'; this processor and build have " + there).c_str());
}

// Training frees what it worked with, but glibc keeps it for later, and adding would take as much again.
void release_memory() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void recall_sums(Array<const int32_t, 2> scanned, Array<const int32_t, 2> lists, Array<const int32_t, 2> ranks,
                 Array<const int32_t, 1> parts, Array<const int32_t, 1> results, Array<const int32_t, 1> probes,
                 Array<const int32_t, 2> judged, Array<double, 3> out_hits, Array<double, 3> out_squares) {
    const size_t n = scanned.shape(0), count = scanned.shape(1);
    const size_t shape[3] = {results.shape(0), probes.shape(0), judged.shape(1)};
    for (const auto& same : {lists, ranks})
        require(same.shape(0) == n && same.shape(1) == count, "candidates do not match");
    require(judged.shape(0) == shape[0], "judged has the wrong shape");
    for (size_t axis = 0; axis < 3; axis++)
        require(out_hits.shape(axis) == shape[axis] && out_squares.shape(axis) == shape[axis],
                "outputs have the wrong shape");
    for (size_t i = 0; i < n * count; i++)
        require(scanned.data()[i] >= 0 && static_cast<size_t>(scanned.data()[i]) < count, "a place is out of range");
    for (size_t i = 0; i < parts.shape(0); i++)
        require(parts.data()[i] >= (i ? parts.data()[i - 1] : 0) && static_cast<size_t>(parts.data()[i]) <= count,
                "parts do not follow each other");
    for (size_t i = 0; i < shape[0]; i++) require(results.data()[i] > 0, "results are not positive");
    nb::gil_scoped_release unlocked;
    const JudgedCandidates candidates{static_cast<int64_t>(n),
                                      static_cast<int64_t>(count),
                                      scanned.data(),
                                      lists.data(),
                                      ranks.data(),
                                      static_cast<int64_t>(parts.shape(0)),
                                      parts.data()};
    sum_recalls(candidates, results.data(), shape[0], probes.data(), shape[1], judged.data(), shape[2], out_hits.data(),
                out_squares.data());
}

}  // namespace

NB_MODULE(_core, m) {
    // A thread that outlives the interpreter keeps what it holds: no leak, and users should not read of one.
    nb::set_leak_warnings(false);
    m.doc() = "Stateless kernels over caller-owned, C-contiguous arrays.";

    m.def("simd_level", [] { return std::string(kernels().name); }, "The SIMD level in force.");
    m.def("simd_levels", &available_levels, "The levels this processor and build have, best first.");
    m.def("set_simd_level", &choose_level, "name"_a, "Force a level; 'auto' is the best there is.");

    m.def("release_memory", &release_memory, "Give freed memory back to the system, where its allocator can be asked.");

    m.def("encode", &encode_points, "points"_a.noconvert(), "centers"_a.noconvert(), "scales"_a.noconvert().none(),
          "directions"_a.noconvert().none(), "ratios"_a.noconvert().none(), "loss"_a, "scale"_a, "by_distance"_a,
          "sweeps"_a, "out_centers"_a.noconvert(), "out_scales"_a.noconvert().none(), "out_alphas"_a.noconvert().none(),
          "The code of least loss for every point.");
    m.def("seed", &seed, "points"_a.noconvert(), "uniforms"_a.noconvert(), "sign_symmetric"_a, "out_rows"_a.noconvert(),
          "Rows picked by k-means++.");

    m.def(
        "center_sums",
        [](Points points, Assigned assigned, Centers centers, PerPoint ratios, PerPoint weights, PerPoint alphas,
           Maybe<double, 3> out_matrix, Array<double, 1> out_mass, Array<double, 2> out_vector) {
            const Clustered data = clustered(points, assigned, centers, ratios, weights);
            const size_t k = centers.shape(0), d = centers.shape(1);
            require(!alphas || alphas->shape(0) == points.shape(0), "alphas have the wrong shape");
            require(!ratios || out_matrix, "out_matrix is needed with ratios");
            require(
                !out_matrix || (out_matrix->shape(0) == k && out_matrix->shape(1) == d && out_matrix->shape(2) == d),
                "out_matrix has the wrong shape");
            require(out_mass.shape(0) == k && out_vector.shape(0) == k && out_vector.shape(1) == d,
                    "outputs have the wrong shape");
            nb::gil_scoped_release unlocked;
            center_sums(data, data_or_null(alphas), data_or_null(out_matrix), out_mass.data(), out_vector.data());
        },
        "points"_a.noconvert(), "assigned"_a.noconvert(), "centers"_a.noconvert(), "ratios"_a.noconvert().none(),
        "weights"_a.noconvert().none(), "alphas"_a.noconvert().none(), "out_matrix"_a.noconvert().none(),
        "out_mass"_a.noconvert(), "out_vector"_a.noconvert(),
        "Adds the normal equations of every center to the outputs.");
    m.def(
        "center_grams",
        [](Points points, Assigned assigned, Centers centers, PerPoint weights, Array<double, 3> out_matrix) {
            const Clustered data = clustered(points, assigned, centers, std::nullopt, weights);
            const size_t k = centers.shape(0), d = centers.shape(1);
            require(out_matrix.shape(0) == k && out_matrix.shape(1) == d && out_matrix.shape(2) == d,
                    "out_matrix has the wrong shape");
            nb::gil_scoped_release unlocked;
            center_grams(data, out_matrix.data());
        },
        "points"_a.noconvert(), "assigned"_a.noconvert(), "centers"_a.noconvert(), "weights"_a.noconvert().none(),
        "out_matrix"_a.noconvert(), "Adds the sum of r r^T of every center to out_matrix.");
    m.def(
        "point_losses",
        [](Points points, Assigned assigned, Centers centers, PerPoint ratios, PerPoint weights, PerPoint alphas,
           Array<double, 1> out_losses) {
            const Clustered data = clustered(points, assigned, centers, ratios, weights);
            require(!alphas || alphas->shape(0) == points.shape(0), "alphas have the wrong shape");
            require(out_losses.shape(0) == points.shape(0), "out_losses has the wrong shape");
            nb::gil_scoped_release unlocked;
            point_losses(data, data_or_null(alphas), out_losses.data());
        },
        "points"_a.noconvert(), "assigned"_a.noconvert(), "centers"_a.noconvert(), "ratios"_a.noconvert().none(),
        "weights"_a.noconvert().none(), "alphas"_a.noconvert().none(), "out_losses"_a.noconvert(),
        "The weighted loss of every point with its center.");
    m.def(
        "best_alphas",
        [](Points points, Assigned assigned, Centers centers, PerPoint ratios, PerPoint weights,
           Array<float, 1> out_alphas, Array<float, 1> out_curvatures) {
            const Clustered data = clustered(points, assigned, centers, ratios, weights);
            require(out_alphas.shape(0) == points.shape(0) && out_curvatures.shape(0) == points.shape(0),
                    "outputs have the wrong shape");
            nb::gil_scoped_release unlocked;
            best_alphas(data, out_alphas.data(), out_curvatures.data());
        },
        "points"_a.noconvert(), "assigned"_a.noconvert(), "centers"_a.noconvert(), "ratios"_a.noconvert().none(),
        "weights"_a.noconvert().none(), "out_alphas"_a.noconvert(), "out_curvatures"_a.noconvert(),
        "The best alpha of every point with its center, and the curvature of its loss there.");
    m.def(
        "section_ratios",
        [](Array<const float, 3> points, Array<const float, 1> thresholds, Array<const float, 1> table,
           Array<float, 2> out_ratios) {
            const size_t n = points.shape(0), m = points.shape(1);
            require(thresholds.shape(0) == m && table.shape(0) >= 2, "thresholds or table have the wrong shape");
            require(out_ratios.shape(0) == n && out_ratios.shape(1) == m, "out_ratios has the wrong shape");
            nb::gil_scoped_release unlocked;
            section_ratios(points.data(), n, m, points.shape(2), thresholds.data(), table.data(), table.shape(0),
                           out_ratios.data());
        },
        "points"_a.noconvert(), "thresholds"_a.noconvert(), "table"_a.noconvert(), "out_ratios"_a.noconvert(),
        "Orthogonal over parallel weight of every section of every point.");
    m.def(
        "quantize_scalars",
        [](Array<const double, 1> values, Array<const double, 1> weights, Array<double, 1> out_levels) {
            require(values.shape(0) > 0 && weights.shape(0) == values.shape(0) && out_levels.shape(0) > 0,
                    "values and weights do not match, or one is empty");
            nb::gil_scoped_release unlocked;
            quantize_scalars(values.data(), weights.data(), values.shape(0), out_levels.shape(0), out_levels.data());
        },
        "values"_a.noconvert(), "weights"_a.noconvert(), "out_levels"_a.noconvert(),
        "Exact weighted 1-D k-means of ascending values.");
    m.def("sum_recalls", &recall_sums, "scanned"_a.noconvert(), "lists"_a.noconvert(), "ranks"_a.noconvert(),
          "parts"_a.noconvert(), "results"_a.noconvert(), "probes"_a.noconvert(), "judged"_a.noconvert(),
          "out_hits"_a.noconvert(), "out_squares"_a.noconvert(),
          "Recall and its square, added up over queries, for numbers of results, lists and candidates.");
    bind_scoring<uint8_t>(m);
    bind_scoring<uint16_t>(m);

    if (const char* wanted = std::getenv("PCPQ_SIMD")) choose_level(wanted);
    bind_checksum(m);
    bind_search(m);
}
