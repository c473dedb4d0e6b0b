// The best of many keys: how many lie above a value, where to cut, and what a cut leaves.
#pragma once

#include <cstdint>

#include "kernels/candidates.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// How many of n keys (a multiple of 8) are above a value.
inline int64_t count_above(const int32_t* keys, int64_t n, int32_t value) {
    const Ints bound = broadcast_int(value);
    Ints count = broadcast_int(0);
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i += kLanes) count = count - greater(load_ints(keys + i), bound);
    return sum_of_lanes(count);
}

// The keys above `value` and their indices; how many. Reads n rounded up to 8, where keys must not be above, and may
// write as many.
inline int64_t keep_above(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* indices) {
    constexpr int32_t first[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Ints bound = broadcast_int(value);
    Ints index = load_ints(first);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += kLanes) {
        const Ints key = load_ints(keys + i);
        const KeptLanes above = kept_lanes(greater(key, bound));
        store_kept(kept_keys + kept, key, above);
        store_kept(indices + kept, index, above);
        index = index + broadcast_int(kLanes);
        kept += above.count;
    }
    return kept;
}

// The indices of values that are not below `least`, which NaN is not either; how many. May write n + 8.
inline int64_t keep_reaching(const float* values, int64_t n, float least, int32_t* indices) {
    constexpr int32_t first[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Floats bound = broadcast(least);
    Ints index = load_ints(first);
    int64_t kept = 0, i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const KeptLanes reaching = kept_lanes(and_not(broadcast_int(-1), less(load(values + i), bound)));
        store_kept(indices + kept, index, reaching);
        index = index + broadcast_int(kLanes);
        kept += reaching.count;
    }
    for (; i < n; i++) {
        indices[kept] = static_cast<int32_t>(i);
        kept += !(values[i] < least);
    }
    return kept;
}

// Moves the pairs with a score above `value`, or at it and a row up to `last_row`, to the front; how many. Reads n
// rounded up to 8, where scores must be below `value`.
inline int64_t keep_pairs(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row) {
    const Ints bound = broadcast_int(value), last = broadcast_int(last_row);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += kLanes) {
        const Ints score = load_ints(scores + i), row = load_ints(rows + i);
        const Ints tied = and_not(equal(score, bound), greater(row, last));
        const KeptLanes staying = kept_lanes(greater(score, bound) | tied);
        store_kept(scores + kept, score, staying);
        store_kept(rows + kept, row, staying);
        kept += staying.count;
    }
    return kept;
}

// Where to cut so that `wanted` keys remain. Keys have room for n rounded up to 8.
inline Cut cut_keys(int32_t* keys, int64_t n, int64_t wanted) {
    int32_t low = keys[0], high = keys[0];
    for (int64_t i = 1; i < n; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    const int64_t padded = (n + 7) / 8 * 8;
    for (int64_t i = n; i < padded; i++) keys[i] = INT32_MIN;  // never above anything
    // Fewer than `wanted` lie above `high`, at least `wanted` at or above `low`.
    while (low < high) {
        const auto middle = static_cast<int32_t>(low + (int64_t{high} - low) / 2);
        const int64_t above = count_above(keys, padded, middle);
        if (above == wanted) return {middle, 0};
        // Which way it goes cannot be predicted: no branch.
        const bool fewer = above < wanted;
        high = fewer ? middle : high;
        low = fewer ? low : middle + 1;
    }
    return {high, wanted - count_above(keys, padded, high)};
}

}  // namespace
}  // namespace pcpq
