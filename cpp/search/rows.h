// Rows of a matrix: their lengths, their order.
#pragma once

#include <cstdint>
#include <utility>

namespace pcpq {

double length_of(const float* x, int64_t n);

// Row i becomes what row order[i] was, in place. False, and nothing is done, if order is no permutation.
bool permute_rows(uint8_t* rows, int64_t n, int64_t bytes, const int64_t* order);

// The least and the greatest length of n rows, NaN if any is; if `units` is not null, also the rows divided by their
// lengths (zero rows stay). The bits of a row do not depend on the others.
std::pair<double, double> length_range(const float* rows, int64_t n, int64_t dimensions, float* units);

// A bit per row, at its place in blocks of 32, for n rows that are chosen or not: rows in list order, or chosen[i] of
// row order[i]. List l has the rows from starts[l] to starts[l + 1], at the places from places[l] on. False if a row or
// a place is out of range.
struct RowMask {
    const bool* chosen;
    const int32_t* order;  // null: list order
    int64_t n;
    const int64_t* starts;
    const int64_t* places;
    int64_t n_lists, n_blocks;
    uint32_t* mask;
};
bool mask_rows(const RowMask& job);

}  // namespace pcpq
