#include "search/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "search/ranking.h"
#include "search/rows.h"
#include "search/search.h"

namespace pcpq {

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

bool search_single(std::span<const SearchJob> segments, const float* query, const Units& units, int64_t k, int64_t* ids,
                   float* scores) {
    const int64_t d = segments.front().lists.dimensions;
    std::vector<float> prepared(d);
    if (!prepare_queries(query, 1, d, units, prepared.data())) return false;
    int64_t total = 0;
    for (const SearchJob& segment : segments) total += segment.k;
    std::vector<double> found_scores(total);
    std::vector<int64_t> found_ids(total);
    std::vector<SearchJob> jobs(segments.begin(), segments.end());
    int64_t first = 0;
    for (SearchJob& job : jobs) {
        job.n_queries = 1;
        job.queries = prepared.data();
        job.ids = found_ids.data() + first;
        job.scores = found_scores.data() + first;
        first += job.k;
    }
    search_segments(jobs);
    std::vector<ResultRanking::Result> best;
    best.reserve(total);
    for (int32_t i = 0; i < total; i++)
        if (found_ids[i] >= 0) best.emplace_back(found_scores[i], found_ids[i], i);
    if (static_cast<int64_t>(best.size()) < k) return false;
    if (segments.size() > 1) std::sort(best.begin(), best.end());
    for (int64_t i = 0; i < k; i++) {
        ids[i] = best[i].id;
        found_scores[i] = best[i].score;
    }
    return_scores(found_scores.data(), k, units, scores);
    return true;
}

}  // namespace pcpq
