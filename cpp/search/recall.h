// The recall of searches, from the candidates of queries whose ground truth is known.
#pragma once

#include <cstdint>

namespace pcpq {

// c candidates of each of n queries, in the order of their final scores.
struct RankedCandidates {
    int64_t n, count;
    const int32_t* scanned;  // (n, c)  place in the order of the scan, part after part of the index
    const int32_t* lists;    // (n, c)  place of the row's list in the order of probing
    const int32_t* ranks;    // (n, c)  place in the ground truth
    int64_t n_parts;
    const int32_t* parts;  // (n_parts,)  where each part begins in the order of the scan
};

// Settings whose recall is wanted: numbers of results, of lists probed, and of candidates reranked per part.
struct RecallSettings {
    int64_t n_results, n_probes, n_reranks;
    const int32_t* results;  // (n_results,)
    const int32_t* probes;   // (n_probes,)
    const int32_t* reranks;  // (n_results, n_reranks)
};

// hits[k, p, r] and squares: sums over queries of the share of the results[k] true rows among as many results, and of
// its square, if probes[p] lists are probed and reranks[k, r] candidates of each part reranked.
// Throws std::invalid_argument if a place, a part or a number of results is out of range.
void sum_recalls(const RankedCandidates& candidates, const RecallSettings& settings, double* hits, double* squares);

}  // namespace pcpq
