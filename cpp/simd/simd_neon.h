// Eight float32 lanes, one point a lane, on NEON: two registers of four. The twin of simd_avx2.h, same names, same
// rounding: multiply and add stay separate, and the less of two is chosen by a comparison, since NEON's own minimum
// treats zeros and what is no number otherwise.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace {

constexpr int kLanes = 8;

struct Floats {
    float32x4_t low, high;
};
struct Ints {
    int32x4_t low, high;
};

inline Floats broadcast(float x) {
    return {vdupq_n_f32(x), vdupq_n_f32(x)};
}
inline Ints broadcast_int(int32_t x) {
    return {vdupq_n_s32(x), vdupq_n_s32(x)};
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

// a / b, and 0 where b is not positive: a zero center has no best scale.
inline float32x4_t divide_or_zero(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_u32(vandq_u32(vcgtzq_f32(b), vreinterpretq_u32_f32(vdivq_f32(a, b))));
}
inline Floats divide_or_zero(Floats a, Floats b) {
    return {divide_or_zero(a.low, b.low), divide_or_zero(a.high, b.high)};
}
inline Floats magnitude(Floats a) {
    return {vabsq_f32(a.low), vabsq_f32(a.high)};
}

// The second where neither is less, as AVX2 has it.
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

// Halves onto each other until one lane is left: of f(f(0, 4), f(2, 6)) and f(f(1, 5), f(3, 7)).
template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const float32x4_t four = f(a.low, a.high);
    const float32x4_t two = f(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(f(two, vdupq_laneq_f32(two, 1)), 0);
}
inline float sum_of_lanes(Floats a) {
    return fold_lanes(a, [](float32x4_t x, float32x4_t y) { return vaddq_f32(x, y); });
}
inline float least_lane(Floats a) {
    return fold_lanes(a, [](float32x4_t x, float32x4_t y) { return smaller(x, y); });
}
inline float greatest_lane(Floats a) {
    return fold_lanes(a, [](float32x4_t x, float32x4_t y) { return larger(x, y); });
}

inline Ints to_ints(Floats a) {
    return {vcvtnq_s32_f32(a.low), vcvtnq_s32_f32(a.high)};
}
inline Floats as_floats(Ints a) {
    return {vreinterpretq_f32_s32(a.low), vreinterpretq_f32_s32(a.high)};
}
inline int16x8_t to_words(Floats a) {
    const Ints ints = to_ints(a);
    return vqmovn_high_s32(vqmovn_s32(ints.low), ints.high);
}
// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    vst1q_u8(p, vqmovun_high_s16(vqmovun_s16(to_words(a)), to_words(b)));
}
// Eight numbers of at most 32,767 in size, rounded to the nearest.
inline void store_words(int16_t* p, Floats a) {
    vst1q_s16(p, to_words(a));
}

// a[2i] b[2i] + a[2i+1] b[2i+1] of 16 whole numbers each.
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

// All ones in the lanes where a < b.
inline Ints less(Floats a, Floats b) {
    return {vreinterpretq_s32_u32(vcltq_f32(a.low, b.low)), vreinterpretq_s32_u32(vcltq_f32(a.high, b.high))};
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return {vbslq_f32(vreinterpretq_u32_s32(mask.low), yes.low, no.low),
            vbslq_f32(vreinterpretq_u32_s32(mask.high), yes.high, no.high)};
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return {vbslq_s32(vreinterpretq_u32_s32(mask.low), yes.low, no.low),
            vbslq_s32(vreinterpretq_u32_s32(mask.high), yes.high, no.high)};
}

// table[index] one by one.
inline float32x4_t gather(const float* table, int32x4_t index) {
    const float found[4] = {table[vgetq_lane_s32(index, 0)], table[vgetq_lane_s32(index, 1)],
                            table[vgetq_lane_s32(index, 2)], table[vgetq_lane_s32(index, 3)]};
    return vld1q_f32(found);
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
// table[index] in every lane. The table has at least `count` rounded up to 8 readable entries.
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
    return {gather(table, index.low), gather(table, index.high)};
}

// How many of the ascending bounds lie below x, in every lane.
inline int32x4_t rank(const float* bounds, int count, float32x4_t x) {
    int32x4_t below = vdupq_n_s32(0);
    if (count <= 16) {
        for (int i = 0; i < count; i++)
            below = vsubq_s32(below, vreinterpretq_s32_u32(vcgtq_f32(x, vdupq_n_f32(bounds[i]))));
        return below;
    }
    // Branch-free binary search: `below` bounds are known to lie under x.
    for (int length = count; length > 0;) {
        const int half = (length + 1) / 2;
        const float32x4_t bound = gather(bounds, vaddq_s32(below, vdupq_n_s32(half - 1)));
        const int32x4_t over = vreinterpretq_s32_u32(vcgtq_f32(x, bound));
        below = vaddq_s32(below, vandq_s32(over, vdupq_n_s32(half)));
        length -= half;
    }
    return below;
}
inline Ints rank(const float* bounds, int count, Floats x) {
    return {rank(bounds, count, x.low), rank(bounds, count, x.high)};
}

}  // namespace
