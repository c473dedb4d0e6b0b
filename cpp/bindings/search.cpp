// The native boundary of search: arrays in, shapes checked, one call a batch of queries.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/checksum.h"
#include "search/rows.h"
#include "search/search.h"

using namespace nb::literals;

namespace pcpq {
namespace {

template <class T>
using Rows = Array<const T, 1>;

// Lengths that neither vanish nor overflow when they are multiplied.
constexpr double kSmallestHandy = 1e-9, kLargestHandy = 1e9;

Keep keep_named(const std::string& name) {
    if (name == "none") return Keep::none;
    if (name == "int8") return Keep::int8;
    if (name == "int16") return Keep::int16;
    if (name == "float16") return Keep::float16;
    if (name == "float32") return Keep::float32;
    throw nb::value_error(("unknown keep " + name).c_str());
}

Coding coding_named(const std::string& name) {
    if (name == "plain") return Coding::plain;
    if (name == "scaled") return Coding::scaled;
    if (name == "loose") return Coding::loose;
    throw nb::value_error(("unknown coding " + name).c_str());
}

// Arrays of an index, in the order of `Snapshot.searcher`.
using CoarseArrays =
    std::tuple<Array<const int8_t, 4>, Array<const uint16_t, 3>, float, float, Maybe<const float, 2>, Rows<float>>;
using ListArrays = std::tuple<CoarseArrays, Rows<float>, Rows<float>, float, float, Array<const float, 2>,
                              Rows<int64_t>, Rows<int64_t>>;
using CodeArrays =
    std::tuple<std::string, Array<const uint8_t, 2>, Array<const float, 4>, Maybe<const float, 3>,
               Maybe<const int8_t, 3>, Maybe<const float, 2>, float, float, float, float, bool, Maybe<const uint8_t, 2>,
               Maybe<const float, 2>, Maybe<const float, 1>, Maybe<const uint8_t, 1>>;
using TurnArrays = std::tuple<Maybe<const float, 2>, Maybe<const int64_t, 1>>;
using KeptArrays = std::tuple<std::string, Array<const uint8_t, 2>, Maybe<const float, 1>, bool,
                              Maybe<const uint16_t, 1>, Maybe<const float, 1>, Rows<int64_t>>;

Lists lists_from(const ListArrays& arrays, size_t dimensions) {
    const auto& [coarse_arrays, spreads, offsets, largest_base, largest_offset, shapes, rows, places] = arrays;
    const auto& [coarse, starts, unit, longest_query, centers, middle] = coarse_arrays;
    const size_t n = spreads.shape(0), groups = (n + 7) / 8;
    require(n > 0 && offsets.shape(0) == n && rows.shape(0) == n + 1 && places.shape(0) == n + 1,
            "the arrays of lists do not match");
    require(shapes.shape(0) == 3 && shapes.shape(1) == n, "the shapes of lists have the wrong shape");
    require(coarse.shape(0) == groups && coarse.shape(1) == (dimensions + 3) / 4 && coarse.shape(2) == 8 &&
                coarse.shape(3) == 4 && starts.shape(0) == groups && starts.shape(1) == 8 && starts.shape(2) == 2,
            "coarse centers have the wrong shape");
    require((!centers || (centers->shape(0) == n && centers->shape(1) == dimensions)) && middle.shape(0) == dimensions,
            "the centers of lists have the wrong shape");
    return {static_cast<int64_t>(n),
            static_cast<int64_t>(dimensions),
            coarse.data(),
            starts.data(),
            unit,
            longest_query,
            data_or_null(centers),
            middle.data(),
            spreads.data(),
            offsets.data(),
            largest_base,
            largest_offset,
            *std::max_element(spreads.data(), spreads.data() + n),
            shapes.data(),
            shapes.data() + n,
            shapes.data() + 2 * n,
            rows.data(),
            places.data()};
}

Packed packed_from(const CodeArrays& arrays, const Lists& lists) {
    const auto& [name, blocks, centers, scales, steps, step_units, largest_step, reach, low, step, by_length,
                 loose_scales, loose_alphas, loose_factors, loose_biases] = arrays;
    const Coding coding = coding_named(name);
    const size_t books = centers.shape(0), m = centers.shape(1), pairs = (m + 1) / 2;
    const auto n_rows = static_cast<size_t>(lists.rows[lists.count]);
    require(books == 1 || books == static_cast<size_t>(lists.count), "centers have the wrong shape");
    require(!scales || (scales->shape(0) == books && scales->shape(1) == m), "scales have the wrong shape");
    Packed packed{coding,
                  static_cast<int64_t>(m),
                  static_cast<int64_t>(centers.shape(2)),
                  books > 1,
                  static_cast<int64_t>(blocks.shape(1)),
                  blocks.data(),
                  static_cast<int64_t>(centers.shape(3)),
                  centers.data(),
                  scales ? static_cast<int64_t>(scales->shape(2)) : 0,
                  data_or_null(scales),
                  data_or_null(steps),
                  data_or_null(step_units),
                  largest_step,
                  reach,
                  low,
                  step,
                  by_length,
                  data_or_null(loose_scales),
                  data_or_null(loose_alphas),
                  data_or_null(loose_factors),
                  data_or_null(loose_biases)};
    if (coding == Coding::loose) {
        require(blocks.shape(0) == n_rows && (blocks.shape(1) == m || blocks.shape(1) == 2 * m),
                "loose codes have the wrong shape");
        require(loose_biases && loose_biases->shape(0) == n_rows, "loose biases have the wrong shape");
        require(!loose_scales || (scales && loose_scales->shape(0) == n_rows && loose_scales->shape(1) == m),
                "loose scales have the wrong shape");
        require(!loose_alphas || (loose_alphas->shape(0) == n_rows && loose_alphas->shape(1) == m),
                "loose alphas have the wrong shape");
        require(!loose_factors || loose_factors->shape(0) == n_rows, "loose factors have the wrong shape");
        return packed;
    }
    const bool scaled = coding == Coding::scaled;
    require(centers.shape(3) == 16, "centers have the wrong shape");
    require(!scaled || (scales && scales->shape(2) == 16 && steps && steps->shape(0) == books &&
                        steps->shape(1) == 2 * pairs && steps->shape(2) == 16 && step_units &&
                        step_units->shape(0) == books && step_units->shape(1) == m),
            "scales have the wrong shape");
    require(static_cast<int64_t>(blocks.shape(0)) == lists.n_blocks() &&
                blocks.shape(1) == (scaled ? pairs * 64 + 96 : static_cast<size_t>(table_sections(packed)) * 16),
            "blocks have the wrong shape");
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

Turn turn_from(const TurnArrays& arrays, size_t dimensions, const Packed& packed) {
    const auto& [matrix, places] = arrays;
    require(!matrix || (matrix->shape(0) == dimensions && matrix->shape(1) == dimensions),
            "the rotation has the wrong shape");
    const int64_t all = packed.sections * packed.section_size;
    require(places ? places->shape(0) == dimensions : all == static_cast<int64_t>(dimensions),
            "the places of coordinates have the wrong shape");
    if (places)
        for (size_t i = 0; i < dimensions; i++)
            require(places->data()[i] >= 0 && places->data()[i] < all, "a coordinate has no place");
    return {data_or_null(matrix), data_or_null(places)};
}

// The arrays of an index, checked once, searched any number of times.
class Searcher {
public:
    Searcher(ListArrays list_arrays, CodeArrays code_arrays, KeptArrays kept_arrays, TurnArrays turn_arrays,
             size_t dimensions, float row_unit, float query_unit, bool unit_length, nb::object guard)
        : list_arrays_(std::move(list_arrays)),
          code_arrays_(std::move(code_arrays)),
          kept_arrays_(std::move(kept_arrays)),
          turn_arrays_(std::move(turn_arrays)),
          lists_(lists_from(list_arrays_, dimensions)),
          packed_(packed_from(code_arrays_, lists_)),
          kept_(kept_from(kept_arrays_, dimensions)),
          turn_(turn_from(turn_arrays_, dimensions, packed_)),
          row_unit_(row_unit),
          query_unit_(query_unit),
          unit_length_(unit_length),
          guarded_(std::move(guard)),
          guard_(guarded_.is_none() ? nullptr : &nb::cast<const GuardedArrays&>(guarded_).guard()) {
        require(lists_.rows[lists_.count] == static_cast<int64_t>(std::get<6>(kept_arrays_).shape(0)),
                "rows do not match the lists");
        require(lists_.rows[lists_.count] <= INT32_MAX, "a segment has more rows than 32 bits can number");
    }

    void search(Array<const float, 2> queries, int64_t probes, int64_t rerank, Array<int64_t, 2> out_ids,
                Array<double, 2> out_scores, Maybe<const uint32_t, 1> allowed, float share,
                Maybe<int64_t, 2> out_counts, Maybe<double, 1> out_seconds, Maybe<int32_t, 2> out_scanned) const {
        const size_t n = queries.shape(0);
        SearchJob job = job_of(queries.data(), n, probes, rerank, out_ids.shape(1), out_ids.data(), out_scores.data());
        job.allowed = data_or_null(allowed);
        job.share = share;
        job.counts = data_or_null(out_counts);
        job.seconds = data_or_null(out_seconds);
        job.scanned = data_or_null(out_scanned);
        require(static_cast<int64_t>(queries.shape(1)) == lists_.dimensions, "queries have the wrong shape");
        require(!allowed || static_cast<int64_t>(allowed->shape(0)) == lists_.n_blocks(),
                "allowed has the wrong shape");
        require(out_ids.shape(0) == n && out_scores.shape(0) == n && out_scores.shape(1) == out_ids.shape(1),
                "outputs have the wrong shape");
        require(!out_counts || (out_counts->shape(0) == n && out_counts->shape(1) == 3),
                "out_counts has the wrong shape");
        require(!out_seconds || out_seconds->shape(0) == 4, "out_seconds has the wrong shape");
        require(!out_scanned || (out_scanned->shape(0) == n && out_scanned->shape(1) == out_ids.shape(1)),
                "out_scanned has the wrong shape");
        nb::gil_scoped_release unlocked;
        pcpq::search(job);
    }

    // From a query as it was given to scores as they are returned. Whether k rows were found; none are if the query
    // is not as searches are made for.
    bool search_one(Array<const float, 1> query, int64_t probes, int64_t rerank, Array<int64_t, 1> out_ids,
                    Array<float, 1> out_scores) const {
        const auto d = static_cast<size_t>(lists_.dimensions);
        const size_t k = out_ids.shape(0);
        require(k > 0 && k == out_scores.shape(0), "outputs have the wrong shape");
        if (query.shape(0) != d) return false;
        nb::gil_scoped_release unlocked;
        std::vector<float> scaled(query.data(), query.data() + d);
        if (query_unit_ != 1.0f)
            for (float& x : scaled) x *= 1.0f / query_unit_;
        const double length = length_range(scaled.data(), 1, d, unit_length_ ? scaled.data() : nullptr).first;
        if (!(length > kSmallestHandy && length < kLargestHandy)) return false;
        std::vector<double> exact(k);
        pcpq::search(job_of(scaled.data(), 1, probes, rerank, k, out_ids.data(), exact.data()));
        for (size_t i = 0; i < k; i++) {
            auto score = static_cast<float>(exact[i]);
            if (kept_.euclidean) score = score < 0.0f ? -score : 0.0f;
            out_scores.data()[i] = score * row_unit_ * query_unit_;
        }
        return out_ids.data()[k - 1] >= 0;
    }

private:
    ListArrays list_arrays_;
    CodeArrays code_arrays_;
    KeptArrays kept_arrays_;
    TurnArrays turn_arrays_;
    Lists lists_;
    Packed packed_;
    Kept kept_;
    Turn turn_;
    float row_unit_, query_unit_;  // of vectors and queries as searches have them
    bool unit_length_;             // queries are made that long
    nb::object guarded_;
    const Guard* guard_;

    SearchJob job_of(const float* queries, size_t n, int64_t probes, int64_t rerank, size_t k, int64_t* ids,
                     double* scores) const {
        const auto wanted = static_cast<int64_t>(k);
        require(probes > 0 && rerank >= wanted && wanted > 0, "probes, rerank or k is out of range");
        // Room is taken for what can be found, whatever is asked for.
        probes = std::min(probes, lists_.count);
        rerank = std::clamp<int64_t>(rerank, 1, std::max<int64_t>(lists_.rows[lists_.count], 1));
        return {guard_, lists_,  packed_, kept_,  turn_,   nullptr, 1.0f,   static_cast<int64_t>(n), probes, rerank,
                wanted, queries, ids,     scores, nullptr, nullptr, nullptr};
    }
};

}  // namespace

void bind_search(nb::module_& m) {
    m.attr("SMALLEST_HANDY") = kSmallestHandy;
    m.attr("LARGEST_HANDY") = kLargestHandy;
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
    m.def(
        "permute_rows",
        [](Array<uint8_t, 2> rows, Rows<int64_t> order) {
            require(order.shape(0) == rows.shape(0), "order has the wrong shape");
            nb::gil_scoped_release unlocked;
            return permute_rows(rows.data(), rows.shape(0), rows.shape(1), order.data());
        },
        "rows"_a.noconvert(), "order"_a.noconvert(), "Row i becomes what row order[i] was, without a second copy.");
    nb::class_<Searcher>(m, "Searcher", "The arrays of an index, checked once, searched any number of times.")
        .def(nb::init<ListArrays, CodeArrays, KeptArrays, TurnArrays, size_t, float, float, bool, nb::object>(),
             "lists"_a, "codes"_a, "kept"_a, "turn"_a, "dimensions"_a, "row_unit"_a, "query_unit"_a, "unit_length"_a,
             "guard"_a.none() = nb::none())
        .def("search", &Searcher::search, "queries"_a.noconvert(), "probes"_a, "rerank"_a, "out_ids"_a.noconvert(),
             "out_scores"_a.noconvert(), "allowed"_a.none() = nb::none(), "share"_a = 1.0f,
             "out_counts"_a.none() = nb::none(), "out_seconds"_a.none() = nb::none(),
             "out_scanned"_a.none() = nb::none(), "The k best rows for every query.")
        .def("search_one", &Searcher::search_one, "query"_a.noconvert(), "probes"_a, "rerank"_a,
             "out_ids"_a.noconvert(), "out_scores"_a.noconvert(),
             "The k best rows for one query as it was given; False where fewer are found or its length is unusual.");
}

}  // namespace pcpq
