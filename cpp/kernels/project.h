// Vectors times a matrix: rotations, and projections to fewer coordinates.
#pragma once

#include <cstdint>

#include "simd/simd.h"

namespace pcpq {
namespace {

// Some coordinates of some products, in registers.
template <int Rows, int Vectors>
inline void project_columns(const float* matrix, const float* rows, int64_t d, int64_t p, float* out) {
    WideFloats sums[Rows][Vectors];
#pragma GCC unroll 16
    for (int i = 0; i < Rows * Vectors; i++) sums[i / Vectors][i % Vectors] = broadcast_wide_floats(0.0f);
    for (int64_t t = 0; t < d; t++, matrix += p) {
        WideFloats values[Vectors];
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; v++) values[v] = load_wide_floats(matrix + v * kWideLanes);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; r++) {
            const WideFloats x = broadcast_wide_floats(rows[r * d + t]);
#pragma GCC unroll 8
            for (int v = 0; v < Vectors; v++) sums[r][v] = sums[r][v] + x * values[v];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < Rows * Vectors; i++)
        store(out + i / Vectors * p + i % Vectors * kWideLanes, sums[i / Vectors][i % Vectors]);
}

template <int Rows>
inline void project_rows(const float* matrix, const float* rows, int64_t d, int64_t p, float* out) {
    // A row alone waits for the matrix, so it reads long pieces of it.
    constexpr int kVectors = Rows == 1 ? 8 : kWideLanes == 16 ? 4 : 2;
    int64_t j = 0;
    for (; j + kVectors * kWideLanes <= p; j += kVectors * kWideLanes)
        project_columns<Rows, kVectors>(matrix + j, rows, d, p, out + j);
    for (; j + kWideLanes <= p; j += kWideLanes) project_columns<Rows, 1>(matrix + j, rows, d, p, out + j);
    for (; j < p; j++)
        for (int r = 0; r < Rows; r++) {
            float sum = 0.0f;
            for (int64_t t = 0; t < d; t++) sum += rows[r * d + t] * matrix[t * p + j];
            out[r * p + j] = sum;
        }
}

// Each coordinate adds up its products in their order, whatever the level and the number of rows.
inline void project(const float* matrix, const float* rows, int64_t n, int64_t d, int64_t p, float* out) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) project_rows<4>(matrix, rows + i * d, d, p, out + i * p);
    for (; i < n; i++) project_rows<1>(matrix, rows + i * d, d, p, out + i * p);
}

}  // namespace
}  // namespace pcpq
