// The steps of training that are not codes: seeds, cluster sums, best scales, exact 1-D k-means.
// One section at a time: n points of D coordinates, k codewords. Sums are float64.
#pragma once

#include <cstdint>

namespace pcpq {

// One section's points with their codes and the weights of their loss.
struct Clustered {
    int64_t n, size, n_codewords;
    const float* points;       // (n, D)
    const uint16_t* assigned;  // (n,)
    const float* codewords;    // (k, D)
    const float* ratios;       // (n,)  orthogonal / parallel weight, or null: isotropic
    const float* weights;      // (n,)  parallel weight, or null: all 1
};

struct SeedJob {
    int64_t n, size, n_codewords;
    const float* points;     // (n, D)
    const double* uniforms;  // (k,)  random numbers in [0, 1)
    bool sign_symmetric;     // x and -x are one point
    int64_t* rows;           // (k,)  out
};

// Rows picked by k-means++ (Arthur & Vassilvitskii).
void seed_rows(const SeedJob& job);

// The normal equations of every codeword, given the alphas (Theorem 4.2): with e the weight and p the ratio,
//   matrix = sum e alpha^2 (1 - p)/|r|^2 r r^T,  mass = sum e alpha^2 p,  vector = sum e alpha r.
// matrix may be null where nothing is anisotropic.
void codeword_sums(const Clustered& data, const float* alphas, double* matrix, double* mass, double* vector);

// matrix = sum e r r^T of every codeword: its top eigenvector is the best direction.
void codeword_grams(const Clustered& data, double* matrix);

// Loss of every point with its codeword and alpha, weights included.
void point_losses(const Clustered& data, const float* alphas, double* losses);

// The parabola of every point with its codeword: best alpha, and curvature with the weight included.
void best_alphas(const Clustered& data, float* alphas, float* curvatures);

struct RatioJob {
    int64_t n, sections, section_size, table_size;
    const float* points;      // (n, m, D)
    const float* thresholds;  // (m,)
    const float* table;       // (table_size,)  over [0, 1]
    float* ratios;            // (n, m)  out
};

// The ratio of every section of every point from its norm: table(threshold / norm), linear between entries; 1 at or
// under the threshold.
void section_ratios(const RatioJob& job);

// Exact weighted 1-D k-means of ascending values: n_levels ascending levels.
void quantize_scalars(const double* values, const double* weights, int64_t n, int64_t n_levels, double* levels);

}  // namespace pcpq
