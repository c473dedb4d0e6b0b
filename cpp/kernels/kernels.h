// What the per-ISA files offer: plain structs over caller-owned buffers, one function table a level.
// m sections of D coordinates, k centers and s scales a section, n points.
#pragma once

#include <cstdint>

#include "search/search.h"

namespace pcpq {

enum class Loss { isotropic, section, whole };
enum class Scale { none, exact, quantized, vector };

// Rows of scales and bounds are padded to `scale_stride` entries, a multiple of 8, so that a SIMD
// look-up may read whole registers.
struct Codebook {
    int64_t sections, section_size, n_centers, n_scales, scale_stride;
    const float* centers;        // (m, k, D)
    const float* norms;          // (m, k)  squared lengths
    const float* inverse_norms;  // (m, k)  0 for a zero center
    const float* scales;         // (m, scale_stride)  ascending
    const float* bounds;         // (m, scale_stride)  midpoints between neighbouring scales
};

struct EncodeJob {
    Codebook book;
    Loss loss;
    Scale scale;
    bool by_distance;  // judge a center by ||r - alpha c||, as the paper's text does
    int sweeps;        // whole: how often to pass over the sections
    int64_t n;
    const float* points;      // (n, m * D)
    const float* directions;  // (n, m * D), whole only
    const float* ratios;      // orthogonal / parallel weight: (n, m) for section, (n,) for whole
    uint16_t* centers;        // (n, m)  out
    uint8_t* scales;          // (n, m), or (n,) for Scale::vector  out
    float* alphas;            // (n, m)  out, exact only
    float* scratch;           // encode_scratch_floats() of them
};

inline int64_t encode_scratch_floats(const Codebook& book, Scale scale) {
    const int64_t gathered = 2 * book.sections * book.section_size * 8;
    const int64_t chosen = 4 * book.sections * 8;
    if (scale != Scale::vector) return gathered + chosen;
    return gathered + chosen + (2 * book.n_centers + book.sections * book.n_scales + book.n_scales) * 8;
}

struct Kernels {
    const char* name;
    void (*encode)(const EncodeJob& job);
    // distances[i] <- min(distances[i], distance of point i to center); signed_too also tries -center.
    // Points lie in groups of eight, (n / 8, D, 8), n a multiple of 8.
    void (*nearer)(const float* points, int64_t n, int64_t size, const float* center, bool signed_too,
                   float* distances);
    SearchKernels search;
};

const Kernels& portable_kernels();
#ifdef PCPQ_HAVE_AVX2
const Kernels& avx2_kernels();
#endif
#ifdef PCPQ_HAVE_NEON
const Kernels& neon_kernels();
#endif

constexpr const char* kLevelNames[] = {"avx2", "neon", "portable"};  // best first; no processor has all of them

const Kernels& kernels();               // the level in force
bool select_kernels(const char* name);  // false: this processor or build lacks it
bool level_available(const char* name);

}  // namespace pcpq
