// Bindings of training: codes, seeds, sums over clusters, best scales.
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "bindings/arrays.h"
#include "kernels/kernels.h"
#include "training/assignment.h"
#include "training/encoding.h"
#include "training/training.h"

using namespace nb::literals;

namespace pcpq {
namespace {

using Points = Array<const float, 2>;
using Assigned = Array<const uint16_t, 1>;
using PerPoint = Maybe<const float, 1>;

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

void encode_points(Points points, Array<const float, 3> codewords, Maybe<const float, 2> scales,
                   Maybe<const float, 2> directions, Maybe<const float, 2> ratios, const std::string& loss_name,
                   const std::string& scale_name, bool by_distance, int sweeps, Array<uint16_t, 2> out_codes,
                   Maybe<uint8_t, 2> out_scales, Maybe<float, 2> out_alphas) {
    const Loss loss = loss_named(loss_name);
    const Scale scale = scale_named(scale_name);
    const size_t n = points.shape(0), m = codewords.shape(0), k = codewords.shape(1), d = codewords.shape(2);
    const bool levels = scale == Scale::quantized || scale == Scale::vector;
    const bool whole = loss == Loss::whole;
    require(m > 0 && k > 0 && d > 0, "codewords must not be empty");
    require(has_shape(points, n, m * d), "points do not have sections * section_size columns");
    require(k <= (scale == Scale::vector ? 32768u : 65536u), "too many codewords");
    require(has_shape(out_codes, n, m), "out_codes has the wrong shape");
    require(!levels || (scales && scales->shape(0) == m && scales->shape(1) >= 1 && scales->shape(1) <= 256),
            "scales have the wrong shape");
    require(!levels || (out_scales && has_shape(*out_scales, n, scale == Scale::vector ? 1 : m)),
            "out_scales has the wrong shape");
    require(scale != Scale::exact || (out_alphas && has_shape(*out_alphas, n, m)), "out_alphas has the wrong shape");
    require(!whole || (directions && has_shape(*directions, n, m * d)), "directions have the wrong shape");
    require(!whole || scale != Scale::vector, "whole-vector encoding has no form with one scale per vector");
    require(loss == Loss::isotropic || (ratios && has_shape(*ratios, n, whole ? 1 : m)), "ratios have the wrong shape");
    nb::gil_scoped_release unlocked;
    encode({.loss = loss,
            .scale = scale,
            .by_distance = by_distance,
            .sweeps = sweeps,
            .n = static_cast<int64_t>(n),
            .points = points.data(),
            .directions = data_or_null(directions),
            .ratios = data_or_null(ratios),
            .codes = out_codes.data(),
            .scales = data_or_null(out_scales),
            .alphas = data_or_null(out_alphas)},
           {.sections = static_cast<int64_t>(m),
            .section_size = static_cast<int64_t>(d),
            .n_codewords = static_cast<int64_t>(k),
            .n_scales = levels ? static_cast<int64_t>(scales->shape(1)) : 1,
            .codewords = codewords.data(),
            .scales = levels ? scales->data() : nullptr});
}

// What all functions over clusters take, checked.
Clustered clustered(const Points& points, const Assigned& assigned, const Points& codewords, const PerPoint& ratios,
                    const PerPoint& weights) {
    const size_t n = points.shape(0);
    require(has_shape(assigned, n) && codewords.shape(1) == points.shape(1),
            "points, assigned and codewords do not match");
    require(!ratios || has_shape(*ratios, n), "ratios have the wrong shape");
    require(!weights || has_shape(*weights, n), "weights have the wrong shape");
    require(all_below(assigned.data(), n, codewords.shape(0)), "assigned names a codeword that is not there");
    return {.n = static_cast<int64_t>(n),
            .size = static_cast<int64_t>(points.shape(1)),
            .n_codewords = static_cast<int64_t>(codewords.shape(0)),
            .points = points.data(),
            .assigned = assigned.data(),
            .codewords = codewords.data(),
            .ratios = data_or_null(ratios),
            .weights = data_or_null(weights)};
}

void bind_clusters(nb::module_& m) {
    m.def(
        "codeword_sums",
        [](Points points, Assigned assigned, Points codewords, PerPoint ratios, PerPoint weights, PerPoint alphas,
           Maybe<double, 3> out_matrix, Array<double, 1> out_mass, Array<double, 2> out_vector) {
            const Clustered data = clustered(points, assigned, codewords, ratios, weights);
            const size_t k = codewords.shape(0), d = codewords.shape(1);
            require(!alphas || has_shape(*alphas, points.shape(0)), "alphas have the wrong shape");
            require(!ratios || out_matrix, "out_matrix is needed with ratios");
            require(!out_matrix || has_shape(*out_matrix, k, d, d), "out_matrix has the wrong shape");
            require(has_shape(out_mass, k) && has_shape(out_vector, k, d), "outputs have the wrong shape");
            nb::gil_scoped_release unlocked;
            codeword_sums(data, data_or_null(alphas), data_or_null(out_matrix), out_mass.data(), out_vector.data());
        },
        nb::kw_only(), "points"_a.noconvert(), "assigned"_a.noconvert(), "codewords"_a.noconvert(),
        "ratios"_a.noconvert().none(), "weights"_a.noconvert().none(), "alphas"_a.noconvert().none(),
        "out_matrix"_a.noconvert().none(), "out_mass"_a.noconvert(), "out_vector"_a.noconvert(),
        "Adds the normal equations of every codeword to the outputs.");
    m.def(
        "codeword_grams",
        [](Points points, Assigned assigned, Points codewords, PerPoint weights, Array<double, 3> out_matrix) {
            const Clustered data = clustered(points, assigned, codewords, std::nullopt, weights);
            const size_t k = codewords.shape(0), d = codewords.shape(1);
            require(has_shape(out_matrix, k, d, d), "out_matrix has the wrong shape");
            nb::gil_scoped_release unlocked;
            codeword_grams(data, out_matrix.data());
        },
        nb::kw_only(), "points"_a.noconvert(), "assigned"_a.noconvert(), "codewords"_a.noconvert(),
        "weights"_a.noconvert().none(), "out_matrix"_a.noconvert(),
        "Adds the sum of r r^T of every codeword to out_matrix.");
    m.def(
        "point_losses",
        [](Points points, Assigned assigned, Points codewords, PerPoint ratios, PerPoint weights, PerPoint alphas,
           Array<double, 1> out_losses) {
            const Clustered data = clustered(points, assigned, codewords, ratios, weights);
            require(!alphas || has_shape(*alphas, points.shape(0)), "alphas have the wrong shape");
            require(has_shape(out_losses, points.shape(0)), "out_losses has the wrong shape");
            nb::gil_scoped_release unlocked;
            point_losses(data, data_or_null(alphas), out_losses.data());
        },
        nb::kw_only(), "points"_a.noconvert(), "assigned"_a.noconvert(), "codewords"_a.noconvert(),
        "ratios"_a.noconvert().none(), "weights"_a.noconvert().none(), "alphas"_a.noconvert().none(),
        "out_losses"_a.noconvert(), "The weighted loss of every point with its codeword.");
    m.def(
        "best_alphas",
        [](Points points, Assigned assigned, Points codewords, PerPoint ratios, PerPoint weights,
           Array<float, 1> out_alphas, Array<float, 1> out_curvatures) {
            const Clustered data = clustered(points, assigned, codewords, ratios, weights);
            require(has_shape(out_alphas, points.shape(0)) && has_shape(out_curvatures, points.shape(0)),
                    "outputs have the wrong shape");
            nb::gil_scoped_release unlocked;
            best_alphas(data, out_alphas.data(), out_curvatures.data());
        },
        nb::kw_only(), "points"_a.noconvert(), "assigned"_a.noconvert(), "codewords"_a.noconvert(),
        "ratios"_a.noconvert().none(), "weights"_a.noconvert().none(), "out_alphas"_a.noconvert(),
        "out_curvatures"_a.noconvert(),
        "The best alpha of every point with its codeword, and the curvature of its loss there.");
}

// Rounded centroids as they come from Python.
struct RoundedListArrays {
    Points centroids;
    Array<const float, 1> centre;
    Array<const int8_t, 4> coarse;
    Array<const uint16_t, 3> starts;
    Array<const float, 1> units, penalties, crowding;
    float longest, longest_row;

    RoundedLists checked(const Points& rows) const {
        const size_t n = centroids.shape(0), d = centroids.shape(1), groups = (n + 7) / 8;
        require(n > 0 && d > 0, "there are no centroids");
        require(has_shape(rows, rows.shape(0), d), "rows and centroids have different dimensions");
        require(has_shape(coarse, groups, (d + 3) / 4, 8, 4) && has_shape(starts, groups, 8, 2),
                "integers of the centroids have the wrong shape");
        require(has_shape(units, 8 * groups) && has_shape(penalties, 8 * groups),
                "units and penalties must be padded to a multiple of 8");
        require(has_shape(centre, d) && has_shape(crowding, n), "centre or crowding have the wrong shape");
        return {.count = static_cast<int64_t>(n),
                .dimensions = static_cast<int64_t>(d),
                .centroids = centroids.data(),
                .centre = centre.data(),
                .coarse = coarse.data(),
                .starts = starts.data(),
                .units = units.data(),
                .penalties = penalties.data(),
                .crowding = crowding.data(),
                .longest = longest,
                .longest_row = longest_row};
    }
};

void check_near(const Array<const int32_t, 2>& near, const Array<const int64_t, 1>& stops, size_t n, size_t n_lists) {
    require(near.shape(1) > 0 && near.shape(0) == stops.shape(0), "near and stops do not match");
    for (size_t i = 0; i < near.size(); i++)
        require(static_cast<uint32_t>(near.data()[i]) < n_lists, "near names a list that is not there");
    int64_t last = 0;
    for (size_t i = 0; i < stops.shape(0); i++) {
        require(stops.data()[i] >= last, "stops do not ascend");
        last = stops.data()[i];
    }
    require(static_cast<size_t>(last) == n, "the last stop is not the number of rows");
}

void bind_assignment(nb::module_& m) {
    nb::class_<RoundedListArrays>(m, "RoundedLists", "Centroids as 8-bit integers, by which rows find the nearest.")
        .def(
            "__init__",
            [](RoundedListArrays* self, Points centroids, Array<const float, 1> centre, Array<const int8_t, 4> coarse,
               Array<const uint16_t, 3> starts, Array<const float, 1> units, Array<const float, 1> penalties,
               Array<const float, 1> crowding, float longest, float longest_row) {
                new (self) RoundedListArrays{.centroids = std::move(centroids),
                                             .centre = std::move(centre),
                                             .coarse = std::move(coarse),
                                             .starts = std::move(starts),
                                             .units = std::move(units),
                                             .penalties = std::move(penalties),
                                             .crowding = std::move(crowding),
                                             .longest = longest,
                                             .longest_row = longest_row};
            },
            nb::kw_only(), "centroids"_a, "centre"_a, "coarse"_a, "starts"_a, "units"_a, "penalties"_a, "crowding"_a,
            "longest"_a, "longest_row"_a);
    m.def(
        "nearest_lists",
        [](const RoundedListArrays& lists, Points rows, Maybe<const int32_t, 2> near, Maybe<const int64_t, 1> stops,
           Array<int32_t, 1> out_lists, Array<float, 1> out_distances) {
            const size_t n = rows.shape(0);
            const RoundedLists rounded = lists.checked(rows);
            require(has_shape(out_lists, n) && has_shape(out_distances, n), "outputs have the wrong shape");
            require(near.has_value() == stops.has_value(), "near and stops are given together");
            if (near) check_near(*near, *stops, n, lists.centroids.shape(0));
            nb::gil_scoped_release unlocked;
            nearest_lists(rounded, {.n = static_cast<int64_t>(n),
                                    .rows = rows.data(),
                                    .near = data_or_null(near),
                                    .stops = data_or_null(stops),
                                    .n_groups = near ? static_cast<int64_t>(near->shape(0)) : 0,
                                    .n_near = near ? static_cast<int64_t>(near->shape(1)) : 0,
                                    .lists = out_lists.data(),
                                    .distances = out_distances.data()});
        },
        "lists"_a, nb::kw_only(), "rows"_a.noconvert(), "near"_a.noconvert().none() = nb::none(),
        "stops"_a.noconvert().none() = nb::none(), "out_lists"_a.noconvert(), "out_distances"_a.noconvert(),
        "The nearest list of every row, of all or of those near to a group of rows, and the squared distance.");
    m.def(
        "two_lists",
        [](const RoundedListArrays& lists, Points rows, float weight, Array<int32_t, 1> out_first,
           Array<int32_t, 1> out_second) {
            const size_t n = rows.shape(0);
            const RoundedLists rounded = lists.checked(rows);
            require(has_shape(out_first, n) && has_shape(out_second, n), "outputs have the wrong shape");
            nb::gil_scoped_release unlocked;
            two_lists(rounded, {.n = static_cast<int64_t>(n),
                                .rows = rows.data(),
                                .weight = weight,
                                .first = out_first.data(),
                                .second = out_second.data()});
        },
        "lists"_a, nb::kw_only(), "rows"_a.noconvert(), "weight"_a, "out_first"_a.noconvert(),
        "out_second"_a.noconvert(), "The nearest list of every row, and a second one: near, but in another direction.");
    m.def(
        "lists_around",
        [](const RoundedListArrays& lists, Points rows, Array<int32_t, 2> out_lists) {
            const RoundedLists rounded = lists.checked(rows);
            const size_t wanted = out_lists.shape(1);
            require(out_lists.shape(0) == rows.shape(0), "outputs have the wrong shape");
            require(wanted > 0 && wanted <= lists.centroids.shape(0), "there are not so many lists");
            nb::gil_scoped_release unlocked;
            lists_around(rounded, {.n = static_cast<int64_t>(rows.shape(0)),
                                   .wanted = static_cast<int64_t>(wanted),
                                   .rows = rows.data(),
                                   .lists = out_lists.data()});
        },
        "lists"_a, nb::kw_only(), "rows"_a.noconvert(), "out_lists"_a.noconvert(),
        "The nearest lists of every row, ascending.");
    m.def(
        "add_to_lists",
        [](Points rows, Array<const int32_t, 1> lists, Array<float, 2> out_sums) {
            const size_t n = rows.shape(0), d = rows.shape(1), n_lists = out_sums.shape(0);
            require(has_shape(lists, n), "lists have the wrong shape");
            require(out_sums.shape(1) == d, "rows and sums have different dimensions");
            for (size_t i = 0; i < n; i++)
                require(lists.data()[i] < static_cast<int64_t>(n_lists), "lists name a list that is not there");
            nb::gil_scoped_release unlocked;
            add_to_lists({.n = static_cast<int64_t>(n),
                          .dimensions = static_cast<int64_t>(d),
                          .rows = rows.data(),
                          .lists = lists.data(),
                          .sums = out_sums.data()});
        },
        nb::kw_only(), "rows"_a.noconvert(), "lists"_a.noconvert(), "out_sums"_a.noconvert(),
        "Adds rows to the sums of their lists; those of a negative list are left out.");
}

}  // namespace

void bind_training(nb::module_& m) {
    bind_assignment(m);
    m.def("encode", &encode_points, nb::kw_only(), "points"_a.noconvert(), "codewords"_a.noconvert(),
          "scales"_a.noconvert().none(), "directions"_a.noconvert().none(), "ratios"_a.noconvert().none(), "loss"_a,
          "scale"_a, "by_distance"_a, "sweeps"_a, "out_codes"_a.noconvert(), "out_scales"_a.noconvert().none(),
          "out_alphas"_a.noconvert().none(), "The code of least loss for every point.");
    m.def(
        "seed",
        [](Points points, Array<const double, 1> uniforms, bool sign_symmetric, Array<int64_t, 1> out_rows) {
            require(points.shape(0) > 0 && has_shape(out_rows, uniforms.shape(0)),
                    "no points, or out_rows has the wrong shape");
            nb::gil_scoped_release unlocked;
            seed_rows({.n = static_cast<int64_t>(points.shape(0)),
                       .size = static_cast<int64_t>(points.shape(1)),
                       .n_codewords = static_cast<int64_t>(uniforms.shape(0)),
                       .points = points.data(),
                       .uniforms = uniforms.data(),
                       .sign_symmetric = sign_symmetric,
                       .rows = out_rows.data()});
        },
        nb::kw_only(), "points"_a.noconvert(), "uniforms"_a.noconvert(), "sign_symmetric"_a, "out_rows"_a.noconvert(),
        "Rows picked by k-means++.");
    bind_clusters(m);
    m.def(
        "section_ratios",
        [](Array<const float, 3> points, Array<const float, 1> thresholds, Array<const float, 1> table,
           Array<float, 2> out_ratios) {
            const size_t n = points.shape(0), m = points.shape(1);
            require(has_shape(thresholds, m) && table.shape(0) >= 2, "thresholds or table have the wrong shape");
            require(has_shape(out_ratios, n, m), "out_ratios has the wrong shape");
            nb::gil_scoped_release unlocked;
            section_ratios({.n = static_cast<int64_t>(n),
                            .sections = static_cast<int64_t>(m),
                            .section_size = static_cast<int64_t>(points.shape(2)),
                            .table_size = static_cast<int64_t>(table.shape(0)),
                            .points = points.data(),
                            .thresholds = thresholds.data(),
                            .table = table.data(),
                            .ratios = out_ratios.data()});
        },
        nb::kw_only(), "points"_a.noconvert(), "thresholds"_a.noconvert(), "table"_a.noconvert(),
        "out_ratios"_a.noconvert(), "Orthogonal over parallel weight of every section of every point.");
    m.def(
        "quantize_scalars",
        [](Array<const double, 1> values, Array<const double, 1> weights, Array<double, 1> out_levels) {
            require(values.shape(0) > 0 && has_shape(weights, values.shape(0)) && out_levels.shape(0) > 0,
                    "values and weights do not match, or one is empty");
            nb::gil_scoped_release unlocked;
            quantize_scalars(values.data(), weights.data(), values.shape(0), out_levels.shape(0), out_levels.data());
        },
        nb::kw_only(), "values"_a.noconvert(), "weights"_a.noconvert(), "out_levels"_a.noconvert(),
        "Exact weighted 1-D k-means of ascending values.");
}

}  // namespace pcpq
