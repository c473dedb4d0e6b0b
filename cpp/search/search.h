// A search: many queries over the arrays of an index. L lists, m sections, d dimensions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/index_arrays.h"

namespace pcpq {

class Guard;

// The codes of all rows once more, in their second lists. A copy of row r is numbered n or more, in list order.
struct SecondCodes {
    const Guard* guard;   // of these arrays, or null
    Lists lists;          // those of the job, with the places of copies ...
    Lists both;           // ... and with the numbers of rows and copies together
    Codes codes;          // those of the job, with the blocks of copies
    const int32_t* rows;  // (n,) the row that each is a copy of; null: rows are in one list
};

// The lists that a query probes: the `most` of highest rank, or those of them whose weight is at least e^margin. The
// weights of all lists add up to 1 (kernels/rank_lists.h).
struct Probing {
    int64_t most;
    float temperature;  // of the weights
    float margin;       // -infinity: weights do not matter
    bool weighed() const { return margin > -std::numeric_limits<float>::infinity(); }
};

// How many times the wanted rows first thresholds are to leave. Too few, and many queries are scanned again; too many,
// and all of them copy rows in vain. How good guesses are depends on the vectors, so it is learned from the queries.
// It changes the time of a search, never its results.
class Guesses {
public:
    float times() const { return times_.load(std::memory_order_relaxed); }
    // From some queries that had the same guess, of which some missed. Many of them count as a few: they tell no more
    // than in which direction it was wrong. Other threads may learn at the same time, and then one may not count.
    void learn(int64_t queries, int64_t missed) {
        if (queries == 0) return;
        const float share = static_cast<float>(missed) / static_cast<float>(queries);
        const float steps = static_cast<float>(std::min(queries, kMostSteps));
        const float next = times() * std::exp(steps * (share * kMore - (1.0f - share) * kLess));
        times_.store(std::clamp(next, kLeast, kMost), std::memory_order_relaxed);
    }

private:
    // In balance, one query in a hundred is scanned again.
    static constexpr float kMore = 0.15f, kLess = 0.0015f, kLeast = 1.1f, kMost = 16.0f;
    static constexpr int64_t kMostSteps = 5;
    std::atomic<float> times_{1.4f};
};

struct SearchJob {
    const Guard* guard;  // of arrays that came from a file; null: they did not
    Guesses* guesses;
    Lists lists;
    Codes codes;
    Kept kept;
    Projection projection;
    Rotation rotation;
    SecondCodes second;
    const uint32_t* allowed;         // (n_words,) a bit per row, or null: all
    const uint32_t* second_allowed;  // the same for copies
    float share;                     // of the rows of any list that are allowed, about; 0: unknown
    int64_t n_queries;
    Probing probing;
    int64_t rerank;
    int64_t k;
    const float* queries;  // (n_queries, d) as vectors have them
    int64_t* ids;          // (n_queries, k)  out, -1 where there is none
    double* scores;        // (n_queries, k)  out, larger is better
    int64_t* counts;       // (n_queries, 3)  out: lists probed, rows scanned, candidates reranked; or null
    double* seconds;       // (4,)  added to: ranking lists, lookup tables, scan, reranking; or null
    int32_t* scanned;      // (n_queries, k)  out: what the scan scored the answers, larger is better; or null
};

// The k best rows for every query. More probes or candidates than there are lists or rows are not an error.
void search(const SearchJob& job);

// One query over several segments with the same lists and codebooks: each job has its own results.
void search_segments(std::span<const SearchJob> jobs);

}  // namespace pcpq
