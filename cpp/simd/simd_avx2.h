// Eight float32 lanes, one point a lane, on AVX2. simd_portable.h has the same names; both must round
// alike, so multiply and add stay separate (no FMA): every SIMD level gives the same bits.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

constexpr int kLanes = 8;

struct Floats {
    __m256 v;
};
struct Ints {
    __m256i v;
};

inline Floats broadcast(float x) {
    return {_mm256_set1_ps(x)};
}
inline Ints broadcast_int(int32_t x) {
    return {_mm256_set1_epi32(x)};
}
inline Floats load(const float* p) {
    return {_mm256_loadu_ps(p)};
}
inline Floats load(const int32_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Floats load(const int16_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline Floats load(const int8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
inline void store(float* p, Floats a) {
    _mm256_storeu_ps(p, a.v);
}
inline void store(int32_t* p, Ints a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}

inline Floats operator+(Floats a, Floats b) {
    return {_mm256_add_ps(a.v, b.v)};
}
inline Floats operator-(Floats a, Floats b) {
    return {_mm256_sub_ps(a.v, b.v)};
}
inline Floats operator*(Floats a, Floats b) {
    return {_mm256_mul_ps(a.v, b.v)};
}

// a / b, and 0 where b is not positive: a zero center has no best scale.
inline Floats divide_or_zero(Floats a, Floats b) {
    const __m256 positive = _mm256_cmp_ps(b.v, _mm256_setzero_ps(), _CMP_GT_OQ);
    return {_mm256_and_ps(positive, _mm256_div_ps(a.v, b.v))};
}
inline Floats magnitude(Floats a) {
    return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)};
}
inline Floats smaller(Floats a, Floats b) {
    return {_mm256_min_ps(a.v, b.v)};
}

inline Floats larger(Floats a, Floats b) {
    return {_mm256_max_ps(a.v, b.v)};
}

// Halves onto each other until one lane is left: of f(f(0, 4), f(2, 6)) and f(f(1, 5), f(3, 7)).
template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const __m128 four = f(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = f(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(f(two, _mm_movehdup_ps(two)));
}
inline float sum_of_lanes(Floats a) {
    return fold_lanes(a, [](__m128 x, __m128 y) { return _mm_add_ps(x, y); });
}
inline float least_lane(Floats a) {
    return fold_lanes(a, [](__m128 x, __m128 y) { return _mm_min_ps(x, y); });
}
inline float greatest_lane(Floats a) {
    return fold_lanes(a, [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
}

// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.v), _mm256_cvtps_epi32(b.v));  // 0-3 8-11 4-7 12-15
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
// Eight numbers of at most 32,767 in size, rounded to the nearest.
inline void store_words(int16_t* p, Floats a) {
    const __m256i ints = _mm256_cvtps_epi32(a.v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1)));
}

// a[2i] b[2i] + a[2i+1] b[2i+1] of 16 whole numbers each.
inline __m256i load_sixteen(const int16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline __m256i load_sixteen(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <class Integer>
inline Floats products_of_pairs(const Integer* a, const int16_t* b) {
    return {_mm256_cvtepi32_ps(_mm256_madd_epi16(load_sixteen(a), load_sixteen(b)))};
}

inline Ints to_ints(Floats a) {
    return {_mm256_cvtps_epi32(a.v)};
}
inline Floats as_floats(Ints a) {
    return {_mm256_castsi256_ps(a.v)};
}

// All ones in the lanes where a < b.
inline Ints less(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_castsi256_ps(mask.v))};
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return {_mm256_blendv_epi8(no.v, yes.v, mask.v)};
}

// table[index] in every lane. The table has at least `count` rounded up to 8 readable entries.
inline Floats look_up(const float* table, int count, Ints index) {
    if (count <= 8) return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index.v)};
    if (count <= 16) {
        const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index.v);
        const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index.v);
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index.v, 28));  // bit 3 to the sign
        return {_mm256_blendv_ps(low, high, upper)};
    }
    return {_mm256_i32gather_ps(table, index.v, 4)};
}

// How many of the ascending bounds lie below x, in every lane.
inline Ints rank(const float* bounds, int count, Floats x) {
    if (count <= 16) {
        __m256i below = _mm256_setzero_si256();
        for (int i = 0; i < count; i++) {
            const __m256 over = _mm256_cmp_ps(x.v, _mm256_broadcast_ss(bounds + i), _CMP_GT_OQ);
            below = _mm256_sub_epi32(below, _mm256_castps_si256(over));
        }
        return {below};
    }
    // Branch-free binary search: `below` bounds are known to lie under x.
    __m256i below = _mm256_setzero_si256();
    int length = count;
    while (length > 0) {
        const int half = (length + 1) / 2;
        const __m256i probe = _mm256_add_epi32(below, _mm256_set1_epi32(half - 1));
        const __m256 over = _mm256_cmp_ps(x.v, _mm256_i32gather_ps(bounds, probe, 4), _CMP_GT_OQ);
        below = _mm256_add_epi32(below, _mm256_and_si256(_mm256_castps_si256(over), _mm256_set1_epi32(half)));
        length -= half;
    }
    return {below};
}

}  // namespace
