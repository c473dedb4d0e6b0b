// The lookup tables of a query, the guess of a threshold, and reranking.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cases.h"

using namespace pcpq;

namespace {

void codeword_products(const Kernels& level, Record& record, Random random, Coding coding, int64_t m, int64_t size,
                       bool per_list, Values kind) {
    const int64_t k = table_entries(coding);
    const std::vector<float> codewords = random.values(kind, 3 * m * size * k), query = random.values(kind, m * size);
    Codes codes{};
    codes.coding = coding;
    codes.sections = m;
    codes.section_size = size;
    codes.per_list = per_list;
    codes.codewords = codewords.data();
    std::vector<float> products(m * k);
    std::vector<ProductRange> ranges(m);
    for (int64_t list = 0; list < 3; list++) {
        level.search.codeword_products(codes, list, query.data(), products.data(), ranges.data());
        record.add(products);
        // Of numbers too large for float32 some products are NaN: then no level has to find the others' range.
        if (kind == Values::extreme) continue;
        for (const ProductRange& range : ranges) {
            record.add(range.least);
            record.add(range.greatest);
        }
    }
}

// `part` of the products are zero. The unit is what the kernel finds, and more, as a search over many lists has it.
void make_lookup_table(const Kernels& level, Record& record, Random random, Coding coding, int64_t m, int64_t part,
                       bool by_length, Values kind) {
    std::vector<float> products = random.values(kind, m * table_entries(coding));
    for (float& x : products) {
        if (random.between(0, 99) < part) x = std::copysign(0.0f, x);
        if (kind == Values::extreme) x *= 1e-21f;  // finite, as with queries of normal length
    }
    std::vector<ProductRange> ranges(m);
    for (int64_t j = 0; j < m; j++) {
        const int64_t k = table_entries(coding);
        const auto [least, greatest] = std::minmax_element(&products[j * k], &products[j * k] + k);
        ranges[j] = {.least = *least, .greatest = *greatest};
    }
    std::vector<float> step_units(m);
    for (float& unit : step_units) unit = random.unit() / 64.0f;
    Codes codes{};
    codes.coding = coding;
    codes.sections = m;
    codes.step_units = step_units.data();
    codes.largest_step = 64.0f;
    codes.reach = 4.0f * static_cast<float>(m);
    codes.bias_by_length = by_length;
    for (float step : {0.0f, 1e-3f, 10.0f})
        for (float largest_base : {0.0f, 3.0f, 1e9f}) {
            codes.bias_low = -7.0f * step;
            codes.bias_step = step;
            const float length = 0.7f, unit = level.search.lookup_unit(codes, 0, ranges.data(), length, largest_base);
            record.add(unit);
            std::vector<uint8_t> table(table_size(codes));
            for (float times : {1.0f, 1.37f}) {
                Scan scan{};
                scan.unit = unit * times;
                level.search.make_lookup_table(codes, 0, products.data(), ranges.data(), length, scan, table.data());
                record.add(table);
                record.add(scan.constant);
                record.add(scan.zero);
                record.add(scan.bias_products[0]);
                record.add(scan.bias_products[1]);
            }
        }
}

// Bases of forged files, too.
void round_bases(const Kernels& level, Record& record, Random random, int64_t n, Values kind) {
    std::vector<float> bases = random.values(kind, to_eight(n));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (float forged : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
        if (kind == Values::extreme) bases[random.between(0, n - 1)] = forged;
    for (float unit : {1e-9f, 0.5f, 1.0f, 1e9f})
        for (int32_t zero : {0, kSignedZero}) {
            Scan scan{};
            scan.unit = unit;
            scan.constant = random.normal();
            scan.zero = zero;
            std::vector<int32_t> starts(to_eight(n));
            level.search.round_bases(bases.data(), n, scan, starts.data());
            record.add(starts, n);
        }
}

void guess_threshold(const Kernels& level, Record& record, Random random, int64_t n, int64_t rows_per_list) {
    const int64_t count = 2 * n;
    std::vector<float> energies(count), variances(count);
    for (int64_t i = 0; i < count; i++) {
        energies[i] = random.between(0, 9) ? random.unit() : 0.0f;
        variances[i] = random.between(0, 9) ? random.unit() : 0.0f;
    }
    const std::vector<float> means = random.values(Values::normal, count);
    std::vector<float> bases = random.values(Values::normal, n);
    std::vector<int64_t> rows(count + 1);
    for (int64_t i = 0; i < count; i++) rows[i + 1] = rows[i] + random.between(0, rows_per_list);
    std::vector<int32_t> chosen(n);
    for (int64_t i = 0; i < n; i++) chosen[i] = static_cast<int32_t>(2 * i + random.between(0, 1));
    Lists lists{};
    lists.count = count;
    lists.energies = energies.data();
    lists.bias_means = means.data();
    lists.bias_variances = variances.data();
    lists.rows = rows.data();
    std::vector<float> shapes(3 * to_eight(n));
    for (float wanted : {1.0f, 40.0f, 1000.0f})
        for (float factor : {0.0f, 0.3f}) {
            record.add(level.search.guess_threshold(lists, chosen.data(), bases.data(), n, 0.8f, factor, wanted, 1.4f,
                                                    shapes.data()));
            record.add(shapes);
        }
}

// Rows at random, and all at the ends of their numbers, where sums of pairs are largest.
void rerank(const Kernels& level, Record& record, Random random, Keep keep, int64_t d, bool euclidean, Values kind) {
    constexpr int64_t n = 21;
    const bool ends = kind == Values::extreme;
    const int64_t most = keep == Keep::int8 ? 127 : 32767, room = (d + 15) / 16 * 16;
    const auto number = [&](int64_t bound) {
        return ends ? (random.between(0, 3) ? bound : -bound) : random.between(-bound, bound);
    };
    std::vector<int8_t> bytes(n * d);
    std::vector<int16_t> shorts(n * d);
    for (int64_t i = 0; i < n * d; i++) {
        bytes[i] = static_cast<int8_t>(keep == Keep::int8 ? number(most) : 0);
        shorts[i] = static_cast<int16_t>(keep == Keep::float16 ? random.bits() : number(most));
    }
    const std::vector<float> floats = random.values(kind, n * d), query = random.values(ends ? Values::ties : kind, d);
    std::vector<float> units(n);
    for (float& unit : units) unit = random.unit();
    std::vector<int16_t> integers(room), tail(16);
    for (int64_t i = 0; i < d; i++) integers[i] = static_cast<int16_t>(number(32767));
    for (int64_t i = 0; i < 16; i++) tail[i] = d - 16 + i >= d / 16 * 16 ? integers[d - 16 + i] : int16_t{0};
    const void* rows = keep == Keep::int8      ? static_cast<const void*>(bytes.data())
                       : keep == Keep::float32 ? static_cast<const void*>(floats.data())
                                               : static_cast<const void*>(shorts.data());
    const Kept kept{.keep = keep,
                    .rows = rows,
                    .units = units.data(),
                    .euclidean = euclidean,
                    .gains = nullptr,
                    .biases = nullptr,
                    .ids = nullptr};
    const RerankQuery rerank_query{
        .floats = query.data(), .integers = integers.data(), .tail = tail.data(), .unit = 1e-4f};
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{8}, int64_t{9}, n}) {
        const std::vector<int32_t> numbers = random.integers<int32_t>(count, 0, n - 1);
        std::vector<double> scores(count);
        level.search.rerank(kept, d, numbers.data(), count, rerank_query, scores.data());
        record.add(scores);
        std::vector<float> bounds(count), read(count * (d + 1));
        if ((keep == Keep::float32 || keep == Keep::float16) && d >= 8) {
            // Bounds of rows that are not finite differ: they are useless, but not wrong.
            std::vector<int16_t> finite = shorts;
            for (int16_t& half : finite) half ^= (half & 0x7c00) == 0x7c00 ? 0x400 : 0;
            Kept bounded = kept;
            if (keep == Keep::float16) bounded.rows = finite.data();
            level.search.bound_scores(bounded, d, numbers.data(), count, query.data(), 2.0f, bounds.data());
            // Which NaN is made of infinities depends on the processor.
            for (float& bound : bounds) bound = std::isnan(bound) ? 0.0f : bound;
            record.add(bounds);
        }
        for (const float* mean : {static_cast<const float*>(nullptr), query.data()}) {
            record.add(level.search.read_rows(kept, d, numbers.data(), count, mean, read.data(), d + 1));
            record.add(read);
        }
    }
}

}  // namespace

void add_table_cases(Cases& cases) {
    for (Values kind : kAllValues) {
        for (Coding coding : {Coding::plain, Coding::wide})
            for (int64_t size : {1, 2, 3, 4, 5, 9, 65})
                for (int64_t m : {1, 2, 7})
                    for (bool per_list : {false, true})
                        cases.add("codeword_products", codeword_products, coding, m, size, per_list, kind);
        for (Coding coding : {Coding::plain, Coding::scaled, Coding::wide})
            for (int64_t m : {1, 2, 3, 4, 5, 50, 65, 192, 768})
                for (int64_t part : {0, 50, 100})
                    for (bool by_length : {false, true})
                        cases.add("make_lookup_table", make_lookup_table, coding, m, part, by_length, kind);
        for (int64_t n : kCounts) cases.add("round_bases", round_bases, n, kind);
        for (Keep keep : {Keep::int8, Keep::int16, Keep::float16, Keep::float32})
            for (int64_t d : kDimensions)
                for (bool euclidean : {false, true}) cases.add("rerank", rerank, keep, d, euclidean, kind);
    }
    for (int64_t n : kCounts)
        for (int64_t rows_per_list : {10, 1000}) cases.add("guess_threshold", guess_threshold, n, rows_per_list);
}
