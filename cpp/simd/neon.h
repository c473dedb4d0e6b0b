// The operations that kernels are written in, on NEON: two registers of 16 bytes for each vector of avx2.h, same names,
// same rounding. Multiply and add stay separate, and the smaller of two is chosen by a comparison, since NEON's own
// minimum treats zeros and NaN differently.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace {

constexpr int kLanes = 8;
constexpr bool kUnrollSections = true;

struct Floats {
    float32x4_t low, high;
};
struct Ints {
    int32x4_t low, high;
};
struct Shorts {
    uint16x8_t low, high;
};
struct Bytes {
    uint8x16_t low, high;
};

// Floats and ints: 8 lanes, one point per lane.

inline Floats broadcast(float x) {
    return {vdupq_n_f32(x), vdupq_n_f32(x)};
}
inline Ints broadcast_int(int32_t x) {
    return {vdupq_n_s32(x), vdupq_n_s32(x)};
}
inline Ints load_ints(const int32_t* p) {
    return {vld1q_s32(p), vld1q_s32(p + 4)};
}
inline Ints load_ints(const int16_t* p) {
    const int16x8_t a = vld1q_s16(p);
    return {vmovl_s16(vget_low_s16(a)), vmovl_high_s16(a)};
}
inline Ints times_8192(Ints a) {
    return {vshlq_n_s32(a.low, 13), vshlq_n_s32(a.high, 13)};
}
inline Floats load(const float* p) {
    return {vld1q_f32(p), vld1q_f32(p + 4)};
}
inline Floats load(const int32_t* p) {
    return {vcvtq_f32_s32(vld1q_s32(p)), vcvtq_f32_s32(vld1q_s32(p + 4))};
}
inline Floats floats_of(int16x8_t a) {
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_high_s16(a))};
}
inline Floats load(const int16_t* p) {
    return floats_of(vld1q_s16(p));
}
inline Floats load(const int8_t* p) {
    return floats_of(vmovl_s8(vld1_s8(p)));
}
inline void store(float* p, Floats a) {
    vst1q_f32(p, a.low);
    vst1q_f32(p + 4, a.high);
}
inline void store(int32_t* p, Ints a) {
    vst1q_s32(p, a.low);
    vst1q_s32(p + 4, a.high);
}

inline Floats operator+(Floats a, Floats b) {
    return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
inline Floats operator-(Floats a, Floats b) {
    return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
inline Floats operator*(Floats a, Floats b) {
    return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
inline Ints operator+(Ints a, Ints b) {
    return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)};
}
inline Ints operator-(Ints a, Ints b) {
    return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)};
}
inline Ints operator&(Ints a, Ints b) {
    return {vandq_s32(a.low, b.low), vandq_s32(a.high, b.high)};
}
inline Ints operator|(Ints a, Ints b) {
    return {vorrq_s32(a.low, b.low), vorrq_s32(a.high, b.high)};
}
inline Ints and_not(Ints a, Ints b) {
    return {vbicq_s32(a.low, b.low), vbicq_s32(a.high, b.high)};
}

// a / b, and 0 where b is not positive: a zero codeword has no best scale.
inline float32x4_t divide_or_zero(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_u32(vandq_u32(vcgtzq_f32(b), vreinterpretq_u32_f32(vdivq_f32(a, b))));
}
inline Floats divide_or_zero(Floats a, Floats b) {
    return {divide_or_zero(a.low, b.low), divide_or_zero(a.high, b.high)};
}
inline Floats magnitude(Floats a) {
    return {vabsq_f32(a.low), vabsq_f32(a.high)};
}

// The second where neither is less.
inline float32x4_t smaller(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
inline float32x4_t larger(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
inline Floats smaller(Floats a, Floats b) {
    return {smaller(a.low, b.low), smaller(a.high, b.high)};
}
inline Floats larger(Floats a, Floats b) {
    return {larger(a.low, b.low), larger(a.high, b.high)};
}

inline Ints to_ints(Floats a) {
    return {vcvtnq_s32_f32(a.low), vcvtnq_s32_f32(a.high)};
}
inline Floats as_floats(Ints a) {
    return {vreinterpretq_f32_s32(a.low), vreinterpretq_f32_s32(a.high)};
}

// Masks: all ones in the lanes where it is so.
inline Ints as_ints(uint32x4_t low, uint32x4_t high) {
    return {vreinterpretq_s32_u32(low), vreinterpretq_s32_u32(high)};
}
inline Ints less(Floats a, Floats b) {
    return as_ints(vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high));
}
inline Ints greater(Ints a, Ints b) {
    return as_ints(vcgtq_s32(a.low, b.low), vcgtq_s32(a.high, b.high));
}
inline Ints equal(Ints a, Ints b) {
    return as_ints(vceqq_s32(a.low, b.low), vceqq_s32(a.high, b.high));
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return {vbslq_f32(vreinterpretq_u32_s32(mask.low), yes.low, no.low),
            vbslq_f32(vreinterpretq_u32_s32(mask.high), yes.high, no.high)};
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return {vbslq_s32(vreinterpretq_u32_s32(mask.low), yes.low, no.low),
            vbslq_s32(vreinterpretq_u32_s32(mask.high), yes.high, no.high)};
}

// Folds the halves onto each other until one lane is left: f of f(f(0, 4), f(2, 6)) and f(f(1, 5), f(3, 7)).
inline float32x4_t add(float32x4_t a, float32x4_t b) {
    return vaddq_f32(a, b);
}
template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const float32x4_t four = f(a.low, a.high);
    const float32x4_t two = f(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(f(two, vdupq_laneq_f32(two, 1)), 0);
}
inline int32_t sum_of_lanes(Ints a) {
    return vaddvq_s32(vaddq_s32(a.low, a.high));
}

// table[index] in every lane.
inline float32x4_t gather(const float* table, int32x4_t index) {
    const float found[4] = {table[vgetq_lane_s32(index, 0)], table[vgetq_lane_s32(index, 1)],
                            table[vgetq_lane_s32(index, 2)], table[vgetq_lane_s32(index, 3)]};
    return vld1q_f32(found);
}
inline Floats gather(const float* table, Ints index) {
    return {gather(table, index.low), gather(table, index.high)};
}

// Where the four bytes of table[index] lie.
inline uint8x16_t byte_places(int32x4_t index) {
    return vreinterpretq_u8_u32(
        vmlaq_u32(vdupq_n_u32(0x03020100), vreinterpretq_u32_s32(index), vdupq_n_u32(0x04040404)));
}
inline float32x4_t look_up(uint8x16x2_t table, int32x4_t index) {
    return vreinterpretq_f32_u8(vqtbl2q_u8(table, byte_places(index)));
}
inline float32x4_t look_up(uint8x16x4_t table, int32x4_t index) {
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, byte_places(index)));
}
// table[index] of a table of `count` entries. It has at least `count` rounded up to 8 readable ones.
inline Floats look_up(const float* table, int count, Ints index) {
    const auto four = [=](int i) { return vreinterpretq_u8_f32(vld1q_f32(table + 4 * i)); };
    if (count <= 8) {
        const uint8x16x2_t entries = {{four(0), four(1)}};
        return {look_up(entries, index.low), look_up(entries, index.high)};
    }
    if (count <= 16) {
        const uint8x16x4_t entries = {{four(0), four(1), four(2), four(3)}};
        return {look_up(entries, index.low), look_up(entries, index.high)};
    }
    return gather(table, index);
}

// For every mask of 4 lanes, the bytes of the lanes that it keeps, in order.
struct KeptLanesTable {
    alignas(16) uint8_t bytes[16][16];
    constexpr KeptLanesTable() : bytes() {
        for (int mask = 0; mask < 16; mask++)
            for (int lane = 0, place = 0; lane < 4; lane++)
                if (mask >> lane & 1)
                    for (int byte = 0; byte < 4; byte++, place++)
                        bytes[mask][place] = static_cast<uint8_t>(4 * lane + byte);
    }
};
constexpr KeptLanesTable kKeptLanes;

// The lanes that a mask keeps, and how many. `store_kept` writes them side by side; it may write 8 lanes.
struct KeptLanes {
    uint8x16_t low, high;
    int64_t low_count, count;
};
inline KeptLanes kept_lanes(Ints mask) {
    constexpr int32_t lane_bits[4] = {1, 2, 4, 8};
    const int32x4_t bits = vld1q_s32(lane_bits);
    const auto low = static_cast<uint32_t>(vaddvq_s32(vandq_s32(mask.low, bits)));
    const auto high = static_cast<uint32_t>(vaddvq_s32(vandq_s32(mask.high, bits)));
    const int64_t low_count = __builtin_popcount(low);
    return {vld1q_u8(kKeptLanes.bytes[low]), vld1q_u8(kKeptLanes.bytes[high]), low_count,
            low_count + __builtin_popcount(high)};
}
inline void store_kept(int32_t* p, Ints values, KeptLanes kept) {
    const auto ordered = [](int32x4_t four, uint8x16_t order) {
        return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(four), order));
    };
    vst1q_s32(p, ordered(values.low, kept.low));
    vst1q_s32(p + kept.low_count, ordered(values.high, kept.high));
}

inline int16x8_t to_shorts(Floats a) {
    const Ints ints = to_ints(a);
    return vqmovn_high_s32(vqmovn_s32(ints.low), ints.high);
}
// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    vst1q_u8(p, vqmovun_high_s16(vqmovun_s16(to_shorts(a)), to_shorts(b)));
}
// Eight numbers of at most 32,767 in size, rounded to the nearest.
inline void store_shorts(int16_t* p, Floats a) {
    vst1q_s16(p, to_shorts(a));
}

// a[2i] b[2i] + a[2i+1] b[2i+1] of 16 integers each.
inline int16x8_t load_eight(const int16_t* p) {
    return vld1q_s16(p);
}
inline int16x8_t load_eight(const int8_t* p) {
    return vmovl_s8(vld1_s8(p));
}
template <class Integer>
inline float32x4_t products_of_four_pairs(const Integer* a, const int16_t* b) {
    const int16x8_t x = load_eight(a), y = load_eight(b);
    return vcvtq_f32_s32(vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
template <class Integer>
inline Floats products_of_pairs(const Integer* a, const int16_t* b) {
    return {products_of_four_pairs(a, b), products_of_four_pairs(a + 8, b + 8)};
}

// Bytes and shorts: 32 lanes of 8 bits and 16 lanes of 16 bits, for the scan.

inline Bytes load_bytes(const uint8_t* p) {
    return {vld1q_u8(p), vld1q_u8(p + 16)};
}
inline Bytes broadcast_byte(uint8_t x) {
    return {vdupq_n_u8(x), vdupq_n_u8(x)};
}
inline Shorts load_shorts(const uint16_t* p) {
    return {vld1q_u16(p), vld1q_u16(p + 8)};
}
inline void store_shorts(uint16_t* p, Shorts a) {
    vst1q_u16(p, a.low);
    vst1q_u16(p + 8, a.high);
}
inline Shorts broadcast_short(uint16_t x) {
    return {vdupq_n_u16(x), vdupq_n_u16(x)};
}

inline Bytes low_nibbles(Bytes a) {
    return {vandq_u8(a.low, vdupq_n_u8(15)), vandq_u8(a.high, vdupq_n_u8(15))};
}
inline Bytes high_nibbles(Bytes a) {
    return {vshrq_n_u8(a.low, 4), vshrq_n_u8(a.high, 4)};
}
// table[index] for 32 indices below 16.
inline Bytes look_up(const uint8_t* table, Bytes index) {
    const uint8x16_t entries = vld1q_u8(table);
    return {vqtbl1q_u8(entries, index.low), vqtbl1q_u8(entries, index.high)};
}
// Indices below 64 of a wide lookup table; the upper two bits of `codes` do not count.
struct WideIndex {
    uint8x16_t low, high;
};
inline WideIndex wide_index(Bytes codes) {
    return {vandq_u8(codes.low, vdupq_n_u8(63)), vandq_u8(codes.high, vdupq_n_u8(63))};
}
// table[index] for 32 indices below 64.
inline Bytes look_up(const uint8_t* table, const WideIndex& index) {
    const uint8x16x4_t entries = {{vld1q_u8(table), vld1q_u8(table + 16), vld1q_u8(table + 32), vld1q_u8(table + 48)}};
    return {vqtbl4q_u8(entries, index.low), vqtbl4q_u8(entries, index.high)};
}
// The codes in the upper two bits of three others.
inline uint8x16_t fourth_codes(uint8x16_t a, uint8x16_t b, uint8x16_t c) {
    return vorrq_u8(vorrq_u8(vshrq_n_u8(a, 6), vandq_u8(vshrq_n_u8(b, 4), vdupq_n_u8(12))),
                    vandq_u8(vshrq_n_u8(c, 2), vdupq_n_u8(48)));
}
inline Bytes fourth_codes(Bytes a, Bytes b, Bytes c) {
    return {fourth_codes(a.low, b.low, c.low), fourth_codes(a.high, b.high, c.high)};
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return {vaddq_u8(a.low, b.low), vaddq_u8(a.high, b.high)};
}
inline Shorts as_shorts(Bytes a) {
    return {vreinterpretq_u16_u8(a.low), vreinterpretq_u16_u8(a.high)};
}

inline Shorts operator+(Shorts a, Shorts b) {
    return {vaddq_u16(a.low, b.low), vaddq_u16(a.high, b.high)};
}
inline Shorts operator-(Shorts a, Shorts b) {
    return {vsubq_u16(a.low, b.low), vsubq_u16(a.high, b.high)};
}
// Keeps a sum in its registers: compilers load early, and then spill the sums.
template <class Vector>
inline void keep_in_register(Vector& a) {
    asm volatile("" : "+w"(a.low), "+w"(a.high));
}
inline Shorts high_bytes(Shorts a) {
    return {vshrq_n_u16(a.low, 8), vshrq_n_u16(a.high, 8)};
}
inline Shorts times_256(Shorts a) {
    return {vshlq_n_u16(a.low, 8), vshlq_n_u16(a.high, 8)};
}

// a unsigned, b signed and at most 64 in size, so that sums of two products fit 16 bits; signed and unsigned products
// do not differ there.
// a[2i] b[2i] + a[2i+1] b[2i+1].
inline uint16x8_t multiply_pairs(uint8x16_t a, uint8x16_t b) {
    const uint16x8_t x = vreinterpretq_u16_u8(a);
    const int16x8_t y = vreinterpretq_s16_u8(b);
    const uint16x8_t even = vreinterpretq_u16_s16(vshrq_n_s16(vshlq_n_s16(y, 8), 8));
    const uint16x8_t odd = vreinterpretq_u16_s16(vshrq_n_s16(y, 8));
    return vmlaq_u16(vmulq_u16(vandq_u16(x, vdupq_n_u16(255)), even), vshrq_n_u16(x, 8), odd);
}
inline Shorts multiply_pairs(Bytes a, Bytes b) {
    return {multiply_pairs(a.low, b.low), multiply_pairs(a.high, b.high)};
}
// a[i] b[i] + c[i] d[i]; low: of rows 0-7 and 16-23, high: of the others.
inline uint16x8_t multiply_and_add(uint16x8_t a, int16x8_t b, uint16x8_t c, int16x8_t d) {
    return vmlaq_u16(vmulq_u16(a, vreinterpretq_u16_s16(b)), c, vreinterpretq_u16_s16(d));
}
inline Shorts multiply_and_add_low(Bytes a, Bytes b, Bytes c, Bytes d) {
    const auto bytes = [](uint8x16_t x) { return vmovl_u8(vget_low_u8(x)); };
    const auto signed_bytes = [](uint8x16_t x) { return vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(x))); };
    return {multiply_and_add(bytes(a.low), signed_bytes(b.low), bytes(c.low), signed_bytes(d.low)),
            multiply_and_add(bytes(a.high), signed_bytes(b.high), bytes(c.high), signed_bytes(d.high))};
}
inline Shorts multiply_and_add_high(Bytes a, Bytes b, Bytes c, Bytes d) {
    const auto bytes = [](uint8x16_t x) { return vmovl_high_u8(x); };
    const auto signed_bytes = [](uint8x16_t x) { return vmovl_high_s8(vreinterpretq_s8_u8(x)); };
    return {multiply_and_add(bytes(a.low), signed_bytes(b.low), bytes(c.low), signed_bytes(d.low)),
            multiply_and_add(bytes(a.high), signed_bytes(b.high), bytes(c.high), signed_bytes(d.high))};
}

// A mask: all ones where a >= b, unsigned.
inline Shorts at_least(Shorts a, Shorts b) {
    return {vcgeq_u16(a.low, b.low), vcgeq_u16(a.high, b.high)};
}
// One bit per byte from masks.
inline uint32_t bits_of(uint8x16_t low, uint8x16_t high) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t sums = vpaddq_u8(vandq_u8(low, bit), vandq_u8(high, bit));
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
}
// One bit per row from masks of the even and of the odd rows.
inline uint32_t bits_of_even_odd(Shorts even, Shorts odd) {
    const uint16x8_t upper = vdupq_n_u16(0xff00);
    return bits_of(vreinterpretq_u8_u16(vbslq_u16(upper, odd.low, even.low)),
                   vreinterpretq_u8_u16(vbslq_u16(upper, odd.high, even.high)));
}
// One bit per row from masks of rows 0-7 and 16-23, and of the others.
inline uint32_t bits_of_low_high(Shorts low, Shorts high) {
    const auto bytes = [](uint16x8_t a, uint16x8_t b) {
        return vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
    };
    return bits_of(bytes(low.low, high.low), bytes(low.high, high.high));
}

// Four bytes, repeated eight times.
inline Bytes repeat_four(const uint8_t* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const uint8x16_t repeated = vreinterpretq_u8_u32(vdupq_n_u32(four));
    return {repeated, repeated};
}
// The sums of shorts 2i and 2i + 1, as signed numbers.
inline void store_pair_sums(int32_t* p, Shorts a) {
    const int16x8_t sums = vreinterpretq_s16_u16(vpaddq_u16(a.low, a.high));
    vst1q_s32(p, vmovl_s16(vget_low_s16(sums)));
    vst1q_s32(p + 4, vmovl_high_s16(sums));
}

}  // namespace
