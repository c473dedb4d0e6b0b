// The operations that kernels are written in, on AVX2: 8 lanes of 32 bits, 16 of 16 bits or 32 of 8 bits. neon.h and
// portable.h have the same names. All three round alike, so multiply and add stay separate (no FMA): every SIMD level
// gives the same bits.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace {

constexpr int kLanes = 8;
constexpr bool kUnrollSections = true;

struct Floats {
    __m256 v;
};
struct Ints {
    __m256i v;
};
struct Shorts {
    __m256i v;
};
struct Bytes {
    __m256i v;
};

// Floats and ints: 8 lanes, one point per lane.

inline Floats broadcast(float x) {
    return {_mm256_set1_ps(x)};
}
inline Ints broadcast_int(int32_t x) {
    return {_mm256_set1_epi32(x)};
}
inline Ints load_ints(const int32_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline Ints load_ints(const int16_t* p) {
    return {_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Ints times_8192(Ints a) {
    return {_mm256_slli_epi32(a.v, 13)};
}
inline Floats load(const float* p) {
    return {_mm256_loadu_ps(p)};
}
inline Floats load(const int32_t* p) {
    return {_mm256_cvtepi32_ps(load_ints(p).v)};
}
inline Floats load(const int16_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline Floats load(const int8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
inline Floats convert_halves(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
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
inline Ints operator+(Ints a, Ints b) {
    return {_mm256_add_epi32(a.v, b.v)};
}
inline Ints operator-(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.v, b.v)};
}
inline Ints operator&(Ints a, Ints b) {
    return {_mm256_and_si256(a.v, b.v)};
}
inline Ints operator|(Ints a, Ints b) {
    return {_mm256_or_si256(a.v, b.v)};
}
inline Ints and_not(Ints a, Ints b) {
    return {_mm256_andnot_si256(b.v, a.v)};
}

// a / b, and 0 where b is not positive: a zero codeword has no best scale.
inline Floats divide_or_zero(Floats a, Floats b) {
    const __m256 positive = _mm256_cmp_ps(b.v, _mm256_setzero_ps(), _CMP_GT_OQ);
    return {_mm256_and_ps(positive, _mm256_div_ps(a.v, b.v))};
}
inline Floats magnitude(Floats a) {
    return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)};
}
// The second where neither is less.
inline Floats smaller(Floats a, Floats b) {
    return {_mm256_min_ps(a.v, b.v)};
}
inline Floats larger(Floats a, Floats b) {
    return {_mm256_max_ps(a.v, b.v)};
}

inline Ints to_ints(Floats a) {
    return {_mm256_cvtps_epi32(a.v)};
}
inline Floats as_floats(Ints a) {
    return {_mm256_castsi256_ps(a.v)};
}

// Masks: all ones in the lanes where it is so.
inline Ints less(Floats a, Floats b) {
    return {_mm256_castps_si256(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
inline Ints greater(Ints a, Ints b) {
    return {_mm256_cmpgt_epi32(a.v, b.v)};
}
inline Ints equal(Ints a, Ints b) {
    return {_mm256_cmpeq_epi32(a.v, b.v)};
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_castsi256_ps(mask.v))};
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return {_mm256_blendv_epi8(no.v, yes.v, mask.v)};
}

// Folds the halves onto each other until one lane is left: f of f(f(0, 4), f(2, 6)) and f(f(1, 5), f(3, 7)).
inline __m128 add(__m128 a, __m128 b) {
    return _mm_add_ps(a, b);
}
inline __m128 smaller(__m128 a, __m128 b) {
    return _mm_min_ps(a, b);
}
inline __m128 larger(__m128 a, __m128 b) {
    return _mm_max_ps(a, b);
}
template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const __m128 four = f(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = f(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(f(two, _mm_movehdup_ps(two)));
}
inline int32_t sum_of_lanes(Ints a) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0b01'00'11'10));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0b10'11'00'01));
    return _mm_cvtsi128_si32(four);
}

// table[index] in every lane.
inline Floats gather(const float* table, Ints index) {
    return {_mm256_i32gather_ps(table, index.v, 4)};
}
// table[index] of a table of `count` entries. It has at least `count` rounded up to 8 readable ones.
inline Floats look_up(const float* table, int count, Ints index) {
    if (count <= 8) return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index.v)};
    if (count <= 16) {
        const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index.v);
        const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), index.v);
        const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(index.v, 28));  // bit 3 to the sign
        return {_mm256_blendv_ps(low, high, upper)};
    }
    return gather(table, index);
}

// For every mask of 8 lanes, the lanes that it keeps in order: byte i of an entry is the i-th of them.
struct KeptLanesTable {
    uint64_t lanes[256];
    constexpr KeptLanesTable() : lanes() {
        for (int mask = 0; mask < 256; mask++)
            for (int lane = 0, place = 0; lane < 8; lane++)
                if (mask >> lane & 1) lanes[mask] |= uint64_t(lane) << (8 * place++);
    }
};
constexpr KeptLanesTable kKeptLanes;

// The lanes that a mask keeps, and how many. `store_kept` writes them side by side; it may write 8 lanes.
struct KeptLanes {
    __m256i order;
    int64_t count;
};
inline KeptLanes kept_lanes(Ints mask) {
    const int bits = _mm256_movemask_ps(_mm256_castsi256_ps(mask.v));
    return {_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kKeptLanes.lanes[bits]))),
            __builtin_popcount(static_cast<unsigned>(bits))};
}
inline void store_kept(int32_t* p, Ints values, KeptLanes kept) {
    store(p, Ints{_mm256_permutevar8x32_epi32(values.v, kept.order)});
}

// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    const __m256i shorts = _mm256_packs_epi32(_mm256_cvtps_epi32(a.v), _mm256_cvtps_epi32(b.v));  // 0-3 8-11 4-7 12-15
    const __m256i ordered = _mm256_permute4x64_epi64(shorts, 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}
// Eight numbers of at most 32,767 in size, rounded to the nearest.
inline void store_shorts(int16_t* p, Floats a) {
    const __m256i ints = _mm256_cvtps_epi32(a.v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1)));
}

// a[2i] b[2i] + a[2i+1] b[2i+1] of 16 integers each.
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

// Bytes and shorts: 32 lanes of 8 bits and 16 lanes of 16 bits, for the scan.

inline Bytes load_bytes(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline Bytes broadcast_byte(uint8_t x) {
    return {_mm256_set1_epi8(static_cast<int8_t>(x))};
}
inline Shorts load_shorts(const uint16_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
inline void store_shorts(uint16_t* p, Shorts a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v);
}
inline Shorts broadcast_short(uint16_t x) {
    return {_mm256_set1_epi16(static_cast<int16_t>(x))};
}

inline Bytes low_nibbles(Bytes a) {
    return {_mm256_and_si256(a.v, _mm256_set1_epi8(15))};
}
inline Bytes high_nibbles(Bytes a) {
    return {_mm256_and_si256(_mm256_srli_epi16(a.v, 4), _mm256_set1_epi8(15))};
}
// table[index] for 32 indices below 16.
inline Bytes look_up(const uint8_t* table, Bytes index) {
    const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), index.v)};
}
// Indices below 64 of a wide lookup table; the upper two bits of `codes` do not count. Bits 4 and 5 say which sixteen
// entries are meant.
struct WideIndex {
    __m256i low, bit4, bit5;
};
inline WideIndex wide_index(Bytes codes) {
    return {_mm256_and_si256(codes.v, _mm256_set1_epi8(15)), _mm256_slli_epi16(codes.v, 3),
            _mm256_slli_epi16(codes.v, 2)};
}
// table[index] for 32 indices below 64.
inline Bytes look_up(const uint8_t* table, const WideIndex& index) {
    const auto sixteen = [&](int first) { return look_up(table + first, Bytes{index.low}).v; };
    const __m256i lower = _mm256_blendv_epi8(sixteen(0), sixteen(16), index.bit4);
    const __m256i upper = _mm256_blendv_epi8(sixteen(32), sixteen(48), index.bit4);
    return {_mm256_blendv_epi8(lower, upper, index.bit5)};
}
// The codes in the upper two bits of three others.
inline Bytes fourth_codes(Bytes a, Bytes b, Bytes c) {
    const auto bits = [](__m256i x, int mask) {
        return _mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(mask)));
    };
    return {_mm256_or_si256(_mm256_or_si256(bits(_mm256_srli_epi16(a.v, 6), 3), bits(_mm256_srli_epi16(b.v, 4), 12)),
                            bits(_mm256_srli_epi16(c.v, 2), 48))};
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return {_mm256_add_epi8(a.v, b.v)};
}
inline Shorts as_shorts(Bytes a) {
    return {a.v};
}

inline Shorts operator+(Shorts a, Shorts b) {
    return {_mm256_add_epi16(a.v, b.v)};
}
inline Shorts operator-(Shorts a, Shorts b) {
    return {_mm256_sub_epi16(a.v, b.v)};
}
// Keeps a sum in its register: compilers load early, and then spill the sums.
template <class Vector>
inline void keep_in_register(Vector& a) {
    asm volatile("" : "+x"(a.v));
}
inline Shorts high_bytes(Shorts a) {
    return {_mm256_srli_epi16(a.v, 8)};
}
inline Shorts times_256(Shorts a) {
    return {_mm256_slli_epi16(a.v, 8)};
}

// a unsigned, b signed and at most 64 in size, so that sums of two products fit 16 bits.
// a[2i] b[2i] + a[2i+1] b[2i+1].
inline Shorts multiply_pairs(Bytes a, Bytes b) {
    return {_mm256_maddubs_epi16(a.v, b.v)};
}
// a[i] b[i] + c[i] d[i]; low: of rows 0-7 and 16-23, high: of the others.
inline Shorts multiply_and_add_low(Bytes a, Bytes b, Bytes c, Bytes d) {
    return {_mm256_maddubs_epi16(_mm256_unpacklo_epi8(a.v, c.v), _mm256_unpacklo_epi8(b.v, d.v))};
}
inline Shorts multiply_and_add_high(Bytes a, Bytes b, Bytes c, Bytes d) {
    return {_mm256_maddubs_epi16(_mm256_unpackhi_epi8(a.v, c.v), _mm256_unpackhi_epi8(b.v, d.v))};
}

// A mask: all ones where a >= b, unsigned.
inline Shorts at_least(Shorts a, Shorts b) {
    return {_mm256_cmpeq_epi16(_mm256_max_epu16(a.v, b.v), a.v)};
}
// One bit per row from masks of the even and of the odd rows.
inline uint32_t bits_of_even_odd(Shorts even, Shorts odd) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_blendv_epi8(even.v, odd.v, _mm256_set1_epi16(-256))));
}
// One bit per row from masks of rows 0-7 and 16-23, and of the others.
inline uint32_t bits_of_low_high(Shorts low, Shorts high) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(low.v, high.v)));
}

// Four bytes, repeated eight times.
inline Bytes repeat_four(const uint8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return {_mm256_set1_epi32(four)};
}
// The sums of shorts 2i and 2i + 1, as signed numbers.
inline void store_pair_sums(int32_t* p, Shorts a) {
    const __m256i together = _mm256_add_epi16(a.v, _mm256_slli_epi32(a.v, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_srai_epi32(together, 16));
}

}  // namespace
