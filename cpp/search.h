// A search as plain structs over caller-owned buffers. Rows are vectors in list order; 32 rows of a list make
// a block of codes. L lists, m sections of D coordinates, d dimensions, at most 16 centers and scales a section.
#pragma once

#include <cstdint>
#include <utility>

namespace pcpq {

constexpr int64_t kBlock = 32;
constexpr int32_t kSignedZero = 32768;  // signed sums are moved up by it, to compare as unsigned ones do

// Centers of lists as 16-bit integers: eight lists and two coordinates side by side.
//   rank of a list = <q, c> weight + offset        the best are probed
//   base of a list = <q, c> + offset               what its vectors' scores start from
struct Lists {
    int64_t count, dimensions;
    const int16_t* coarse;  // (ceil(L / 8), ceil(d / 2), 8, 2)
    float unit;             // of the integers
    const float* weights;   // (L,)
    const float* offsets;   // (L,)
    float largest_offset;   // in size
    const int64_t* rows;    // (L + 1,)  where each list's rows begin
    const int64_t* blocks;  // (L + 1,)  where each list's blocks begin
};

// Codes in blocks; packing.py draws them.
struct Packed {
    int64_t sections, section_size;
    bool scaled;  // codes have scales
    int64_t block_bytes;
    const uint8_t* blocks;    // (n_blocks, block_bytes)
    const float* centers;     // (m, D, 16)  a center a column
    const float* scales;      // (m, 16)  as trained; scaled only
    const int8_t* steps;      // (m, 16)  scales in units of step_units, at most 64 in size
    const float* step_units;  // (m,)
    float largest_step;
    float reach;                // no decoded row is longer
    float bias_low, bias_step;  // bias of a row = bias_low + bias_step * its byte, ...
    bool bias_by_length;        // ... times the query's length
};

enum class Keep { none, int8, int16, float16, float32 };

// What candidates are judged by in the end: the vectors themselves, or a better reading of their codes.
struct Kept {
    Keep keep;
    const void* rows;    // (n, d)
    const float* units;  // (n,)  of the integers
    bool euclidean;
    const uint16_t* gains;  // (n,) float16 or null; keep none only
    const float* biases;    // (n,) or null: times <q, center of the list>, or added if euclidean
    const int64_t* ids;     // (n,)
};

// Where to cut so that so many keys remain: all above `value`, and at value itself as many as are missing.
struct Cut {
    int32_t value;
    int64_t at_value;
};

// The best so many of a stream of scored rows. Larger scores first, then lower rows: a total order, so the
// same rows remain whatever order they arrive in, one query at a time or many.
struct Candidates {
    int64_t wanted, capacity, count;
    int32_t threshold;  // what a newcomer must reach
    int32_t* scores;    // (capacity,)
    int32_t* rows;      // (capacity,)

    static int64_t capacity_for(int64_t wanted) { return (2 * wanted + 2 * kBlock + 7) / 8 * 8; }
    void compact();  // leaves the wanted ones, and raises the threshold
};

// One query, ready to scan.
struct Scan {
    const uint8_t* table;  // plain: (m + 2 to a multiple of 4, 16); scaled: eta + 128, (m to even, 16)
    uint16_t bias_eta;     // scaled: eta + 128 of the two digits of the bias
    int32_t zero;          // the integer of a sum of nothing
    float unit;            // score = unit * integer
    float constant;        // added to every base
    Candidates best;
};

inline int64_t table_sections(const Packed& packed) {
    return packed.scaled ? (packed.sections + 1) / 2 * 2 : (packed.sections + 2 + 3) / 4 * 4;
}

struct SearchJob {
    Lists lists;
    Packed packed;
    Kept kept;
    const uint32_t* allowed;  // (n_blocks,) a bit a row, or null: all
    int64_t n_queries, probes, rerank, k;
    const float* queries;  // (n_queries, d)
    const float* turned;   // (n_queries, m * D)  rotated and padded
    int64_t* ids;          // (n_queries, k)  out, -1 where there is none
    float* scores;         // (n_queries, k)  out, larger is better
    int64_t* counts;       // (n_queries, 3)  out: lists probed, rows scanned, candidates judged; or null
    double* seconds;       // (4,)  added to: ranking lists, tables, scan, judging; or null
};

// What each SIMD level does for a search.
struct SearchKernels {
    // Sums (L to 8) with every list of one query, or of four, given as pairs of 16-bit coordinates.
    void (*score_lists)(const Lists& lists, const int32_t* const* pairs, int32_t* const* sums);
    void (*score_lists_for_four)(const Lists& lists, const int32_t* const* pairs, int32_t* const* sums);
    // Integers in the order of the lists' ranks.
    void (*rank_lists)(const Lists& lists, const int32_t* sums, float unit, int32_t* keys);
    // Keys have room for n rounded up to 8, and more than `wanted` entries.
    Cut (*cut_keys)(int32_t* keys, int64_t n, int64_t wanted);
    // Numbers of the keys that a cut leaves, ascending; how many.
    int64_t (*chosen_keys)(const int32_t* keys, int64_t n, Cut cut, int32_t* out);
    // Moves the pairs that a cut leaves to the front: above `value`, or at it with a row up to `last_row`; how many.
    int64_t (*keep_pairs)(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row);
    // The products of a query's sections with the centers, (m, 16).
    void (*multiply_centers)(const Packed& packed, const float* query, float* eta);
    // The same as small integers, (table_sections, 16), with unit, constant and zero of the scan.
    void (*make_table)(const Packed& packed, const float* eta, float length, float largest_base, Scan& scan,
                       uint8_t* table);
    // Adds the rows of a list that reach their thresholds to the candidates of one query, or of four.
    void (*scan_list)(const SearchJob& job, int64_t list, Scan* const* scans, const int32_t* bases);
    void (*scan_list_for_four)(const SearchJob& job, int64_t list, Scan* const* scans, const int32_t* bases);
    // Scores of kept rows, larger is better.
    void (*kept_scores)(const Kept& kept, int64_t dimensions, const int32_t* rows, int64_t n, const float* query,
                        double* scores);
};

void search(const SearchJob& job);

// The least and the greatest length of n rows, NaN if any is; and, if asked for, rows divided by their lengths (zero
// rows stay). The bits of a row do not depend on the others.
std::pair<double, double> length_range(const float* rows, int64_t n, int64_t dimensions, float* units);

}  // namespace pcpq
