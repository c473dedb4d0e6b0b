// Exact search: the best of all rows, by the scores that reranking gives them.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"

namespace pcpq {

class Guard;

// Some rows of an index, as a search by brute force reads them.
struct ExactRows {
    const Guard* guard;  // of arrays that came from a file; null: they did not
    Kept kept;
    int64_t dimensions;
    const float* mean;  // (d,)  of the centroids
    int64_t count;
    const int32_t* rows;  // (count,)
};

// Columns of rows and queries whose product estimates scores: one more in a euclidean index, for half of the squares.
inline int64_t estimate_columns(const ExactRows& rows) {
    return rows.dimensions + (rows.kept.euclidean ? 1 : 0);
}

// The rows as float32, (count, columns); returns the largest length, without the last column.
float read_rows(const ExactRows& rows, float* out);

// The same for (n, d) queries: a product of a query and a row is larger where the row's score is.
void read_queries(const ExactRows& rows, const float* queries, int64_t n, float* out);

struct ExactJob {
    ExactRows rows;
    float longest;  // no row is longer, less the mean if euclidean; infinite: not known
    int64_t n_queries, k;
    const float* queries;    // (n_queries, d)
    const float* estimates;  // (n_queries, rows.count)  products of read_queries and read_rows; null: none
    int64_t* ids;            // (n_queries, k)  in and out, best first, -1 where there is none
    double* scores;          // (n_queries, k)  in and out
};

// Adds rows to the k best of every query. Rows whose estimates are so low that they cannot be among them are not
// scored, so the results do not depend on how products were rounded.
void search_exactly(const ExactJob& job);

}  // namespace pcpq
