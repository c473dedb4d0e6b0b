// How much searches find, from the candidates of queries whose true answers are known.
#pragma once

#include <cstdint>

namespace pcpq {

// c candidates of each of n queries, in the order in which they are judged at last.
struct JudgedCandidates {
    int64_t n, count;
    const int32_t* scanned;  // (n, c)  place in the order of the scan, part after part of the index
    const int32_t* lists;    // (n, c)  place of the row's list in the order of probing
    const int32_t* ranks;    // (n, c)  place among the true answers
    int64_t n_parts;
    const int32_t* parts;  // (n_parts,)  where each part begins in the order of the scan
};

// hits[k, p, r] and squares: sums over queries of the share of the results[k] true rows among as many answers, and of
// its square, if probes[p] lists are probed and judged[k, r] candidates of each part judged.
void sum_recalls(const JudgedCandidates& candidates, const int32_t* results, int64_t n_results, const int32_t* probes,
                 int64_t n_probes, const int32_t* judged, int64_t n_judged, double* hits, double* squares);

}  // namespace pcpq
