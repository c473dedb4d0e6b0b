// What a query brings to the scan, and what candidates are judged by in the end.
#include <algorithm>

#include "cases.h"

using namespace pcpq;

namespace {

void multiply_centers(const Kernels& level, Record& record, Random random, int64_t m, int64_t size, bool own_books,
                      Values kind) {
    const std::vector<float> centers = random.values(kind, 3 * m * size * 16), query = random.values(kind, m * size);
    Packed packed{};
    packed.sections = m;
    packed.section_size = size;
    packed.own_books = own_books;
    packed.centers = centers.data();
    std::vector<float> eta(m * 16);
    for (int64_t list = 0; list < 3; list++) {
        level.search.multiply_centers(packed, list, query.data(), eta.data());
        record.add(eta);
    }
}

// `part` of the products are zero. The unit is what the kernel finds, and more, as a search over many lists has it.
void make_table(const Kernels& level, Record& record, Random random, Coding coding, int64_t m, int64_t part,
                bool by_length, Values kind) {
    std::vector<float> eta = random.values(kind, m * 16);
    for (float& x : eta) {
        if (random.between(0, 99) < part) x = std::copysign(0.0f, x);
        if (kind == Values::extreme) x *= 1e-21f;  // finite, as queries of handy length leave them
    }
    std::vector<float> step_units(m);
    for (float& unit : step_units) unit = random.unit() / 64.0f;
    Packed packed{};
    packed.coding = coding;
    packed.sections = m;
    packed.step_units = step_units.data();
    packed.largest_step = 64.0f;
    packed.reach = 4.0f * static_cast<float>(m);
    packed.bias_by_length = by_length;
    for (float step : {0.0f, 1e-3f, 10.0f})
        for (float largest_base : {0.0f, 3.0f, 1e9f}) {
            packed.bias_low = -7.0f * step;
            packed.bias_step = step;
            const float length = 0.7f, unit = level.search.table_unit(packed, 0, eta.data(), length, largest_base);
            record.add(unit);
            std::vector<uint8_t> table(table_sections(packed) * 16);
            for (float times : {1.0f, 1.37f}) {
                Scan scan{};
                scan.unit = unit * times;
                level.search.make_table(packed, 0, eta.data(), length, scan, table.data());
                record.add(table);
                record.add(scan.constant);
                record.add(scan.zero);
                record.add(scan.bias_eta);
            }
        }
}

// Bases that no sound file has, too.
void round_bases(const Kernels& level, Record& record, Random random, int64_t n, Values kind) {
    std::vector<float> bases = random.values(kind, to_eight(n));
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (float lie : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()})
        if (kind == Values::extreme) bases[random.between(0, n - 1)] = lie;
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

void likely_threshold(const Kernels& level, Record& record, Random random, int64_t n, int64_t rows_a_list) {
    const int64_t count = 2 * n;
    std::vector<float> energies(count), variances(count);
    for (int64_t i = 0; i < count; i++) {
        energies[i] = random.between(0, 9) ? random.unit() : 0.0f;
        variances[i] = random.between(0, 9) ? random.unit() : 0.0f;
    }
    const std::vector<float> means = random.values(Values::normal, count);
    std::vector<float> bases = random.values(Values::normal, n);
    std::vector<int64_t> rows(count + 1);
    for (int64_t i = 0; i < count; i++) rows[i + 1] = rows[i] + random.between(0, rows_a_list);
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
            record.add(level.search.likely_threshold(lists, chosen.data(), bases.data(), n, 0.8f, factor, wanted,
                                                     shapes.data()));
            record.add(shapes);
        }
}

// Rows at random, and all at the ends of their numbers, where sums of pairs are largest.
void kept_scores(const Kernels& level, Record& record, Random random, Keep keep, int64_t d, bool euclidean,
                 Values kind) {
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
    std::vector<int16_t> words(room), last(16);
    for (int64_t i = 0; i < d; i++) words[i] = static_cast<int16_t>(number(32767));
    for (int64_t i = 0; i < 16; i++) last[i] = d - 16 + i >= d / 16 * 16 ? words[d - 16 + i] : int16_t{0};
    const void* rows = keep == Keep::int8      ? static_cast<const void*>(bytes.data())
                       : keep == Keep::float32 ? static_cast<const void*>(floats.data())
                                               : static_cast<const void*>(shorts.data());
    const Kept kept{keep, rows, units.data(), euclidean, nullptr, nullptr, nullptr};
    const Judge judge{query.data(), words.data(), last.data(), 1e-4f};
    for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{8}, int64_t{9}, n}) {
        const std::vector<int32_t> numbers = random.integers<int32_t>(count, 0, n - 1);
        std::vector<double> scores(count);
        level.search.kept_scores(kept, d, numbers.data(), count, judge, scores.data());
        record.add(scores);
    }
}

}  // namespace

void add_table_cases(Cases& cases) {
    for (Values kind : kAllValues) {
        for (int64_t size : {1, 2, 3, 4, 5, 9, 65})
            for (int64_t m : {1, 2, 7})
                for (bool own_books : {false, true})
                    cases.add("multiply_centers", multiply_centers, m, size, own_books, kind);
        for (Coding coding : {Coding::plain, Coding::scaled})
            for (int64_t m : {1, 2, 3, 4, 5, 50, 65, 192, 768})
                for (int64_t part : {0, 50, 100})
                    for (bool by_length : {false, true})
                        cases.add("make_table", make_table, coding, m, part, by_length, kind);
        for (int64_t n : kCounts) cases.add("round_bases", round_bases, n, kind);
        for (Keep keep : {Keep::int8, Keep::int16, Keep::float16, Keep::float32})
            for (int64_t d : kDimensions)
                for (bool euclidean : {false, true}) cases.add("kept_scores", kept_scores, keep, d, euclidean, kind);
    }
    for (int64_t n : kCounts)
        for (int64_t rows_a_list : {10, 1000}) cases.add("likely_threshold", likely_threshold, n, rows_a_list);
}
