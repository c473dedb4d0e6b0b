// Scores of candidates by their vectors as kept: coordinate i in lane i % 8, lanes added in order at the end, so
// that every SIMD level gives the same bits.

namespace {

// Rows lie anywhere in memory; asked for this many ahead, they are there when their turn comes.
constexpr int64_t kRowsAhead = 8;

inline void fetch_row(const char* row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
}

// float32 sums: integers are exact in it, and their rounding is what limits them.
template <bool euclidean, class Integer>
inline double integer_score(const Integer* row, float unit, const float* query, int64_t d) {
    Floats even = broadcast(0.0f), odd = broadcast(0.0f);
    const Floats units = broadcast(unit);
    const auto term = [&](int64_t i) {
        if constexpr (!euclidean) return load(row + i) * load(query + i);
        const Floats difference = load(query + i) - units * load(row + i);
        return difference * difference;
    };
    int64_t i = 0;
    for (; i + 2 * kLanes <= d; i += 2 * kLanes) {
        even = even + term(i);
        odd = odd + term(i + kLanes);
    }
    if (i + kLanes <= d) {
        even = even + term(i);
        i += kLanes;
    }
    float lanes[kLanes];
    store(lanes, even + odd);
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; lane++) sum += lanes[lane];
    for (; i < d; i++) {
        const float x = row[i], difference = query[i] - unit * x;
        sum += euclidean ? difference * difference : x * query[i];
    }
    return euclidean ? -sum : unit * sum;
}

// float64 sums: with float32 rows the order is that of exact scores.
template <bool euclidean, class Value, class Read>
inline double float_score(const Value* row, const float* query, int64_t d, Read read) {
    double lanes[kLanes] = {};
    const auto term = [&](int64_t i) {
        const double x = read(row[i]), q = query[i];
        return euclidean ? (q - x) * (q - x) : q * x;
    };
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes)
        for (int lane = 0; lane < kLanes; lane++) lanes[lane] += term(i + lane);
    for (int lane = 0; i < d; i++, lane++) lanes[lane] += term(i);
    double sum = 0.0;
    for (int lane = 0; lane < kLanes; lane++) sum += lanes[lane];
    return euclidean ? -sum : sum;
}

template <bool euclidean>
inline double kept_score(const Kept& kept, int64_t d, int64_t row, const float* query) {
    switch (kept.keep) {
        case Keep::int8:
            return integer_score<euclidean>(static_cast<const int8_t*>(kept.rows) + row * d, kept.units[row], query, d);
        case Keep::int16:
            return integer_score<euclidean>(static_cast<const int16_t*>(kept.rows) + row * d, kept.units[row], query,
                                            d);
        case Keep::float16:
            return float_score<euclidean>(static_cast<const uint16_t*>(kept.rows) + row * d, query, d,
                                          [](uint16_t x) { return half_to_float(x); });
        default:
            return float_score<euclidean>(static_cast<const float*>(kept.rows) + row * d, query, d,
                                          [](float x) { return x; });
    }
}

inline void kept_scores(const Kept& kept, int64_t d, const int32_t* rows, int64_t n, const float* query,
                        double* scores) {
    const int64_t bytes = d * (kept.keep == Keep::int8 ? 1 : kept.keep == Keep::float32 ? 4 : 2);
    const char* first = static_cast<const char*>(kept.rows);
    for (int64_t i = 0; i < n && i < kRowsAhead; i++) fetch_row(first + rows[i] * bytes, bytes);
    const auto score = kept.euclidean ? kept_score<true> : kept_score<false>;
    for (int64_t i = 0; i < n; i++) {
        if (i + kRowsAhead < n) {
            fetch_row(first + rows[i + kRowsAhead] * bytes, bytes);
            if (kept.units) __builtin_prefetch(kept.units + rows[i + kRowsAhead]);
        }
        scores[i] = score(kept, d, rows[i], query);
    }
}

}  // namespace
