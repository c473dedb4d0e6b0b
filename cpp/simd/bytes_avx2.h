// 32 bytes or 16 words at a time on AVX2: what the scan is written in. bytes_portable.h has the same names.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

struct Bytes {
    __m256i v;
};
struct Words {
    __m256i v;
};

inline Bytes load_bytes(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline Words load_words(const uint16_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline void store_words(uint16_t* p, Words a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
inline Words broadcast_word(uint16_t x) {
    return {_mm256_set1_epi16(static_cast<int16_t>(x))};
}

inline Bytes low_nibbles(Bytes a) {
    return {_mm256_and_si256(a.v, _mm256_set1_epi8(15))};
}
inline Bytes high_nibbles(Bytes a) {
    return {_mm256_and_si256(_mm256_srli_epi16(a.v, 4), _mm256_set1_epi8(15))};
}
// table[index] for 32 indices under 16.
inline Bytes look_up(const uint8_t* table, Bytes index) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), index.v)};
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return {_mm256_add_epi8(a.v, b.v)};
}
inline Words as_words(Bytes a) {
    return {a.v};
}
inline Bytes as_bytes(Words a) {
    return {a.v};
}

inline Words operator+(Words a, Words b) {
    return {_mm256_add_epi16(a.v, b.v)};
}
inline Words operator-(Words a, Words b) {
    return {_mm256_sub_epi16(a.v, b.v)};
}
// Keeps a sum in its register: compilers load ahead and then spill what is added to all the time.
template <class Vector>
inline void hold(Vector& a) {
    asm volatile("" : "+x"(a.v));
}
inline Words high_bytes(Words a) {
    return {_mm256_srli_epi16(a.v, 8)};
}
inline Words times_256(Words a) {
    return {_mm256_slli_epi16(a.v, 8)};
}

// Words 2i and 2i + 1 of the result are bytes i of a and of b; low: points 0-7 and 16-23, high: the others.
inline Bytes interleave_low(Bytes a, Bytes b) {
    return {_mm256_unpacklo_epi8(a.v, b.v)};
}
inline Bytes interleave_high(Bytes a, Bytes b) {
    return {_mm256_unpackhi_epi8(a.v, b.v)};
}
// a[2i] b[2i] + a[2i+1] b[2i+1], a unsigned, b signed and at most 64 in size (the sum then fits a word).
inline Words multiply_pairs(Bytes a, Bytes b) {
    return {_mm256_maddubs_epi16(a.v, b.v)};
}

// All ones where a >= b, unsigned.
inline Words at_least(Words a, Words b) {
    return {_mm256_cmpeq_epi16(_mm256_max_epu16(a.v, b.v), a.v)};
}
// One bit a point from masks of the even and of the odd points.
inline uint32_t bits_of_even_odd(Words even, Words odd) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_blendv_epi8(even.v, odd.v, _mm256_set1_epi16(-256))));
}
// One bit a point from masks in the order that interleaving leaves.
inline uint32_t bits_of_low_high(Words low, Words high) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(low.v, high.v)));
}

// The same four bytes eight times.
inline Bytes repeat_four(const uint8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return {_mm256_set1_epi32(four)};
}
// Words 2i and 2i + 1 together, as signed numbers.
inline void store_pair_sums(int32_t* p, Words a) {
    const __m256i together = _mm256_add_epi16(a.v, _mm256_slli_epi32(a.v, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_srai_epi32(together, 16));
}

// How many of n keys (a multiple of 8) are above x.
inline int64_t count_above(const int32_t* keys, int64_t n, int32_t x) {
    __m256i count = _mm256_setzero_si256();
    const __m256i bound = _mm256_set1_epi32(x);
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i += 8) {
        const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i));
        count = _mm256_sub_epi32(count, _mm256_cmpgt_epi32(some, bound));
    }
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(count), _mm256_extracti128_si256(count, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0b01'00'11'10));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0b10'11'00'01));
    return _mm_cvtsi128_si32(four);
}

// For every mask of eight lanes, the lanes that it keeps, first ones first: byte i of entry m is the i-th of them.
struct KeptLanes {
    uint64_t lanes[256];
    constexpr KeptLanes() : lanes() {
        for (int mask = 0; mask < 256; mask++)
            for (int lane = 0, place = 0; lane < 8; lane++)
                if (mask >> lane & 1) lanes[mask] |= uint64_t(lane) << (8 * place++);
    }
};
constexpr KeptLanes kKeptLanes;

inline __m256i kept_lanes(__m256i stays, int64_t& count) {
    const int mask = _mm256_movemask_ps(_mm256_castsi256_ps(stays));
    count = __builtin_popcount(static_cast<unsigned>(mask));
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kKeptLanes.lanes[mask])));
}
inline void store_lanes(int32_t* p, __m256i values, __m256i order) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(values, order));
}

// The keys above `value` and their numbers; how many. Reads n rounded up to 8, where keys must not be above, and may
// write as many.
inline int64_t keep_above(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* numbers) {
    const __m256i bound = _mm256_set1_epi32(value), eight = _mm256_set1_epi32(8);
    __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int64_t kept = 0, some;
    for (int64_t i = 0; i < n; i += 8, kept += some) {
        const __m256i key = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(keys + i));
        const __m256i order = kept_lanes(_mm256_cmpgt_epi32(key, bound), some);
        store_lanes(kept_keys + kept, key, order);
        store_lanes(numbers + kept, number, order);
        number = _mm256_add_epi32(number, eight);
    }
    return kept;
}

// Moves the pairs with a score above `value`, or at it and a row up to `last_row`, to the front; how many. Reads n
// rounded up to 8, where scores must be below `value`.
inline int64_t keep_pairs(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row) {
    const __m256i bound = _mm256_set1_epi32(value), last = _mm256_set1_epi32(last_row);
    int64_t kept = 0, some;
    for (int64_t i = 0; i < n; i += 8, kept += some) {
        const __m256i score = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scores + i));
        const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + i));
        const __m256i tied = _mm256_andnot_si256(_mm256_cmpgt_epi32(row, last), _mm256_cmpeq_epi32(score, bound));
        const __m256i order = kept_lanes(_mm256_or_si256(_mm256_cmpgt_epi32(score, bound), tied), some);
        store_lanes(scores + kept, score, order);
        store_lanes(rows + kept, row, order);
    }
    return kept;
}

}  // namespace
