// What AVX-512 with VBMI and VNNI adds to AVX2: tables of 64 bytes in one register and 64 rows at once, and sums of
// four products.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "simd/avx2.h"

namespace {

struct WideBytes {
    __m512i v;
};
// 32 sums of 16 bits.
struct WideShorts {
    __m512i v;
};

inline WideBytes load_wide(const uint8_t* p) {
    return {_mm512_loadu_si512(p)};
}
inline WideShorts zero_wide() {
    return {_mm512_setzero_si512()};
}
// table[index] for 64 indices below 64; their upper two bits do not count.
inline WideBytes look_up(const uint8_t* table, WideBytes index) {
    // With a mask of all rows: GCC 12 warns of the form without one.
    return {_mm512_maskz_permutexvar_epi8(~__mmask64{0}, index.v, _mm512_loadu_si512(table))};
}
// The codes in the upper two bits of three others; the upper two bits of the result do not count.
inline WideBytes fourth_codes(WideBytes a, WideBytes b, WideBytes c) {
    constexpr int kChoose = 0xca;  // where the first has ones, the second, elsewhere the third
    const __m512i two =
        _mm512_ternarylogic_epi64(_mm512_set1_epi8(12), _mm512_srli_epi16(b.v, 4), _mm512_srli_epi16(a.v, 6), kChoose);
    return {_mm512_ternarylogic_epi64(_mm512_set1_epi8(48), _mm512_srli_epi16(c.v, 2), two, kChoose)};
}
inline WideBytes add_bytes(WideBytes a, WideBytes b) {
    return {_mm512_add_epi8(a.v, b.v)};
}
inline WideShorts as_shorts(WideBytes a) {
    return {a.v};
}
inline WideShorts operator+(WideShorts a, WideShorts b) {
    return {_mm512_add_epi16(a.v, b.v)};
}
inline WideShorts operator-(WideShorts a, WideShorts b) {
    return {_mm512_sub_epi16(a.v, b.v)};
}
inline WideShorts high_bytes(WideShorts a) {
    return {_mm512_srli_epi16(a.v, 8)};
}
inline WideShorts times_256(WideShorts a) {
    return {_mm512_slli_epi16(a.v, 8)};
}
inline void store_shorts(uint16_t* p, WideShorts a) {
    _mm512_storeu_si512(p, a.v);
}
// One bit per row where sums of the even and of the odd rows reach a limit.
inline uint64_t bits_reaching(WideShorts even, WideShorts odd, uint16_t limit) {
    const __m512i least = _mm512_set1_epi16(static_cast<int16_t>(limit));
    const uint64_t of_even = _mm512_cmpge_epu16_mask(even.v, least), of_odd = _mm512_cmpge_epu16_mask(odd.v, least);
    return _pdep_u64(of_even, 0x5555555555555555) | _pdep_u64(of_odd, 0xaaaaaaaaaaaaaaaa);
}

// 16 floats.
struct WideFloats {
    __m512 v;
};
constexpr int kWideLanes = 16;

inline WideFloats load_wide_floats(const float* p) {
    return {_mm512_loadu_ps(p)};
}
inline WideFloats broadcast_wide_floats(float x) {
    return {_mm512_set1_ps(x)};
}
inline void store(float* p, WideFloats a) {
    _mm512_storeu_ps(p, a.v);
}
inline WideFloats operator+(WideFloats a, WideFloats b) {
    return {_mm512_add_ps(a.v, b.v)};
}
inline WideFloats operator-(WideFloats a, WideFloats b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
inline WideFloats operator*(WideFloats a, WideFloats b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
// With a mask of all lanes: GCC 12 warns of the forms without one.
inline WideFloats smaller(WideFloats a, WideFloats b) {
    return {_mm512_maskz_min_ps(~__mmask16{0}, a.v, b.v)};
}
inline WideFloats larger(WideFloats a, WideFloats b) {
    return {_mm512_maskz_max_ps(~__mmask16{0}, a.v, b.v)};
}
// Two numbers for every lane and its neighbour of the other half.
template <class Function>
inline Floats fold_halves(WideFloats a, Function f) {
    __m256 halves[2];  // copied: GCC 12 warns of what takes them out of a register
    __builtin_memcpy(halves, &a.v, sizeof halves);
    return f(Floats{halves[0]}, Floats{halves[1]});
}
// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_sixteen_bytes(uint8_t* p, const WideFloats* a) {
    const __m512i ints = _mm512_max_epi32(_mm512_cvtps_epi32(a->v), _mm512_setzero_si512());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(ints));
}

// 16 sums of 32 bits.
struct WideInts {
    __m512i v;
};

inline WideInts zero_wide_ints() {
    return {_mm512_setzero_si512()};
}
// 32 bytes, and zeros.
inline WideBytes load_half(const uint8_t* p) {
    return {_mm512_maskz_loadu_epi32(0x00ff, p)};
}
// Four bytes, repeated eight times, and the next four.
inline WideBytes repeat_two_fours(const uint8_t* p) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i fours = _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_maskz_permutexvar_epi32(__mmask16(~0), places, fours)};
}
// sum[i] + a[4i] b[4i] + ... + a[4i+3] b[4i+3], a unsigned, b signed.
inline WideInts add_products_of_fours(WideInts sum, WideBytes a, WideBytes b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "vm"(b.v));  // GCC 12 copies the sum before and after
    return sum;
}
// The sums of ints i and i + 8 with shorts 2i and 2i + 1 of others, as signed numbers of 16 bits: more are cut off.
inline void store_short_sums(int32_t* p, WideInts a, Shorts b) {
    __m256i halves[2];  // copied: GCC 12 warns of what takes them out of a register
    __builtin_memcpy(halves, &a.v, sizeof halves);
    const __m256i ints = _mm256_add_epi32(halves[0], halves[1]);
    store_pair_sums(p, {_mm256_add_epi16(b.v, _mm256_slli_epi32(ints, 16))});
}

}  // namespace
