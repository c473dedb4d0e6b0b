// 32 bytes or 16 words at a time in plain C++: the twin of bytes_avx2.h, same names, same answers.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

struct Bytes {
    uint8_t v[32];
};
struct Words {
    uint16_t v[16];
};

template <class Function>
inline Bytes each_byte(Function f) {
    Bytes out;
    for (int i = 0; i < 32; i++) out.v[i] = static_cast<uint8_t>(f(i));
    return out;
}
template <class Function>
inline Words each_word(Function f) {
    Words out;
    for (int i = 0; i < 16; i++) out.v[i] = static_cast<uint16_t>(f(i));
    return out;
}

inline Bytes load_bytes(const uint8_t* p) {
    Bytes out;
    std::memcpy(out.v, p, 32);
    return out;
}
inline Words load_words(const uint16_t* p) {
    Words out;
    std::memcpy(out.v, p, 32);
    return out;
}
inline void store_words(uint16_t* p, Words a) {
    std::memcpy(p, a.v, 32);
}
inline Words broadcast_word(uint16_t x) {
    return each_word([=](int) { return x; });
}

inline Bytes low_nibbles(Bytes a) {
    return each_byte([&](int i) { return a.v[i] & 15; });
}
inline Bytes high_nibbles(Bytes a) {
    return each_byte([&](int i) { return a.v[i] >> 4; });
}
inline Bytes look_up(const uint8_t* table, Bytes index) {
    return each_byte([&](int i) { return table[index.v[i]]; });
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return each_byte([&](int i) { return a.v[i] + b.v[i]; });
}
inline Words as_words(Bytes a) {
    return each_word([&](int i) { return a.v[2 * i] | a.v[2 * i + 1] << 8; });
}
inline Bytes as_bytes(Words a) {
    return each_byte([&](int i) { return i % 2 ? a.v[i / 2] >> 8 : a.v[i / 2] & 255; });
}

inline Words operator+(Words a, Words b) {
    return each_word([&](int i) { return a.v[i] + b.v[i]; });
}
inline Words operator-(Words a, Words b) {
    return each_word([&](int i) { return a.v[i] - b.v[i]; });
}
template <class Vector>
inline void hold(Vector&) {}
inline Words high_bytes(Words a) {
    return each_word([&](int i) { return a.v[i] >> 8; });
}
inline Words times_256(Words a) {
    return each_word([&](int i) { return a.v[i] << 8; });
}

// Points 0-7 and 16-23 are low, the others high, as the 128-bit halves of AVX2 have it.
inline Bytes interleave_low(Bytes a, Bytes b) {
    return each_byte([&](int i) { return (i % 2 ? b : a).v[i / 16 * 16 + i % 16 / 2]; });
}
inline Bytes interleave_high(Bytes a, Bytes b) {
    return each_byte([&](int i) { return (i % 2 ? b : a).v[i / 16 * 16 + 8 + i % 16 / 2]; });
}
inline Words multiply_pairs(Bytes a, Bytes b) {
    return each_word([&](int i) {
        return a.v[2 * i] * static_cast<int8_t>(b.v[2 * i]) + a.v[2 * i + 1] * static_cast<int8_t>(b.v[2 * i + 1]);
    });
}

inline Words at_least(Words a, Words b) {
    return each_word([&](int i) { return a.v[i] >= b.v[i] ? 0xffff : 0; });
}
inline uint32_t bits_of_even_odd(Words even, Words odd) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= uint32_t(even.v[i] & 1) << (2 * i) | uint32_t(odd.v[i] & 1) << (2 * i + 1);
    return bits;
}
inline uint32_t bits_of_low_high(Words low, Words high) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++) {
        const int point = i / 8 * 16 + i % 8;
        bits |= uint32_t(low.v[i] & 1) << point | uint32_t(high.v[i] & 1) << (point + 8);
    }
    return bits;
}

inline Bytes repeat_four(const uint8_t* p) {
    Bytes out;
    for (int i = 0; i < 32; i++) out.v[i] = p[i % 4];
    return out;
}
inline void store_pair_sums(int32_t* p, Words a) {
    for (int i = 0; i < 8; i++) p[i] = static_cast<int16_t>(static_cast<uint16_t>(a.v[2 * i] + a.v[2 * i + 1]));
}

inline int64_t count_above(const int32_t* keys, int64_t n, int32_t x) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += keys[i] > x;
    return count;
}

inline int64_t keep_above(const int32_t* keys, int64_t n, int32_t value, int32_t* kept_keys, int32_t* numbers) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        kept_keys[kept] = keys[i];
        numbers[kept] = static_cast<int32_t>(i);
        kept += keys[i] > value;
    }
    return kept;
}

inline int64_t keep_pairs(int32_t* scores, int32_t* rows, int64_t n, int32_t value, int32_t last_row) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool stays = scores[i] > value || (scores[i] == value && rows[i] <= last_row);
        scores[kept] = scores[i];
        rows[kept] = rows[i];
        kept += stays;
    }
    return kept;
}

}  // namespace
