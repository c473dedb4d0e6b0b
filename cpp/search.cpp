// A search: lists by their centers, rows by their codes, candidates by their vectors. The loops that matter are
// in the SIMD levels; here is what happens when.
#include "search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "half.h"
#include "kernels.h"

namespace pcpq {
namespace {

constexpr int64_t kQueriesTogether = 512;  // in list order; their tables and candidates stay in cache
constexpr int64_t kFewestTogether = 8;
constexpr int64_t kWarmUp = 1;  // lists a query scans alone, so that its threshold means something

// Room for n values, whatever they hold.
template <class T>
class Buffer {
public:
    void resize(int64_t n) {
        if (n > size_) values_ = std::make_unique_for_overwrite<T[]>(n);
        size_ = std::max(size_, n);
    }
    T* data() { return values_.get(); }
    T operator[](int64_t i) const { return values_[i]; }

private:
    std::unique_ptr<T[]> values_;
    int64_t size_ = 0;
};

double length_of(const float* x, int64_t n) {
    double sums[4] = {};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int t = 0; t < 4; t++) sums[t] += double(x[i + t]) * x[i + t];
    for (; i < n; i++) sums[0] += double(x[i]) * x[i];
    return std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

struct Scored {
    double score;
    int64_t id;
    bool operator<(const Scored& other) const { return score > other.score || (score == other.score && id < other.id); }
};

// Adds up the time of each stage, if anybody asks.
class StageClock {
public:
    explicit StageClock(double* seconds) : seconds_(seconds) {
        if (seconds_) last_ = std::chrono::steady_clock::now();
    }
    void stage(int number) {
        if (!seconds_) return;
        const auto now = std::chrono::steady_clock::now();
        seconds_[number] += std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }

private:
    double* seconds_;
    std::chrono::steady_clock::time_point last_;
};

// Candidates with their final scores.
struct Judged {
    std::vector<double> scores, ordered;
    std::vector<Scored> best;

    // The k best, ties to the lower id. Ids lie anywhere in memory, so only those that may matter are read.
    void choose(int64_t k, const int32_t* rows, const int64_t* ids) {
        best.clear();
        if (k == 0) return;
        ordered = scores;
        std::nth_element(ordered.begin(), ordered.begin() + (k - 1), ordered.end(), std::greater<double>());
        for (size_t i = 0; i < scores.size(); i++)
            if (scores[i] >= ordered[k - 1]) best.push_back({scores[i], ids[rows[i]]});
        std::sort(best.begin(), best.end());
    }
};

// Everything one query needs from start to end.
class QuerySearch {
public:
    std::span<int32_t> chosen;  // lists to probe, the best few first
    Scan scan;

    // The query as integers, for its products with the lists.
    void take(const SearchJob& job, int64_t q) {
        number_ = q;
        query_ = job.queries + q * job.lists.dimensions;
        length_ = static_cast<float>(length_of(query_, job.lists.dimensions));
        pair_coordinates(job.lists);
    }
    const int32_t* pairs() { return pairs_.data(); }
    int32_t* sums() { return sums_.data(); }

    // From products with all lists to a scan of some.
    void prepare(const SearchJob& job) {
        choose_lists(job.lists, job.probes);
        const Packed& packed = job.packed;
        eta_.resize(packed.sections * 16);
        table_.resize(table_sections(packed) * 16);
        const SearchKernels& level = kernels().search;
        level.multiply_centers(packed, job.turned + number_ * packed.sections * packed.section_size, eta_.data());
        const float largest_base = job.lists.unit * 32767.0f * length_ + job.lists.largest_offset;
        level.make_table(packed, eta_.data(), length_, largest_base, scan, table_.data());
        scan.table = table_.data();

        const int64_t capacity = Candidates::capacity_for(job.rerank);
        scores_.resize(capacity);
        rows_.resize(capacity);
        scan.best = {job.rerank, capacity, 0, INT32_MIN, scores_.data(), rows_.data()};
    }

    // What the integer scores of a list's rows start from.
    int32_t base(const SearchJob& job, int64_t list) const {
        const float base = exact_base(job.lists, list) + scan.constant;
        return static_cast<int32_t>(std::lrint(base / scan.unit)) - scan.zero;
    }

    // Candidates to answers.
    void finish(const SearchJob& job, Judged& judged) {
        const int64_t q = number_;
        scan.best.compact();
        const int64_t n = scan.best.count, k = std::min(job.k, n);
        judged.scores.resize(n);
        if (job.kept.keep == Keep::none)
            for (int64_t i = 0; i < n; i++) judged.scores[i] = code_score(job, rows_[i]);
        else
            kernels().search.kept_scores(job.kept, job.lists.dimensions, rows_.data(), n, query_, judged.scores.data());
        judged.choose(k, rows_.data(), job.kept.ids);
        for (int64_t i = 0; i < job.k; i++) {
            job.ids[q * job.k + i] = i < k ? judged.best[i].id : -1;
            job.scores[q * job.k + i] =
                i < k ? static_cast<float>(judged.best[i].score) : -std::numeric_limits<float>::infinity();
        }
        if (!job.counts) return;
        int64_t scanned = 0;
        for (int32_t list : chosen) scanned += job.lists.rows[list + 1] - job.lists.rows[list];
        job.counts[q * 3] = static_cast<int64_t>(chosen.size());
        job.counts[q * 3 + 1] = scanned;
        job.counts[q * 3 + 2] = n;
    }

private:
    int64_t number_;
    const float* query_;
    float length_, product_unit_;
    Buffer<int32_t> pairs_, sums_, keys_, numbers_;
    Buffer<float> eta_;
    Buffer<uint8_t> table_;
    Buffer<int32_t> scores_, rows_;

    // Both lengths are at most 32,767 in integers, so by Cauchy and Schwarz no sum leaves 32 bits.
    void pair_coordinates(const Lists& lists) {
        const int64_t pairs = (lists.dimensions + 1) / 2;
        pairs_.resize(pairs);
        sums_.resize((lists.count + 7) / 8 * 8);
        const float scale = length_ > 0.0f ? 32700.0f / length_ : 0.0f;
        for (int64_t t = 0; t < pairs; t++) {
            const auto integer = [&](int64_t i) {
                return i < lists.dimensions ? static_cast<uint32_t>(std::lrint(query_[i] * scale)) : 0u;
            };
            pairs_.data()[t] = static_cast<int32_t>((integer(2 * t) & 0xffffu) | integer(2 * t + 1) << 16);
        }
        product_unit_ = lists.unit * (length_ / 32700.0f);
    }

    float exact_base(const Lists& lists, int64_t list) const {
        return sums_[list] * product_unit_ + lists.offsets[list];
    }

    // The `probes` lists of highest rank, ties to the lower number.
    void choose_lists(const Lists& lists, int64_t probes) {
        const int64_t n = lists.count;
        keys_.resize((n + 7) / 8 * 8);
        kernels().search.rank_lists(lists, sums_.data(), product_unit_, keys_.data());
        Cut cut{INT32_MIN, n};
        if (probes < n) cut = kernels().search.cut_keys(keys_.data(), n, probes);
        numbers_.resize(n);
        const int64_t count = kernels().search.chosen_keys(keys_.data(), n, cut, numbers_.data());
        chosen = {numbers_.data(), static_cast<size_t>(count)};
        // Only the first few need their order: they make the threshold.
        const auto better = [&](int32_t a, int32_t b) {
            return keys_[a] > keys_[b] || (keys_[a] == keys_[b] && a < b);
        };
        std::partial_sort(chosen.begin(), chosen.begin() + std::min<int64_t>(kWarmUp, chosen.size()), chosen.end(),
                          better);
    }

    // The estimate of a row's score by its code, exact tables, gain and bias.
    double code_score(const SearchJob& job, int64_t row) const {
        const Lists& lists = job.lists;
        const int64_t list = std::upper_bound(lists.rows, lists.rows + lists.count + 1, row) - lists.rows - 1;
        float score = decoded_score(job.packed, lists, list, row);
        if (job.kept.gains) score *= half_to_float(job.kept.gains[row]);
        const float base = exact_base(lists, list);
        if (!job.kept.biases) return base + score;
        const float bias = job.kept.biases[row];
        return job.kept.euclidean ? (base + bias) + score : base * (1.0f + bias) + score;
    }

    // <q, decoded> of a row.
    float decoded_score(const Packed& packed, const Lists& lists, int64_t list, int64_t row) const {
        const int64_t within = row - lists.rows[list], lane = within % kBlock;
        const uint8_t* block = packed.blocks + (lists.blocks[list] + within / kBlock) * packed.block_bytes + lane;
        const int64_t stride = packed.scaled ? 2 * kBlock : kBlock;  // bytes a pair of sections
        float sums[4] = {};
        for (int64_t j = 0; j < packed.sections; j++) {
            const uint8_t* byte = block + j / 2 * stride;
            const int shift = j % 2 * 4;
            float value = eta_[j * 16 + (byte[0] >> shift & 15)];
            if (packed.scaled) value *= packed.scales[j * 16 + (byte[kBlock] >> shift & 15)];
            sums[j % 4] += value;
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
};

// Products of all queries with all lists.
void score_lists(const SearchJob& job, std::vector<QuerySearch>& searches, int64_t start, int64_t count) {
    const SearchKernels& level = kernels().search;
    for (int64_t q = 0; q < count; q += 4) {
        const int32_t* pairs[4];
        int32_t* sums[4];
        const int64_t some = std::min<int64_t>(4, count - q);
        for (int64_t t = 0; t < some; t++) {
            searches[q + t].take(job, start + q + t);
            pairs[t] = searches[q + t].pairs();
            sums[t] = searches[q + t].sums();
        }
        if (some == 4)
            level.score_lists_for_four(job.lists, pairs, sums);
        else
            for (int64_t t = 0; t < some; t++) level.score_lists(job.lists, pairs + t, sums + t);
    }
}

// The lists beyond the warm-up, list by list, four queries at a time.
class TogetherScan {
public:
    void run(const SearchJob& job, std::vector<QuerySearch>& searches, int64_t count) {
        sort_by_list(job, searches, count);
        const SearchKernels& level = kernels().search;
        for (int64_t list = 0; list < job.lists.count; list++)
            for (int64_t i = starts_[list]; i < starts_[list + 1]; i += 4) {
                const int64_t left = std::min<int64_t>(4, starts_[list + 1] - i);
                Scan* scans[4];
                for (int64_t t = 0; t < left; t++) scans[t] = &searches[visits_[i + t]].scan;
                if (left == 1) {
                    level.scan_list(job, list, scans, bases_.data() + i);
                    continue;
                }
                // Two or three and a stand-in that finds nothing are still faster than one by one.
                int32_t bases[4] = {};
                std::copy_n(bases_.data() + i, left, bases);
                Scan nobody = *scans[0];
                nobody.best.threshold = INT32_MAX;
                for (int64_t t = left; t < 4; t++) scans[t] = &nobody;
                level.scan_list_for_four(job, list, scans, bases);
            }
    }

private:
    std::vector<int64_t> starts_, next_;   // (L + 1,) where each list's visits begin
    std::vector<int32_t> visits_, bases_;  // the queries of a list, and its bases for them

    // Bases are made query by query, while a query's products with all lists are in cache.
    void sort_by_list(const SearchJob& job, const std::vector<QuerySearch>& searches, int64_t count) {
        starts_.assign(job.lists.count + 1, 0);
        for (int64_t q = 0; q < count; q++)
            for (size_t i = kWarmUp; i < searches[q].chosen.size(); i++) starts_[searches[q].chosen[i] + 1]++;
        for (int64_t list = 0; list < job.lists.count; list++) starts_[list + 1] += starts_[list];
        next_.assign(starts_.begin(), starts_.end() - 1);
        visits_.resize(starts_.back());
        bases_.resize(starts_.back());
        for (int64_t q = 0; q < count; q++)
            for (size_t i = kWarmUp; i < searches[q].chosen.size(); i++) {
                const int32_t list = searches[q].chosen[i];
                const int64_t at = next_[list]++;
                visits_[at] = static_cast<int32_t>(q);
                bases_[at] = searches[q].base(job, list);
            }
    }
};

}  // namespace

void Candidates::compact() {
    if (count <= wanted) return;
    const Cut cut = kernels().search.cut_keys(scores, count, wanted);
    int32_t last_row = INT32_MIN;
    if (cut.at_value > 0) {
        std::vector<int32_t> ties;
        for (int64_t i = 0; i < count; i++)
            if (scores[i] == cut.value) ties.push_back(rows[i]);
        std::nth_element(ties.begin(), ties.begin() + (cut.at_value - 1), ties.end());
        last_row = ties[cut.at_value - 1];
    }
    count = kernels().search.keep_pairs(scores, rows, count, cut.value, last_row);
    threshold = cut.at_value > 0 ? cut.value : cut.value + 1;
}

std::pair<double, double> length_range(const float* rows, int64_t n, int64_t dimensions, float* units) {
    double least = std::numeric_limits<double>::infinity(), most = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const float* row = rows + i * dimensions;
        const double length = length_of(row, dimensions);
        if (std::isnan(length)) return {length, length};
        least = std::min(least, length);
        most = std::max(most, length);
        const float divisor = length > 0.0 ? static_cast<float>(length) : 1.0f;
        if (units)
            for (int64_t t = 0; t < dimensions; t++) units[i * dimensions + t] = row[t] / divisor;
    }
    return {least, most};
}

void search(const SearchJob& job) {
    std::vector<QuerySearch> searches(std::min(job.n_queries, kQueriesTogether));
    TogetherScan together_scan;
    Judged judged;
    for (int64_t start = 0; start < job.n_queries; start += kQueriesTogether) {
        const int64_t count = std::min(kQueriesTogether, job.n_queries - start);
        const bool together = count >= kFewestTogether;
        StageClock clock(job.seconds);
        score_lists(job, searches, start, count);
        clock.stage(0);
        for (int64_t q = 0; q < count; q++) {
            QuerySearch& one = searches[q];
            one.prepare(job);
            clock.stage(1);
            Scan* scan = &one.scan;
            const auto lists = static_cast<int64_t>(one.chosen.size());
            for (int64_t i = 0; i < (together ? std::min(kWarmUp, lists) : lists); i++) {
                const int32_t base = one.base(job, one.chosen[i]);
                kernels().search.scan_list(job, one.chosen[i], &scan, &base);
            }
            clock.stage(2);
        }
        if (together) together_scan.run(job, searches, count);
        clock.stage(2);
        for (int64_t q = 0; q < count; q++) searches[q].finish(job, judged);
        clock.stage(3);
    }
}

}  // namespace pcpq
