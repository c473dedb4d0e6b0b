// What AVX-512 with VBMI adds to AVX2: tables of 64 bytes in one register, and 64 rows at once.
#pragma once

#include <immintrin.h>

#include <cstdint>

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

}  // namespace
