// A search as plain structs over caller-owned buffers. Rows are vectors in list order; 32 rows of a list make
// a block of codes. L lists, m sections of D coordinates, d dimensions.
#pragma once

#include <cstdint>

namespace pcpq {

class Guard;

constexpr int64_t kBlock = 32;
constexpr int32_t kSignedZero = 32768;  // signed sums are moved up by it, to compare as unsigned ones do

// Ranks and scores are compared as integers, called keys. INT32_MIN is no key: it fills up places where nothing is.
// Files and queries may hold any float, so what is no number, or too large, becomes the least or the largest key.
constexpr float kLargestKey = 0x1.fffffep30f;
static inline int32_t as_key(float x) {
    const float bounded = x > -kLargestKey ? x : -kLargestKey;
    return static_cast<int32_t>(__builtin_lrintf(bounded < kLargestKey ? bounded : kLargestKey));
}

// Centers c of lists around their middle m, as 8-bit integers: eight lists and four coordinates side by side.
//   base of a list = <q, c - m> + offset        what its vectors' scores start from, but for <q, m>
//   rank of a list = its base + |q| spread      the best are probed
// Where distances count, q is what a query has beyond m.
struct Lists {
    int64_t count, dimensions;
    const int8_t* coarse;    // (ceil(L / 8), ceil(d / 4), 8, 4)  at most 64 in size
    const uint16_t* starts;  // (ceil(L / 8), 8, 2)  what sums start from: queries are 128 too large
    float unit;              // of the integers
    float longest_query;     // as integers, so that no sum with a list leaves 16 bits
    const float* centers;    // (L, d) c - m where integers are too coarse to start scores from, or null
    const float* middle;     // (d,)
    const float* spreads;    // (L,)
    const float* offsets;    // (L,)
    float largest_base;      // for a query of length 1, but for the offset, ...
    float largest_offset;    // ... which is at most so large
    float largest_spread;
    // Of the differences between rows' scores and their base, for a query of length 1: the variance that codes bring,
    // and mean and variance of the biases.
    const float *energies, *bias_means, *bias_variances;  // (L,)
    const int64_t* rows;                                  // (L + 1,)  where each list's rows begin
    // (L + 1,)  where they begin among the places of blocks, 32 each; the last is the end of the last block. A list
    // begins with a block of its own, or in that of the list before it.
    const int64_t* places;

    int64_t n_blocks() const { return places[count] / kBlock; }
};

// Plain and scaled codes lie in blocks that packing.py draws, and have at most 16 centers and scales a section.
// All others are loose: a row after the other, and scanned as they lie.
enum class Coding { plain, scaled, loose };

struct Packed {
    Coding coding;
    int64_t sections, section_size;
    bool own_books;           // every list has its own centers and scales: (L, m, ...)
    int64_t block_bytes;      // loose: of a row
    const uint8_t* blocks;    // (n_blocks, block_bytes); loose: (n, m) numbers of centers, one byte or two
    int64_t columns;          // 16; loose: centers a section
    const float* centers;     // (m, D, columns)  a center a column
    int64_t scale_columns;    // 16; loose: scales a section
    const float* scales;      // (m, scale_columns)  as trained; null: none
    const int8_t* steps;      // scaled: (m to even, 16)  scales in units of step_units, at most 64 in size
    const float* step_units;  // scaled: (m,)
    float largest_step;
    float reach;                  // no decoded row is longer
    float bias_low, bias_step;    // bias of a row = bias_low + bias_step * its byte, ...
    bool bias_by_length;          // ... times the query's length
    const uint8_t* loose_scales;  // loose: (n, m) numbers of scales, or null
    const float* loose_alphas;    // loose: (n, m) scales themselves, or null
    const float* loose_factors;   // loose: (n,) one scale a row, or null
    const uint8_t* loose_biases;  // loose: (n,) bytes
};

// What a list has of an array that holds `size` values for each codebook.
template <class T>
static inline const T* of_list(const Packed& packed, const T* values, int64_t list, int64_t size) {
    return values && packed.own_books ? values + list * size : values;
}

enum class Keep { none, int8, int16, float16, float32 };

inline int64_t bytes_of(Keep keep) {
    return keep == Keep::none ? 0 : keep == Keep::int8 ? 1 : keep == Keep::float32 ? 4 : 2;
}

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

// A query to judge rows by: as it is, and in whole numbers of `word_unit`.
struct Judge {
    const float* query;         // (d,)
    const int16_t* words;       // (d to 16,)
    const int16_t* last_words;  // (16,)  the last sixteen, zero where `words` has whole sixteens
    float word_unit;
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

    static int64_t capacity_for(int64_t wanted) { return (3 * wanted + 2 * kBlock + 7) / 8 * 8; }
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
    return packed.coding == Coding::scaled ? (packed.sections + 1) / 2 * 2 : (packed.sections + 2 + 3) / 4 * 4;
}

// From a vector's coordinates to those of its sections.
struct Turn {
    const float* matrix;    // (d, d), null: none; x becomes x M
    const int64_t* places;  // (d,) where a coordinate goes, zeros elsewhere; null: it stays
};

struct SearchJob {
    const Guard* guard;  // of arrays that came from a file; null: they did not
    Lists lists;
    Packed packed;
    Kept kept;
    Turn turn;
    const uint32_t* allowed;  // (n_blocks,) a bit a row, or null: all
    float share;              // of the rows of any list that are allowed, about; 0: unknown
    int64_t n_queries, probes, rerank, k;
    const float* queries;  // (n_queries, d)
    int64_t* ids;          // (n_queries, k)  out, -1 where there is none
    double* scores;        // (n_queries, k)  out, larger is better
    int64_t* counts;       // (n_queries, 3)  out: lists probed, rows scanned, candidates judged; or null
    double* seconds;       // (4,)  added to: ranking lists, tables, scan, judging; or null
    int32_t* scanned;      // (n_queries, k)  out: what the scan thought of the answers, larger is better; or null
};

// What each SIMD level does for a search.
struct SearchKernels {
    // A query in whole numbers of 1 / scale, zeros up to a multiple of 16.
    void (*round_query)(const float* query, int64_t d, float scale, int16_t* words);
    // x M for a (d, d) matrix.
    void (*turn_query)(const float* matrix, const float* query, int64_t d, float* out);
    // The same in 8 bits, 128 too large, for products with lists; returns their unit.
    float (*round_to_bytes)(const float* query, int64_t d, float length, float longest, uint8_t* bytes);
    float (*product)(const float* a, const float* b, int64_t d);
    // Sums (L to 8) with every list of one query, or of four, in whole numbers.
    void (*score_lists)(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums);
    void (*score_lists_for_four)(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums);
    // Integers in the order of the lists' ranks (L to 8), and one that more than `wanted` of them are likely to be
    // above.
    int32_t (*rank_lists)(const Lists& lists, const int32_t* sums, float unit, float length, int64_t wanted,
                          int32_t* keys);
    // The keys above a value, and their numbers, with room for n rounded up to 8; how many.
    int64_t (*keep_above)(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* numbers);
    // Keys have room for n rounded up to 8, and at least `wanted` entries.
    Cut (*cut_keys)(int32_t* keys, int64_t n, int64_t wanted);
    // Moves the pairs that a cut leaves to the front: above `value`, or at it with a row up to `last_row`; how many.
    int64_t (*keep_pairs)(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row);
    // The products of a query's sections with the centers of a list, (m, 16).
    void (*multiply_centers)(const Packed& packed, int64_t list, const float* query, float* eta);
    // The same as small integers, (table_sections, 16): the least unit they can have, and with that of the scan, the
    // table itself and the scan's constant and zero.
    float (*table_unit)(const Packed& packed, int64_t list, const float* eta, float length, float largest_base);
    void (*make_table)(const Packed& packed, int64_t list, const float* eta, float length, Scan& scan, uint8_t* table);
    // What integer scores of lists start from; both have room for n rounded up to 8.
    void (*round_bases)(const float* bases, int64_t n, const Scan& scan, int32_t* starts);
    // A score that more than `wanted` rows of some lists are likely to reach.
    float (*likely_threshold)(const Lists& lists, const int32_t* chosen, const float* bases, int64_t n, float length,
                              float bias_factor, float wanted, float* shapes);
    // Adds the rows of a list that reach their thresholds to the candidates of one query, or of two, three, four.
    // `next` is the list that comes after it.
    void (*scan_list[4])(const SearchJob& job, int64_t list, int64_t next, Scan* const* scans, const int32_t* bases);
    // Scores of kept rows, larger is better.
    void (*kept_scores)(const Kept& kept, int64_t dimensions, const int32_t* rows, int64_t n, const Judge& judge,
                        double* scores);
};

// Loose codes: products with the centers of a list, (m, columns); <q, decoded> of a row by them.
void multiply_loose(const Packed& packed, int64_t list, const float* query, float* eta);
float loose_product(const Packed& packed, int64_t list, const float* eta, int64_t row);

void search(const SearchJob& job);

}  // namespace pcpq
