// Scores by lookup tables, as in the paper's section 4.3:
//   i.   eta[j][c] = <codeword c of section j, q_j>    k d multiply-adds
//   ii.  table[j][c][l] = eta[j][c] * scale l          s k m multiplications (quantized scales only)
//   iii. score = sum over j of table[j][code]          m look-ups and m additions per point
// Written once for any number type: float does the work, Counted (scoring.cpp) counts it.
#pragma once

#include <cstdint>

namespace pcpq {

struct ScoreJob {
    int64_t sections, section_size, n_codewords, n_scales;  // n_scales 0: no scale indices
    int64_t n, n_queries;
    const float* codewords;      // (m, k, D)
    const float* scales;         // (m, s) or null
    const float* queries;        // (n_queries, m * D)
    const void* codes;           // (n, m) uint8 or uint16
    bool wide_codes;             // uint16
    const uint8_t* scale_codes;  // (n, m) or null
    const float* alphas;         // (n, m) or null: exact scales
    float* scores;               // (n_queries, n)  out
};

struct OperationCounts {
    int64_t multiply_adds, multiplications, look_ups, additions;
};

void score(const ScoreJob& job);

// The operations of `score`; job.scores is not used.
OperationCounts count_score_operations(const ScoreJob& job);

// The decoded points: alpha * codeword, section by section. job.scores holds (n, m * D) here.
void decode(const ScoreJob& job);

}  // namespace pcpq
