// Whole searches: all kernels of a level one after the other, on an index of random bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "cases.h"
#include "search/search.h"

using namespace pcpq;

namespace {

constexpr int64_t kLists = 21, kDimensionsOfSearch = 26, kSectionSize = 2, kDimensionsOfVectors = 41;

struct Index {
    std::vector<int64_t> rows, places, ids;
    std::vector<int8_t> coarse, steps;
    std::vector<uint16_t> starts, gains;
    std::vector<float> axes, whole_mean, mean, spreads, offsets, shapes, codewords, centroids, scales, step_units,
        units, biases, matrix;
    std::vector<uint8_t> blocks, kept, unpacked_scales, unpacked_biases;
    Guesses guesses;
    SearchJob job{};

    Index(Random& random, Coding coding, Keep keep, bool euclidean, bool per_list) {
        add_lists(random, coding, euclidean);
        add_codes(random, coding, per_list);
        // Lists and codes of fewer coordinates than vectors have.
        const bool projected = keep != Keep::none && random.between(0, 1);
        const int64_t d = projected ? kDimensionsOfVectors : kDimensionsOfSearch, n = rows.back();
        axes = random.values(Values::normal, d * kDimensionsOfSearch);
        whole_mean = random.values(Values::normal, d);
        job.projection = {.dimensions = d, .matrix = projected ? axes.data() : nullptr, .mean = whole_mean.data()};
        job.guesses = &guesses;
        kept = random.integers<uint8_t>(n * d * bytes_of(keep), 0, 255);
        for (size_t i = 3; keep == Keep::float32 && i < kept.size(); i += 4) kept[i] &= 0xbf;  // no large floats
        units = random.values(Values::normal, n);
        gains = random.integers<uint16_t>(n, 0x3800, 0x4000);
        biases = random.values(Values::normal, n);
        ids.resize(n);
        std::iota(ids.begin(), ids.end(), 1000);
        job.kept = {.keep = keep,
                    .rows = kept.data(),
                    .units = units.data(),
                    .euclidean = euclidean,
                    .gains = gains.data(),
                    .biases = biases.data(),
                    .ids = ids.data()};
        matrix = random.values(Values::normal, kDimensionsOfSearch * kDimensionsOfSearch);
        if (random.between(0, 1)) job.rotation.matrix = matrix.data();
    }

    void add_lists(Random& random, Coding coding, bool exact) {
        const int64_t groups = (kLists + 7) / 8, d = kDimensionsOfSearch;
        place_lists(random, kLists, 90, block_rows(coding), rows, places);
        coarse = random.integers<int8_t>(groups * (d + 3) / 4 * 4 * 8, -64, 64);
        starts = random.integers<uint16_t>(groups * 16, 0, 65535);
        mean = random.values(Values::normal, d);
        centroids = random.values(Values::normal, kLists * d);
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
        lists.centroids = exact ? centroids.data() : nullptr;
        lists.mean = mean.data();
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

    void add_codes(Random& random, Coding coding, bool per_list) {
        const int64_t m = kDimensionsOfSearch / kSectionSize, pairs = (m + 1) / 2, codebooks = per_list ? kLists : 1;
        const bool unpacked = coding == Coding::unpacked;
        Codes& codes = job.codes;
        codes.coding = coding;
        codes.sections = m;
        codes.section_size = kSectionSize;
        codes.per_list = per_list;
        codes.n_codewords = unpacked ? 40 : table_entries(coding);
        codes.n_scales = 16;
        codes.block_bytes = unpacked ? m : block_bytes(coding, m);
        const int64_t units_of_codes = unpacked ? rows.back() : places.back() / block_rows(coding);
        blocks = random.integers<uint8_t>(units_of_codes * codes.block_bytes, 0, 255);
        codewords = random.values(Values::normal, codebooks * m * kSectionSize * codes.n_codewords);
        scales = random.values(Values::normal, codebooks * m * 16);
        steps = random.integers<int8_t>(codebooks * pairs * 32, -64, 64);
        step_units.resize(codebooks * m);
        for (float& unit : step_units) unit = random.unit() / 64.0f;
        unpacked_scales = random.integers<uint8_t>(rows.back() * m, 0, 20);
        unpacked_biases = random.integers<uint8_t>(rows.back(), 0, 255);
        codes.blocks = blocks.data();
        codes.codewords = codewords.data();
        codes.scales = scales.data();
        codes.steps = steps.data();
        codes.step_units = step_units.data();
        codes.largest_step = 64.0f;
        codes.reach = 100.0f;
        codes.bias_low = -0.5f;
        codes.bias_step = 1.0f / 256.0f;
        codes.bias_by_length = random.between(0, 1);
        codes.unpacked_scales = unpacked ? unpacked_scales.data() : nullptr;
        codes.unpacked_biases = unpacked_biases.data();
    }
};

void whole_search(const Kernels&, Record& record, Random random, Coding coding, Keep keep, bool euclidean,
                  bool per_list, int64_t n_queries) {
    Index index(random, coding, keep, euclidean, per_list);
    const std::vector<float> queries = random.values(Values::normal, n_queries * index.job.projection.dimensions);
    std::vector<uint32_t> allowed(index.places.back() / kMaskRows);
    for (uint32_t& bits : allowed) bits = static_cast<uint32_t>(random.bits());
    SearchJob& job = index.job;
    job.queries = queries.data();
    job.n_queries = n_queries;
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    for (const Probing& probing : {Probing{1, 0.0f, kNever}, Probing{5, 0.0f, kNever}, Probing{kLists, 0.0f, kNever},
                                   Probing{12, 0.0f, -4.0f}, Probing{kLists, 0.5f, -6.0f}})
        for (int64_t rerank : {10, 40})
            for (bool filtered : {false, true}) {
                job.probing = probing;
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
    for (Coding coding : {Coding::plain, Coding::scaled, Coding::wide, Coding::unpacked})
        for (Keep keep : {Keep::none, Keep::int8, Keep::int16, Keep::float16, Keep::float32})
            for (bool euclidean : {false, true})
                for (bool per_list : {false, true})
                    for (int64_t n_queries : {1, 13})
                        cases.add("search", whole_search, coding, keep, euclidean, per_list, n_queries);
}
