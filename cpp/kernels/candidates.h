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
// single query and for a batch. Copies of rows are numbered from `n_rows` on and have the order of their rows: so the
// best 2 n always hold the best n rows, however copies are numbered, and in shards of an index they have other numbers.
struct Candidates {
    static constexpr int64_t kMostTogether = 64;  // rows that are added before there is a check for room

    int64_t wanted, capacity, count;
    int32_t threshold;  // what a new row must reach
    int32_t* scores;    // (capacity,)
    int32_t* rows;      // (capacity,)
    const int32_t* rows_of_copies = nullptr;
    int32_t n_rows = INT32_MAX;

    static int64_t capacity_for(int64_t wanted) { return (3 * wanted + kMostTogether + 7) / 8 * 8; }
    int32_t row_of(int32_t number) const { return number < n_rows ? number : rows_of_copies[number - n_rows]; }
    void compact();  // leaves the wanted ones, and raises the threshold
};

}  // namespace pcpq
