#include "search/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "search/ranking.h"
#include "search/rows.h"
#include "search/search.h"

namespace pcpq {
namespace {

// Room for n values, on the stack if they are few: a single query allocates nothing.
template <class T, int64_t few>
class Room {
public:
    explicit Room(int64_t n) {
        if (n > few) many_ = std::make_unique_for_overwrite<T[]>(n);
    }
    T* data() { return many_ ? many_.get() : few_; }

private:
    T few_[few];
    std::unique_ptr<T[]> many_;
};

// Puts the results of several segments in order; missing ones, with negative ids, come last.
void merge(double* scores, int64_t* ids, int64_t count) {
    std::vector<ResultRanking::Result> results;
    results.reserve(count);
    for (int32_t i = 0; i < count; i++)
        if (ids[i] >= 0) results.emplace_back(scores[i], ids[i], i);
    std::sort(results.begin(), results.end());
    results.resize(count);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = results[i].id;
        scores[i] = results[i].score;
    }
}

}  // namespace

bool prepare_queries(const float* queries, int64_t n, int64_t d, const Units& units, float* out) {
    const float scale = 1.0f / units.query;
    for (int64_t i = 0; i < n * d; i++) out[i] = queries[i] * scale;
    const auto [least, most] = length_range(out, n, d, units.unit_length ? out : nullptr);
    return least > kSmallestLength && most < kLargestLength;  // NaN and infinity fail this as well
}

void return_scores(const double* scores, int64_t count, const Units& units, float* out) {
    for (int64_t i = 0; i < count; i++) {
        auto score = static_cast<float>(scores[i]);
        if (units.euclidean) score = std::isnan(score) ? score : score < 0.0f ? -score : 0.0f;
        // Kept vectors are rounded, so that a cosine can exceed 1. Minus infinity stays: nothing was found.
        if (units.unit_length && score > 1.0f) score = 1.0f;
        if (units.unit_length && score < -1.0f && !std::isinf(score)) score = -1.0f;
        out[i] = score * units.row * units.query;
    }
}

bool search_single(std::span<SearchJob> jobs, const float* query, const Units& units, int64_t k, int64_t* ids,
                   float* scores) {
    const int64_t d = jobs.front().projection.dimensions;
    Room<float, 1024> prepared(d);
    if (!prepare_queries(query, 1, d, units, prepared.data())) return false;
    int64_t total = 0;
    for (const SearchJob& job : jobs) total += job.k;
    if (total < k) return false;
    Room<double, 128> found_scores(total);
    Room<int64_t, 128> found_ids(total);
    int64_t first = 0;
    for (SearchJob& job : jobs) {
        job.n_queries = 1;
        job.queries = prepared.data();
        job.ids = found_ids.data() + first;
        job.scores = found_scores.data() + first;
        first += job.k;
    }
    search_segments(jobs);
    if (jobs.size() > 1) merge(found_scores.data(), found_ids.data(), total);
    if (found_ids.data()[k - 1] < 0) return false;
    std::copy_n(found_ids.data(), k, ids);
    return_scores(found_scores.data(), k, units, scores);
    return true;
}

}  // namespace pcpq
