// The inner loop of k-means++: how far every point is from its nearest seed so far.
#pragma once

#include <cstdint>

#include "simd/simd.h"

namespace pcpq {
namespace {

void lower_distances(const float* points, int64_t n, int64_t size, const float* seed, bool signed_too,
                     float* distances) {
    for (int64_t first = 0; first < n; first += kLanes) {
        const float* group = points + first * size;
        Floats plus = broadcast(0.0f), minus = broadcast(0.0f);
        for (int64_t t = 0; t < size; t++) {
            const Floats x = load(group + t * kLanes), c = broadcast(seed[t]);
            const Floats below = x - c;
            plus = plus + below * below;
            if (signed_too) {
                const Floats above = x + c;
                minus = minus + above * above;
            }
        }
        const Floats distance = signed_too ? smaller(plus, minus) : plus;
        store(distances + first, smaller(distance, load(distances + first)));
    }
}

}  // namespace
}  // namespace pcpq
