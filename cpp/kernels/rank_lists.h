// Which lists are near: 8-bit products of a query with all centroids, and the keys that rank them.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"
#include "kernels/prefetch.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

constexpr float kListsMore = 1.5f;       // times as many lists as wanted pass the first threshold
constexpr int64_t kCentroidsAhead = 16;  // prefetched while others are multiplied
constexpr float kSmallestUnit = 1e-30f;  // of a query: below it the inverse would not be finite

// A query as integers of 1 / scale, eight at a time: `integers` has room for d rounded up to 16, zeros at the end.
inline void query_to_shorts(const float* query, int64_t d, float scale, int16_t* integers) {
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) store_shorts(integers + i, load(query + i) * broadcast(scale));
    for (; i < d; i++) integers[i] = static_cast<int16_t>(__builtin_lrintf(query[i] * scale));
    for (; i < (d + 15) / 16 * 16; i++) integers[i] = 0;
}

// A query as bytes for products with lists, 128 too large; `bytes` has room for d and 16 more. Returns their unit, such
// that neither the length that lists allow nor 127 is exceeded.
inline float query_to_bytes(const float* query, int64_t d, float length, float longest, uint8_t* bytes) {
    const int64_t whole = d / kLanes * kLanes;
    Floats sizes = broadcast(0.0f);
    for (int64_t i = 0; i < whole; i += kLanes) sizes = larger(sizes, magnitude(load(query + i)));
    float largest = greatest_lane(sizes);
    for (int64_t i = whole; i < d; i++) largest = larger(largest, __builtin_fabsf(query[i]));
    const float unit = larger(length / longest, largest / 127.0f);
    const float scale = unit > kSmallestUnit ? 1.0f / unit : 0.0f;
    const Floats scales = broadcast(scale), middle = broadcast(128.0f);
    int64_t i = 0;
    for (; i + 2 * kLanes <= d; i += 2 * kLanes)
        store_bytes(bytes + i, load(query + i) * scales + middle, load(query + i + kLanes) * scales + middle);
    for (; i < d; i++) bytes[i] = static_cast<uint8_t>(__builtin_lrintf(query[i] * scale + 128.0f));
    for (; i < (d + 3) / 4 * 4; i++) bytes[i] = 128;
    return unit;
}

// Products of a vector with others, whose sums do not wait for each other.
template <int Others>
inline void inner_products(const float* a, const float* const* others, int64_t d, float* products) {
    Floats sums[Others];
    for (Floats& sum : sums) sum = broadcast(0.0f);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes)
#pragma GCC unroll 4
        for (int t = 0; t < Others; t++) sums[t] = sums[t] + load(a + i) * load(others[t] + i);
    for (int t = 0; t < Others; t++) {
        products[t] = sum_of_lanes(sums[t]);
        for (int64_t j = i; j < d; j++) products[t] += a[j] * others[t][j];
    }
}

inline float inner_product(const float* a, const float* b, int64_t d) {
    float product;
    inner_products<1>(a, &b, d, &product);
    return product;
}

// The bases of some lists by their centroids, which lie anywhere in memory.
inline void measure_bases(const Lists& lists, const float* query, const int32_t* chosen, int64_t n, float* bases) {
    constexpr int kTogether = 4;
    const int64_t d = lists.dimensions;
    const auto centroid = [&](int64_t i) { return lists.centroids + chosen[i] * d; };
    const auto prefetch = [&](int64_t i) __attribute__((always_inline)) {
        if (i < n) prefetch_row(centroid(i), d * static_cast<int64_t>(sizeof(float)));
    };
    for (int64_t i = 0; i < kCentroidsAhead; i++) prefetch(i);
    int64_t i = 0;
    for (; i + kTogether <= n; i += kTogether) {
        const float* some[kTogether];
        for (int t = 0; t < kTogether; t++) {
            some[t] = centroid(i + t);
            prefetch(i + t + kCentroidsAhead);
        }
        inner_products<kTogether>(query, some, d, bases + i);
    }
    for (; i < n; i++) bases[i] = inner_product(query, centroid(i), d);
    for (i = 0; i < n; i++) bases[i] += lists.offsets[chosen[i]];
}

// Groups of eight lists with Q queries: lists share four coordinates of a query, queries share those of a list.
template <int Groups, int Q>
inline void score_groups(const Lists& lists, int64_t group, const uint8_t* const* queries, int32_t* const* sums) {
    const int64_t fours = (lists.dimensions + 3) / 4;
    const auto* row = reinterpret_cast<const uint8_t*>(lists.coarse) + group * fours * 32;
    Shorts sum[Groups][Q];
#pragma GCC unroll 8
    for (int i = 0; i < Groups * Q; i++) sum[i / Q][i % Q] = load_shorts(lists.starts + (group + i / Q) * 16);
    for (int64_t t = 0; t < fours; t++) {
#pragma GCC unroll 8
        for (int i = 0; i < Groups * Q; i++) {
            const Bytes values = load_bytes(row + (i / Q * fours + t) * 32);
            sum[i / Q][i % Q] = sum[i / Q][i % Q] + multiply_pairs(repeat_four(queries[i % Q] + 4 * t), values);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Groups * Q; i++) store_pair_sums(sums[i % Q] + (group + i / Q) * 8, sum[i / Q][i % Q]);
}

template <int Groups, int Q>
void score_lists(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums) {
    const int64_t groups = (lists.count + 7) / 8;
    int64_t g = 0;
    for (; g + Groups <= groups; g += Groups) score_groups<Groups, Q>(lists, g, queries, sums);
    for (; g < groups; g++) score_groups<1, Q>(lists, g, queries, sums);
}

#if defined(PCPQ_SIMD_AVX512)

// For four queries, two times four coordinates at once, in sums of 32 bits of which 16 are left at the end. One query
// alone waits for memory: for it this is not faster.
template <int Groups>
inline void score_groups_for_four(const Lists& lists, int64_t group, const uint8_t* const* queries,
                                  int32_t* const* sums) {
    constexpr int Q = 4;
    const int64_t fours = (lists.dimensions + 3) / 4;
    const auto* row = reinterpret_cast<const uint8_t*>(lists.coarse) + group * fours * 32;
    WideInts sum[Groups][Q];
#pragma GCC unroll 16
    for (int i = 0; i < Groups * Q; i++) sum[i / Q][i % Q] = zero_wide_ints();
    const auto add = [&](int64_t t, auto load_values) {
        WideBytes coordinates[Q];
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++) coordinates[q] = repeat_two_fours(queries[q] + 4 * t);
#pragma GCC unroll 16
        for (int i = 0; i < Groups * Q; i++) {
            const WideBytes values = load_values(row + (i / Q * fours + t) * 32);
            sum[i / Q][i % Q] = add_products_of_fours(sum[i / Q][i % Q], coordinates[i % Q], values);
        }
    };
    int64_t t = 0;
    for (; t + 2 <= fours; t += 2) add(t, load_wide);
    if (t < fours) add(t, load_half);
#pragma GCC unroll 16
    for (int i = 0; i < Groups * Q; i++)
        store_short_sums(sums[i % Q] + (group + i / Q) * 8, sum[i / Q][i % Q],
                         load_shorts(lists.starts + (group + i / Q) * 16));
}

inline void score_lists_for_four(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums) {
    constexpr int kGroups = 4;
    const int64_t groups = (lists.count + 7) / 8;
    int64_t g = 0;
    for (; g + kGroups <= groups; g += kGroups) score_groups_for_four<kGroups>(lists, g, queries, sums);
    for (; g < groups; g++) score_groups_for_four<1>(lists, g, queries, sums);
}

#else

inline void score_lists_for_four(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums) {
    score_lists<2, 4>(lists, queries, sums);
}

#endif

// The quantile of the normal distribution: how many deviations above the mean this share begins; shares up to a half.
inline float normal_quantile(float share) {
    if (!(share < 0.5f)) return 0.0f;
    const float t = __builtin_sqrtf(-2.0f * __builtin_logf(share));
    return t - (2.30753f + 0.27061f * t) / (1.0f + t * (0.99229f + 0.04481f * t));
}

// e^x for x from -80 to 80, right to a few hundredths: the bits of a float are about its logarithm.
inline Floats power_of_e(Floats x) {
    const Floats bounded = smaller(larger(x, broadcast(-80.0f)), broadcast(80.0f));
    return as_floats(to_ints(bounded * broadcast(12102203.0f) + broadcast(1064866805.0f)));
}

// The largest rank that a query can have, and how many keys make up one.
inline float largest_rank(const Lists& lists, float length) {
    return length * (lists.largest_base + lists.largest_spread) + lists.largest_offset;
}
inline float keys_per_rank(const Lists& lists, float length) {
    const float largest = largest_rank(lists, length);
    return largest > 0.0f ? 0x1p30f / largest : 0.0f;
}

inline Ints as_keys(Floats x) {
    return to_ints(smaller(larger(x, broadcast(-kLargestKey)), broadcast(kLargestKey)));
}

// Ranks as keys in proportion to them, with room for n rounded up to 8. Returns a key that more than `wanted` are
// likely to be above: ranks are about normally distributed.
inline int32_t rank_lists(const Lists& lists, const int32_t* sums, float unit, float length, int64_t wanted,
                          int32_t* keys) {
    const int64_t n = lists.count, whole = n / kLanes * kLanes;
    const auto rank = [&](int64_t i) { return sums[i] * unit + (lists.offsets[i] + length * lists.spreads[i]); };
    const auto ranks = [&](int64_t i) {
        return load(sums + i) * broadcast(unit) +
               (load(lists.offsets + i) + broadcast(length) * load(lists.spreads + i));
    };
    const float largest = largest_rank(lists, length), scale = keys_per_rank(lists, length);
    Floats totals = broadcast(0.0f), squares = totals;
    for (int64_t i = 0; i < whole; i += kLanes) {
        const Floats some = ranks(i);
        totals = totals + some;
        squares = squares + some * some;
        store(keys + i, as_keys(some * broadcast(scale)));
    }
    for (int64_t i = whole; i < n; i++) keys[i] = as_key(rank(i) * scale);
    for (int64_t i = n; i < (n + 7) / 8 * 8; i++) keys[i] = INT32_MIN;
    if (whole == 0) return INT32_MIN;
    const float mean = sum_of_lanes(totals) / whole, variance = sum_of_lanes(squares) / whole - mean * mean;
    const float quantile = normal_quantile(kListsMore * wanted / n);
    const float likely = mean + quantile * __builtin_sqrtf(larger(variance, 0.0f));
    return as_key((likely < largest ? likely : largest) * scale);
}

// The key that lists must be above to have a weight of at least e^margin; the best list always is above it. Weights add
// up to 1 and are in proportion to e^(rank / t), where t = temperature |q|, but at least some part of how far the best
// rank is above the mean of all.
inline int32_t weigh_lists(const Lists& lists, const int32_t* keys, float length, float temperature, float margin) {
    constexpr float kLeastPart = 0.06f, kPartAlone = 0.12f;  // without a temperature
    constexpr float kRounding = 128.0f;  // keys are rounded when they become floats, by at most 64 of 2^30
    const int64_t n = lists.count, whole = n / kLanes * kLanes, padded = (n + kLanes - 1) / kLanes * kLanes;
    if (whole == 0) return INT32_MIN;
    Floats most = load(keys), totals = most, sums = broadcast(0.0f);
    for (int64_t i = kLanes; i < whole; i += kLanes) {
        most = larger(most, load(keys + i));
        totals = totals + load(keys + i);
    }
    if (whole < padded) most = larger(most, load(keys + whole));  // keys beyond n are the least
    const float best = greatest_lane(most), above = best - sum_of_lanes(totals) / whole;
    const float step = larger(temperature * length * keys_per_rank(lists, length),
                              (temperature > 0.0f ? kLeastPart : kPartAlone) * above);
    const float inverse = step > 0.0f ? 1.0f / step : 0.0f;
    for (int64_t i = 0; i < padded; i += kLanes)
        sums = sums + power_of_e((load(keys + i) - broadcast(best)) * broadcast(inverse));
    const float least = best + (margin + __builtin_logf(sum_of_lanes(sums))) * step;
    return as_key(smaller(least, best - kRounding));
}

}  // namespace
}  // namespace pcpq
