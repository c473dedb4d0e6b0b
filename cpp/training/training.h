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

// Rows picked by k-means++ (Arthur & Vassilvitskii); sign_symmetric treats x and -x as one.
void seed_rows(const float* points, int64_t n, int64_t size, const double* uniforms, int64_t n_codewords,
               bool sign_symmetric, int64_t* rows);

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

// ratio of every (point, section) from its norm: table(threshold / norm), linear between entries; 1 at or
// under the threshold. points (n, m, D), thresholds (m,), table (table_size,) over [0, 1].
void section_ratios(const float* points, int64_t n, int64_t sections, int64_t size, const float* thresholds,
                    const float* table, int64_t table_size, float* ratios);

// Exact weighted 1-D k-means of ascending values: n_levels ascending levels.
void quantize_scalars(const double* values, const double* weights, int64_t n, int64_t n_levels, double* levels);

}  // namespace pcpq
