// A query as integers, its products with lists, and the choice of the best of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "cases.h"

using namespace pcpq;

namespace {

void query_to_shorts(const Kernels& level, Record& record, Random random, int64_t d, Values kind) {
    const std::vector<float> query = random.values(kind, d);
    double length = 0.0;
    for (float x : query) length += double{x} * x;
    std::vector<int16_t> integers((d + 15) / 16 * 16, 99);
    const auto most = static_cast<float>(32700.0 / std::sqrt(length));
    for (float scale : {std::isfinite(most) ? most : 0.0f, kind == Values::ties ? 1.0f : 0.0f}) {
        level.search.query_to_shorts(query.data(), d, scale, integers.data());
        record.add(integers);
    }
}

void project(const Kernels& level, Record& record, Random random, int64_t d, Values kind) {
    for (int64_t p : {d, (d + 1) / 2, int64_t{1}}) {
        const std::vector<float> matrix = random.values(kind, d * p), rows = random.values(kind, 5 * d);
        std::vector<float> out(5 * p);
        level.search.project(matrix.data(), rows.data(), 5, d, p, out.data());
        record.add(out);
    }
}

void query_to_bytes(const Kernels& level, Record& record, Random random, int64_t d, Values kind) {
    std::vector<float> query = random.values(kind, d);
    std::vector<uint8_t> bytes(d + 16);
    const auto round = [&] {
        double length = 0.0;
        for (float x : query) length += double{x} * x;
        for (float longest : {60.0f, 127.0f, 5000.0f}) {
            record.add(level.search.query_to_bytes(query.data(), d, static_cast<float>(std::sqrt(length)), longest,
                                                   bytes.data()));
            record.add(bytes, (d + 3) / 4 * 4);
        }
    };
    round();
    for (float& x : query) x = std::copysign(0.0f, x);
    round();
    for (float& x : query) x = std::copysign(127.0f, x);  // the largest, on every whole number
    round();
}

void inner_product(const Kernels& level, Record& record, Random random, int64_t d, Values kind) {
    const std::vector<float> a = random.values(kind, d), b = random.values(kind, d);
    record.add(level.search.inner_product(a.data(), b.data(), d));
    record.add(level.search.inner_product(a.data(), a.data(), d));
}

void squared_distance(const Kernels& level, Record& record, Random random, int64_t d, Values kind) {
    const std::vector<float> a = random.values(kind, d), b = random.values(kind, d);
    record.add(level.squared_distance(a.data(), b.data(), d));
}

// Scores of lists near to a bound and away from it; the last of them are padding.
void keep_near(const Kernels& level, Record& record, Random random, int64_t n, Values kind) {
    std::vector<int32_t> sums(n);
    for (int32_t& sum : sums) sum = static_cast<int32_t>(random.between(-32767, 32767));
    const std::vector<float> units = random.values(kind, n);
    std::vector<float> penalties = random.values(kind, n);
    penalties[n - 1] = std::numeric_limits<float>::infinity();
    for (float least : {-std::numeric_limits<float>::infinity(), -1.0f, 0.0f, 100.0f}) {
        std::vector<int32_t> indices(n + 8);
        std::vector<float> lowest(n), highest(n);
        const int64_t count = level.keep_near(sums.data(), n, 1e-3f, 0.5f, units.data(), penalties.data(), least,
                                              indices.data(), lowest.data(), highest.data());
        record.add(count);
        record.add(indices, count);
        record.add(lowest);
        record.add(highest);
    }
}

// Some lists, in the order of their numbers; the last one among them.
void measure_bases(const Kernels& level, Record& record, Random random, int64_t d, int64_t n) {
    for (Values kind : kAllValues) {
        const int64_t count = 3 * n;
        const std::vector<float> query = random.values(kind, d), centroids = random.values(kind, count * d);
        const std::vector<float> offsets = random.values(kind, count);
        std::vector<int32_t> chosen(n);
        for (int64_t i = 0; i < n; i++) chosen[i] = static_cast<int32_t>(i + 1 == n ? count - 1 : 3 * i);
        Lists lists{};
        lists.count = count;
        lists.dimensions = d;
        lists.centroids = centroids.data();
        lists.offsets = offsets.data();
        std::vector<float> bases(n);
        level.search.measure_bases(lists, query.data(), chosen.data(), n, bases.data());
        record.add(bases);
        for (int64_t i = 0; i < n; i++) {
            const float* centroid = centroids.data() + chosen[i] * d;
            const float base = level.search.inner_product(query.data(), centroid, d) + offsets[chosen[i]];
            if (!(bases[i] == base || (std::isnan(bases[i]) && std::isnan(base)))) std::abort();
        }
    }
}

// Products at random, and at both ends of 16 bits: sums may wrap, and wrap alike.
void score_lists(const Kernels& level, Record& record, Random random, int64_t d, int64_t count) {
    const int64_t groups = (count + 7) / 8, fours = (d + 3) / 4;
    std::vector<int8_t> coarse = random.integers<int8_t>(groups * fours * 32, -64, 64);
    const std::vector<uint16_t> starts = random.integers<uint16_t>(groups * 16, 0, 65535);
    Lists lists{};
    lists.count = count;
    lists.dimensions = d;
    lists.coarse = coarse.data();
    lists.starts = starts.data();
    for (int round = 0; round < 3; round++) {
        std::vector<uint8_t> bytes[4];
        std::vector<int32_t> sums[4];
        const uint8_t* queries[4];
        int32_t* out[4];
        for (int t = 0; t < 4; t++) {
            bytes[t] = round == 0 ? random.integers<uint8_t>(d + 16, 0, 255)
                                  : std::vector<uint8_t>(d + 16, round == 1 || t % 2 ? 255 : 0);
            sums[t].resize(groups * 8);
            queries[t] = bytes[t].data();
            out[t] = sums[t].data();
        }
        level.search.score_lists_for_four(lists, queries, out);
        for (const auto& some : sums) record.add(some);
        for (int t = 0; t < 4; t++) level.search.score_lists(lists, queries + t, out + t);
        for (const auto& some : sums) record.add(some);
        if (round == 1) std::fill(coarse.begin(), coarse.end(), int8_t{-64});
        if (round == 0) std::fill(coarse.begin(), coarse.end(), int8_t{64});
    }
}

void rank_lists(const Kernels& level, Record& record, Random random, int64_t n, bool nothing) {
    const std::vector<int32_t> sums = random.integers<int32_t>(to_eight(n), nothing ? 0 : -32768, nothing ? 0 : 32767);
    const std::vector<float> offsets = random.values(Values::normal, n);
    std::vector<float> spreads(n), none(n, 0.0f);
    for (float& spread : spreads) spread = random.unit();
    Lists lists{};
    lists.count = n;
    lists.offsets = nothing ? none.data() : offsets.data();
    lists.spreads = nothing ? none.data() : spreads.data();
    lists.largest_base = nothing ? 0.0f : 33.0f;
    lists.largest_offset = nothing ? 0.0f : 6.0f;
    lists.largest_spread = nothing ? 0.0f : 1.0f;
    std::vector<int32_t> keys(to_eight(n));
    for (int64_t wanted : {int64_t{1}, n / 10, n / 3, n}) {
        record.add(level.search.rank_lists(lists, sums.data(), 1e-3f, 1.0f, std::max<int64_t>(wanted, 1), keys.data()));
        record.add(keys);
    }
    for (float temperature : {0.0f, 1e-6f, 0.05f, 3.0f})
        for (float margin : {0.0f, -3.0f, -40.0f, -1e9f})
            record.add(level.search.weigh_lists(lists, keys.data(), 1.0f, temperature, margin));
}

// Ranks of forged files, and of queries with NaN: all lists have keys, and levels agree on them.
void rank_any_floats(const Kernels& level, Record& record, Random random, int64_t n) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    const float strange[] = {nan, infinity, -infinity, 3e38f, -3e38f, 1e-45f};
    const auto some = [&](bool all) {
        std::vector<float> values = random.values(Values::normal, n);
        for (float& x : values)
            if (all || random.between(0, 3) == 0) x = strange[random.between(0, 5)];
        return values;
    };
    const std::vector<int32_t> sums = random.integers<int32_t>(to_eight(n), -32768, 32767);
    std::vector<int32_t> keys(to_eight(n));
    for (bool all : {false, true})
        for (float unit : {1e-3f, nan, infinity, 3e38f})
            for (float length : {1.0f, nan, infinity, 3e38f, 1e-45f}) {
                const std::vector<float> offsets = some(all), spreads = some(all);
                Lists lists{};
                lists.count = n;
                lists.offsets = offsets.data();
                lists.spreads = spreads.data();
                lists.largest_base = random.between(0, 1) ? 33.0f : strange[random.between(0, 5)];
                lists.largest_spread = lists.largest_offset = 6.0f;
                record.add(level.search.rank_lists(lists, sums.data(), unit, length, std::max<int64_t>(n / 3, 1),
                                                   keys.data()));
                record.add(keys);
                if (std::count(keys.begin(), keys.begin() + n, INT32_MIN)) std::abort();
                for (float temperature : {0.0f, 0.05f, 1e18f})
                    record.add(level.search.weigh_lists(lists, keys.data(), length, temperature, -3.0f));
            }
}

// Keys of all sizes, of few values, or one only.
std::vector<int32_t> some_keys(Random& random, int64_t n, int kind) {
    std::vector<int32_t> keys(to_eight(n), INT32_MIN);
    for (int64_t i = 0; i < n; i++)
        keys[i] = kind == 0   ? static_cast<int32_t>(random.between(INT32_MIN + 1, INT32_MAX))
                  : kind == 1 ? static_cast<int32_t>(random.between(-3, 3))
                  : kind == 2 ? (random.between(0, 1) ? INT32_MAX : INT32_MIN + 1)
                              : 7;
    return keys;
}

void keep_above(const Kernels& level, Record& record, Random random, int64_t n, int kind) {
    const std::vector<int32_t> keys = some_keys(random, n, kind);
    for (int32_t value : {INT32_MIN, -3, -1, 0, 6, 7, keys[n / 2], INT32_MAX - 1, INT32_MAX}) {
        std::vector<int32_t> kept(keys.size()), indices(keys.size());
        const int64_t count = level.search.keep_above(keys.data(), n, value, kept.data(), indices.data());
        record.add(count);
        record.add(kept, count);
        record.add(indices, count);
    }
}

void cut_keys(const Kernels& level, Record& record, Random random, int64_t n, int kind) {
    for (int64_t wanted : {int64_t{1}, n / 3, n - 1, n}) {
        std::vector<int32_t> keys = some_keys(random, n, kind);
        const Cut cut = level.search.cut_keys(keys.data(), n, std::max<int64_t>(wanted, 1));
        record.add(cut.value);
        record.add(cut.at_value);
        record.add(keys, n);
    }
}

void keep_reaching(const Kernels& level, Record& record, Random random, int64_t n) {
    std::vector<float> values = random.values(Values::ties, n);
    if (n > 2) values[n / 2] = std::numeric_limits<float>::quiet_NaN();
    std::vector<int32_t> indices(n + 8);
    for (float least : {-std::numeric_limits<float>::infinity(), 0.0f, values[0], 100.0f}) {
        const int64_t count = level.search.keep_reaching(values.data(), n, least, indices.data());
        record.add(count);
        record.add(indices, count);
    }
}

void keep_pairs(const Kernels& level, Record& record, Random random, int64_t n, int kind) {
    const std::vector<int32_t> scores = some_keys(random, n, kind);
    const std::vector<int32_t> rows = random.integers<int32_t>(to_eight(n), 0, 2 * n);
    for (int32_t value : {INT32_MIN + 1, -1, 0, 7, scores[n / 2], INT32_MAX})
        for (int32_t last : {INT32_MIN, 0, static_cast<int32_t>(n), rows[n / 2], INT32_MAX}) {
            std::vector<int32_t> kept = scores, kept_rows = rows;
            const int64_t count = level.search.keep_pairs(kept.data(), kept_rows.data(), n, value, last);
            record.add(count);
            record.add(kept, count);
            record.add(kept_rows, count);
        }
}

}  // namespace

void add_list_cases(Cases& cases) {
    for (int64_t d : kDimensions)
        for (Values kind : kAllValues) {
            cases.add("query_to_shorts", query_to_shorts, d, kind);
            cases.add("project", project, d, kind);
            cases.add("query_to_bytes", query_to_bytes, d, kind);
            cases.add("inner_product", inner_product, d, kind);
            cases.add("squared_distance", squared_distance, d, kind);
        }
    for (int64_t d : {1, 8, 9, 100, 256})
        for (int64_t n : {1, 3, 4, 5, 8, 9, 14, 33}) cases.add("measure_bases", measure_bases, d, n);
    for (int64_t d : {1, 2, 4, 5, 65, 100, 384})
        for (int64_t count : {1, 8, 9, 16, 17, 33, 70}) cases.add("score_lists", score_lists, d, count);
    for (int64_t n : kCounts) {
        for (bool nothing : {false, true}) cases.add("rank_lists", rank_lists, n, nothing);
        cases.add("rank_lists", rank_any_floats, n);
        cases.add("keep_reaching", keep_reaching, n);
        for (Values kind : kAllValues) cases.add("keep_near", keep_near, (n + 7) / 8 * 8, kind);
        for (int kind = 0; kind < 4; kind++) {
            cases.add("keep_above", keep_above, n, kind);
            cases.add("cut_keys", cut_keys, n, kind);
            cases.add("keep_pairs", keep_pairs, n, kind);
        }
    }
}
