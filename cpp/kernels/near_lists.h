// Which lists may be the nearest of a row: scores of rounded rows and centroids, by how much rounding changes them.
#pragma once

#include <cstdint>

#include "simd/simd.h"

namespace pcpq {
namespace {

// Of n lists (a multiple of 8), those whose score may be as high as `least`, which NaN may: how many, and their
// indices. The score of a list is (sum * unit) * its unit - its penalty; sum * unit is off by at most `slack`. Between
// which numbers the scores of these lists are is written where the lists are.
inline int64_t keep_near(const int32_t* sums, int64_t n, float unit, float slack, const float* units,
                         const float* penalties, float least, int32_t* indices, float* lowest, float* highest) {
    constexpr int32_t first[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Floats bound = broadcast(least), row_unit = broadcast(unit), margin = broadcast(slack);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += kLanes) {
        const Floats product = load(sums + i) * row_unit, list_unit = load(units + i), penalty = load(penalties + i);
        const Floats high = (product + margin) * list_unit - penalty;
        const KeptLanes kept = kept_lanes(and_not(broadcast_int(-1), less(high, bound)));
        if (kept.count == 0) continue;
        store(highest + i, high);
        store(lowest + i, (product - margin) * list_unit - penalty);
        store_kept(indices + count, load_ints(first) + broadcast_int(static_cast<int32_t>(i)), kept);
        count += kept.count;
    }
    return count;
}

inline float squared_distance(const float* a, const float* b, int64_t d) {
    Floats sums = broadcast(0.0f);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) {
        const Floats difference = load(a + i) - load(b + i);
        sums = sums + difference * difference;
    }
    float sum = sum_of_lanes(sums);
    for (; i < d; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

}  // namespace
}  // namespace pcpq
