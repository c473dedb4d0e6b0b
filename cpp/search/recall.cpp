#include "search/recall.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace pcpq {
namespace {

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();

void check(const RankedCandidates& candidates, const RecallSettings& settings) {
    const auto require = [](bool fits, const char* what) {
        if (!fits) throw std::invalid_argument(what);
    };
    for (int64_t i = 0; i < candidates.n * candidates.count; i++)
        require(candidates.scanned[i] >= 0 && candidates.scanned[i] < candidates.count, "a place is out of range");
    for (int64_t i = 0, before = 0; i < candidates.n_parts; before = candidates.parts[i++])
        require(candidates.parts[i] >= before && candidates.parts[i] <= candidates.count,
                "parts do not follow each other");
    for (int64_t i = 0; i < settings.n_results; i++) require(settings.results[i] > 0, "results are not positive");
}

// The share of k true rows among the first k candidates whose place is below `rerank`.
double recall(const int32_t* places, const int32_t* ranks, int64_t count, int32_t k, int32_t rerank) {
    int32_t results = 0, found = 0;
    for (int64_t i = 0; i < count && results < k; i++) {
        const bool there = places[i] < rerank;
        results += there;
        found += there && ranks[i] < k;
    }
    return static_cast<double>(found) / k;
}

}  // namespace

void sum_recalls(const RankedCandidates& candidates, const RecallSettings& settings, double* hits, double* squares) {
    check(candidates, settings);
    const auto [n_results, n_probes, n_reranks, results, probes, reranks] = settings;
    const int64_t count = candidates.count, cells = n_results * n_probes * n_reranks;
    std::fill_n(hits, cells, 0.0);
    std::fill_n(squares, cells, 0.0);
    std::vector<int32_t> before(count), places(count);
    for (int64_t q = 0; q < candidates.n; q++) {
        const int32_t* scanned = candidates.scanned + q * count;
        const int32_t* lists = candidates.lists + q * count;
        const int32_t* ranks = candidates.ranks + q * count;
        for (int64_t p = 0; p < n_probes; p++) {
            // The places of candidates in the scan of these lists alone, counted part by part.
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
                for (int64_t r = 0; r < n_reranks; r++) {
                    const double share = recall(places.data(), ranks, count, results[k], reranks[k * n_reranks + r]);
                    hits[(k * n_probes + p) * n_reranks + r] += share;
                    squares[(k * n_probes + p) * n_reranks + r] += share * share;
                }
        }
    }
}

}  // namespace pcpq
