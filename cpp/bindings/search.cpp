// Bindings of search: the arrays of an index, checked once, and one call per batch of queries.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/checksum.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "search/checksum.h"
#include "search/exact.h"
#include "search/recall.h"
#include "search/rows.h"
#include "search/search.h"
#include "search/units.h"

using namespace nb::literals;

namespace pcpq {
namespace {

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
    if (name == "wide") return Coding::wide;
    if (name == "unpacked") return Coding::unpacked;
    throw nb::value_error(("unknown coding " + name).c_str());
}

// The arrays behind the structs of kernels/index_arrays.h, which say what they hold. They keep the Python arrays alive.
struct ListArrays {
    Array<const int8_t, 4> coarse;
    Array<const uint16_t, 3> starts;
    float unit, longest_query;
    Maybe<const float, 2> centroids;
    Array<const float, 1> mean, spreads, offsets;
    float largest_base, largest_offset;
    Array<const float, 2> shapes;  // (3, L)  energies, bias_means, bias_variances
    Array<const int64_t, 1> rows, places;

    Lists checked() const {
        const size_t n = spreads.shape(0), d = mean.shape(0), groups = (n + 7) / 8;
        require(n > 0 && has_shape(offsets, n) && has_shape(rows, n + 1) && has_shape(places, n + 1),
                "the arrays of lists do not match");
        require(has_shape(shapes, 3, n), "the shapes of lists have the wrong shape");
        require(has_shape(coarse, groups, (d + 3) / 4, 8, 4) && has_shape(starts, groups, 8, 2),
                "coarse centroids have the wrong shape");
        require(!centroids || has_shape(*centroids, n, d), "the centroids of lists have the wrong shape");
        require(rows.data()[n] <= INT32_MAX, "a segment has more rows than 32 bits can number");
        return {.count = static_cast<int64_t>(n),
                .dimensions = static_cast<int64_t>(d),
                .coarse = coarse.data(),
                .starts = starts.data(),
                .unit = unit,
                .longest_query = longest_query,
                .centroids = data_or_null(centroids),
                .mean = mean.data(),
                .spreads = spreads.data(),
                .offsets = offsets.data(),
                .largest_base = largest_base,
                .largest_offset = largest_offset,
                .largest_spread = *std::max_element(spreads.data(), spreads.data() + n),
                .energies = shapes.data(),
                .bias_means = shapes.data() + n,
                .bias_variances = shapes.data() + 2 * n,
                .rows = rows.data(),
                .places = places.data()};
    }
};

struct CodeArrays {
    std::string coding;
    Array<const uint8_t, 2> blocks;
    Array<const float, 4> codewords;  // (B, m, D, k)  of one codebook, or of one per list
    Maybe<const float, 3> scales;
    Maybe<const int8_t, 3> steps;
    Maybe<const float, 2> step_units;
    float largest_step, reach, bias_low, bias_step;
    bool bias_by_length;
    Maybe<const uint8_t, 2> unpacked_scales;
    Maybe<const float, 2> unpacked_alphas;
    Maybe<const float, 1> unpacked_factors;
    Maybe<const uint8_t, 1> unpacked_biases;

    Codes checked(const Lists& lists) const {
        const size_t codebooks = codewords.shape(0), m = codewords.shape(1), pairs = (m + 1) / 2;
        const auto n_rows = static_cast<size_t>(lists.rows[lists.count]);
        require(codebooks == 1 || codebooks == static_cast<size_t>(lists.count), "codewords have the wrong shape");
        require(!scales || (scales->shape(0) == codebooks && scales->shape(1) == m), "scales have the wrong shape");
        const Codes codes{.coding = coding_named(coding),
                          .sections = static_cast<int64_t>(m),
                          .section_size = static_cast<int64_t>(codewords.shape(2)),
                          .per_list = codebooks > 1,
                          .block_bytes = static_cast<int64_t>(blocks.shape(1)),
                          .blocks = blocks.data(),
                          .n_codewords = static_cast<int64_t>(codewords.shape(3)),
                          .codewords = codewords.data(),
                          .n_scales = scales ? static_cast<int64_t>(scales->shape(2)) : 0,
                          .scales = data_or_null(scales),
                          .steps = data_or_null(steps),
                          .step_units = data_or_null(step_units),
                          .largest_step = largest_step,
                          .reach = reach,
                          .bias_low = bias_low,
                          .bias_step = bias_step,
                          .bias_by_length = bias_by_length,
                          .unpacked_scales = data_or_null(unpacked_scales),
                          .unpacked_alphas = data_or_null(unpacked_alphas),
                          .unpacked_factors = data_or_null(unpacked_factors),
                          .unpacked_biases = data_or_null(unpacked_biases)};
        if (codes.coding == Coding::unpacked) {
            require(has_shape(blocks, n_rows, m) || has_shape(blocks, n_rows, 2 * m),
                    "unpacked codes have the wrong shape");
            require(unpacked_biases && has_shape(*unpacked_biases, n_rows), "unpacked biases have the wrong shape");
            require(!unpacked_scales || (scales && has_shape(*unpacked_scales, n_rows, m)),
                    "unpacked scales have the wrong shape");
            require(!unpacked_alphas || has_shape(*unpacked_alphas, n_rows, m), "unpacked alphas have the wrong shape");
            require(!unpacked_factors || has_shape(*unpacked_factors, n_rows), "unpacked factors have the wrong shape");
            return codes;
        }
        const bool scaled = codes.coding == Coding::scaled;
        require(codes.n_codewords == table_entries(codes.coding), "codewords have the wrong shape");
        require(!scaled || (codes.n_scales == 16 && steps && has_shape(*steps, codebooks, 2 * pairs, 16) &&
                            step_units && has_shape(*step_units, codebooks, m)),
                "scales have the wrong shape");
        const int64_t places = lists.places[lists.count], rows = block_rows(codes.coding);
        require(places % rows == 0, "the last block is not whole");
        require(has_shape(blocks, places / rows, block_bytes(codes.coding, codes.sections)),
                "blocks have the wrong shape");
        return codes;
    }
};

struct KeptArrays {
    std::string keep;
    Array<const uint8_t, 2> rows;  // (n, bytes of a row)
    Maybe<const float, 1> units;
    bool euclidean;
    Maybe<const uint16_t, 1> gains;
    Maybe<const float, 1> biases;
    Array<const int64_t, 1> ids;

    Kept checked(const Lists& lists, const Projection& projection) const {
        const Keep kind = keep_named(keep);
        const size_t n = ids.shape(0);
        require(lists.rows[lists.count] == static_cast<int64_t>(n), "rows do not match the lists");
        require(kind == Keep::none || has_shape(rows, n, projection.dimensions * bytes_of(kind)),
                "kept rows have the wrong shape");
        require(kind != Keep::none || !projection.matrix, "vectors that are not kept are not projected");
        require((kind != Keep::int8 && kind != Keep::int16) || (units && has_shape(*units, n)), "kept rows lack units");
        require(!gains || has_shape(*gains, n), "gains have the wrong shape");
        require(!biases || has_shape(*biases, n), "biases have the wrong shape");
        return {.keep = kind,
                .rows = rows.data(),
                .units = data_or_null(units),
                .euclidean = euclidean,
                .gains = data_or_null(gains),
                .biases = data_or_null(biases),
                .ids = ids.data()};
    }
};

struct ProjectionArrays {
    Maybe<const float, 2> matrix;
    Array<const float, 1> mean;

    Projection checked(const Lists& lists) const {
        const size_t d = mean.shape(0), p = lists.dimensions;
        require(matrix ? has_shape(*matrix, d, p) : d == p, "the projection has the wrong shape");
        return {.dimensions = static_cast<int64_t>(d), .matrix = data_or_null(matrix), .mean = mean.data()};
    }
};

struct RotationArrays {
    Maybe<const float, 2> matrix;
    Maybe<const int64_t, 1> columns;

    Rotation checked(const Lists& lists, const Codes& codes) const {
        const int64_t d = lists.dimensions, all = codes.sections * codes.section_size;
        require(!matrix || has_shape(*matrix, d, d), "the rotation has the wrong shape");
        require(columns ? has_shape(*columns, d) : all == d, "the columns of coordinates have the wrong shape");
        if (columns)
            for (int64_t i = 0; i < d; i++)
                require(columns->data()[i] >= 0 && columns->data()[i] < all, "a coordinate has no column");
        return {.matrix = data_or_null(matrix), .columns = data_or_null(columns)};
    }
};

// Codes of the same rows in their second lists.
struct SecondArrays {
    Array<const uint8_t, 2> blocks;
    Array<const int64_t, 1> starts, places;  // (L + 1,)  of lists, as `rows` and `places` of ListArrays
    Array<const int32_t, 1> rows;            // (n,)
    nb::object guard;
    std::vector<int64_t> numbers, both;  // (L + 1,)

    SecondCodes checked(const Lists& lists, const Codes& codes, const Kept& kept) {
        const int64_t count = lists.count, n = lists.rows[count], per_block = block_rows(codes.coding);
        require(codes.coding != Coding::unpacked, "unpacked codes are in one list");
        require(kept.keep != Keep::none, "codes of vectors that are not kept are in one list");
        require(has_shape(starts, count + 1) && has_shape(places, count + 1) && has_shape(rows, n) &&
                    starts.data()[count] == n && n <= INT32_MAX / 2,
                "the arrays of second lists do not match");
        require(places.data()[count] % per_block == 0 &&
                    has_shape(blocks, places.data()[count] / per_block, codes.block_bytes),
                "blocks of second lists have the wrong shape");
        for (int64_t i = 0; i <= count; i++) {
            numbers.push_back(n + starts.data()[i]);
            both.push_back(lists.rows[i] + starts.data()[i]);
        }
        SecondCodes found{.guard = guard.is_none() ? nullptr : &nb::cast<const GuardedArrays&>(guard).guard(),
                          .lists = lists,
                          .both = lists,
                          .codes = codes,
                          .rows = rows.data()};
        found.lists.rows = numbers.data();
        found.lists.places = places.data();
        found.both.rows = both.data();
        found.codes.blocks = blocks.data();
        return found;
    }
};

// The arrays of an index, checked once, searched any number of times.
class Searcher {
public:
    Searcher(const ListArrays& lists, const CodeArrays& codes, const KeptArrays& kept,
             const ProjectionArrays& projection, const RotationArrays& rotation, std::optional<SecondArrays> second,
             float row_unit, float query_unit, bool unit_length, nb::object guard)
        : list_arrays_(lists),
          code_arrays_(codes),
          kept_arrays_(kept),
          projection_arrays_(projection),
          rotation_arrays_(rotation),
          second_arrays_(std::move(second)),
          guarded_(std::move(guard)),
          units_{.row = row_unit, .query = query_unit, .unit_length = unit_length, .euclidean = kept.euclidean},
          guard_(guarded_.is_none() ? nullptr : &nb::cast<const GuardedArrays&>(guarded_).guard()),
          lists_(list_arrays_.checked()),
          codes_(code_arrays_.checked(lists_)),
          projection_(projection_arrays_.checked(lists_)),
          kept_(kept_arrays_.checked(lists_, projection_)),
          rotation_(rotation_arrays_.checked(lists_, codes_)),
          second_(second_arrays_ ? second_arrays_->checked(lists_, codes_, kept_) : SecondCodes{}) {}

    void search(Array<const float, 2> queries, int64_t probes, int64_t rerank, Array<int64_t, 2> out_ids,
                Array<double, 2> out_scores, Maybe<const uint32_t, 1> allowed, Maybe<const uint32_t, 1> second_allowed,
                float share, float temperature, float margin, Maybe<int64_t, 2> out_counts,
                Maybe<double, 1> out_seconds, Maybe<int32_t, 2> out_scanned) const {
        const size_t n = queries.shape(0), k = out_ids.shape(1);
        const Probing probing{.most = probes, .temperature = temperature, .margin = margin};
        SearchJob job = job_for(probing, rerank, k, out_ids.data());
        require(has_shape(queries, n, projection_.dimensions), "queries have the wrong shape");
        check_allowed(allowed, second_allowed);
        require(has_shape(out_ids, n, k) && has_shape(out_scores, n, k), "outputs have the wrong shape");
        require(!out_counts || has_shape(*out_counts, n, 3), "out_counts has the wrong shape");
        require(!out_seconds || has_shape(*out_seconds, 4), "out_seconds has the wrong shape");
        require(!out_scanned || has_shape(*out_scanned, n, k), "out_scanned has the wrong shape");
        job.n_queries = static_cast<int64_t>(n);
        job.queries = queries.data();
        job.scores = out_scores.data();
        job.allowed = data_or_null(allowed);
        job.second_allowed = data_or_null(second_allowed);
        job.share = share;
        job.counts = data_or_null(out_counts);
        job.seconds = data_or_null(out_seconds);
        job.scanned = data_or_null(out_scanned);
        nb::gil_scoped_release unlocked;
        pcpq::search(job);
    }

    int64_t estimate_columns() const { return pcpq::estimate_columns(exact_rows(0, nullptr)); }

    float read_rows(Array<const int32_t, 1> rows, Array<float, 2> out_rows) const {
        const ExactRows chosen = checked_rows(rows);
        require(has_shape(out_rows, rows.shape(0), estimate_columns()), "out_rows has the wrong shape");
        nb::gil_scoped_release unlocked;
        return pcpq::read_rows(chosen, out_rows.data());
    }

    void read_queries(Array<const float, 2> queries, Array<float, 2> out_queries) const {
        const size_t n = queries.shape(0);
        require(has_shape(queries, n, projection_.dimensions), "queries have the wrong shape");
        require(has_shape(out_queries, n, estimate_columns()), "out_queries has the wrong shape");
        nb::gil_scoped_release unlocked;
        pcpq::read_queries(exact_rows(0, nullptr), queries.data(), static_cast<int64_t>(n), out_queries.data());
    }

    void search_exactly(Array<const float, 2> queries, Array<const int32_t, 1> rows, Maybe<const float, 2> estimates,
                        float longest, Array<int64_t, 2> out_ids, Array<double, 2> out_scores) const {
        const size_t n = queries.shape(0), k = out_ids.shape(1);
        const ExactRows chosen = checked_rows(rows);
        require(has_shape(queries, n, projection_.dimensions), "queries have the wrong shape");
        require(!estimates || has_shape(*estimates, n, rows.shape(0)), "estimates have the wrong shape");
        require(k > 0 && has_shape(out_ids, n, k) && has_shape(out_scores, n, k), "outputs have the wrong shape");
        nb::gil_scoped_release unlocked;
        pcpq::search_exactly({.rows = chosen,
                              .longest = longest,
                              .n_queries = static_cast<int64_t>(n),
                              .k = static_cast<int64_t>(k),
                              .queries = queries.data(),
                              .estimates = data_or_null(estimates),
                              .ids = out_ids.data(),
                              .scores = out_scores.data()});
    }

    void check_allowed(const Maybe<const uint32_t, 1>& allowed, const Maybe<const uint32_t, 1>& second) const {
        require(!allowed || has_shape(*allowed, lists_.n_words()), "allowed has the wrong shape");
        require(second_.rows ? allowed.has_value() == second.has_value() : !second, "allowed is of one list");
        require(!second || has_shape(*second, second_.lists.n_words()), "second_allowed has the wrong shape");
    }

    const Units& units() const { return units_; }
    const Lists& lists() const { return lists_; }
    const Projection& projection() const { return projection_; }

    SearchJob job_for(const Probing& probing, int64_t rerank, size_t k, int64_t* ids) const {
        require(probing.most > 0 && k > 0 && rerank >= static_cast<int64_t>(k), "probes, rerank or k is out of range");
        return {.guard = guard_,
                .guesses = &guesses_,
                .lists = lists_,
                .codes = codes_,
                .kept = kept_,
                .projection = projection_,
                .rotation = rotation_,
                .second = second_,
                .allowed = nullptr,
                .second_allowed = nullptr,
                .share = 1.0f,
                .n_queries = 0,
                .probing = probing,
                .rerank = rerank,
                .k = static_cast<int64_t>(k),
                .queries = nullptr,
                .ids = ids,
                .scores = nullptr,
                .counts = nullptr,
                .seconds = nullptr,
                .scanned = nullptr};
    }

private:
    ExactRows exact_rows(int64_t count, const int32_t* rows) const {
        return {.guard = guard_,
                .kept = kept_,
                .dimensions = projection_.dimensions,
                .mean = projection_.mean,
                .count = count,
                .rows = rows};
    }

    ExactRows checked_rows(const Array<const int32_t, 1>& rows) const {
        require(kept_.keep != Keep::none, "no vectors are kept");
        uint32_t largest = 0;  // negative numbers become large ones: one comparison per row, which SIMD does
        for (size_t i = 0; i < rows.shape(0); i++) largest = std::max(largest, static_cast<uint32_t>(rows.data()[i]));
        require(rows.shape(0) == 0 || largest < lists_.rows[lists_.count], "a row is out of range");
        return exact_rows(static_cast<int64_t>(rows.shape(0)), rows.data());
    }

    ListArrays list_arrays_;
    CodeArrays code_arrays_;
    KeptArrays kept_arrays_;
    ProjectionArrays projection_arrays_;
    RotationArrays rotation_arrays_;
    std::optional<SecondArrays> second_arrays_;
    nb::object guarded_;
    Units units_;
    const Guard* guard_;
    mutable Guesses guesses_;
    Lists lists_;
    Codes codes_;
    Projection projection_;
    Kept kept_;
    Rotation rotation_;
    SecondCodes second_;
};

// The segments of an index with the rows that searches may find, for single queries.
class Segments {
public:
    void add(nb::object searcher, Maybe<const uint32_t, 1> allowed, Maybe<const uint32_t, 1> second_allowed,
             float share, int64_t count) {
        const Searcher& found = nb::cast<const Searcher&>(searcher);
        found.check_allowed(allowed, second_allowed);
        require(count > 0, "no row of a segment is allowed");
        if (!segments_.empty()) {
            const Searcher& first = *segments_.front().searcher;
            require(first.lists().count == found.lists().count &&
                        first.lists().dimensions == found.lists().dimensions &&
                        first.projection().dimensions == found.projection().dimensions,
                    "segments have other lists");
        }
        segments_.push_back({.owner = std::move(searcher),
                             .searcher = &found,
                             .allowed = std::move(allowed),
                             .second_allowed = std::move(second_allowed),
                             .share = share,
                             .count = count});
    }

    bool search_one(const Line<const float>& query, int64_t probes, float temperature, float margin, int64_t rerank,
                    const Line<int64_t>& out_ids, const Line<float>& out_scores) const {
        const size_t k = out_ids.size();
        require(k > 0 && out_scores.size() == k, "outputs have the wrong shape");
        if (segments_.empty() ||
            query.size() != static_cast<size_t>(segments_.front().searcher->projection().dimensions))
            return false;
        const Probing probing{.most = probes, .temperature = temperature, .margin = margin};
        std::vector<SearchJob> jobs;
        jobs.reserve(segments_.size());
        for (const Segment& segment : segments_) {
            const int64_t most = segment.count;
            SearchJob job = segment.searcher->job_for(probing, std::min(rerank, most),
                                                      std::min(k, static_cast<size_t>(most)), nullptr);
            job.allowed = data_or_null(segment.allowed);
            job.second_allowed = data_or_null(segment.second_allowed);
            job.share = segment.share;
            jobs.push_back(job);
        }
        nb::gil_scoped_release unlocked;
        return search_single(jobs, query.data(), segments_.front().searcher->units(), static_cast<int64_t>(k),
                             out_ids.data(), out_scores.data());
    }

private:
    struct Segment {
        nb::object owner;
        const Searcher* searcher;
        Maybe<const uint32_t, 1> allowed, second_allowed;
        float share;
        int64_t count;  // rows that may be found
    };
    std::vector<Segment> segments_;
};

void bind_arrays(nb::module_& m) {
    nb::class_<ListArrays>(m, "Lists", "The inverted lists of a segment: centroids, ranks, where rows begin.")
        .def(
            "__init__",
            [](ListArrays* self, Array<const int8_t, 4> coarse, Array<const uint16_t, 3> starts, float unit,
               float longest_query, Maybe<const float, 2> centroids, Array<const float, 1> mean,
               Array<const float, 1> spreads, Array<const float, 1> offsets, float largest_base, float largest_offset,
               Array<const float, 2> shapes, Array<const int64_t, 1> rows, Array<const int64_t, 1> places) {
                new (self) ListArrays{.coarse = std::move(coarse),
                                      .starts = std::move(starts),
                                      .unit = unit,
                                      .longest_query = longest_query,
                                      .centroids = std::move(centroids),
                                      .mean = std::move(mean),
                                      .spreads = std::move(spreads),
                                      .offsets = std::move(offsets),
                                      .largest_base = largest_base,
                                      .largest_offset = largest_offset,
                                      .shapes = std::move(shapes),
                                      .rows = std::move(rows),
                                      .places = std::move(places)};
            },
            nb::kw_only(), "coarse"_a, "starts"_a, "unit"_a, "longest_query"_a, "centroids"_a.none(), "mean"_a,
            "spreads"_a, "offsets"_a, "largest_base"_a, "largest_offset"_a, "shapes"_a, "rows"_a, "places"_a);
    nb::class_<CodeArrays>(m, "Codes", "The codes of a segment's rows, and the codebooks they refer to.")
        .def(
            "__init__",
            [](CodeArrays* self, std::string coding, Array<const uint8_t, 2> blocks, Array<const float, 4> codewords,
               Maybe<const float, 3> scales, Maybe<const int8_t, 3> steps, Maybe<const float, 2> step_units,
               float largest_step, float reach, float bias_low, float bias_step, bool bias_by_length,
               Maybe<const uint8_t, 2> unpacked_scales, Maybe<const float, 2> unpacked_alphas,
               Maybe<const float, 1> unpacked_factors, Maybe<const uint8_t, 1> unpacked_biases) {
                new (self) CodeArrays{.coding = std::move(coding),
                                      .blocks = std::move(blocks),
                                      .codewords = std::move(codewords),
                                      .scales = std::move(scales),
                                      .steps = std::move(steps),
                                      .step_units = std::move(step_units),
                                      .largest_step = largest_step,
                                      .reach = reach,
                                      .bias_low = bias_low,
                                      .bias_step = bias_step,
                                      .bias_by_length = bias_by_length,
                                      .unpacked_scales = std::move(unpacked_scales),
                                      .unpacked_alphas = std::move(unpacked_alphas),
                                      .unpacked_factors = std::move(unpacked_factors),
                                      .unpacked_biases = std::move(unpacked_biases)};
            },
            nb::kw_only(), "coding"_a, "blocks"_a, "codewords"_a, "scales"_a.none(), "steps"_a.none() = nb::none(),
            "step_units"_a.none() = nb::none(), "largest_step"_a = 0.0f, "reach"_a, "bias_low"_a, "bias_step"_a,
            "bias_by_length"_a, "unpacked_scales"_a.none() = nb::none(), "unpacked_alphas"_a.none() = nb::none(),
            "unpacked_factors"_a.none() = nb::none(), "unpacked_biases"_a.none() = nb::none());
    nb::class_<KeptArrays>(m, "Kept", "The vectors that candidates are reranked by, or corrections of codes; ids.")
        .def(
            "__init__",
            [](KeptArrays* self, std::string keep, Array<const uint8_t, 2> rows, Maybe<const float, 1> units,
               bool euclidean, Maybe<const uint16_t, 1> gains, Maybe<const float, 1> biases,
               Array<const int64_t, 1> ids) {
                new (self) KeptArrays{.keep = std::move(keep),
                                      .rows = std::move(rows),
                                      .units = std::move(units),
                                      .euclidean = euclidean,
                                      .gains = std::move(gains),
                                      .biases = std::move(biases),
                                      .ids = std::move(ids)};
            },
            nb::kw_only(), "keep"_a, "rows"_a, "units"_a.none(), "euclidean"_a, "gains"_a.none(), "biases"_a.none(),
            "ids"_a);
    nb::class_<ProjectionArrays>(m, "Projection", "From the coordinates of vectors to those of lists and codes.")
        .def(
            "__init__",
            [](ProjectionArrays* self, Maybe<const float, 2> matrix, Array<const float, 1> mean) {
                new (self) ProjectionArrays{.matrix = std::move(matrix), .mean = std::move(mean)};
            },
            nb::kw_only(), "matrix"_a.none(), "mean"_a);
    nb::class_<RotationArrays>(m, "Rotation", "From a vector's coordinates to those of its sections.")
        .def(
            "__init__",
            [](RotationArrays* self, Maybe<const float, 2> matrix, Maybe<const int64_t, 1> columns) {
                new (self) RotationArrays{.matrix = std::move(matrix), .columns = std::move(columns)};
            },
            nb::kw_only(), "matrix"_a.none(), "columns"_a.none());
    nb::class_<SecondArrays>(m, "SecondCodes", "The codes of a segment's rows in their second lists.")
        .def(
            "__init__",
            [](SecondArrays* self, Array<const uint8_t, 2> blocks, Array<const int64_t, 1> starts,
               Array<const int64_t, 1> places, Array<const int32_t, 1> rows, nb::object guard) {
                new (self) SecondArrays{.blocks = std::move(blocks),
                                        .starts = std::move(starts),
                                        .places = std::move(places),
                                        .rows = std::move(rows),
                                        .guard = std::move(guard),
                                        .numbers = {},
                                        .both = {}};
            },
            nb::kw_only(), "blocks"_a, "starts"_a, "places"_a, "rows"_a, "guard"_a.none() = nb::none());
}

void recall_sums(Array<const int32_t, 2> scanned, Array<const int32_t, 2> lists, Array<const int32_t, 2> ranks,
                 Array<const int32_t, 1> parts, Array<const int32_t, 1> results, Array<const int32_t, 1> probes,
                 Array<const int32_t, 2> reranks, Array<double, 3> out_hits, Array<double, 3> out_squares) {
    const size_t n = scanned.shape(0), count = scanned.shape(1);
    const size_t n_results = results.shape(0), n_probes = probes.shape(0), n_reranks = reranks.shape(1);
    require(has_shape(lists, n, count) && has_shape(ranks, n, count), "candidates do not match");
    require(has_shape(reranks, n_results, n_reranks), "reranks has the wrong shape");
    require(
        has_shape(out_hits, n_results, n_probes, n_reranks) && has_shape(out_squares, n_results, n_probes, n_reranks),
        "outputs have the wrong shape");
    nb::gil_scoped_release unlocked;
    const RankedCandidates candidates{.n = static_cast<int64_t>(n),
                                      .count = static_cast<int64_t>(count),
                                      .scanned = scanned.data(),
                                      .lists = lists.data(),
                                      .ranks = ranks.data(),
                                      .n_parts = static_cast<int64_t>(parts.shape(0)),
                                      .parts = parts.data()};
    const RecallSettings settings{.n_results = static_cast<int64_t>(n_results),
                                  .n_probes = static_cast<int64_t>(n_probes),
                                  .n_reranks = static_cast<int64_t>(n_reranks),
                                  .results = results.data(),
                                  .probes = probes.data(),
                                  .reranks = reranks.data()};
    sum_recalls(candidates, settings, out_hits.data(), out_squares.data());
}

}  // namespace

void bind_search(nb::module_& m) {
    m.attr("SMALLEST_LENGTH") = kSmallestLength;
    m.attr("LARGEST_LENGTH") = kLargestLength;
    m.def(
        "length_range",
        [](Array<const float, 2> rows, Maybe<float, 2> out_units) {
            require(!out_units || has_shape(*out_units, rows.shape(0), rows.shape(1)), "out_units has the wrong shape");
            nb::gil_scoped_release unlocked;
            return length_range(rows.data(), rows.shape(0), rows.shape(1), data_or_null(out_units));
        },
        "rows"_a.noconvert(), nb::kw_only(), "out_units"_a.noconvert().none() = nb::none(),
        "Return the least and the greatest length of rows, NaN if one is NaN; write rows scaled to length 1 to "
        "out_units, zeros unchanged.");
    m.def(
        "permute_rows",
        [](Array<uint8_t, 2> rows, Array<const int64_t, 1> order) {
            require(has_shape(order, rows.shape(0)), "order has the wrong shape");
            nb::gil_scoped_release unlocked;
            return permute_rows(rows.data(), rows.shape(0), rows.shape(1), order.data());
        },
        nb::kw_only(), "rows"_a.noconvert(), "order"_a.noconvert(),
        "Row i becomes what row order[i] was, in place. False, and nothing is done, if order is no permutation.");
    m.def(
        "mask_rows",
        [](Array<const bool, 1> chosen, Maybe<const int32_t, 1> order, Array<const int64_t, 1> starts,
           Array<const int64_t, 1> places, Array<uint32_t, 1> out_mask) {
            require(!order || has_shape(*order, chosen.shape(0)), "order has the wrong shape");
            require(starts.shape(0) > 0 && has_shape(places, starts.shape(0)), "starts and places differ in shape");
            const RowMask job{.chosen = chosen.data(),
                              .order = order ? order->data() : nullptr,
                              .n = static_cast<int64_t>(chosen.shape(0)),
                              .starts = starts.data(),
                              .places = places.data(),
                              .n_lists = static_cast<int64_t>(starts.shape(0)) - 1,
                              .n_blocks = static_cast<int64_t>(out_mask.shape(0)),
                              .mask = out_mask.data()};
            nb::gil_scoped_release unlocked;
            return mask_rows(job);
        },
        nb::kw_only(), "chosen"_a.noconvert(), "order"_a.noconvert().none(), "starts"_a.noconvert(),
        "places"_a.noconvert(), "out_mask"_a.noconvert(),
        "Write a bit per row that is chosen, at its place in blocks of 32; False if a row or place is out of range.");
    m.def(
        "project",
        [](Array<const float, 2> rows, Array<const float, 2> matrix, Array<float, 2> out_rows) {
            const size_t n = rows.shape(0), d = rows.shape(1), p = matrix.shape(1);
            require(has_shape(matrix, d, p) && has_shape(out_rows, n, p), "shapes do not match");
            nb::gil_scoped_release unlocked;
            kernels().search.project(matrix.data(), rows.data(), static_cast<int64_t>(n), static_cast<int64_t>(d),
                                     static_cast<int64_t>(p), out_rows.data());
        },
        nb::kw_only(), "rows"_a.noconvert(), "matrix"_a.noconvert(), "out_rows"_a.noconvert(),
        "Rows times a matrix: the bits of a row do not depend on the others, nor on the processor.");
    m.def(
        "prepare_queries",
        [](Array<const float, 2> queries, float query_unit, bool unit_length, Array<float, 2> out_queries) {
            require(has_shape(out_queries, queries.shape(0), queries.shape(1)), "out_queries has the wrong shape");
            const Units units{.row = 1.0f, .query = query_unit, .unit_length = unit_length, .euclidean = false};
            nb::gil_scoped_release unlocked;
            return prepare_queries(queries.data(), queries.shape(0), queries.shape(1), units, out_queries.data());
        },
        nb::kw_only(), "queries"_a.noconvert(), "query_unit"_a, "unit_length"_a, "out_queries"_a.noconvert(),
        "Queries as searches have them; False if a length is not between SMALLEST_LENGTH and LARGEST_LENGTH.");
    m.def(
        "return_scores",
        [](Array<const double, 1> scores, bool euclidean, float row_unit, float query_unit, bool unit_length,
           Array<float, 1> out_scores) {
            require(has_shape(out_scores, scores.shape(0)), "out_scores has the wrong shape");
            const Units units{.row = row_unit, .query = query_unit, .unit_length = unit_length, .euclidean = euclidean};
            nb::gil_scoped_release unlocked;
            return_scores(scores.data(), static_cast<int64_t>(scores.shape(0)), units, out_scores.data());
        },
        nb::kw_only(), "scores"_a.noconvert(), "euclidean"_a, "row_unit"_a, "query_unit"_a, "unit_length"_a,
        "out_scores"_a.noconvert(),
        "Scores of searches in the user's units: squared distances if euclidean, from -1 to 1 if unit_length.");
    m.def("sum_recalls", &recall_sums, nb::kw_only(), "scanned"_a.noconvert(), "lists"_a.noconvert(),
          "ranks"_a.noconvert(), "parts"_a.noconvert(), "results"_a.noconvert(), "probes"_a.noconvert(),
          "reranks"_a.noconvert(), "out_hits"_a.noconvert(), "out_squares"_a.noconvert(),
          "Recall and its square, added up over queries, for numbers of results, lists and candidates.");
    m.def(
        "block_rows", [](const std::string& coding) { return block_rows(coding_named(coding)); }, "coding"_a,
        "Rows of a block of codes.");
    m.def(
        "block_bytes",
        [](const std::string& coding, int64_t sections) { return block_bytes(coding_named(coding), sections); },
        nb::kw_only(), "coding"_a, "sections"_a, "Bytes of a block of plain or scaled codes.");
    bind_arrays(m);
    // Arguments by name cost a single query about 30 ns more than positional ones, of some microseconds.
    nb::class_<Searcher>(m, "Searcher", "The arrays of a segment, checked once, searched any number of times.")
        .def(nb::init<const ListArrays&, const CodeArrays&, const KeptArrays&, const ProjectionArrays&,
                      const RotationArrays&, std::optional<SecondArrays>, float, float, bool, nb::object>(),
             nb::kw_only(), "lists"_a, "codes"_a, "kept"_a, "projection"_a, "rotation"_a,
             "second"_a.none() = nb::none(), "row_unit"_a, "query_unit"_a, "unit_length"_a,
             "guard"_a.none() = nb::none())
        .def("search", &Searcher::search, nb::kw_only(), "queries"_a.noconvert(), "probes"_a, "rerank"_a,
             "out_ids"_a.noconvert(), "out_scores"_a.noconvert(), "allowed"_a.none() = nb::none(),
             "second_allowed"_a.none() = nb::none(), "share"_a = 1.0f, "temperature"_a = 0.0f,
             "margin"_a = -std::numeric_limits<float>::infinity(), "out_counts"_a.none() = nb::none(),
             "out_seconds"_a.none() = nb::none(), "out_scanned"_a.none() = nb::none(),
             "The k best rows for every query, in the `probes` lists of highest rank, or those of them whose weight is "
             "at "
             "least e^margin.")
        .def_prop_ro("estimate_columns", &Searcher::estimate_columns,
                     "Columns of read_rows and read_queries: the dimensions, one more if euclidean.")
        .def("read_rows", &Searcher::read_rows, nb::kw_only(), "rows"_a.noconvert(), "out_rows"_a.noconvert(),
             "Kept rows as float32 for estimates; returns their largest length.")
        .def("read_queries", &Searcher::read_queries, nb::kw_only(), "queries"_a.noconvert(),
             "out_queries"_a.noconvert(), "Queries for estimates: products with rows of read_rows.")
        .def("search_exactly", &Searcher::search_exactly, nb::kw_only(), "queries"_a.noconvert(), "rows"_a.noconvert(),
             "estimates"_a.noconvert().none(), "longest"_a, "out_ids"_a.noconvert(), "out_scores"_a.noconvert(),
             "Add rows to the k best of every query; with estimates, only rows that can be among them are scored.");
    nb::class_<Segments>(m, "Segments", "Segments with the same lists, and the rows that may be found in each.")
        .def(nb::init<>())
        .def("add", &Segments::add, nb::kw_only(), "searcher"_a, "allowed"_a.none(),
             "second_allowed"_a.none() = nb::none(), "share"_a, "count"_a,
             "Add a segment of which `count` rows may be found; their mask, None for all.")
        .def("search_one", &Segments::search_one, "query"_a, "probes"_a, "temperature"_a, "margin"_a, "rerank"_a,
             "out_ids"_a, "out_scores"_a,
             "The k best rows for a single query as it was given; False where fewer are found or its length is "
             "unusual.");
}

}  // namespace pcpq
