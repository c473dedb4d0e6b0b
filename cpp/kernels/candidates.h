// The best rows of a stream of scored rows, up to a number that is wanted.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"

namespace pcpq {

// Where to cut so that a wanted number of keys remains: all above `value`, and `at_value` of those equal to it.
struct Cut {
    int32_t value;
    int64_t at_value;
};

// Larger scores first, then lower rows: a total order, so the same rows remain in whatever order they arrive, for a
// single query and for a batch.
struct Candidates {
    static constexpr int64_t kMostTogether = 64;  // rows that are added before there is a check for room

    int64_t wanted, capacity, count;
    int32_t threshold;  // what a new row must reach
    int32_t* scores;    // (capacity,)
    int32_t* rows;      // (capacity,)

    static int64_t capacity_for(int64_t wanted) { return (3 * wanted + kMostTogether + 7) / 8 * 8; }
    void compact();  // leaves the wanted ones, and raises the threshold
};

}  // namespace pcpq
