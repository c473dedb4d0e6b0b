// Which lists rows belong to: the nearest ones, found by 8-bit products of rows and centroids, and exact distances of
// those that rounding leaves in doubt. Nothing here depends on how rows are divided among calls and threads.
#pragma once

#include <cstdint>

namespace pcpq {

// Centroids around a point, as 8-bit integers with a unit for each: eight lists and four coordinates side by side.
struct RoundedLists {
    int64_t count, dimensions;
    const float* centroids;  // (L, d)
    const float* centre;     // (d,)  subtracted from rows and centroids before they are rounded
    const int8_t* coarse;    // (ceil(L / 8), ceil(d / 4), 8, 4)  at most 64 in size
    const uint16_t* starts;  // (ceil(L / 8), 8, 2)  what sums start from: bytes of rows are 128 too large
    const float* units;      // (L to 8,)
    const float* penalties;  // (L to 8,)  half of: the squared distance from the centre, and the crowding; at the end,
                             // infinite
    const float* crowding;   // (L,)  added to squared distances
    float longest;           // centroid, as integers
    float longest_row;       // as integers, so that no sum leaves 16 bits
};

struct NearestListsJob {
    int64_t n;
    const float* rows;  // (n, d)
    // Rows stops[i - 1] to stops[i] are compared with `n_near` lists each, ascending; null: with all lists.
    const int32_t* near;   // (n_groups, n_near)
    const int64_t* stops;  // (n_groups,)
    int64_t n_groups, n_near;
    int32_t* lists;    // (n,)  out
    float* distances;  // (n,)  out: squared, with the crowding
};

// The nearest list of every row, ties to the lower number.
void nearest_lists(const RoundedLists& lists, const NearestListsJob& job);

struct TwoListsJob {
    int64_t n;
    const float* rows;        // (n, d)
    float weight;             // of the error along a row's residual in its first list
    int32_t *first, *second;  // (n,)  out
};

// The nearest list of every row, and a second one (SOAR, Sun et al. 2023): with r the residual in the first list, and
// r' in another, the one of least |r'|^2 + weight <r', r>^2 / |r|^2, of those nearest to the row. A query that ranks
// the first list too low, because r points towards it, then ranks the second about right.
void two_lists(const RoundedLists& lists, const TwoListsJob& job);

struct ListsAroundJob {
    int64_t n, wanted;
    const float* rows;  // (n, d)
    int32_t* lists;     // (n, wanted)  out
};

// The `wanted` nearest lists of every row, at most as many as there are, ascending.
void lists_around(const RoundedLists& lists, const ListsAroundJob& job);

struct ListSumsJob {
    int64_t n, dimensions;
    const float* rows;     // (n, d)
    const int32_t* lists;  // (n,)  negative: none
    float* sums;           // (., d)  in, out
};

// Adds rows to the sums of their lists, one after the other.
void add_to_lists(const ListSumsJob& job);

}  // namespace pcpq
