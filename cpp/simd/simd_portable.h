// Eight float32 lanes in plain C++: the twin of simd_avx2.h and simd_neon.h for every other processor, same names,
// same rounding.
#pragma once

#include <cstdint>

namespace {

constexpr int kLanes = 8;

struct Floats {
    float v[kLanes];
};
struct Ints {
    int32_t v[kLanes];
};

template <class Function>
inline Floats each_float(Function f) {
    Floats out;
    for (int i = 0; i < kLanes; i++) out.v[i] = f(i);
    return out;
}
template <class Function>
inline Ints each_int(Function f) {
    Ints out;
    for (int i = 0; i < kLanes; i++) out.v[i] = f(i);
    return out;
}

inline Floats broadcast(float x) {
    return each_float([=](int) { return x; });
}
inline Ints broadcast_int(int32_t x) {
    return each_int([=](int) { return x; });
}
inline Floats load(const float* p) {
    return each_float([=](int i) { return p[i]; });
}
inline Floats load(const int32_t* p) {
    return each_float([=](int i) { return static_cast<float>(p[i]); });
}
inline Floats load(const int16_t* p) {
    return each_float([=](int i) { return static_cast<float>(p[i]); });
}
inline Floats load(const int8_t* p) {
    return each_float([=](int i) { return static_cast<float>(p[i]); });
}
inline void store(float* p, Floats a) {
    for (int i = 0; i < kLanes; i++) p[i] = a.v[i];
}
inline void store(int32_t* p, Ints a) {
    for (int i = 0; i < kLanes; i++) p[i] = a.v[i];
}

inline Floats operator+(Floats a, Floats b) {
    return each_float([&](int i) { return a.v[i] + b.v[i]; });
}
inline Floats operator-(Floats a, Floats b) {
    return each_float([&](int i) { return a.v[i] - b.v[i]; });
}
inline Floats operator*(Floats a, Floats b) {
    return each_float([&](int i) { return a.v[i] * b.v[i]; });
}

inline Floats divide_or_zero(Floats a, Floats b) {
    return each_float([&](int i) { return b.v[i] > 0.0f ? a.v[i] / b.v[i] : 0.0f; });
}
inline Floats magnitude(Floats a) {
    return each_float([&](int i) { return __builtin_fabsf(a.v[i]); });
}
inline Floats smaller(Floats a, Floats b) {
    return each_float([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

inline Floats larger(Floats a, Floats b) {
    return each_float([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const auto& v = a.v;
    return f(f(f(v[0], v[4]), f(v[2], v[6])), f(f(v[1], v[5]), f(v[3], v[7])));
}
inline float sum_of_lanes(Floats a) {
    return fold_lanes(a, [](float x, float y) { return x + y; });
}
inline float least_lane(Floats a) {
    return fold_lanes(a, [](float x, float y) { return x < y ? x : y; });
}
inline float greatest_lane(Floats a) {
    return fold_lanes(a, [](float x, float y) { return x > y ? x : y; });
}

inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    for (int i = 0; i < kLanes; i++) p[i] = static_cast<uint8_t>(__builtin_lrintf(a.v[i]));
    for (int i = 0; i < kLanes; i++) p[kLanes + i] = static_cast<uint8_t>(__builtin_lrintf(b.v[i]));
}
inline void store_words(int16_t* p, Floats a) {
    for (int i = 0; i < kLanes; i++) p[i] = static_cast<int16_t>(__builtin_lrintf(a.v[i]));
}

template <class Integer>
inline Floats products_of_pairs(const Integer* a, const int16_t* b) {
    // Four times -32,768, which only a file that lies brings, is 2^31: it wraps here as it does in SIMD.
    return each_float([&](int i) {
        const auto first = static_cast<uint32_t>(a[2 * i] * b[2 * i]);
        return static_cast<float>(static_cast<int32_t>(first + static_cast<uint32_t>(a[2 * i + 1] * b[2 * i + 1])));
    });
}

inline Ints to_ints(Floats a) {
    return each_int([&](int i) { return static_cast<int32_t>(__builtin_lrintf(a.v[i])); });
}
inline Floats as_floats(Ints a) {
    return each_float([&](int i) { return __builtin_bit_cast(float, a.v[i]); });
}

inline Ints less(Floats a, Floats b) {
    return each_int([&](int i) { return a.v[i] < b.v[i] ? -1 : 0; });
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return each_float([&](int i) { return mask.v[i] ? yes.v[i] : no.v[i]; });
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return each_int([&](int i) { return mask.v[i] ? yes.v[i] : no.v[i]; });
}

inline Floats look_up(const float* table, int, Ints index) {
    return each_float([&](int i) { return table[index.v[i]]; });
}

inline Ints rank(const float* bounds, int count, Floats x) {
    return each_int([&](int i) {
        int32_t below = 0;
        int length = count;
        while (length > 0) {
            const int half = (length + 1) / 2;
            if (x.v[i] > bounds[below + half - 1]) below += half;
            length -= half;
        }
        return below;
    });
}

}  // namespace
