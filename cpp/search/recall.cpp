#include "search/recall.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace pcpq {
namespace {

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();

// The share of k true rows among the first k candidates whose place is before `judged`.
double recall(const int32_t* places, const int32_t* ranks, int64_t count, int32_t k, int32_t judged) {
    int32_t answers = 0, found = 0;
    for (int64_t i = 0; i < count && answers < k; i++) {
        const bool there = places[i] < judged;
        answers += there;
        found += there && ranks[i] < k;
    }
    return static_cast<double>(found) / k;
}

}  // namespace

void sum_recalls(const JudgedCandidates& candidates, const int32_t* results, int64_t n_results, const int32_t* probes,
                 int64_t n_probes, const int32_t* judged, int64_t n_judged, double* hits, double* squares) {
    const int64_t count = candidates.count, cells = n_results * n_probes * n_judged;
    std::fill_n(hits, cells, 0.0);
    std::fill_n(squares, cells, 0.0);
    std::vector<int32_t> before(count), places(count);
    for (int64_t q = 0; q < candidates.n; q++) {
        const int32_t* scanned = candidates.scanned + q * count;
        const int32_t* lists = candidates.lists + q * count;
        const int32_t* ranks = candidates.ranks + q * count;
        for (int64_t p = 0; p < n_probes; p++) {
            // Candidates of the lists probed that the scan puts first, counted part by part.
            for (int64_t i = 0; i < count; i++) before[scanned[i]] = lists[i] < probes[p];
            for (int64_t part = 0; part < candidates.n_parts; part++) {
                const int64_t end = part + 1 < candidates.n_parts ? candidates.parts[part + 1] : count;
                int32_t total = 0;
                for (int64_t i = candidates.parts[part]; i < end; i++) {
                    const int32_t there = before[i];
                    before[i] = there ? total : kNowhere;
                    total += there;
                }
            }
            for (int64_t i = 0; i < count; i++) places[i] = before[scanned[i]];
            for (int64_t k = 0; k < n_results; k++)
                for (int64_t r = 0; r < n_judged; r++) {
                    const double share = recall(places.data(), ranks, count, results[k], judged[k * n_judged + r]);
                    hits[(k * n_probes + p) * n_judged + r] += share;
                    squares[(k * n_probes + p) * n_judged + r] += share * share;
                }
        }
    }
}

}  // namespace pcpq
