#include "search/exact.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "search/checksum.h"
#include "search/ranking.h"
#include "search/rerank_query.h"
#include "search/rows.h"

namespace pcpq {
namespace {

constexpr int64_t kRowsTogether = 256;       // most rows that are scored for one query after the other ...
constexpr int64_t kBytesTogether = 1 << 16;  // ... while they are in the cache
constexpr int64_t kLeastBounded = 8;         // dimensions of rows whose scores are bounded first
constexpr double kFloatRounding = 0x1p-24;   // relative error of a rounded float32
constexpr double kLostLength = 0x1p-62;      // the square of a smaller number may be 0
constexpr double kLostTerm = 0x1p-124;       // a smaller product may be 0 or rounded
constexpr double kLeast = -std::numeric_limits<double>::infinity();

using Result = ResultRanking::Result;

// No estimate of a row's score is further from it than this. `length` is that of the query; if euclidean, less the
// mean.
double estimate_error(const ExactJob& job, const float* query, double length) {
    const Kept& kept = job.rows.kept;
    const int64_t d = job.rows.dimensions;
    // What float32 loses of numbers that are too small for it: of a length, where squares are, and of a sum.
    const double n = static_cast<double>(d), longest = job.longest + std::sqrt(n) * kLostLength, lost = n * kLostTerm;
    if (!kept.euclidean) {
        // Reranking by integers rounds each coordinate of the query by up to half a unit.
        const bool integers = kept.keep == Keep::int8 || kept.keep == Keep::int16;
        const double rounded = integers ? 0.51 * std::sqrt(n) / kQueryLength : 0.0;
        return length * longest * (rounded + (2 * n + 64) * kFloatRounding) + lost;
    }
    // Distances are at most `near`; coordinates, which are rounded before they are subtracted, are up to `far`.
    const double near = length + longest;
    const double far = length_of(query, d) + longest + length_of(job.rows.mean, d);
    return ((4 * n + 64) * near * near + 16 * near * far) * kFloatRounding + lost;
}

// The best rows of one query: those that were found before, and new ones. New ones wait until they are many, because
// merging them takes time for all k.
class Best {
public:
    // The score that a new row must reach.
    static double least(const ExactJob& job, int64_t q) {
        const int64_t last = q * job.k + job.k - 1;
        return job.ids[last] < 0 ? kLeast : job.scores[last];
    }

    void add(const ExactJob& job, int64_t q, const int32_t* rows, int64_t n, const double* scores) {
        for (int64_t i = 0; i < n; i++) waiting_.emplace_back(scores[i], job.rows.kept.ids[rows[i]], 0);
        if (static_cast<int64_t>(waiting_.size()) >= std::max(job.k, kRowsTogether)) merge(job, q);
    }

    void merge(const ExactJob& job, int64_t q) {
        const int64_t first = q * job.k;
        for (int64_t i = first; i < first + job.k && job.ids[i] >= 0; i++)
            waiting_.emplace_back(job.scores[i], job.ids[i], 0);
        const auto count = std::min(job.k, static_cast<int64_t>(waiting_.size()));
        std::partial_sort(waiting_.begin(), waiting_.begin() + count, waiting_.end());
        for (int64_t i = 0; i < count; i++) {
            job.ids[first + i] = waiting_[i].id;
            job.scores[first + i] = waiting_[i].score;
        }
        waiting_.clear();
    }

private:
    std::vector<Result> waiting_;
};

void check_rows(const ExactRows& rows) {
    if (!rows.guard) return;
    for (int64_t i = 0; i < rows.count; i++) rows.guard->check_kept(rows.rows[i]);
}

// Some rows for one query: those that may be among its best are scored. Rows kept as floats are scored in float64,
// which takes longer than reading them, so a bound comes first.
class RowScorer {
public:
    void add(const ExactJob& job, int64_t q, const int32_t* rows, int64_t n, const RerankQuery& query, float length,
             Best& best) {
        const int64_t d = job.rows.dimensions;
        const Kept& kept = job.rows.kept;
        const double least = Best::least(job, q);
        const bool floats = kept.keep == Keep::float32 || kept.keep == Keep::float16;
        const float largest = length * (job.longest + std::sqrt(static_cast<float>(d)) * kLostLength);
        if (floats && d >= kLeastBounded && least > kLeast && (kept.euclidean || std::isfinite(largest))) {
            kernels().search.bound_scores(kept, d, rows, n, query.floats, largest, bounds_);
            const float bound = std::nextafter(static_cast<float>(least), -std::numeric_limits<float>::infinity());
            n = kernels().search.keep_reaching(bounds_, n, bound, likely_);
            if (n == 0) return;
            for (int64_t i = 0; i < n; i++) likely_[i] = rows[likely_[i]];
            rows = likely_;
        }
        kernels().search.rerank(kept, d, rows, n, query, scores_);
        n = keep(rows, n, [&](int64_t i) { return !(scores_[i] < least); });
        if (n) best.add(job, q, rows_, n, scores_);
    }

private:
    float bounds_[kRowsTogether];
    double scores_[kRowsTogether];
    int32_t rows_[kRowsTogether];
    int32_t likely_[kRowsTogether + 8];

    // Moves rows, and their scores, to the front if they stay; how many do.
    template <class Stays>
    int64_t keep(const int32_t* rows, int64_t n, Stays stays) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++) {
            const bool kept = stays(i);
            rows_[count] = rows[i];
            scores_[count] = scores_[i];
            count += kept;
        }
        return count;
    }
};

void score_all(const ExactJob& job) {
    const int64_t d = job.rows.dimensions;
    std::vector<RerankForms> forms(job.n_queries);
    std::vector<float> lengths(job.n_queries);
    std::vector<Best> best(job.n_queries);
    for (int64_t q = 0; q < job.n_queries; q++) {
        const float* query = job.queries + q * d;
        lengths[q] = static_cast<float>(length_of(query, d));
        forms[q].set(query, d, lengths[q], job.rows.kept.euclidean);
    }
    check_rows(job.rows);
    RowScorer scorer;
    const int64_t fitting = kBytesTogether / (d * bytes_of(job.rows.kept.keep)) / 4 * 4;
    const int64_t together = job.n_queries == 1 ? kRowsTogether : std::clamp<int64_t>(fitting, 16, kRowsTogether);
    for (int64_t start = 0; start < job.rows.count; start += together) {
        const int64_t n = std::min(together, job.rows.count - start);
        for (int64_t q = 0; q < job.n_queries; q++)
            scorer.add(job, q, job.rows.rows + start, n, forms[q].get(), lengths[q], best[q]);
    }
    for (int64_t q = 0; q < job.n_queries; q++) best[q].merge(job, q);
}

// The least estimate of a row whose score can reach `least`.
float least_estimate(const ExactJob& job, const float* query, double least) {
    const int64_t d = job.rows.dimensions;
    if (!job.rows.kept.euclidean) {
        const double bound = least - estimate_error(job, query, length_of(query, d));
        return std::nextafter(static_cast<float>(bound), -std::numeric_limits<float>::infinity());
    }
    double square = 0.0;
    for (int64_t i = 0; i < d; i++) {
        const double x = query[i] - job.rows.mean[i];
        square += x * x;
    }
    // The score is twice the estimate, less the square of the query.
    const double bound = 0.5 * (least + square - estimate_error(job, query, std::sqrt(square)));
    return std::nextafter(static_cast<float>(bound), -std::numeric_limits<float>::infinity());
}

void score_likely(const ExactJob& job) {
    const int64_t d = job.rows.dimensions, n = job.rows.count;
    std::vector<int32_t> places(n + 8);
    std::vector<double> scores(n);
    RerankForms forms;
    Best best;
    for (int64_t q = 0; q < job.n_queries; q++) {
        const float* query = job.queries + q * d;
        const double least = Best::least(job, q);
        const float bound =
            least == kLeast ? -std::numeric_limits<float>::infinity() : least_estimate(job, query, least);
        const int64_t count = kernels().search.keep_reaching(job.estimates + q * n, n, bound, places.data());
        if (count == 0) continue;
        for (int64_t i = 0; i < count; i++) places[i] = job.rows.rows[places[i]];
        forms.set(query, d, static_cast<float>(length_of(query, d)), job.rows.kept.euclidean);
        kernels().search.rerank(job.rows.kept, d, places.data(), count, forms.get(), scores.data());
        best.add(job, q, places.data(), count, scores.data());
        best.merge(job, q);
    }
}

}  // namespace

float read_rows(const ExactRows& rows, float* out) {
    check_rows(rows);
    const float* mean = rows.kept.euclidean ? rows.mean : nullptr;
    const float square = kernels().search.read_rows(rows.kept, rows.dimensions, rows.rows, rows.count, mean, out,
                                                    estimate_columns(rows));
    return std::sqrt(square) * (1.0f + 0x1p-16f);
}

void read_queries(const ExactRows& rows, const float* queries, int64_t n, float* out) {
    const int64_t d = rows.dimensions, columns = estimate_columns(rows);
    for (int64_t q = 0; q < n; q++) {
        float* to = out + q * columns;
        for (int64_t i = 0; i < d; i++) to[i] = queries[q * d + i] - (rows.kept.euclidean ? rows.mean[i] : 0.0f);
        if (rows.kept.euclidean) to[d] = 1.0f;
    }
}

void search_exactly(const ExactJob& job) {
    if (job.estimates)
        score_likely(job);
    else
        score_all(job);
}

}  // namespace pcpq
