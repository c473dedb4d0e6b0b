// Which lists are near: 16-bit products of a query with all centers, and the cut that leaves the best so many.

namespace {

// A query as whole numbers of 1 / scale, eight at a time: `words` has room for d rounded up to 16, zeros at the end.
inline void round_query(const float* query, int64_t d, float scale, int16_t* words) {
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) store_words(words + i, load(query + i) * broadcast(scale));
    for (; i < d; i++) words[i] = static_cast<int16_t>(__builtin_lrintf(query[i] * scale));
    for (; i < (d + 15) / 16 * 16; i++) words[i] = 0;
}

// Groups of eight lists with Q queries: lists share a query's pair, queries share a list's coordinates.
template <int Groups, int Q>
inline void score_groups(const int16_t* row, int64_t pairs, const int16_t* const* queries, int32_t* const* sums,
                         int64_t first) {
    Sums sum[Groups][Q];
#pragma GCC unroll 8
    for (int i = 0; i < Groups * Q; i++) sum[i / Q][i % Q] = no_sums();
    for (int64_t t = 0; t < pairs; t++) {
#pragma GCC unroll 8
        for (int i = 0; i < Groups * Q; i++)
            sum[i / Q][i % Q] = add_pair(sum[i / Q][i % Q], row + (i / Q * pairs + t) * 16, queries[i % Q] + 2 * t);
    }
#pragma GCC unroll 8
    for (int i = 0; i < Groups * Q; i++) store_sums(sums[i % Q] + first + i / Q * 8, sum[i / Q][i % Q]);
}

template <int Groups, int Q>
void score_lists(const Lists& lists, const int16_t* const* queries, int32_t* const* sums) {
    const int64_t pairs = (lists.dimensions + 1) / 2, groups = (lists.count + 7) / 8;
    int64_t g = 0;
    for (; g + Groups <= groups; g += Groups)
        score_groups<Groups, Q>(lists.coarse + g * pairs * 16, pairs, queries, sums, g * 8);
    for (; g < groups; g++) score_groups<1, Q>(lists.coarse + g * pairs * 16, pairs, queries, sums, g * 8);
}

// Integers in proportion to the ranks: halving their range finds a cut sooner than halving that of floats' bits.
inline void rank_lists(const Lists& lists, const int32_t* sums, float unit, int32_t* keys) {
    const auto rank = [&](int64_t i) { return sums[i] * unit * lists.weights[i] + lists.offsets[i]; };
    int32_t bits = 0;  // of the largest rank's size: as integers, maxima are found eight at a time
    for (int64_t i = 0; i < lists.count; i++) {
        const auto size = __builtin_bit_cast(int32_t, __builtin_fabsf(rank(i)));
        bits = size > bits ? size : bits;
    }
    const auto largest = __builtin_bit_cast(float, bits);
    const float scale = largest > 0.0f ? 0x1p30f / largest : 0.0f;
    for (int64_t i = 0; i < lists.count; i++) keys[i] = static_cast<int32_t>(rank(i) * scale);
}

// Where a share of 1 / x lies on a bell's upper half, up to a factor; 0 for the lower half.
inline float bell_place(float x) {
    return x > 2.0f ? __builtin_sqrtf(__builtin_logf(x * 0.5f)) : 0.0f;
}

inline Cut cut_keys(int32_t* keys, int64_t n, int64_t wanted) {
    int32_t low = keys[0], high = keys[0];
    for (int64_t i = 1; i < n; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    const int64_t padded = (n + 7) / 8 * 8;
    for (int64_t i = n; i < padded; i++) keys[i] = INT32_MIN;  // never above anything
    // Fewer than `wanted` lie above `high`, at least `wanted` at or above `low`. Keys gather like a bell: a step goes
    // to where the cut would be if they did exactly, every other one to the middle.
    const auto total = static_cast<float>(n), goal = bell_place(total / static_cast<float>(wanted));
    float low_place = 0.0f, high_place = bell_place(total);
    for (int step = 0; low < high; step++) {
        const int64_t width = int64_t{high} - low;
        int64_t middle = low + width / 2;
        if (step % 2 == 0 && high_place > low_place && goal > low_place && goal < high_place)
            middle =
                low + static_cast<int64_t>((goal - low_place) / (high_place - low_place) * static_cast<float>(width));
        middle = middle >= high ? high - 1 : middle;
        const auto value = static_cast<int32_t>(middle);
        const int64_t above = count_above(keys, padded, value);
        if (above == wanted) return {value, 0};
        const float place = bell_place(total / (static_cast<float>(above) + 0.5f));
        if (above < wanted) {
            high = value;
            high_place = place;
        } else {
            low = value + 1;
            low_place = place;
        }
    }
    return {high, wanted - count_above(keys, padded, high)};
}

// Numbers of the keys above the cut, and of as many at it as are missing, ascending. Keys have room for n rounded up
// to 8.
inline int64_t chosen_keys(const int32_t* keys, int64_t n, Cut cut, int32_t* out) {
    int64_t count = 0;
    for (int64_t start = 0; start < n; start += 8)
        for (uint32_t bits = bits_at_least(keys + start, cut.value); bits; bits &= bits - 1) {
            const int64_t i = start + __builtin_ctz(bits);
            if (i < n && (keys[i] > cut.value || cut.at_value-- > 0)) out[count++] = static_cast<int32_t>(i);
        }
    return count;
}

}  // namespace
