// What the files for each instruction set offer: one table of functions per SIMD level, over plain structs and
// caller-owned buffers. m sections of D coordinates, k codewords and s scales per section, n points.
#pragma once

#include <cstdint>

#include "kernels/candidates.h"
#include "kernels/index_arrays.h"

namespace pcpq {

enum class Loss { isotropic, section, whole };
enum class Scale { none, exact, quantized, vector };

// Rows of scales and bounds are padded to `scale_stride` entries, a multiple of 8, so that a SIMD
// look-up may read whole registers.
struct Codebook {
    int64_t sections, section_size, n_codewords, n_scales, scale_stride;
    const float* codewords;      // (m, k, D)
    const float* norms;          // (m, k)  squared lengths
    const float* inverse_norms;  // (m, k)  0 for a zero codeword
    const float* scales;         // (m, scale_stride)  ascending
    const float* bounds;         // (m, scale_stride)  midpoints between neighbouring scales
};

struct EncodeJob {
    Codebook codebook{};  // set by encode() of training/encoding.h, like scratch
    Loss loss;
    Scale scale;
    bool by_distance;  // compare codewords by ||r - alpha c||, as the paper's text does
    int sweeps;        // whole: how often to pass over the sections
    int64_t n;
    const float* points;       // (n, m * D)
    const float* directions;   // (n, m * D), whole only
    const float* ratios;       // orthogonal / parallel weight: (n, m) for section, (n,) for whole
    uint16_t* codes;           // (n, m)  out
    uint8_t* scales;           // (n, m), or (n,) for Scale::vector  out
    float* alphas;             // (n, m)  out, exact only
    float* scratch = nullptr;  // encode_scratch_floats() of them
};

static inline int64_t encode_scratch_floats(const Codebook& codebook, Scale scale) {
    const int64_t gathered = 2 * codebook.sections * codebook.section_size * 8;
    const int64_t chosen = 4 * codebook.sections * 8;
    if (scale != Scale::vector) return gathered + chosen;
    const int64_t per_level = codebook.sections * codebook.n_scales + codebook.n_scales;
    return gathered + chosen + (2 * codebook.n_codewords + per_level) * 8;
}

// One query, ready to scan.
struct Scan {
    const uint8_t*
        lookup_table;  // plain: (m + 2 to a multiple of 4, 16), wide: 64; scaled: products + 128, (m to even, 16)
    uint8_t bias_products[2];  // scaled: products + 128 of the two digits of the bias, the high one first
    int32_t zero;              // the integer of an empty sum
    float unit;                // score = unit * integer
    float constant;            // added to every base
    Candidates best;
};

constexpr int32_t kSignedZero = 32768;  // added to signed sums, so that they compare as unsigned ones do

// The least and the greatest of a section's products with its codewords.
struct ProductRange {
    float least, greatest;
};

// What a scan reads of an index.
struct ScanInput {
    const Lists& lists;
    const Codes& codes;
    const uint32_t* allowed;  // a bit per row, or null: all
};

// A query to rerank rows by: as it is, and as integers of `unit`.
struct RerankQuery {
    const float* floats;      // (d,)
    const int16_t* integers;  // (d to 16,)
    const int16_t* tail;      // (16,)  the last sixteen, zero where `integers` has whole sixteens
    float unit;
};

// What each SIMD level does for a search.
struct SearchKernels {
    // A query as integers of 1 / scale, zeros up to a multiple of 16.
    void (*query_to_shorts)(const float* query, int64_t d, float scale, int16_t* integers);
    // X M for (n, d) rows and a (d, p) matrix.
    void (*project)(const float* matrix, const float* rows, int64_t n, int64_t d, int64_t p, float* out);
    // A query in 8 bits, 128 too large, for products with lists; returns the unit.
    float (*query_to_bytes)(const float* query, int64_t d, float length, float longest, uint8_t* bytes);
    float (*inner_product)(const float* a, const float* b, int64_t d);
    // The bases of some lists by their centroids, for a query that is less the mean if euclidean.
    void (*measure_bases)(const Lists& lists, const float* query, const int32_t* chosen, int64_t n, float* bases);
    // Sums (L to 8) with every list of one query, or of four, as integers.
    void (*score_lists)(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums);
    void (*score_lists_for_four)(const Lists& lists, const uint8_t* const* queries, int32_t* const* sums);
    // Keys in the order of the lists' ranks (L to 8), and one that more than `wanted` of them are likely to be above.
    int32_t (*rank_lists)(const Lists& lists, const int32_t* sums, float unit, float length, int64_t wanted,
                          int32_t* keys);
    // The key that lists must be above to have a weight of at least e^margin; the best list always is.
    int32_t (*weigh_lists)(const Lists& lists, const int32_t* keys, float length, float temperature, float margin);
    // The keys above a value, and their indices, with room for n rounded up to 8; how many.
    int64_t (*keep_above)(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* indices);
    // Keys have room for n rounded up to 8, and at least `wanted` entries.
    Cut (*cut_keys)(int32_t* keys, int64_t n, int64_t wanted);
    // Moves the pairs that a cut leaves to the front: above `value`, or at it with a row up to `last_row`; how many.
    int64_t (*keep_pairs)(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row);
    // The products of a query's sections with the codewords of a list, (m, 16), wide: (m, 64), and their ranges, (m,).
    void (*codeword_products)(const Codes& codes, int64_t list, const float* query, float* products,
                              ProductRange* ranges);
    // A lookup table holds them as small integers, one byte each: the least unit they can have, and with the
    // unit of the scan, the table itself and the scan's constant and zero.
    float (*lookup_unit)(const Codes& codes, int64_t list, const ProductRange* ranges, float length,
                         float largest_base);
    void (*make_lookup_table)(const Codes& codes, int64_t list, const float* products, const ProductRange* ranges,
                              float length, Scan& scan, uint8_t* table);
    // What integer scores of lists start from; both have room for n rounded up to 8.
    void (*round_bases)(const float* bases, int64_t n, const Scan& scan, int32_t* starts);
    // A score that about `times` as many rows of some lists as are wanted are likely to reach.
    float (*guess_threshold)(const Lists& lists, const int32_t* chosen, const float* bases, int64_t n, float length,
                             float bias_factor, float wanted, float times, float* shapes);
    // Adds the rows of a list that reach their thresholds to the candidates of one query, or of two, three, four.
    // `ahead` has a block of codes for every block of the list: it is prefetched meanwhile.
    void (*scan_list[4])(const ScanInput& input, int64_t list, const int32_t* ahead, Scan* const* scans,
                         const int32_t* bases);
    // Scores of kept rows, larger is better.
    void (*rerank)(const Kept& kept, int64_t dimensions, const int32_t* rows, int64_t n, const RerankQuery& query,
                   double* scores);
    // Numbers that scores of rows kept as float32 or float16 do not exceed, in float32, which takes less time.
    // `largest` is the product of the query's length and that of the longest row; not used if euclidean.
    void (*bound_scores)(const Kept& kept, int64_t dimensions, const int32_t* rows, int64_t n, const float* query,
                         float largest, float* bounds);
    // Kept rows as float32, `stride` apart, less `mean`; returns their largest squared length. Where there is a mean,
    // one more number follows each: half of its squared length, negative.
    float (*read_rows)(const Kept& kept, int64_t dimensions, const int32_t* rows, int64_t n, const float* mean,
                       float* out, int64_t stride);
    // The indices of values that are not below `least`, with room for n + 8; how many.
    int64_t (*keep_reaching)(const float* values, int64_t n, float least, int32_t* indices);
};

struct Kernels {
    const char* name;
    void (*encode)(const EncodeJob& job);
    // distances[i] <- min(distances[i], distance of point i to seed); signed_too also tries -seed.
    // Points lie in groups of eight, (n / 8, D, 8), n a multiple of 8.
    void (*lower_distances)(const float* points, int64_t n, int64_t size, const float* seed, bool signed_too,
                            float* distances);
    // Of n lists (a multiple of 8), those whose score, (sum * unit) * its unit - its penalty, may be as high as `least`
    // if sum * unit is off by at most `slack`: how many, their indices, and between which numbers each score is.
    int64_t (*keep_near)(const int32_t* sums, int64_t n, float unit, float slack, const float* units,
                         const float* penalties, float least, int32_t* indices, float* lowest, float* highest);
    float (*squared_distance)(const float* a, const float* b, int64_t d);
    SearchKernels search;
};

const Kernels& portable_kernels();
#ifdef PCPQ_HAVE_AVX2
const Kernels& avx2_kernels();
#endif
#ifdef PCPQ_HAVE_AVX512
const Kernels& avx512_kernels();
#endif
#ifdef PCPQ_HAVE_NEON
const Kernels& neon_kernels();
#endif

constexpr const char* kLevelNames[] = {"avx512", "avx2", "neon",
                                       "portable"};  // best first; no processor has all of them

const Kernels& kernels();               // of the selected level
bool select_kernels(const char* name);  // false: this processor or build lacks it
bool level_available(const char* name);

}  // namespace pcpq
