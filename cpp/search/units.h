// Queries and scores between the user's units and those of searches.
#pragma once

#include <cstdint>
#include <span>

#include "search/search.h"

namespace pcpq {

// Lengths of queries that neither vanish nor overflow when they are multiplied.
constexpr double kSmallestLength = 1e-9, kLargestLength = 1e9;

struct Units {
    float row, query;  // of vectors and of queries as searches have them
    bool unit_length;  // queries are made that long, and scores are cosines
    bool euclidean;    // scores are returned as squared distances
};

// Queries as searches have them, (n, d). False if a length is not between the two above: such queries need more care.
bool prepare_queries(const float* queries, int64_t n, int64_t d, const Units& units, float* out);

// Scores of searches as they are returned. A missing one, which is minus infinity, stays the worst.
void return_scores(const double* scores, int64_t count, const Units& units, float* out);

// Searches several segments for one query as it was given; queries, ids and scores of the jobs are overwritten. Writes
// the k best of all. Whether k rows were found: none are if the query needs more care.
bool search_single(std::span<SearchJob> jobs, const float* query, const Units& units, int64_t k, int64_t* ids,
                   float* scores);

}  // namespace pcpq
