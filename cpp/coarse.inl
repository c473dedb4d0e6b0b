// Which lists are near: 16-bit products of a query with all centers, and the cut that leaves the best so many.

namespace {

// Groups of eight lists, `Count` of them at a time: they share the query's pair.
template <int Count>
inline void score_groups(const int16_t* row, int64_t pairs, const int32_t* query, int32_t* sums) {
    Sums sum[Count];
#pragma GCC unroll 4
    for (int g = 0; g < Count; g++) sum[g] = no_sums();
    for (int64_t t = 0; t < pairs; t++) {
#pragma GCC unroll 4
        for (int g = 0; g < Count; g++) sum[g] = add_pair(sum[g], row + (g * pairs + t) * 16, query[t]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < Count; g++) store_sums(sums + g * 8, sum[g]);
}

inline void score_lists(const Lists& lists, const int32_t* query, int32_t* sums) {
    const int64_t pairs = (lists.dimensions + 1) / 2, groups = (lists.count + 7) / 8;
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4) score_groups<4>(lists.coarse + g * pairs * 16, pairs, query, sums + g * 8);
    for (; g < groups; g++) score_groups<1>(lists.coarse + g * pairs * 16, pairs, query, sums + g * 8);
}

// Integers in proportion to the ranks: halving their range finds a cut sooner than halving that of floats' bits.
inline void rank_lists(const Lists& lists, const int32_t* sums, float unit, int32_t* keys) {
    const auto rank = [&](int64_t i) { return sums[i] * unit * lists.weights[i] + lists.offsets[i]; };
    float largest = 0.0f;
    for (int64_t i = 0; i < lists.count; i++) {
        const float size = __builtin_fabsf(rank(i));
        largest = size > largest ? size : largest;
    }
    const float scale = largest > 0.0f ? 0x1p30f / largest : 0.0f;
    for (int64_t i = 0; i < lists.count; i++) keys[i] = static_cast<int32_t>(rank(i) * scale);
}

inline Cut cut_keys(int32_t* keys, int64_t n, int64_t wanted) {
    int32_t low = keys[0], high = keys[0];
    for (int64_t i = 1; i < n; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    const int64_t padded = (n + 7) / 8 * 8;
    for (int64_t i = n; i < padded; i++) keys[i] = INT32_MIN;  // never above anything
    // Fewer than `wanted` lie above `high`, at least `wanted` at or above `low`.
    while (low < high) {
        const auto middle = static_cast<int32_t>((int64_t{low} + high) >> 1);
        const int64_t above = count_above(keys, padded, middle);
        if (above == wanted) return {middle, 0};
        if (above < wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return {high, wanted - count_above(keys, padded, high)};
}

// Numbers of the keys above the cut, and of as many at it as are missing, ascending.
inline int64_t chosen_keys(const int32_t* keys, int64_t n, Cut cut, int32_t* out) {
    int64_t count = 0;
    for (int64_t start = 0; start < n; start += 32) {
        uint32_t bits = 0;
        const int64_t width = n - start < 32 ? n - start : 32;
        for (int64_t i = 0; i < width; i++) bits |= uint32_t(keys[start + i] >= cut.value) << i;
        for (; bits; bits &= bits - 1) {
            const int64_t i = start + __builtin_ctz(bits);
            if (keys[i] > cut.value || cut.at_value-- > 0) out[count++] = static_cast<int32_t>(i);
        }
    }
    return count;
}

}  // namespace
