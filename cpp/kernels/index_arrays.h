// The arrays of an index as plain structs over caller-owned buffers. Rows are vectors in list order; 32 or 64 rows of a
// list make a block of codes. L lists, m sections of D coordinates, d dimensions; lists and codes may have fewer, as
// Projection says.
// Functions here are static: files for one instruction set must not offer them to the linker (tools/check_symbols.py).
#pragma once

#include <cstdint>

namespace pcpq {

constexpr int64_t kMaskRows = 32;  // rows per word of a mask

// Ranks and scores are compared as integers, called keys. INT32_MIN is no key: it fills places where nothing is.
// Files and queries may hold any float, so NaN and what is too large become the least or the largest key.
constexpr float kLargestKey = 0x1.fffffep30f;
static inline int32_t as_key(float x) {
    const float bounded = x > -kLargestKey ? x : -kLargestKey;
    return static_cast<int32_t>(__builtin_lrintf(bounded < kLargestKey ? bounded : kLargestKey));
}

// Centroids c of lists around their mean m, as 8-bit integers: eight lists and four coordinates side by side.
//   base of a list = <q, c - m> + offset        its vectors' scores start from it, without <q, m>
//   rank of a list = its base + |q| spread      the best are probed
// In a euclidean index, q is the query less m.
struct Lists {
    int64_t count, dimensions;
    const int8_t* coarse;    // (ceil(L / 8), ceil(d / 4), 8, 4)  at most 64 in size
    const uint16_t* starts;  // (ceil(L / 8), 8, 2)  what sums start from: bytes of queries are 128 too large
    float unit;              // of the integers
    float longest_query;     // as integers, so that no sum with a list leaves 16 bits
    const float* centroids;  // (L, d) c - m where integers are too coarse to start scores from, or null
    const float* mean;       // (d,)  of the centroids
    const float* spreads;    // (L,)
    const float* offsets;    // (L,)
    float largest_base;      // for a query of length 1, without the offset, ...
    float largest_offset;    // ... which is at most so large
    float largest_spread;
    // Of the differences between rows' scores and their base, for a query of length 1: the variance that codes bring,
    // and mean and variance of the biases.
    const float *energies, *bias_means, *bias_variances;  // (L,)
    const int64_t* rows;                                  // (L + 1,)  where each list's rows begin
    // (L + 1,)  where they begin among the places of blocks; the last is the end of the last block. A list begins with
    // a block of its own, or in that of the list before it.
    const int64_t* places;

    int64_t n_words() const { return places[count] / kMaskRows; }  // of a mask
};

// Plain, scaled and wide codes lie in blocks, drawn in segment/packing.py. Plain and scaled codes have at most 16
// codewords and scales per section, wide ones 64 codewords. All others are unpacked: row after row, and scanned as they
// lie.
enum class Coding { plain, scaled, wide, unpacked };

struct Codes {
    Coding coding;
    int64_t sections, section_size;
    bool per_list;            // every list has its own codebook: (L, m, ...)
    int64_t block_bytes;      // unpacked: of a row
    const uint8_t* blocks;    // (n_blocks, block_bytes); unpacked: (n, m) indices of codewords, one byte or two
    int64_t n_codewords;      // per section: 16, wide: 64; unpacked: any number
    const float* codewords;   // (m, D, n_codewords)  a codeword is a column
    int64_t n_scales;         // per section: 16; unpacked: any number
    const float* scales;      // (m, n_scales)  as trained; null: none
    const int8_t* steps;      // scaled: (m to even, 16)  scales in units of step_units, at most 64 in size
    const float* step_units;  // scaled: (m,)
    float largest_step;
    float reach;                     // no decoded row is longer
    float bias_low, bias_step;       // bias of a row = bias_low + bias_step * its byte, ...
    bool bias_by_length;             // ... times the query's length
    const uint8_t* unpacked_scales;  // unpacked: (n, m) indices of scales, or null
    const float* unpacked_alphas;    // unpacked: (n, m) scales themselves, or null
    const float* unpacked_factors;   // unpacked: (n,) one scale per row, or null
    const uint8_t* unpacked_biases;  // unpacked: (n,) bytes
};

// The part of a list in an array that holds `size` values for each codebook.
template <class T>
static inline const T* of_list(const Codes& codes, const T* values, int64_t list, int64_t size) {
    return values && codes.per_list ? values + list * size : values;
}

// Rows of a block, and entries of a lookup table per section.
static inline int64_t block_rows(Coding coding) {
    return coding == Coding::wide ? 64 : 32;
}
static inline int64_t table_entries(Coding coding) {
    return coding == Coding::wide ? 64 : 16;
}

// The blocks that hold the rows of a list.
struct BlockRange {
    int64_t first, count;
};
static inline BlockRange blocks_of(const Lists& lists, Coding coding, int64_t list) {
    const int shift = coding == Coding::wide ? 6 : 5;  // faster than a division
    const int64_t first = lists.places[list] >> shift, rows = lists.rows[list + 1] - lists.rows[list];
    return {first, ((lists.places[list] + rows + (int64_t{1} << shift) - 1) >> shift) - first};
}

// Sections of a lookup table: plain and wide codes have two more, for the bias.
static inline int64_t table_sections(Coding coding, int64_t sections) {
    return coding == Coding::scaled ? (sections + 1) / 2 * 2 : (sections + 2 + 3) / 4 * 4;
}
static inline int64_t table_sections(const Codes& codes) {
    return table_sections(codes.coding, codes.sections);
}

static inline int64_t table_size(const Codes& codes) {
    return table_sections(codes) * table_entries(codes.coding);
}

// The code of a section of a wide row, whose first byte is given: four sections lie in three lines of 64 bytes, the
// fourth in the upper two bits of the others.
static inline int wide_code(const uint8_t* row, int64_t section) {
    const uint8_t* line = row + section / 4 * 192;
    const int64_t number = section % 4;
    return number < 3 ? line[number * 64] & 63 : line[0] >> 6 | (line[64] >> 6) << 2 | (line[128] >> 6) << 4;
}

// Bytes of a block. Two sections take 32 bytes, and 32 more for their scales; blocks of scaled codes end with the bias
// and the sums of steps. Four sections of wide codes take 192 bytes.
static inline int64_t block_bytes(Coding coding, int64_t sections) {
    const int64_t padded = table_sections(coding, sections);
    if (coding == Coding::wide) return padded / 4 * 3 * 64;
    return coding == Coding::scaled ? padded * 32 + 3 * 32 : padded * 16;
}

enum class Keep { none, int8, int16, float16, float32 };

static inline int64_t bytes_of(Keep keep) {
    return keep == Keep::none ? 0 : keep == Keep::int8 ? 1 : keep == Keep::float32 ? 4 : 2;
}

// What candidates are reranked by: the vectors themselves, or codes with their corrections.
struct Kept {
    Keep keep;
    const void* rows;    // (n, d)
    const float* units;  // (n,)  of the integers
    bool euclidean;
    const uint16_t* gains;  // (n,) float16 or null; keep none only
    const float* biases;    // (n,) or null: times <q, centroid of the list>, or added if euclidean
    const int64_t* ids;     // (n,)
};

// From the coordinates of vectors to the fewer that lists and codes are made of.
struct Projection {
    int64_t dimensions;   // d, of vectors
    const float* matrix;  // (d, p), null: p is d, and coordinates stay; x becomes x M
    const float* mean;    // (d,)  of the centroids
};

// From a vector's coordinates to those of its sections.
struct Rotation {
    const float* matrix;     // (d, d), null: none; x becomes x M
    const int64_t* columns;  // (d,) where a coordinate goes, zeros elsewhere; null: it stays
};

}  // namespace pcpq
