#include "training/assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/index_arrays.h"
#include "kernels/kernels.h"

namespace pcpq {
namespace {

// Rows that are compared with a tile of lists while its integers are in the cache, and lists of a tile.
constexpr int64_t kBlockRows = 32, kTile = 128;
// Lists after which the bound of a row is raised: few at first, which most lists reach.
constexpr int64_t kFirstLists = 8, kMostLists = 64;
// Of 5,656 lists of text embeddings the best second one is among the 16 nearest for 95 % of rows.
constexpr int64_t kSecondLists = 25;
// Two standard deviations of rounding to whole numbers. Those of a row, times a centroid, and those of the centroid,
// times the row, are added up: 2.8 standard deviations of both together, for each of two lists that are compared.
constexpr float kRounding = 0.57735027f;

// Lists whose integers lie together.
struct Tile {
    int64_t count;
    const int8_t* coarse;
    const uint16_t* starts;
    const float *units, *penalties;
    const int32_t* numbers;  // null: they follow each other from `first`
    int64_t first;
};

// A list that may be near to a row, and how near at best.
struct NearList {
    int32_t list;
    float highest;
};

// A row while it is compared: the lists whose score may be among the `wanted` highest.
struct ComparedRow {
    float unit, slack;
    std::vector<float> lowest;  // the highest of the scores that lists have at least, descending
    std::vector<NearList> near;

    void start() {
        lowest.clear();
        near.clear();
    }
    // A score that the `wanted` nearest lists have at least.
    float least(int64_t wanted) const {
        return static_cast<int64_t>(lowest.size()) < wanted ? -std::numeric_limits<float>::infinity() : lowest.back();
    }
    void add(NearList one, float lowest_score, int64_t wanted) {
        near.push_back(one);
        if (!(lowest_score > least(wanted))) return;
        if (static_cast<int64_t>(lowest.size()) == wanted) lowest.pop_back();
        lowest.insert(std::upper_bound(lowest.begin(), lowest.end(), lowest_score, std::greater<float>()),
                      lowest_score);
    }
    // Drops the lists that were added while the bound was lower.
    void finish(int64_t wanted) {
        const float bound = least(wanted);
        std::erase_if(near, [=](const NearList& one) { return one.highest < bound; });
    }
};

// Compares blocks of rows with lists.
class Comparison {
public:
    Comparison(const RoundedLists& lists, int64_t wanted)
        : lists_(lists),
          wanted_(wanted),
          fours_((lists.dimensions + 3) / 4),
          row_bytes_(4 * fours_ + 16),
          around_(lists.dimensions),
          bytes_(kBlockRows * row_bytes_),
          sums_(4 * kTile),
          rows_(kBlockRows) {}

    // Calls done(row number, its lists) for every row, in order.
    template <class Function>
    void compare_with_all(const float* rows, int64_t n, Function done) {
        each_block(rows, 0, n, done, [&] {
            for (int64_t first = 0; first < lists_.count; first += kTile)
                compare({.count = std::min(kTile, lists_.count - first),
                         .coarse = lists_.coarse + first * fours_ * 4,
                         .starts = lists_.starts + first * 2,
                         .units = lists_.units + first,
                         .penalties = lists_.penalties + first,
                         .numbers = nullptr,
                         .first = first});
        });
    }

    // The same with `count` lists of these numbers, for rows `start` to `stop`.
    template <class Function>
    void compare_with(const int32_t* numbers, int64_t count, const float* rows, int64_t start, int64_t stop,
                      Function done) {
        if (start == stop) return;
        gather(numbers, count);
        const int64_t d4 = fours_ * 4;
        each_block(rows, start, stop, done, [&] {
            for (int64_t first = 0; first < count; first += kTile)
                compare({.count = std::min(kTile, count - first),
                         .coarse = coarse_.data() + first * d4,
                         .starts = starts_.data() + first * 2,
                         .units = units_.data() + first,
                         .penalties = penalties_.data() + first,
                         .numbers = numbers + first,
                         .first = 0});
        });
    }

private:
    const RoundedLists& lists_;
    int64_t wanted_, fours_, row_bytes_, block_rows_ = 0;
    std::vector<float> around_;
    std::vector<uint8_t> bytes_;
    std::vector<int32_t> sums_;
    std::vector<ComparedRow> rows_;
    // Of the lists that are gathered.
    std::vector<int8_t> coarse_;
    std::vector<uint16_t> starts_;
    std::vector<float> units_, penalties_;

    template <class Done, class Compare>
    void each_block(const float* rows, int64_t start, int64_t stop, Done done, Compare compare_block) {
        for (int64_t first = start; first < stop; first += kBlockRows) {
            block_rows_ = std::min(kBlockRows, stop - first);
            for (int64_t i = 0; i < block_rows_; i++) round(rows + (first + i) * lists_.dimensions, i);
            compare_block();
            for (int64_t i = 0; i < block_rows_; i++) {
                rows_[i].finish(wanted_);
                done(first + i, std::as_const(rows_[i].near));
            }
        }
    }

    void round(const float* row, int64_t i) {
        const SearchKernels& level = kernels().search;
        const int64_t d = lists_.dimensions;
        for (int64_t t = 0; t < d; t++) around_[t] = row[t] - lists_.centre[t];
        const float length = std::sqrt(level.inner_product(around_.data(), around_.data(), d));
        ComparedRow& compared = rows_[i];
        compared.start();
        compared.unit =
            level.query_to_bytes(around_.data(), d, length, lists_.longest_row, bytes_.data() + i * row_bytes_);
        compared.slack = kRounding * (compared.unit * lists_.longest + length);
    }

    void gather(const int32_t* numbers, int64_t count) {
        const int64_t padded = (count + 7) / 8 * 8;
        coarse_.assign(padded * fours_ * 4, 0);
        starts_.assign(padded * 2, 0);
        units_.assign(padded, 0.0f);
        penalties_.assign(padded, std::numeric_limits<float>::infinity());
        for (int64_t i = 0; i < count; i++) {
            const int64_t list = numbers[i];
            const int8_t* from = lists_.coarse + (list / 8 * fours_ * 8 + list % 8) * 4;
            int8_t* to = coarse_.data() + (i / 8 * fours_ * 8 + i % 8) * 4;
            for (int64_t t = 0; t < fours_; t++) std::memcpy(to + t * 32, from + t * 32, 4);
            std::copy_n(lists_.starts + list * 2, 2, starts_.data() + i * 2);
            units_[i] = lists_.units[list];
            penalties_[i] = lists_.penalties[list];
        }
    }

    void compare(const Tile& tile) {
        Lists lists{};
        lists.count = tile.count;
        lists.dimensions = lists_.dimensions;
        lists.coarse = tile.coarse;
        lists.starts = tile.starts;
        int32_t* sums[4];
        for (int64_t t = 0; t < 4; t++) sums[t] = sums_.data() + t * kTile;
        for (int64_t first = 0; first < block_rows_; first += 4) {
            const int64_t some = std::min<int64_t>(4, block_rows_ - first);
            const uint8_t* rows[4];
            for (int64_t t = 0; t < 4; t++) rows[t] = bytes_.data() + (first + std::min(t, some - 1)) * row_bytes_;
            kernels().search.score_lists_for_four(lists, rows, sums);
            for (int64_t t = 0; t < some; t++) keep(tile, sums[t], rows_[first + t]);
        }
    }

    void keep(const Tile& tile, const int32_t* sums, ComparedRow& row) const {
        int32_t indices[kMostLists + 8];
        float lowest[kMostLists], highest[kMostLists];
        int64_t some = row.lowest.empty() ? kFirstLists : kMostLists;
        for (int64_t start = 0; start < tile.count; start += some) {
            if (start > 0) some = std::min(kMostLists, start);
            const int64_t n = std::min(some, tile.count - start);
            const int64_t kept = kernels().keep_near(sums + start, (n + 7) / 8 * 8, row.unit, row.slack,
                                                     tile.units + start, tile.penalties + start, row.least(wanted_),
                                                     indices, lowest, highest);
            for (int64_t i = 0; i < kept; i++) {
                const int64_t index = start + indices[i];
                if (index >= tile.count) continue;  // padding
                const auto list = static_cast<int32_t>(tile.numbers ? tile.numbers[index] : tile.first + index);
                row.add({list, highest[indices[i]]}, lowest[indices[i]], wanted_);
            }
        }
    }
};

// Squared distances of a row from lists, with their crowding.
void measure_distances(const RoundedLists& lists, const float* row, const std::vector<NearList>& near,
                       std::vector<float>& distances) {
    const auto distance = kernels().squared_distance;
    distances.resize(near.size());
    for (size_t i = 0; i < near.size(); i++)
        distances[i] = distance(row, lists.centroids + near[i].list * lists.dimensions, lists.dimensions) +
                       lists.crowding[near[i].list];
}

}  // namespace

void nearest_lists(const RoundedLists& lists, const NearestListsJob& job) {
    Comparison comparison(lists, 1);
    std::vector<float> distances;
    const auto done = [&](int64_t i, const std::vector<NearList>& near) {
        measure_distances(lists, job.rows + i * lists.dimensions, near, distances);
        const auto best = std::min_element(distances.begin(), distances.end()) - distances.begin();
        job.lists[i] = near[best].list;
        job.distances[i] = distances[best];
    };
    if (!job.near) return comparison.compare_with_all(job.rows, job.n, done);
    for (int64_t g = 0; g < job.n_groups; g++)
        comparison.compare_with(job.near + g * job.n_near, job.n_near, job.rows, g > 0 ? job.stops[g - 1] : 0,
                                job.stops[g], done);
}

void two_lists(const RoundedLists& lists, const TwoListsJob& job) {
    const int64_t d = lists.dimensions;
    const auto product = kernels().search.inner_product;
    Comparison comparison(lists, std::min(kSecondLists, lists.count));
    std::vector<float> distances, residual(d);
    comparison.compare_with_all(job.rows, job.n, [&](int64_t i, const std::vector<NearList>& near) {
        const float* row = job.rows + i * d;
        measure_distances(lists, row, near, distances);
        const size_t nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
        const float* centroid = lists.centroids + near[nearest].list * d;
        for (int64_t t = 0; t < d; t++) residual[t] = row[t] - centroid[t];
        const float square = product(residual.data(), residual.data(), d), along = product(residual.data(), row, d);
        const float weight = square > 0.0f ? job.weight / square : 0.0f;
        float least = std::numeric_limits<float>::infinity();
        int32_t second = near[nearest].list;
        for (size_t other = 0; other < near.size(); other++) {
            if (other == nearest) continue;
            const float parallel = along - product(residual.data(), lists.centroids + near[other].list * d, d);
            const float loss = weight * parallel * parallel + distances[other];
            if (loss >= least) continue;
            least = loss;
            second = near[other].list;
        }
        job.first[i] = near[nearest].list;
        job.second[i] = second;
    });
}

void lists_around(const RoundedLists& lists, const ListsAroundJob& job) {
    Comparison comparison(lists, job.wanted);
    std::vector<float> distances;
    std::vector<std::pair<float, int32_t>> ranked;
    comparison.compare_with_all(job.rows, job.n, [&](int64_t i, const std::vector<NearList>& near) {
        measure_distances(lists, job.rows + i * lists.dimensions, near, distances);
        ranked.clear();
        for (size_t j = 0; j < near.size(); j++) ranked.emplace_back(distances[j], near[j].list);
        std::nth_element(ranked.begin(), ranked.begin() + (job.wanted - 1), ranked.end());
        int32_t* around = job.lists + i * job.wanted;
        for (int64_t j = 0; j < job.wanted; j++) around[j] = ranked[j].second;
        std::sort(around, around + job.wanted);
    });
}

}  // namespace pcpq
