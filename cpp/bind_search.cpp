// The native boundary of search: arrays in, shapes checked, one call a batch of queries.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "boundary.h"
#include "search.h"

using namespace nb::literals;

namespace pcpq {
namespace {

template <class T>
using Rows = Array<const T, 1>;

Keep keep_named(const std::string& name) {
    if (name == "none") return Keep::none;
    if (name == "int8") return Keep::int8;
    if (name == "int16") return Keep::int16;
    if (name == "float16") return Keep::float16;
    if (name == "float32") return Keep::float32;
    throw nb::value_error(("unknown keep " + name).c_str());
}

// Arrays of an index, in the order of `Snapshot.arguments`.
using ListArrays =
    std::tuple<Array<const int16_t, 4>, float, Rows<float>, Rows<float>, float, Rows<int64_t>, Rows<int64_t>>;
using CodeArrays = std::tuple<Array<const uint8_t, 2>, Array<const float, 3>, Maybe<const float, 2>,
                              Maybe<const int8_t, 2>, Maybe<const float, 1>, float, float, float, float, bool>;
using KeptArrays = std::tuple<std::string, Array<const uint8_t, 2>, Maybe<const float, 1>, bool,
                              Maybe<const uint16_t, 1>, Maybe<const float, 1>, Rows<int64_t>>;

int64_t bytes_of(Keep keep) {
    switch (keep) {
        case Keep::int8:
            return 1;
        case Keep::int16:
        case Keep::float16:
            return 2;
        case Keep::float32:
            return 4;
        default:
            return 0;
    }
}

Lists lists_from(const ListArrays& arrays, size_t dimensions) {
    const auto& [coarse, unit, weights, offsets, largest_offset, rows, blocks] = arrays;
    const size_t n = weights.shape(0);
    require(n > 0 && offsets.shape(0) == n && rows.shape(0) == n + 1 && blocks.shape(0) == n + 1,
            "the arrays of lists do not match");
    require(coarse.shape(0) == (n + 7) / 8 && coarse.shape(1) == (dimensions + 1) / 2 && coarse.shape(2) == 8 &&
                coarse.shape(3) == 2,
            "coarse centers have the wrong shape");
    return {static_cast<int64_t>(n),
            static_cast<int64_t>(dimensions),
            coarse.data(),
            unit,
            weights.data(),
            offsets.data(),
            largest_offset,
            rows.data(),
            blocks.data()};
}

Packed packed_from(const CodeArrays& arrays) {
    const auto& [blocks, centers, scales, steps, step_units, largest_step, reach, low, step, by_length] = arrays;
    const size_t m = centers.shape(0), pairs = (m + 1) / 2;
    const bool scaled = scales.has_value();
    require(centers.shape(2) == 16, "centers do not have 16 columns");
    require(!scaled || (steps && step_units && scales->shape(0) == m && scales->shape(1) == 16 &&
                        steps->shape(0) == 2 * pairs && steps->shape(1) == 16 && step_units->shape(0) == m),
            "scales have the wrong shape");
    Packed packed{static_cast<int64_t>(m),
                  static_cast<int64_t>(centers.shape(1)),
                  scaled,
                  static_cast<int64_t>(blocks.shape(1)),
                  blocks.data(),
                  centers.data(),
                  data_or_null(scales),
                  data_or_null(steps),
                  data_or_null(step_units),
                  largest_step,
                  reach,
                  low,
                  step,
                  by_length};
    const size_t bytes = scaled ? pairs * 64 + 96 : table_sections(packed) * 16;
    require(blocks.shape(1) == bytes, "blocks have the wrong size");
    return packed;
}

Kept kept_from(const KeptArrays& arrays, size_t dimensions) {
    const auto& [name, rows, units, euclidean, gains, biases, ids] = arrays;
    const Keep keep = keep_named(name);
    const size_t n = ids.shape(0);
    require(keep == Keep::none || (rows.shape(0) == n && rows.shape(1) == dimensions * bytes_of(keep)),
            "kept rows have the wrong shape");
    require((keep != Keep::int8 && keep != Keep::int16) || (units && units->shape(0) == n), "kept rows lack units");
    require(!gains || gains->shape(0) == n, "gains have the wrong shape");
    require(!biases || biases->shape(0) == n, "biases have the wrong shape");
    return {keep, rows.data(), data_or_null(units), euclidean, data_or_null(gains), data_or_null(biases), ids.data()};
}

void search_index(const ListArrays& list_arrays, const CodeArrays& code_arrays, const KeptArrays& kept_arrays,
                  Maybe<const uint32_t, 1> allowed, Array<const float, 2> queries, Array<const float, 2> turned,
                  int64_t probes, int64_t rerank, Array<int64_t, 2> out_ids, Array<float, 2> out_scores,
                  Maybe<int64_t, 2> out_counts, Maybe<double, 1> out_seconds) {
    const size_t n = queries.shape(0), d = queries.shape(1);
    SearchJob job{lists_from(list_arrays, d),
                  packed_from(code_arrays),
                  kept_from(kept_arrays, d),
                  data_or_null(allowed),
                  static_cast<int64_t>(n),
                  probes,
                  rerank,
                  static_cast<int64_t>(out_ids.shape(1)),
                  queries.data(),
                  turned.data(),
                  out_ids.data(),
                  out_scores.data(),
                  data_or_null(out_counts),
                  data_or_null(out_seconds)};
    const Packed& packed = job.packed;
    const auto n_blocks = static_cast<int64_t>(std::get<0>(code_arrays).shape(0));
    require(job.lists.blocks[job.lists.count] == n_blocks, "blocks do not match the lists");
    require(job.lists.rows[job.lists.count] == static_cast<int64_t>(std::get<6>(kept_arrays).shape(0)),
            "rows do not match the lists");
    require(!allowed || static_cast<int64_t>(allowed->shape(0)) == n_blocks, "allowed has the wrong shape");
    require(turned.shape(0) == n && static_cast<int64_t>(turned.shape(1)) == packed.sections * packed.section_size,
            "turned queries have the wrong shape");
    require(out_ids.shape(0) == n && out_scores.shape(0) == n && out_scores.shape(1) == out_ids.shape(1),
            "outputs have the wrong shape");
    require(!out_counts || (out_counts->shape(0) == n && out_counts->shape(1) == 3), "out_counts has the wrong shape");
    require(!out_seconds || out_seconds->shape(0) == 4, "out_seconds has the wrong shape");
    require(probes > 0 && rerank >= job.k && job.k > 0, "probes, rerank or k is out of range");
    nb::gil_scoped_release unlocked;
    search(job);
}

}  // namespace

void bind_search(nb::module_& m) {
    m.def(
        "length_range",
        [](Array<const float, 2> rows, Maybe<float, 2> out_units) {
            require(!out_units || (out_units->shape(0) == rows.shape(0) && out_units->shape(1) == rows.shape(1)),
                    "out_units has the wrong shape");
            nb::gil_scoped_release unlocked;
            return length_range(rows.data(), rows.shape(0), rows.shape(1), data_or_null(out_units));
        },
        "rows"_a.noconvert(), "out_units"_a.noconvert().none() = nb::none(),
        "The least and the greatest length of rows, NaN if one is; and the rows at length 1, zeros as they are.");
    m.def("search", search_index, "lists"_a, "codes"_a, "kept"_a, "allowed"_a.none(), "queries"_a.noconvert(),
          "turned"_a.noconvert(), "probes"_a, "rerank"_a, "out_ids"_a.noconvert(), "out_scores"_a.noconvert(),
          "out_counts"_a.none(), "out_seconds"_a.none() = nb::none(), "The k best rows for every query.");
}

}  // namespace pcpq
