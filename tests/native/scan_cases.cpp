// The scan of one list for one query and up to four, with tables of any bytes: sums may wrap, and wrap alike.
#include <cstdint>
#include <vector>

#include "cases.h"

using namespace pcpq;

namespace {

constexpr int64_t kLists = 6;

struct Query {
    std::vector<uint8_t> table;
    std::vector<int32_t> scores, rows;
    Scan scan{};

    // Tables as searches make them, in whose sums nothing wraps, or of any bytes, or as large as can be.
    Query(Random& random, int64_t size, int64_t wanted, int kind) {
        const int64_t most = kind == 0 ? 63 : 255;
        table = random.integers<uint8_t>(size, kind == 2 ? 254 : 0, most);
        const int64_t capacity = Candidates::capacity_for(wanted);
        scores.resize(capacity);
        rows.resize(capacity);
        scan.lookup_table = table.data();
        const auto bias = static_cast<uint16_t>(random.bits());
        scan.bias_products[0] = static_cast<uint8_t>(bias);
        scan.bias_products[1] = static_cast<uint8_t>(bias >> 8);
        const int64_t threshold =
            random.between(0, 2) ? random.between(0, random.between(0, 1) ? 45000 : 900) : INT32_MIN;
        scan.best = {.wanted = wanted,
                     .capacity = capacity,
                     .count = 0,
                     .threshold = static_cast<int32_t>(threshold),
                     .scores = scores.data(),
                     .rows = rows.data()};
    }
};

void scan_list(const Kernels& level, Record& record, Random random, Coding coding, int64_t m, int64_t most,
               int64_t together, int kind, bool filtered) {
    std::vector<int64_t> rows, places;
    place_lists(random, kLists, most, block_rows(coding), rows, places);
    const int64_t n_blocks = places.back() / block_rows(coding), pairs = (m + 1) / 2;
    const bool scaled = coding == Coding::scaled;
    Lists lists{};
    Codes codes{};
    codes.coding = coding;
    codes.sections = m;
    codes.block_bytes = block_bytes(coding, m);
    codes.per_list = scaled && random.between(0, 1);
    const std::vector<uint8_t> blocks = random.integers<uint8_t>(n_blocks * codes.block_bytes, 0, 255);
    const std::vector<int8_t> steps = random.integers<int8_t>(kLists * pairs * 32, kind == 2 ? 63 : -64, 64);
    std::vector<uint32_t> allowed(places.back() / kMaskRows);
    for (uint32_t& bits : allowed)
        bits = random.between(0, 2) ? static_cast<uint32_t>(random.bits() & random.bits()) : 0;
    codes.blocks = blocks.data();
    codes.steps = steps.data();
    lists.count = kLists;
    lists.rows = rows.data();
    lists.places = places.data();
    const ScanInput input{.lists = lists, .codes = codes, .allowed = filtered ? allowed.data() : nullptr};
    std::vector<Query> queries;
    queries.reserve(together);
    Scan* scans[4];
    for (int64_t q = 0; q < together; q++) {
        queries.emplace_back(random, table_size(codes), random.between(1, 60), kind);
        scans[q] = &queries[q].scan;
    }
    const std::vector<int32_t> ahead = random.integers<int32_t>(n_blocks, 0, n_blocks - 1);
    for (int64_t list = 0; list < kLists; list++) {
        const int64_t most_base = random.between(0, 1) ? 20000 : 90;  // near the threshold, rows often just reach it
        const std::vector<int32_t> bases = random.integers<int32_t>(4, -most_base, most_base);
        level.search.scan_list[together - 1](input, list, ahead.data(), scans, bases.data());
    }
    for (const Query& query : queries) {
        record.add(query.scan.best.count);
        record.add(query.scan.best.threshold);
        record.add(query.scores, query.scan.best.count);
        record.add(query.rows, query.scan.best.count);
    }
}

}  // namespace

void add_scan_cases(Cases& cases) {
    for (Coding coding : {Coding::plain, Coding::scaled, Coding::wide})
        for (int64_t together : {1, 2, 3, 4}) {
            for (int64_t m : {1, 2, 3, 5, 25, 50})
                for (int kind : {0, 1, 2})
                    for (bool filtered : {false, true})
                        cases.add("scan_list", scan_list, coding, m, 75, together, kind, filtered);
            for (int64_t most : {1, 31, 32, 33, 63, 64, 65, 1000})
                cases.add("scan_list", scan_list, coding, 8, most, together, 0, false);
            cases.add("scan_list", scan_list, coding, 192, 40, together, 1, false);
            cases.add("scan_list", scan_list, coding, 768, 40, together, 0, false);
        }
}
