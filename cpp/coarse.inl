// Which lists are near: 16-bit products of a query with all centers, and the cut that leaves the best so many.

namespace {

inline void score_lists(const Lists& lists, const int32_t* query, int32_t* sums) {
    const int64_t pairs = (lists.dimensions + 1) / 2, groups = (lists.count + 7) / 8;
    for (int64_t g = 0; g < groups; g++) {
        const int16_t* row = lists.coarse + g * pairs * 16;
        Sums even = no_sums(), odd = no_sums();
        int64_t t = 0;
        for (; t + 1 < pairs; t += 2) {
            even = add_pair(even, row + t * 16, query[t]);
            odd = add_pair(odd, row + t * 16 + 16, query[t + 1]);
        }
        if (t < pairs) even = add_pair(even, row + t * 16, query[t]);
        store_sums(sums + g * 8, add_sums(even, odd));
    }
}

// Integers in the order of the ranks.
inline void rank_lists(const Lists& lists, const int32_t* sums, float unit, int32_t* keys) {
    for (int64_t i = 0; i < lists.count; i++) {
        const float rank = sums[i] * unit * lists.weights[i] + lists.offsets[i];
        const auto bits = __builtin_bit_cast(int32_t, rank);
        keys[i] = bits ^ ((bits >> 31) & 0x7fffffff);
    }
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

}  // namespace
