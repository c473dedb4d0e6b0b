// 32 bytes or 16 words at a time on NEON, two registers of 16 bytes: the twin of bytes_avx2.h, same names, same
// answers.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace {

struct Bytes {
    uint8x16_t low, high;
};
struct Words {
    uint16x8_t low, high;
};

inline Bytes load_bytes(const uint8_t* p) {
    return {vld1q_u8(p), vld1q_u8(p + 16)};
}
inline Words load_words(const uint16_t* p) {
    return {vld1q_u16(p), vld1q_u16(p + 8)};
}
inline void store_words(uint16_t* p, Words a) {
    vst1q_u16(p, a.low);
    vst1q_u16(p + 8, a.high);
}
inline Words broadcast_word(uint16_t x) {
    return {vdupq_n_u16(x), vdupq_n_u16(x)};
}

inline Bytes low_nibbles(Bytes a) {
    return {vandq_u8(a.low, vdupq_n_u8(15)), vandq_u8(a.high, vdupq_n_u8(15))};
}
inline Bytes high_nibbles(Bytes a) {
    return {vshrq_n_u8(a.low, 4), vshrq_n_u8(a.high, 4)};
}
// table[index] for 32 indices under 16.
inline Bytes look_up(const uint8_t* table, Bytes index) {
    const uint8x16_t entries = vld1q_u8(table);
    return {vqtbl1q_u8(entries, index.low), vqtbl1q_u8(entries, index.high)};
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return {vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)};
}
inline Words as_words(Bytes a) {
    return {vreinterpretq_u16_u8(a.low), vreinterpretq_u16_u8(a.high)};
}
inline Bytes as_bytes(Words a) {
    return {vreinterpretq_u8_u16(a.low), vreinterpretq_u8_u16(a.high)};
}

inline Words operator+(Words a, Words b) {
    return {vaddq_u16(a.low, b.low), vaddq_u16(a.high, b.high)};
}
inline Words operator-(Words a, Words b) {
    return {vsubq_u16(a.low, b.low), vsubq_u16(a.high, b.high)};
}
// Keeps a sum in its registers: compilers load ahead and then spill what is added to all the time.
template <class Vector>
inline void hold(Vector& a) {
    asm volatile("" : "+w"(a.low), "+w"(a.high));
}
inline Words high_bytes(Words a) {
    return {vshrq_n_u16(a.low, 8), vshrq_n_u16(a.high, 8)};
}
inline Words times_256(Words a) {
    return {vshlq_n_u16(a.low, 8), vshlq_n_u16(a.high, 8)};
}

// Words 2i and 2i + 1 of the result are bytes i of a and of b; low: points 0-7 and 16-23, high: the others. Not
// interleaved before somebody asks for the bytes: a product has no use for that.
template <bool upper>
struct Interleaved {
    Bytes a, b;
    operator Bytes() const {
        if constexpr (upper) return {vzip2q_u8(a.low, b.low), vzip2q_u8(a.high, b.high)};
        return {vzip1q_u8(a.low, b.low), vzip1q_u8(a.high, b.high)};
    }
};
inline Interleaved<false> interleave_low(Bytes a, Bytes b) {
    return {a, b};
}
inline Interleaved<true> interleave_high(Bytes a, Bytes b) {
    return {a, b};
}

// even * b[2i] + odd * b[2i+1] of words and signed bytes; it fits a word, so it does not matter which of them are
// signed.
inline uint16x8_t multiply_pairs(uint16x8_t even, uint16x8_t odd, uint8x16_t b) {
    const int16x8_t words = vreinterpretq_s16_u8(b);
    const uint16x8_t first = vreinterpretq_u16_s16(vshrq_n_s16(vshlq_n_s16(words, 8), 8));
    return vmlaq_u16(vmulq_u16(even, first), odd, vreinterpretq_u16_s16(vshrq_n_s16(words, 8)));
}
// a[2i] b[2i] + a[2i+1] b[2i+1], a unsigned, b signed and at most 64 in size (the sum then fits a word).
inline uint16x8_t multiply_pairs(uint8x16_t a, uint8x16_t b) {
    const uint16x8_t words = vreinterpretq_u16_u8(a);
    return multiply_pairs(vandq_u16(words, vdupq_n_u16(255)), vshrq_n_u16(words, 8), b);
}
inline Words multiply_pairs(Bytes a, Bytes b) {
    return {multiply_pairs(a.low, b.low), multiply_pairs(a.high, b.high)};
}
template <bool upper>
inline uint16x8_t widened(uint8x16_t a) {
    return upper ? vmovl_high_u8(a) : vmovl_u8(vget_low_u8(a));
}
template <bool upper>
inline Words multiply_pairs(Interleaved<upper> a, Bytes b) {
    return {multiply_pairs(widened<upper>(a.a.low), widened<upper>(a.b.low), b.low),
            multiply_pairs(widened<upper>(a.a.high), widened<upper>(a.b.high), b.high)};
}

// All ones where a >= b, unsigned.
inline Words at_least(Words a, Words b) {
    return {vcgeq_u16(a.low, b.low), vcgeq_u16(a.high, b.high)};
}
// One bit a byte from masks.
inline uint32_t bits_of(uint8x16_t low, uint8x16_t high) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t sums = vpaddq_u8(vandq_u8(low, bit), vandq_u8(high, bit));
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}
// One bit a point from masks of the even and of the odd points.
inline uint32_t bits_of_even_odd(Words even, Words odd) {
    const uint16x8_t upper = vdupq_n_u16(0xff00);
    return bits_of(vreinterpretq_u8_u16(vbslq_u16(upper, odd.low, even.low)),
                   vreinterpretq_u8_u16(vbslq_u16(upper, odd.high, even.high)));
}
// One bit a point from masks in the order that interleaving leaves.
inline uint32_t bits_of_low_high(Words low, Words high) {
    const Bytes a = as_bytes(low), b = as_bytes(high);
    return bits_of(vuzp1q_u8(a.low, b.low), vuzp1q_u8(a.high, b.high));
}

// The same four bytes eight times.
inline Bytes repeat_four(const uint8_t* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const uint8x16_t repeated = vreinterpretq_u8_u32(vdupq_n_u32(four));
    return {repeated, repeated};
}
// Words 2i and 2i + 1 together, as signed numbers.
inline void store_pair_sums(int32_t* p, Words a) {
    const int16x8_t sums = vreinterpretq_s16_u16(vpaddq_u16(a.low, a.high));
    vst1q_s32(p, vmovl_s16(vget_low_s16(sums)));
    vst1q_s32(p + 4, vmovl_high_s16(sums));
}

// How many of n keys (a multiple of 8) are above x.
inline int64_t count_above(const int32_t* keys, int64_t n, int32_t x) {
    const int32x4_t bound = vdupq_n_s32(x);
    uint32x4_t even = vdupq_n_u32(0), odd = vdupq_n_u32(0);
    for (int64_t i = 0; i < n; i += 8) {
        even = vsubq_u32(even, vcgtq_s32(vld1q_s32(keys + i), bound));
        odd = vsubq_u32(odd, vcgtq_s32(vld1q_s32(keys + i + 4), bound));
    }
    return vaddvq_u32(vaddq_u32(even, odd));
}

// For every mask of four lanes, the bytes of those that it keeps, first ones first.
struct KeptLanes {
    alignas(16) uint8_t bytes[16][16];
    constexpr KeptLanes() : bytes() {
        for (int mask = 0; mask < 16; mask++)
            for (int lane = 0, place = 0; lane < 4; lane++)
                if (mask >> lane & 1)
                    for (int byte = 0; byte < 4; byte++, place++)
                        bytes[mask][place] = static_cast<uint8_t>(4 * lane + byte);
    }
};
constexpr KeptLanes kKeptLanes;

inline uint8x16_t kept_lanes(uint32x4_t stays, int64_t& count) {
    constexpr uint32_t bits[4] = {1, 2, 4, 8};
    const uint32_t mask = vaddvq_u32(vandq_u32(stays, vld1q_u32(bits)));
    count = __builtin_popcount(mask);
    return vld1q_u8(kKeptLanes.bytes[mask]);
}
inline void store_lanes(int32_t* p, int32x4_t values, uint8x16_t order) {
    vst1q_s32(p, vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(values), order)));
}

// The keys above `value` and their numbers; how many. Reads n rounded up to 8, where keys must not be above, and may
// write as many.
inline int64_t keep_above(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* numbers) {
    constexpr int32_t first[4] = {0, 1, 2, 3};
    const int32x4_t bound = vdupq_n_s32(value), four = vdupq_n_s32(4);
    int32x4_t number = vld1q_s32(first);
    int64_t kept = 0, some;
    for (int64_t i = 0; i < n; i += 4, kept += some) {
        const int32x4_t key = vld1q_s32(keys + i);
        const uint8x16_t order = kept_lanes(vcgtq_s32(key, bound), some);
        store_lanes(kept_keys + kept, key, order);
        store_lanes(numbers + kept, number, order);
        number = vaddq_s32(number, four);
    }
    return kept;
}

// Moves the pairs with a score above `value`, or at it and a row up to `last_row`, to the front; how many. Reads n
// rounded up to 8, where scores must be below `value`.
inline int64_t keep_pairs(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row) {
    const int32x4_t bound = vdupq_n_s32(value), last = vdupq_n_s32(last_row);
    int64_t kept = 0, some;
    for (int64_t i = 0; i < n; i += 4, kept += some) {
        const int32x4_t score = vld1q_s32(scores + i), row = vld1q_s32(rows + i);
        const uint32x4_t tied = vandq_u32(vceqq_s32(score, bound), vcleq_s32(row, last));
        const uint8x16_t order = kept_lanes(vorrq_u32(vcgtq_s32(score, bound), tied), some);
        store_lanes(scores + kept, score, order);
        store_lanes(rows + kept, row, order);
    }
    return kept;
}

}  // namespace
