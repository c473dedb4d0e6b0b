// The best code of one section: eight points at a time, one per lane, codeword after codeword.
//
// For a codeword c the loss of alpha * c is the parabola  w alpha^2 - 2 q alpha + constant, with
//   isotropic  w = |c|^2                               q = <r,c>
//   section    w = slope <r,c>^2 + ratio |c|^2         q = <r,c>                        slope = (1 - ratio) / |r|^2
//   whole      w = slope <u,c>^2 + ratio |c|^2         q = pull <u,c> + ratio <r,c>     slope = (1 - ratio) / |u|^2
// in units of the parallel weight. Over a whole vector the sections meet only in <e, u>: seen from one
// section, `pull` = slope * (<e, u> of the others + <r,u> of this one), so a sweep is the same search again.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

struct Best {
    Floats loss;
    Ints code;
    Ints scale;
    Floats alpha;
};

// One section of the codebook.
struct SectionCodebook {
    int64_t size, n_codewords;
    int n_scales;
    const float *codewords, *norms, *inverse_norms, *scales, *bounds;
};

inline SectionCodebook section_of(const Codebook& codebook, int64_t j) {
    return {.size = codebook.section_size,
            .n_codewords = codebook.n_codewords,
            .n_scales = static_cast<int>(codebook.n_scales),
            .codewords = codebook.codewords + j * codebook.n_codewords * codebook.section_size,
            .norms = codebook.norms + j * codebook.n_codewords,
            .inverse_norms = codebook.inverse_norms + j * codebook.n_codewords,
            .scales = codebook.scales + j * codebook.scale_stride,
            .bounds = codebook.bounds + j * codebook.scale_stride};
}

// <x, c> for `Count` neighbouring codewords; several at once keep the adders busy in long sections.
template <int D, int Count>
inline void dots(const float* x, const float* codewords, int64_t size, Floats* out) {
    const int64_t length = D > 0 ? D : size;
    for (int i = 0; i < Count; i++) out[i] = load(x) * broadcast(codewords[i * length]);
    for (int64_t t = 1; t < length; t++) {
        const Floats coordinate = load(x + t * kLanes);
        for (int i = 0; i < Count; i++) out[i] = out[i] + coordinate * broadcast(codewords[i * length + t]);
    }
}

template <int D>
inline Floats inner(const float* x, const float* y, int64_t size) {
    const int64_t length = D > 0 ? D : size;
    Floats sum = load(x) * load(y);
    for (int64_t t = 1; t < length; t++) sum = sum + load(x + t * kLanes) * load(y + t * kLanes);
    return sum;
}

template <Loss loss>
inline void parabola(Floats along_r, Floats along_u, float norm, Floats ratio, Floats slope, Floats pull, Floats* w,
                     Floats* q) {
    if constexpr (loss == Loss::isotropic) {
        *w = broadcast(norm);
        *q = along_r;
    } else {
        *w = slope * (along_u * along_u) + ratio * broadcast(norm);
        *q = loss == Loss::section ? along_r : pull * along_u + ratio * along_r;
    }
}

template <Loss loss, Scale scale>
inline void consider(const SectionCodebook& codebook, int64_t i, Floats along_r, Floats along_u, Floats ratio,
                     Floats slope, Floats pull, bool by_distance, Best* best) {
    Floats w, q;
    parabola<loss>(along_r, along_u, codebook.norms[i], ratio, slope, pull, &w, &q);
    const Floats two = broadcast(2.0f);
    Floats alpha = broadcast(1.0f), cost;
    Ints level = broadcast_int(0);
    if constexpr (scale == Scale::exact) {
        alpha = loss == Loss::isotropic ? q * broadcast(codebook.inverse_norms[i]) : divide_or_zero(q, w);
    } else if constexpr (scale == Scale::quantized) {
        const Floats ideal = loss == Loss::isotropic ? q * broadcast(codebook.inverse_norms[i]) : divide_or_zero(q, w);
        level = count_below(codebook.bounds, codebook.n_scales - 1, ideal);
        alpha = look_up(codebook.scales, codebook.n_scales, level);
    }
    if constexpr (scale == Scale::none) {
        cost = w - two * q;
    } else {
        if (loss == Loss::section && by_distance) {
            w = broadcast(codebook.norms[i]);
            q = along_r;
        }
        cost = alpha * (alpha * w - two * q);
    }
    const Ints better = less(cost, best->loss);
    best->loss = choose(better, cost, best->loss);
    best->code = choose(better, broadcast_int(static_cast<int32_t>(i)), best->code);
    if constexpr (scale == Scale::quantized) best->scale = choose(better, level, best->scale);
    if constexpr (scale != Scale::none) best->alpha = choose(better, alpha, best->alpha);
}

template <Loss loss, Scale scale, int D>
inline Best best_code(const SectionCodebook& codebook, const float* r, const float* u, Floats ratio, Floats slope,
                      Floats pull, bool by_distance) {
    Best best{.loss = broadcast(__builtin_inff()),
              .code = broadcast_int(0),
              .scale = broadcast_int(0),
              .alpha = broadcast(scale == Scale::none ? 1.0f : 0.0f)};
    int64_t i = 0;
    const auto consider_next = [&]<int together>() {
        Floats along_r[together], along_u[together];
        dots<D, together>(r, codebook.codewords + i * codebook.size, codebook.size, along_r);
        if constexpr (loss == Loss::whole)
            dots<D, together>(u, codebook.codewords + i * codebook.size, codebook.size, along_u);
        for (int t = 0; t < together; t++)
            consider<loss, scale>(codebook, i + t, along_r[t], loss == Loss::whole ? along_u[t] : along_r[t], ratio,
                                  slope, pull, by_distance, &best);
        i += together;
    };
    if constexpr (D == 0)
        while (i + 4 <= codebook.n_codewords) consider_next.template operator()<4>();
    while (i < codebook.n_codewords) consider_next.template operator()<1>();
    return best;
}

// Section j of points [first, first + 8) into out[coordinate][lane]; lanes past the end hold zeros.
template <int D>
inline void gather(const float* rows, int64_t n, int64_t stride, int64_t first, int64_t j, int64_t size, float* out) {
    const int64_t length = D > 0 ? D : size;
    const int64_t lanes = n - first < kLanes ? n - first : kLanes;
    for (int64_t lane = 0; lane < kLanes; lane++) {
        const float* row = rows + (first + lane) * stride + j * length;
        for (int64_t t = 0; t < length; t++) out[t * kLanes + lane] = lane < lanes ? row[t] : 0.0f;
    }
}

inline Floats gather_ratio(const float* ratios, int64_t n, int64_t stride, int64_t first, int64_t j) {
    float out[kLanes];
    for (int64_t lane = 0; lane < kLanes; lane++)
        out[lane] = first + lane < n ? ratios[(first + lane) * stride + j] : 1.0f;
    return load(out);
}

}  // namespace
}  // namespace pcpq
