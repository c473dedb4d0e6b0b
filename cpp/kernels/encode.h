// Codes for points: every section on its own, all sections of a vector together, or with one scale per vector.
// Each is a walk over the search of best_code.h.
#pragma once

#include <cstdint>

#include "kernels/best_code.h"
#include "kernels/kernels.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

template <Scale scale>
inline void put(const EncodeJob& job, int64_t first, int64_t j, const Best& best) {
    int32_t codes[kLanes], scales[kLanes];
    float alphas[kLanes];
    store(codes, best.code);
    store(scales, best.scale);
    store(alphas, best.alpha);
    const int64_t lanes = job.n - first < kLanes ? job.n - first : kLanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t at = (first + lane) * job.codebook.sections + j;
        job.codes[at] = static_cast<uint16_t>(codes[lane]);
        if constexpr (scale == Scale::quantized) job.scales[at] = static_cast<uint8_t>(scales[lane]);
        if constexpr (scale == Scale::exact) job.alphas[at] = alphas[lane];
    }
}

// Every section on its own.
template <Loss loss, Scale scale, int D>
void encode_sections(const EncodeJob& job) {
    constexpr int64_t kChunk = 128;  // points whose rows stay in cache while a section's codewords do
    const Codebook& codebook = job.codebook;
    const int64_t stride = codebook.sections * codebook.section_size;
    float* r = job.scratch;
    for (int64_t start = 0; start < job.n; start += kChunk) {
        const int64_t stop = start + kChunk < job.n ? start + kChunk : job.n;
        for (int64_t j = 0; j < codebook.sections; j++) {
            const SectionCodebook section = section_of(codebook, j);
            for (int64_t first = start; first < stop; first += kLanes) {
                gather<D>(job.points, job.n, stride, first, j, codebook.section_size, r);
                Floats ratio = broadcast(1.0f), slope = broadcast(0.0f);
                if constexpr (loss == Loss::section) {
                    ratio = gather_ratio(job.ratios, job.n, codebook.sections, first, j);
                    slope = divide_or_zero(broadcast(1.0f) - ratio, inner<D>(r, r, codebook.section_size));
                }
                put<scale>(job, first, j,
                           best_code<loss, scale, D>(section, r, r, ratio, slope, slope, job.by_distance));
            }
        }
    }
}

// <alpha c, u> of the chosen codewords, lane by lane.
template <int D>
inline Floats chosen_along(const SectionCodebook& codebook, const Best& best, const float* u) {
    const int64_t length = D > 0 ? D : codebook.size;
    int32_t codes[kLanes];
    float sums[kLanes];
    store(codes, best.code);
    for (int lane = 0; lane < kLanes; lane++) {
        const float* c = codebook.codewords + codes[lane] * length;
        float sum = 0.0f;
        for (int64_t t = 0; t < length; t++) sum += c[t] * u[t * kLanes + lane];
        sums[lane] = sum;
    }
    return best.alpha * load(sums);
}

// The sections together: start from the nearest codes, then improve one section at a time.
template <Scale scale, int D>
void encode_whole(const EncodeJob& job) {
    const Codebook& codebook = job.codebook;
    const int64_t m = codebook.sections, block = codebook.section_size * kLanes, stride = m * codebook.section_size;
    float* r = job.scratch;
    float* u = r + m * block;
    float* errors = u + m * block;         // (m, 8)  <e_j, u_j>
    float* targets = errors + m * kLanes;  // (m, 8)  <r_j, u_j>
    float* alphas = targets + m * kLanes;
    int32_t* chosen = reinterpret_cast<int32_t*>(alphas + m * kLanes);
    const Floats one = broadcast(1.0f), zero = broadcast(0.0f);
    for (int64_t first = 0; first < job.n; first += kLanes) {
        Floats length = zero, total = zero;
        for (int64_t j = 0; j < m; j++) {
            const SectionCodebook section = section_of(codebook, j);
            gather<D>(job.points, job.n, stride, first, j, codebook.section_size, r + j * block);
            gather<D>(job.directions, job.n, stride, first, j, codebook.section_size, u + j * block);
            const Best best =
                best_code<Loss::isotropic, scale, D>(section, r + j * block, nullptr, one, zero, zero, false);
            const Floats target = inner<D>(r + j * block, u + j * block, codebook.section_size);
            const Floats error = target - chosen_along<D>(section, best, u + j * block);
            length = length + inner<D>(u + j * block, u + j * block, codebook.section_size);
            total = total + error;
            store(targets + j * kLanes, target);
            store(errors + j * kLanes, error);
            store(alphas + j * kLanes, best.alpha);
            store(chosen + j * kLanes, best.code);
            put<scale>(job, first, j, best);
        }
        const Floats ratio = gather_ratio(job.ratios, job.n, 1, first, 0);
        const Floats slope = divide_or_zero(one - ratio, length);
        for (int sweep = 0; sweep < job.sweeps; sweep++) {
            bool changed = false;
            for (int64_t j = 0; j < m; j++) {
                const SectionCodebook section = section_of(codebook, j);
                const Floats others = total - load(errors + j * kLanes);
                const Floats target = load(targets + j * kLanes);
                const Best best = best_code<Loss::whole, scale, D>(section, r + j * block, u + j * block, ratio, slope,
                                                                   slope * (others + target), false);
                const Floats error = target - chosen_along<D>(section, best, u + j * block);
                total = others + error;
                int32_t codes[kLanes];
                float values[kLanes];
                store(codes, best.code);
                store(values, best.alpha);
                bool moved = false;
                for (int lane = 0; lane < kLanes; lane++) {
                    // An exact scale always moves a little; only a new codeword or a visible step counts.
                    const float step = values[lane] - alphas[j * kLanes + lane];
                    const float size = values[lane] < 0 ? -values[lane] : values[lane];
                    const bool stepped = step > 1e-3f * size || -step > 1e-3f * size;
                    moved = moved || stepped || codes[lane] != chosen[j * kLanes + lane];
                    chosen[j * kLanes + lane] = codes[lane];
                }
                changed = changed || moved;
                store(errors + j * kLanes, error);
                store(alphas + j * kLanes, best.alpha);
                put<scale>(job, first, j, best);
            }
            if (!changed) break;
        }
    }
}

// One scale for the whole vector and a sign for every section: codeword i with the other sign is i + k.
template <Loss loss, int D>
void encode_vector_scale(const EncodeJob& job) {
    const Codebook& codebook = job.codebook;
    const int64_t stride = codebook.sections * codebook.section_size, k = codebook.n_codewords, s = codebook.n_scales;
    float* r = job.scratch;
    float* w = r + 2 * stride * kLanes + 4 * codebook.sections * kLanes;  // (k, 8)
    float* q = w + k * kLanes;                                            // (k, 8)
    float* totals = q + k * kLanes;                                       // (s, 8)
    int32_t* choices = reinterpret_cast<int32_t*>(totals + s * kLanes);   // (m, s, 8)
    const Floats two = broadcast(2.0f);
    for (int64_t first = 0; first < job.n; first += kLanes) {
        for (int64_t l = 0; l < s; l++) store(totals + l * kLanes, broadcast(0.0f));
        for (int64_t j = 0; j < codebook.sections; j++) {
            const SectionCodebook section = section_of(codebook, j);
            gather<D>(job.points, job.n, stride, first, j, codebook.section_size, r);
            Floats ratio = broadcast(1.0f), slope = broadcast(0.0f);
            if constexpr (loss == Loss::section) {
                ratio = gather_ratio(job.ratios, job.n, codebook.sections, first, j);
                slope = divide_or_zero(broadcast(1.0f) - ratio, inner<D>(r, r, codebook.section_size));
            }
            for (int64_t i = 0; i < k; i++) {
                Floats along, wi, qi;
                dots<D, 1>(r, section.codewords + i * codebook.section_size, codebook.section_size, &along);
                parabola<loss>(along, along, section.norms[i], ratio, slope, slope, &wi, &qi);
                store(w + i * kLanes, wi);
                store(q + i * kLanes, qi);
            }
            for (int64_t l = 0; l < s; l++) {
                const Floats scale = broadcast(section.scales[l]);
                Floats least = broadcast(__builtin_inff());
                Ints choice = broadcast_int(0);
                for (int64_t i = 0; i < k; i++) {
                    const Floats step = scale * load(q + i * kLanes);
                    const Floats cost = scale * scale * load(w + i * kLanes) - two * magnitude(step);
                    const Ints better = less(cost, least);
                    const Ints negative = less(step, broadcast(0.0f));
                    const Ints code = choose(negative, broadcast_int(static_cast<int32_t>(i + k)),
                                             broadcast_int(static_cast<int32_t>(i)));
                    least = choose(better, cost, least);
                    choice = choose(better, code, choice);
                }
                store(totals + l * kLanes, load(totals + l * kLanes) + least);
                store(choices + (j * s + l) * kLanes, choice);
            }
        }
        Floats least = broadcast(__builtin_inff());
        Ints level = broadcast_int(0);
        for (int64_t l = 0; l < s; l++) {
            const Ints better = less(load(totals + l * kLanes), least);
            least = choose(better, load(totals + l * kLanes), least);
            level = choose(better, broadcast_int(static_cast<int32_t>(l)), level);
        }
        int32_t levels[kLanes];
        store(levels, level);
        const int64_t lanes = job.n - first < kLanes ? job.n - first : kLanes;
        for (int64_t lane = 0; lane < lanes; lane++) {
            job.scales[first + lane] = static_cast<uint8_t>(levels[lane]);
            for (int64_t j = 0; j < codebook.sections; j++)
                job.codes[(first + lane) * codebook.sections + j] =
                    static_cast<uint16_t>(choices[(j * s + levels[lane]) * kLanes + lane]);
        }
    }
}

template <Scale scale, int D>
void encode_with(const EncodeJob& job) {
    if (job.loss == Loss::whole) return encode_whole<scale, D>(job);
    if (job.loss == Loss::isotropic) return encode_sections<Loss::isotropic, scale, D>(job);
    return encode_sections<Loss::section, scale, D>(job);
}

template <int D>
void encode_sized(const EncodeJob& job) {
    switch (job.scale) {
        case Scale::none:
            return encode_with<Scale::none, D>(job);
        case Scale::exact:
            return encode_with<Scale::exact, D>(job);
        case Scale::quantized:
            return encode_with<Scale::quantized, D>(job);
        case Scale::vector:
            return job.loss == Loss::isotropic ? encode_vector_scale<Loss::isotropic, D>(job)
                                               : encode_vector_scale<Loss::section, D>(job);
    }
}

// Code for the usual section sizes, whose loops are unrolled, and for all others; a level without SIMD gains little by
// it.
void encode(const EncodeJob& job) {
    if constexpr (kUnrollSections) {
        if (job.codebook.section_size == 2) return encode_sized<2>(job);
        if (job.codebook.section_size == 4) return encode_sized<4>(job);
    }
    encode_sized<0>(job);
}

}  // namespace
}  // namespace pcpq
