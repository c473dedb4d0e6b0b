// Whole searches: all kernels of a level one after the other, on an index of random bytes.
#include <algorithm>
#include <numeric>

#include "cases.h"

using namespace pcpq;

namespace {

constexpr int64_t kLists = 21, kDimensionsOfSearch = 26, kSectionSize = 2;

struct Index {
    std::vector<int64_t> rows, places, ids;
    std::vector<int8_t> coarse, steps;
    std::vector<uint16_t> starts, gains;
    std::vector<float> middle, spreads, offsets, shapes, centers, list_centers, scales, step_units, units, biases,
        matrix;
    std::vector<uint8_t> blocks, kept, loose_scales, loose_biases;
    SearchJob job{};

    Index(Random& random, Coding coding, Keep keep, bool euclidean, bool own_books) {
        add_lists(random, euclidean);
        add_codes(random, coding, own_books);
        const int64_t n = rows.back();
        kept = random.integers<uint8_t>(n * kDimensionsOfSearch * bytes_of(keep), 0, 255);
        for (size_t i = 3; keep == Keep::float32 && i < kept.size(); i += 4) kept[i] &= 0xbf;  // no large floats
        units = random.values(Values::normal, n);
        gains = random.integers<uint16_t>(n, 0x3800, 0x4000);
        biases = random.values(Values::normal, n);
        ids.resize(n);
        std::iota(ids.begin(), ids.end(), 1000);
        job.kept = {keep, kept.data(), units.data(), euclidean, gains.data(), biases.data(), ids.data()};
        matrix = random.values(Values::normal, kDimensionsOfSearch * kDimensionsOfSearch);
        if (random.between(0, 1)) job.turn.matrix = matrix.data();
    }

    void add_lists(Random& random, bool exact) {
        const int64_t groups = (kLists + 7) / 8, d = kDimensionsOfSearch;
        place_lists(random, kLists, 90, rows, places);
        coarse = random.integers<int8_t>(groups * (d + 3) / 4 * 4 * 8, -64, 64);
        starts = random.integers<uint16_t>(groups * 16, 0, 65535);
        middle = random.values(Values::normal, d);
        list_centers = random.values(Values::normal, kLists * d);
        offsets = random.values(Values::normal, kLists);
        spreads.resize(kLists);
        for (float& spread : spreads) spread = random.unit();
        shapes.resize(3 * kLists);
        for (float& shape : shapes) shape = random.unit();
        Lists& lists = job.lists;
        lists.count = kLists;
        lists.dimensions = d;
        lists.coarse = coarse.data();
        lists.starts = starts.data();
        lists.unit = 1.0f / 128.0f;
        lists.longest_query = 127.0f;
        lists.centers = exact ? list_centers.data() : nullptr;
        lists.middle = middle.data();
        lists.spreads = spreads.data();
        lists.offsets = offsets.data();
        lists.largest_base = 32768.0f / 127.0f / 128.0f;  // whatever 16 bits hold
        lists.largest_offset = 6.0f;
        lists.largest_spread = 1.0f;
        lists.energies = shapes.data();
        lists.bias_means = shapes.data() + kLists;
        lists.bias_variances = shapes.data() + 2 * kLists;
        lists.rows = rows.data();
        lists.places = places.data();
    }

    void add_codes(Random& random, Coding coding, bool own_books) {
        const int64_t m = kDimensionsOfSearch / kSectionSize, pairs = (m + 1) / 2, books = own_books ? kLists : 1;
        const bool loose = coding == Coding::loose;
        Packed& packed = job.packed;
        packed.coding = coding;
        packed.sections = m;
        packed.section_size = kSectionSize;
        packed.own_books = own_books;
        packed.columns = loose ? 40 : 16;
        packed.scale_columns = 16;
        packed.block_bytes = loose ? m : coding == Coding::scaled ? pairs * 64 + 96 : table_sections(packed) * 16;
        const int64_t units_of_codes = loose ? rows.back() : places.back() / kBlock;
        blocks = random.integers<uint8_t>(units_of_codes * packed.block_bytes, 0, 255);
        centers = random.values(Values::normal, books * m * kSectionSize * packed.columns);
        scales = random.values(Values::normal, books * m * 16);
        steps = random.integers<int8_t>(books * pairs * 32, -64, 64);
        step_units.resize(books * m);
        for (float& unit : step_units) unit = random.unit() / 64.0f;
        loose_scales = random.integers<uint8_t>(rows.back() * m, 0, 20);
        loose_biases = random.integers<uint8_t>(rows.back(), 0, 255);
        packed.blocks = blocks.data();
        packed.centers = centers.data();
        packed.scales = scales.data();
        packed.steps = steps.data();
        packed.step_units = step_units.data();
        packed.largest_step = 64.0f;
        packed.reach = 100.0f;
        packed.bias_low = -0.5f;
        packed.bias_step = 1.0f / 256.0f;
        packed.bias_by_length = random.between(0, 1);
        packed.loose_scales = loose ? loose_scales.data() : nullptr;
        packed.loose_biases = loose_biases.data();
    }
};

void whole_search(const Kernels&, Record& record, Random random, Coding coding, Keep keep, bool euclidean,
                  bool own_books, int64_t n_queries) {
    Index index(random, coding, keep, euclidean, own_books);
    const std::vector<float> queries = random.values(Values::normal, n_queries * kDimensionsOfSearch);
    std::vector<uint32_t> allowed(index.places.back() / kBlock);
    for (uint32_t& bits : allowed) bits = static_cast<uint32_t>(random.bits());
    SearchJob& job = index.job;
    job.queries = queries.data();
    job.n_queries = n_queries;
    for (int64_t probes : {int64_t{1}, int64_t{5}, kLists})
        for (int64_t rerank : {10, 40})
            for (bool filtered : {false, true}) {
                job.probes = probes;
                job.rerank = rerank;
                job.k = 10;
                job.allowed = filtered ? allowed.data() : nullptr;
                job.share = filtered ? 0.5f : 1.0f;
                std::vector<int64_t> ids(n_queries * job.k), counts(n_queries * 3);
                std::vector<double> scores(n_queries * job.k);
                std::vector<int32_t> scanned(n_queries * job.k);
                job.ids = ids.data();
                job.scores = scores.data();
                job.counts = counts.data();
                job.scanned = scanned.data();
                pcpq::search(job);
                record.add(ids);
                record.add(scores);
                record.add(counts);
                record.add(scanned);
            }
}

}  // namespace

void add_search_cases(Cases& cases) {
    for (Coding coding : {Coding::plain, Coding::scaled, Coding::loose})
        for (Keep keep : {Keep::none, Keep::int8, Keep::int16, Keep::float16, Keep::float32})
            for (bool euclidean : {false, true})
                for (bool own_books : {false, true})
                    for (int64_t n_queries : {1, 13})
                        cases.add("search", whole_search, coding, keep, euclidean, own_books, n_queries);
}
