#include "search/units.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "search/rows.h"

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

bool search_single(const SearchJob& job, const float* query, const Units& units, float* scores) {
    std::vector<float> prepared(job.lists.dimensions);
    if (!prepare_queries(query, 1, job.lists.dimensions, units, prepared.data())) return false;
    std::vector<double> exact(job.k);
    SearchJob prepared_job = job;
    prepared_job.n_queries = 1;
    prepared_job.queries = prepared.data();
    prepared_job.scores = exact.data();
    search(prepared_job);
    return_scores(exact.data(), job.k, units, scores);
    return job.ids[job.k - 1] >= 0;
}

}  // namespace pcpq
