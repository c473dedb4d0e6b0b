// Scores of candidates by the kept vectors. Every SIMD level adds lane by lane in one order, so all give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/half.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// Rows lie anywhere in memory; prefetched this many ahead, they arrive in time.
constexpr int64_t kRowsAhead = 32;

// Products of integers, exact by pairs, added up as float32. The last sixteen may overlap those before them; `tail` is
// zero where they do.
template <class Integer>
inline float integer_product(const Integer* row, const int16_t* query, const int16_t* tail, int64_t d) {
    if (d < 16) {
        int64_t sum = 0;
        for (int64_t i = 0; i < d; i++) sum += int32_t{row[i]} * query[i];
        return static_cast<float>(sum);
    }
    Floats sums = products_of_pairs(row, query);
    int64_t i = 16;
    for (; i + 16 <= d; i += 16) sums = sums + products_of_pairs(row + i, query + i);
    if (i < d) sums = sums + products_of_pairs(row + d - 16, tail);
    return sum_of_lanes(sums);
}

// float32 sums: rounding vectors to integers costs more than rounding sums.
template <class Integer>
inline double integer_distance(const Integer* row, float unit, const float* query, int64_t d) {
    const Floats units = broadcast(unit);
    Floats sums = broadcast(0.0f);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) {
        const Floats difference = load(query + i) - units * load(row + i);
        sums = sums + difference * difference;
    }
    float sum = sum_of_lanes(sums);
    for (; i < d; i++) {
        const float difference = query[i] - unit * static_cast<float>(row[i]);
        sum += difference * difference;
    }
    return sum;
}

template <class Integer>
inline double integer_score(const Kept& kept, int64_t d, int64_t row, const RerankQuery& query) {
    const Integer* values = static_cast<const Integer*>(kept.rows) + row * d;
    const float unit = kept.units[row];
    if (kept.euclidean) return -integer_distance(values, unit, query.floats, d);
    return double{unit} * query.unit * integer_product(values, query.integers, query.tail, d);
}

// float64 sums: with float32 rows the order is that of exact scores.
template <class Value, class Read>
inline double float_score(const Kept& kept, int64_t d, int64_t row, const float* query, Read read) {
    const Value* values = static_cast<const Value*>(kept.rows) + row * d;
    const auto sum_of = [&](auto term) {
        double lanes[kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= d; i += kLanes)
            for (int lane = 0; lane < kLanes; lane++) lanes[lane] += term(read(values[i + lane]), query[i + lane]);
        for (int lane = 0; i < d; i++, lane++) lanes[lane] += term(read(values[i]), query[i]);
        double sum = 0.0;
        for (int lane = 0; lane < kLanes; lane++) sum += lanes[lane];
        return sum;
    };
    if (kept.euclidean) return -sum_of([](double x, double q) { return (q - x) * (q - x); });
    return sum_of([](double x, double q) { return q * x; });
}

inline double rerank_score(const Kept& kept, int64_t d, int64_t row, const RerankQuery& query) {
    switch (kept.keep) {
        case Keep::int8:
            return integer_score<int8_t>(kept, d, row, query);
        case Keep::int16:
            return integer_score<int16_t>(kept, d, row, query);
        case Keep::float16:
            return float_score<uint16_t>(kept, d, row, query.floats, [](uint16_t x) { return half_to_float(x); });
        default:
            return float_score<float>(kept, d, row, query.floats, [](float x) { return x; });
    }
}

inline void rerank(const Kept& kept, int64_t d, const int32_t* rows, int64_t n, const RerankQuery& query,
                   double* scores) {
    const int64_t bytes = d * bytes_of(kept.keep);
    const char* first = static_cast<const char*>(kept.rows);
    const auto prefetch = [&](int64_t i) __attribute__((always_inline)) {
        if (i >= n) return;
        prefetch_row(first + rows[i] * bytes, bytes);
        if (kept.units) prefetch_line(kept.units + rows[i]);
    };
    for (int64_t i = 0; i < kRowsAhead; i++) prefetch(i);
    for (int64_t i = 0; i < n; i++) {
        prefetch(i + kRowsAhead);
        scores[i] = rerank_score(kept, d, rows[i], query);
    }
}

// What bounds of scores need of a query.
struct BoundQuery {
    const float* values;
    const float* rest;  // for the last eight coordinates: 0 where they overlap those before them, otherwise 1
    float error;        // relative, of a sum
    float most;         // no product is further than this below its bound
};

// One row after the other, because memory is read fastest in its order; several sums, because each waits for the one
// before it.
template <bool euclidean, class Value>
inline float bound_row(const Value* row, int64_t d, const BoundQuery& query) {
    constexpr int kSums = 4;
    Floats sums[kSums];
    for (Floats& sum : sums) sum = broadcast(0.0f);
    const auto add = [&](Floats& sum, Floats q, Floats x) {
        const Floats difference = q - x;
        sum = sum + (euclidean ? difference * difference : q * x);
    };
    int64_t i = 0;
    for (; i + kSums * kLanes <= d; i += kSums * kLanes)
#pragma GCC unroll 4
        for (int s = 0; s < kSums; s++)
            add(sums[s], load(query.values + i + s * kLanes), load_finite(row + i + s * kLanes));
    for (; i + kLanes <= d; i += kLanes) add(sums[0], load(query.values + i), load_finite(row + i));
    if (i < d) {
        const Floats rest = load(query.rest);
        add(sums[1], load(query.values + d - kLanes) * rest, load_finite(row + d - kLanes) * rest);
    }
    const float sum = sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    return euclidean ? query.error * sum - sum + query.most : sum + query.most;
}

template <bool euclidean, class Value>
inline void bound_rows(const Value* values, int64_t d, const int32_t* rows, int64_t n, const BoundQuery& query,
                       float* bounds) {
    for (int64_t r = 0; r < n; r++) bounds[r] = bound_row<euclidean>(values + rows[r] * d, d, query);
}

inline void bound_scores(const Kept& kept, int64_t d, const int32_t* rows, int64_t n, const float* query, float largest,
                         float* bounds) {
    float rest[kLanes];
    for (int lane = 0; lane < kLanes; lane++) rest[lane] = d - kLanes + lane < d / kLanes * kLanes ? 0.0f : 1.0f;
    const float many = static_cast<float>(d);
    // The sum of d rounded terms is off by at most (d + 8) 2^-24 times the sum of their sizes; here is twice that.
    const float error = (many + 8.0f) * 0x1p-23f;
    const BoundQuery forms{.values = query,
                           .rest = rest,
                           .error = error,
                           // Float32 loses digits of products below 2^-124.
                           .most = many * 0x1p-124f + (kept.euclidean ? 0.0f : error * largest)};
    const auto bound = [&](const auto* values) {
        if (kept.euclidean)
            bound_rows<true>(values, d, rows, n, forms, bounds);
        else
            bound_rows<false>(values, d, rows, n, forms, bounds);
    };
    if (kept.keep == Keep::float16)
        bound(static_cast<const uint16_t*>(kept.rows));
    else
        bound(static_cast<const float*>(kept.rows));
}

template <class Value>
inline float read_number(Value x) {
    if constexpr (std::is_same_v<Value, uint16_t>)
        return half_to_float(x);
    else
        return static_cast<float>(x);
}

// One row as float32, less the mean; returns its squared length.
template <class Value>
inline float read_row(const Value* values, float unit, const float* mean, int64_t d, float* out) {
    Floats squares = broadcast(0.0f);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) {
        Floats x = broadcast(unit) * load(values + i);
        if (mean) x = x - load(mean + i);
        store(out + i, x);
        squares = squares + x * x;
    }
    float lanes[kLanes];
    store(lanes, squares);
    for (int lane = 0; i < d; i++, lane++) {
        const float x = unit * read_number(values[i]);
        out[i] = mean ? x - mean[i] : x;
        lanes[lane] += out[i] * out[i];
    }
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; lane++) sum += lanes[lane];
    return sum;
}

inline float read_row(const Kept& kept, int64_t d, int64_t row, const float* mean, float* out) {
    const bool integers = kept.keep == Keep::int8 || kept.keep == Keep::int16;
    const float unit = integers && kept.units ? kept.units[row] : 1.0f;
    const auto read = [&](const auto* values) { return read_row(values + row * d, unit, mean, d, out); };
    switch (kept.keep) {
        case Keep::int8:
            return read(static_cast<const int8_t*>(kept.rows));
        case Keep::int16:
            return read(static_cast<const int16_t*>(kept.rows));
        case Keep::float16:
            return read(static_cast<const uint16_t*>(kept.rows));
        default:
            return read(static_cast<const float*>(kept.rows));
    }
}

inline float read_rows(const Kept& kept, int64_t d, const int32_t* rows, int64_t n, const float* mean, float* out,
                       int64_t stride) {
    float largest = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        const float square = read_row(kept, d, rows[i], mean, out + i * stride);
        if (mean) out[i * stride + d] = -0.5f * square;
        largest = square <= largest ? largest : square;  // NaN stays
    }
    return largest;
}

}  // namespace
}  // namespace pcpq
