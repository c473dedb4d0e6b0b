#include "training/assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
// Lists of a row are dropped when there are so many, and twice as many as were left the last time. The bound is found
// by so many halvings at most.
constexpr int64_t kLeastRoom = 100;
constexpr int kHalvings = 20;
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

// A number that at least `wanted` of some are not below, and few more.
float bound_of(const std::vector<float>& numbers, int64_t wanted) {
    const auto reaching = [&](float bound) {
        int32_t count = 0;
        for (const float x : numbers) count += x >= bound;
        return count;
    };
    const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
    float low = *least, high = *largest;
    for (int i = 0; i < kHalvings; i++) {
        const float middle = low + 0.5f * (high - low);
        const int64_t count = reaching(middle);
        (count < wanted ? high : low) = middle;
        if (count >= wanted && count <= wanted + wanted / 8) break;
    }
    return low;
}

// A row while it is compared, and the lists whose score may be among the `wanted` highest.
struct ComparedRow {
    float unit, slack;
    float bound;  // which the scores of `wanted` lists are not below
    int64_t seen, room;
    std::vector<int32_t> lists;
    std::vector<float> lowest, highest;  // between which their scores are

    void start() {
        bound = -std::numeric_limits<float>::infinity();
        seen = 0;
        room = kLeastRoom;
        for (auto* scores : {&lowest, &highest}) scores->clear();
        lists.clear();
    }
    void add(int32_t list, float low, float high, int64_t wanted) {
        if (!(low > bound)) low = bound;  // which is known already; NaN is not in order
        lists.push_back(list);
        lowest.push_back(low);
        highest.push_back(high);
        if (wanted == 1) bound = low;
    }
    // Drops the lists that are not near enough: the bound was lower when they were added.
    void drop(int64_t wanted, std::vector<int32_t>& kept) {
        if (wanted > 1 && static_cast<int64_t>(lists.size()) > wanted) bound = bound_of(lowest, wanted);
        kept.resize(lists.size() + 8);
        const int64_t count =
            kernels().search.keep_reaching(highest.data(), static_cast<int64_t>(lists.size()), bound, kept.data());
        for (int64_t i = 0; i < count; i++) {
            lists[i] = lists[kept[i]];
            lowest[i] = lowest[kept[i]];
            highest[i] = highest[kept[i]];
        }
        room = std::max(kLeastRoom, 2 * count);
        lists.resize(count);
        lowest.resize(count);
        highest.resize(count);
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
    std::vector<int32_t> kept_;
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
                rows_[i].drop(wanted_, kept_);
                done(first + i, std::as_const(rows_[i].lists));
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

    void keep(const Tile& tile, const int32_t* sums, ComparedRow& row) {
        int32_t indices[kMostLists + 8];
        float lowest[kMostLists], highest[kMostLists];
        int64_t some = row.seen > 0 ? kMostLists : kFirstLists;
        for (int64_t start = 0; start < tile.count; start += some) {
            if (start > 0) some = std::min(kMostLists, start);
            const int64_t n = std::min(some, tile.count - start);
            const int64_t kept =
                kernels().keep_near(sums + start, (n + 7) / 8 * 8, row.unit, row.slack, tile.units + start,
                                    tile.penalties + start, row.bound, indices, lowest, highest);
            for (int64_t i = 0; i < kept; i++) {
                const int64_t index = start + indices[i];
                if (index >= tile.count) continue;  // padding
                const auto list = static_cast<int32_t>(tile.numbers ? tile.numbers[index] : tile.first + index);
                row.add(list, lowest[indices[i]], highest[indices[i]], wanted_);
            }
            row.seen += n;
            if (static_cast<int64_t>(row.lists.size()) >= row.room) row.drop(wanted_, kept_);
        }
    }
};

// Squared distances of a row from lists, with their crowding.
void measure_distances(const RoundedLists& lists, const float* row, const std::vector<int32_t>& near,
                       std::vector<float>& distances) {
    const auto distance = kernels().squared_distance;
    distances.resize(near.size());
    for (size_t i = 0; i < near.size(); i++)
        distances[i] =
            distance(row, lists.centroids + near[i] * lists.dimensions, lists.dimensions) + lists.crowding[near[i]];
}

}  // namespace

void nearest_lists(const RoundedLists& lists, const NearestListsJob& job) {
    Comparison comparison(lists, 1);
    std::vector<float> distances;
    const auto done = [&](int64_t i, const std::vector<int32_t>& near) {
        measure_distances(lists, job.rows + i * lists.dimensions, near, distances);
        const auto best = std::min_element(distances.begin(), distances.end()) - distances.begin();
        job.lists[i] = near[best];
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
    std::vector<float> distances, residual(d), difference(d);
    const auto subtract = [d](const float* row, const float* centroid, std::vector<float>& out) {
        for (int64_t t = 0; t < d; t++) out[t] = row[t] - centroid[t];
    };
    comparison.compare_with_all(job.rows, job.n, [&](int64_t i, const std::vector<int32_t>& near) {
        const float* row = job.rows + i * d;
        measure_distances(lists, row, near, distances);
        const size_t nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
        subtract(row, lists.centroids + near[nearest] * d, residual);
        const float square = product(residual.data(), residual.data(), d);
        const float weight = square > 0.0f ? job.weight / square : 0.0f;
        float least = std::numeric_limits<float>::infinity();
        int32_t second = near[nearest];
        for (size_t other = 0; other < near.size(); other++) {
            if (other == nearest || distances[other] >= least) continue;  // the loss is not less than the distance
            subtract(row, lists.centroids + near[other] * d, difference);
            const float parallel = product(residual.data(), difference.data(), d);
            const float loss = weight * parallel * parallel + distances[other];
            if (loss >= least) continue;
            least = loss;
            second = near[other];
        }
        job.first[i] = near[nearest];
        job.second[i] = second;
    });
}

void lists_around(const RoundedLists& lists, const ListsAroundJob& job) {
    Comparison comparison(lists, job.wanted);
    std::vector<float> distances;
    std::vector<std::pair<float, int32_t>> ranked;
    comparison.compare_with_all(job.rows, job.n, [&](int64_t i, const std::vector<int32_t>& near) {
        measure_distances(lists, job.rows + i * lists.dimensions, near, distances);
        ranked.clear();
        for (size_t j = 0; j < near.size(); j++) ranked.emplace_back(distances[j], near[j]);
        std::nth_element(ranked.begin(), ranked.begin() + (job.wanted - 1), ranked.end());
        int32_t* around = job.lists + i * job.wanted;
        for (int64_t j = 0; j < job.wanted; j++) around[j] = ranked[j].second;
        std::sort(around, around + job.wanted);
    });
}

void add_to_lists(const ListSumsJob& job) {
    const int64_t d = job.dimensions;
    for (int64_t i = 0; i < job.n; i++) {
        if (job.lists[i] < 0) continue;
        const float* row = job.rows + i * d;
        float* sum = job.sums + job.lists[i] * d;
        for (int64_t t = 0; t < d; t++) sum[t] += row[t];
    }
}

}  // namespace pcpq
