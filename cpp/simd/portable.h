// The operations that kernels are written in, for any processor: vectors of GCC and Clang, which become whatever
// instructions there are. Two of 16 bytes for each vector of avx2.h, same names, same rounding.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace {

static_assert(std::endian::native == std::endian::little, "bytes are read as 16-bit integers, the low byte first");

constexpr int kLanes = 8;
constexpr bool kUnrollSections = false;

typedef float FourFloats __attribute__((vector_size(16)));
typedef int32_t FourInts __attribute__((vector_size(16)));
typedef uint16_t EightShorts __attribute__((vector_size(16)));
typedef int16_t EightSignedShorts __attribute__((vector_size(16)));
typedef uint8_t SixteenBytes __attribute__((vector_size(16)));
typedef uint8_t EightBytes __attribute__((vector_size(8)));
typedef int8_t EightSignedBytes __attribute__((vector_size(8)));

struct Floats {
    FourFloats low, high;
};
struct Ints {
    FourInts low, high;
};
struct Shorts {
    EightShorts low, high;
};
struct Bytes {
    SixteenBytes low, high;
};

// What is in memory, as a vector or a pair of them; and back.
template <class Vector>
inline Vector read_vector(const void* p) {
    Vector out;
    std::memcpy(&out, p, sizeof out);
    return out;
}
template <class Vector>
inline void write_vector(void* p, const Vector& a) {
    std::memcpy(p, &a, sizeof a);
}

// Floats and ints: 8 lanes, one point per lane.

template <class Function>
inline Floats each_float(Function f) {
    return {FourFloats{f(0), f(1), f(2), f(3)}, FourFloats{f(4), f(5), f(6), f(7)}};
}
template <class Function>
inline Ints each_int(Function f) {
    return {FourInts{f(0), f(1), f(2), f(3)}, FourInts{f(4), f(5), f(6), f(7)}};
}
inline float lane_of(Floats a, int i) {
    return i < 4 ? a.low[i] : a.high[i - 4];
}
inline int32_t lane_of(Ints a, int i) {
    return i < 4 ? a.low[i] : a.high[i - 4];
}

inline Floats broadcast(float x) {
    return {FourFloats{x, x, x, x}, FourFloats{x, x, x, x}};
}
inline Ints broadcast_int(int32_t x) {
    return {FourInts{x, x, x, x}, FourInts{x, x, x, x}};
}
inline Ints load_ints(const int32_t* p) {
    return read_vector<Ints>(p);
}
inline Ints load_ints(const int16_t* p) {
    return each_int([=](int i) { return int32_t{p[i]}; });
}
inline Ints times_8192(Ints a) {
    return {a.low << 13, a.high << 13};
}
inline Floats load(const float* p) {
    return read_vector<Floats>(p);
}
inline Floats load(const int32_t* p) {
    const Ints a = load_ints(p);
    return {__builtin_convertvector(a.low, FourFloats), __builtin_convertvector(a.high, FourFloats)};
}
inline Floats load(const int16_t* p) {
    return each_float([=](int i) { return static_cast<float>(p[i]); });
}
inline Floats load(const int8_t* p) {
    return each_float([=](int i) { return static_cast<float>(p[i]); });
}
inline void store(float* p, Floats a) {
    write_vector(p, a);
}
inline void store(int32_t* p, Ints a) {
    write_vector(p, a);
}

inline Floats operator+(Floats a, Floats b) {
    return {a.low + b.low, a.high + b.high};
}
inline Floats operator-(Floats a, Floats b) {
    return {a.low - b.low, a.high - b.high};
}
inline Floats operator*(Floats a, Floats b) {
    return {a.low * b.low, a.high * b.high};
}
inline Ints operator+(Ints a, Ints b) {
    return {a.low + b.low, a.high + b.high};
}
inline Ints operator-(Ints a, Ints b) {
    return {a.low - b.low, a.high - b.high};
}
inline Ints operator&(Ints a, Ints b) {
    return {a.low & b.low, a.high & b.high};
}
inline Ints operator|(Ints a, Ints b) {
    return {a.low | b.low, a.high | b.high};
}
inline Ints and_not(Ints a, Ints b) {
    return {a.low & ~b.low, a.high & ~b.high};
}

inline Ints as_ints(Floats a) {
    return {(FourInts)a.low, (FourInts)a.high};
}
inline Floats as_floats(Ints a) {
    return {(FourFloats)a.low, (FourFloats)a.high};
}
inline Ints to_ints(Floats a) {
    return each_int([=](int i) { return static_cast<int32_t>(__builtin_lrintf(lane_of(a, i))); });
}

// Masks: all ones in the lanes where it is so.
inline Ints less(Floats a, Floats b) {
    return {a.low < b.low, a.high < b.high};
}
inline Ints greater(Ints a, Ints b) {
    return {a.low > b.low, a.high > b.high};
}
inline Ints equal(Ints a, Ints b) {
    return {a.low == b.low, a.high == b.high};
}
inline Ints choose(Ints mask, Ints yes, Ints no) {
    return {(mask.low & yes.low) | (~mask.low & no.low), (mask.high & yes.high) | (~mask.high & no.high)};
}
inline Floats choose(Ints mask, Floats yes, Floats no) {
    return as_floats(choose(mask, as_ints(yes), as_ints(no)));
}

// a / b, and 0 where b is not positive: a zero codeword has no best scale.
inline Floats divide_or_zero(Floats a, Floats b) {
    return as_floats(less(broadcast(0.0f), b) & as_ints({a.low / b.low, a.high / b.high}));
}
inline Floats magnitude(Floats a) {
    return as_floats(as_ints(a) & broadcast_int(INT32_MAX));
}
// The second where neither is less.
inline Floats smaller(Floats a, Floats b) {
    return choose(less(a, b), a, b);
}
inline Floats larger(Floats a, Floats b) {
    return choose(less(b, a), a, b);
}

// Folds the halves onto each other until one lane is left: f of f(f(0, 4), f(2, 6)) and f(f(1, 5), f(3, 7)).
template <class Function>
inline float fold_lanes(Floats a, Function f) {
    const auto four = [&](int i) { return f(a.low[i], a.high[i]); };
    return f(f(four(0), four(2)), f(four(1), four(3)));
}
inline int32_t sum_of_lanes(Ints a) {
    const FourInts four = a.low + a.high;
    return (four[0] + four[1]) + (four[2] + four[3]);
}

// table[index] in every lane.
inline Floats gather(const float* table, Ints index) {
    return each_float([=](int i) { return table[lane_of(index, i)]; });
}
// table[index] of a table of `count` entries.
inline Floats look_up(const float* table, int, Ints index) {
    return gather(table, index);
}

// The lanes that a mask keeps, and how many. `store_kept` writes them side by side; it may write 8 lanes.
struct KeptLanes {
    int32_t places[kLanes];  // a lane that is not kept goes where the next one goes
    int64_t count;
};
inline KeptLanes kept_lanes(Ints mask) {
    KeptLanes kept;
    int32_t count = 0;
    for (int i = 0; i < kLanes; i++) {
        kept.places[i] = count;
        count -= lane_of(mask, i);
    }
    kept.count = count;
    return kept;
}
inline void store_kept(int32_t* p, Ints values, const KeptLanes& kept) {
    for (int i = 0; i < kLanes; i++) p[kept.places[i]] = lane_of(values, i);
}

// Sixteen numbers from 0 to 255, rounded to the nearest.
inline void store_bytes(uint8_t* p, Floats a, Floats b) {
    for (int i = 0; i < kLanes; i++) p[i] = static_cast<uint8_t>(__builtin_lrintf(lane_of(a, i)));
    for (int i = 0; i < kLanes; i++) p[kLanes + i] = static_cast<uint8_t>(__builtin_lrintf(lane_of(b, i)));
}
// Eight numbers of at most 32,767 in size, rounded to the nearest.
inline void store_shorts(int16_t* p, Floats a) {
    for (int i = 0; i < kLanes; i++) p[i] = static_cast<int16_t>(__builtin_lrintf(lane_of(a, i)));
}

// a[2i] b[2i] + a[2i+1] b[2i+1] of 16 integers each.
template <class Integer>
inline Floats products_of_pairs(const Integer* a, const int16_t* b) {
    // Four times -32,768, which only a forged file brings, is 2^31: it wraps here as it does in SIMD.
    return each_float([=](int i) {
        const auto first = static_cast<uint32_t>(a[2 * i] * b[2 * i]);
        return static_cast<float>(static_cast<int32_t>(first + static_cast<uint32_t>(a[2 * i + 1] * b[2 * i + 1])));
    });
}

// Bytes and shorts: 32 lanes of 8 bits and 16 lanes of 16 bits, for the scan.

inline Bytes load_bytes(const uint8_t* p) {
    return read_vector<Bytes>(p);
}
inline Bytes broadcast_byte(uint8_t x) {
    const SixteenBytes sixteen = {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
    return {sixteen, sixteen};
}
inline Shorts load_shorts(const uint16_t* p) {
    return read_vector<Shorts>(p);
}
inline void store_shorts(uint16_t* p, Shorts a) {
    write_vector(p, a);
}
inline Shorts broadcast_short(uint16_t x) {
    const EightShorts eight = {x, x, x, x, x, x, x, x};
    return {eight, eight};
}

inline Bytes low_nibbles(Bytes a) {
    return {a.low & 15, a.high & 15};
}
inline Bytes high_nibbles(Bytes a) {
    return {a.low >> 4, a.high >> 4};
}
// table[index] for 32 indices.
inline Bytes look_up(const uint8_t* table, Bytes index) {
    uint8_t found[32];
    write_vector(found, index);
    for (uint8_t& x : found) x = table[x];
    return read_vector<Bytes>(found);
}
// Indices below 64 of a wide lookup table; the upper two bits of `codes` do not count.
struct WideIndex {
    Bytes codes;
};
inline WideIndex wide_index(Bytes codes) {
    return {{codes.low & 63, codes.high & 63}};
}
// table[index] for 32 indices below 64.
inline Bytes look_up(const uint8_t* table, const WideIndex& index) {
    return look_up(table, index.codes);
}
// The codes in the upper two bits of three others.
inline Bytes fourth_codes(Bytes a, Bytes b, Bytes c) {
    return {a.low >> 6 | (b.low >> 6) << 2 | (c.low >> 6) << 4, a.high >> 6 | (b.high >> 6) << 2 | (c.high >> 6) << 4};
}
inline Bytes add_bytes(Bytes a, Bytes b) {
    return {a.low + b.low, a.high + b.high};
}
inline Shorts as_shorts(Bytes a) {
    return {(EightShorts)a.low, (EightShorts)a.high};
}

inline Shorts operator+(Shorts a, Shorts b) {
    return {a.low + b.low, a.high + b.high};
}
inline Shorts operator-(Shorts a, Shorts b) {
    return {a.low - b.low, a.high - b.high};
}
template <class Vector>
inline void keep_in_register(Vector&) {}  // sums need more registers than there may be
inline Shorts high_bytes(Shorts a) {
    return {a.low >> 8, a.high >> 8};
}
inline Shorts times_256(Shorts a) {
    return {a.low << 8, a.high << 8};
}

// a unsigned, b signed and at most 64 in size, so that sums of two products fit 16 bits; signed and unsigned products
// do not differ there.
// a[2i] b[2i] + a[2i+1] b[2i+1].
inline EightShorts multiply_pairs(SixteenBytes a, SixteenBytes b) {
    const auto x = (EightShorts)a;
    const auto y = (EightSignedShorts)b;
    return (x & 255) * (EightShorts)((y << 8) >> 8) + (x >> 8) * (EightShorts)(y >> 8);
}
inline Shorts multiply_pairs(Bytes a, Bytes b) {
    return {multiply_pairs(a.low, b.low), multiply_pairs(a.high, b.high)};
}
// a[i] b[i] + c[i] d[i] of eight bytes each; the first ones (rows 0-7 and 16-23) or the others of each half.
inline EightShorts multiply_and_add(const SixteenBytes& a, const SixteenBytes& b, const SixteenBytes& c,
                                    const SixteenBytes& d, int first) {
    const auto bytes = [=](const SixteenBytes& x) {
        return __builtin_convertvector(read_vector<EightBytes>(reinterpret_cast<const uint8_t*>(&x) + first),
                                       EightShorts);
    };
    const auto signed_bytes = [=](const SixteenBytes& x) {
        const auto* p = reinterpret_cast<const uint8_t*>(&x) + first;
        return (EightShorts) __builtin_convertvector(read_vector<EightSignedBytes>(p), EightSignedShorts);
    };
    return bytes(a) * signed_bytes(b) + bytes(c) * signed_bytes(d);
}
inline Shorts multiply_and_add_low(Bytes a, Bytes b, Bytes c, Bytes d) {
    return {multiply_and_add(a.low, b.low, c.low, d.low, 0), multiply_and_add(a.high, b.high, c.high, d.high, 0)};
}
inline Shorts multiply_and_add_high(Bytes a, Bytes b, Bytes c, Bytes d) {
    return {multiply_and_add(a.low, b.low, c.low, d.low, 8), multiply_and_add(a.high, b.high, c.high, d.high, 8)};
}

// A mask: all ones where a >= b, unsigned.
inline Shorts at_least(Shorts a, Shorts b) {
    return {(EightShorts)(a.low >= b.low), (EightShorts)(a.high >= b.high)};
}
// One bit per row from masks of the even and of the odd rows.
inline uint32_t bits_of_even_odd(Shorts even, Shorts odd) {
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++) {
        bits |= uint32_t(even.low[i] & 1) << (2 * i) | uint32_t(odd.low[i] & 1) << (2 * i + 1);
        bits |= uint32_t(even.high[i] & 1) << (2 * i + 16) | uint32_t(odd.high[i] & 1) << (2 * i + 17);
    }
    return bits;
}
// One bit per row from masks of rows 0-7 and 16-23, and of the others.
inline uint32_t bits_of_low_high(Shorts low, Shorts high) {
    uint32_t bits = 0;
    for (int i = 0; i < 8; i++) {
        bits |= uint32_t(low.low[i] & 1) << i | uint32_t(high.low[i] & 1) << (i + 8);
        bits |= uint32_t(low.high[i] & 1) << (i + 16) | uint32_t(high.high[i] & 1) << (i + 24);
    }
    return bits;
}

// Four bytes, repeated eight times.
inline Bytes repeat_four(const uint8_t* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof four);
    const FourInts repeated = {four, four, four, four};
    return {(SixteenBytes)repeated, (SixteenBytes)repeated};
}
// The sums of shorts 2i and 2i + 1, as signed numbers.
inline void store_pair_sums(int32_t* p, Shorts a) {
    uint16_t shorts[16];
    write_vector(shorts, a);
    for (int i = 0; i < 8; i++) p[i] = static_cast<int16_t>(static_cast<uint16_t>(shorts[2 * i] + shorts[2 * i + 1]));
}

}  // namespace
