// One query from its products with the lists to its answers; search.cpp has many of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "search/checksum.h"
#include "search/rows.h"
#include "search/search.h"

namespace pcpq {
namespace {

// Room for n values: zeros at first, then what the last search left there. Where much room is taken of which little is
// used, and a count says how much, zeros would cost more than they are worth.
template <class T, bool counted = false>
class Buffer {
public:
    void resize(int64_t n) {
        if (n > size_) values_ = counted ? std::make_unique_for_overwrite<T[]>(n) : std::make_unique<T[]>(n);
        size_ = std::max(size_, n);
    }
    T* data() { return values_.get(); }
    int64_t size() const { return size_; }
    T operator[](int64_t i) const { return values_[i]; }

private:
    std::unique_ptr<T[]> values_;
    int64_t size_ = 0;
};

// Candidates with their final scores.
class Judged {
public:
    Buffer<double> scores;  // room for all
    struct Answer {
        double score = -std::numeric_limits<double>::infinity();
        int64_t id = -1, key = INT64_MIN;  // in the order of scores, and in some order even where they are no numbers
        int32_t place = 0;                 // among the candidates
        Answer() = default;
        Answer(double score, int64_t id, int32_t place)
            : score(score), id(id), key(std::bit_cast<int64_t>(score + 0.0)), place(place) {
            if (key < 0) key ^= INT64_MAX;
        }
        // Larger scores first, then lower ids. Files may hold an id twice: then lower places.
        bool operator<(const Answer& other) const { return (key > other.key) | ((key == other.key) & (id < other.id)); }
    };
    std::vector<Answer> best;

    // The k best of n, in order.
    void choose(int64_t n, int64_t k, const int32_t* rows, const int64_t* ids) {
        int64_t count = n;
        for (auto* room : {&keys_, &best_keys_, &places_}) room->resize((n + 7) / 8 * 8);
        if (k < n) {
            // Floats as integers, in the same order: SIMD finds the cut, and few are left to sort.
            for (int64_t i = 0; i < n; i++) {
                const auto bits = std::bit_cast<int32_t>(static_cast<float>(scores[i]) + 0.0f);
                keys_.data()[i] = std::max(bits < 0 ? bits ^ INT32_MAX : bits, INT32_MIN + 1);
            }
            const Cut cut = kernels().search.cut_keys(keys_.data(), n, k);
            const int32_t least = cut.at_value > 0 ? cut.value - 1 : cut.value;
            count = kernels().search.keep_above(keys_.data(), n, least, best_keys_.data(), places_.data());
        } else {
            std::iota(places_.data(), places_.data() + n, 0);
        }
        answers_.resize(count);
        for (int64_t i = 0; i < count; i++) answers_[i] = {scores[places_[i]], ids[rows[places_[i]]], places_[i]};
        sort(k);
    }

private:
    static constexpr int64_t kFew = 32;
    Buffer<int32_t> keys_, best_keys_, places_;
    std::vector<Answer> answers_;

    void sort(int64_t k) {
        const auto count = static_cast<int64_t>(answers_.size());
        best.resize(count);
        if (count > kFew) {
            best = answers_;
            std::sort(best.begin(), best.end(),
                      [](const Answer& a, const Answer& b) { return a < b || (!(b < a) && a.place < b.place); });
        } else {
            // Everyone's place is how many come before it: no branch that cannot be predicted. Answers lie in the order
            // of their places, so of two equal ones the first comes first: every place is written, once.
            for (int64_t i = 0; i < count; i++) {
                int64_t place = 0;
                for (int64_t j = 0; j < i; j++) place += !(answers_[i] < answers_[j]);
                for (int64_t j = i + 1; j < count; j++) place += answers_[j] < answers_[i];
                best[place] = answers_[i];
            }
        }
        best.resize(k);
    }
};

// The highest ranks among lists, for a few queries at a time.
class ListChoice {
public:
    // Products of up to four queries with all lists.
    void score(const Lists& lists, const uint8_t* const* queries, int64_t count) {
        int32_t* sums[4];
        for (int64_t t = 0; t < count; t++) {
            sums_[t].resize((lists.count + 7) / 8 * 8);
            sums[t] = sums_[t].data();
        }
        const SearchKernels& level = kernels().search;
        if (count == 4)
            level.score_lists_for_four(lists, queries, sums);
        else
            for (int64_t t = 0; t < count; t++) level.score_lists(lists, queries + t, sums + t);
    }

    // The `probes` lists of highest rank for query t, ties to the lower number; ascending, with their bases.
    int64_t choose(const Lists& lists, int64_t probes, int64_t t, float unit, float length, Buffer<int32_t>& chosen,
                   Buffer<float>& bases) {
        const SearchKernels& level = kernels().search;
        const int64_t n = lists.count;
        const int32_t* sums = sums_[t].data();
        for (auto* room : {&keys_, &best_keys_, &numbers_}) room->resize((n + 7) / 8 * 8);
        const int32_t likely = level.rank_lists(lists, sums, unit, length, probes, keys_.data());
        const auto above = [&](int32_t key) {
            return level.keep_above(keys_.data(), n, key, best_keys_.data(), numbers_.data());
        };
        int64_t count = above(probes < n ? likely : INT32_MIN);
        if (count < std::min(probes, n)) count = above(INT32_MIN);  // which is all of them: at least one is chosen
        Candidates best{probes, n, count, INT32_MIN, best_keys_.data(), numbers_.data()};
        best.compact();
        count = best.count;
        chosen.resize(count);
        bases.resize(count + 8);
        for (int64_t i = 0; i < count; i++) {
            chosen.data()[i] = numbers_[i];
            bases.data()[i] = sums[numbers_[i]] * unit + lists.offsets[numbers_[i]];
        }
        std::fill_n(bases.data() + count, 8, 0.0f);
        return count;
    }

private:
    Buffer<int32_t> sums_[4], keys_, best_keys_, numbers_;
};

// What a query needs while it is prepared or judged, and the next one after it: of each its own would leave the cache
// before the scan.
struct Scratch {
    const void* owner = nullptr;  // the query whose products these are
    Buffer<float> eta;            // products with the centers: (m, 16), or that for every list probed
    Buffer<float> shapes;         // of the lists probed, while a threshold is guessed

    static int64_t eta_size(const SearchJob& job, int64_t probes) {
        return (job.packed.own_books ? probes : 1) * job.packed.sections * job.packed.columns;
    }
};

// Everything one query needs from start to end.
class QuerySearch {
public:
    Scan scan;

    // What so many queries hold, about.
    static int64_t bytes(const SearchJob& job, int64_t queries) {
        const int64_t probes = std::min(job.probes, job.lists.count);
        const int64_t numbers = 2 * Candidates::capacity_for(job.rerank) + 3 * probes;
        const int64_t one = 4 * numbers + table_sections(job.packed) * 16 + 2 * job.lists.dimensions;
        return queries * one + 4 * Scratch::eta_size(job, probes);
    }

    // The query in whole numbers, for lists and for kept rows.
    const uint8_t* take(const SearchJob& job, int64_t q) {
        const int64_t d = job.lists.dimensions;
        number_ = q;
        query_ = job.queries + q * d;
        asked_ = query_;
        if (job.kept.euclidean) {
            moved_.resize(d);
            for (int64_t i = 0; i < d; i++) moved_.data()[i] = query_[i] - job.lists.middle[i];
            asked_ = moved_.data();
        }
        length_ = static_cast<float>(length_of(asked_, d));
        bytes_.resize(d + 16);
        byte_unit_ = kernels().search.round_to_bytes(asked_, d, length_, job.lists.longest_query, bytes_.data());
        if (!job.kept.euclidean) round_words(d);
        turn(job);
        return bytes_.data();
    }

    // From products with all lists to a scan of some.
    void prepare(const SearchJob& job, ListChoice& choice, int64_t t, Scratch& scratch) {
        scratch_ = &scratch;
        count_ = choice.choose(job.lists, job.probes, t, job.lists.unit * byte_unit_, length_, chosen_, bases_);
        if (job.lists.centers) measure_bases(job.lists);
        const int64_t capacity = Candidates::capacity_for(job.rerank);
        scores_.resize(capacity);
        rows_.resize(capacity);
        table_.resize(table_sections(job.packed) * 16);
        scan.table = table_.data();
        scan.best = {job.rerank, capacity, 0, INT32_MIN, scores_.data(), rows_.data()};
        multiply_centers(job);
        guess_threshold(job);
        starts_.resize(bases_.size());
        if (shared_table(job)) make_table(job, 0, count_);
    }

    std::span<const int32_t> chosen() { return {chosen_.data(), static_cast<size_t>(count_)}; }

    // What the integer scores of the i-th list's rows start from.
    int32_t start(int64_t i) const { return starts_[i]; }

    // One table serves all lists, so queries can share the reading of a list.
    static bool shared_table(const SearchJob& job) {
        return !job.packed.own_books && job.packed.coding != Coding::loose;
    }

    void scan_alone(const SearchJob& job) {
        Scan* self = &scan;
        for (int64_t i = 0; i < count_; i++) {
            if (job.guard) job.guard->check_list(chosen_[i]);
            if (job.packed.coding == Coding::loose) {
                scan_loose(job, i);
                continue;
            }
            if (job.packed.own_books) make_table(job, i, 1);
            const int32_t next = chosen_[std::min(i + 1, count_ - 1)];
            kernels().search.scan_list[0](job, chosen_[i], next, &self, starts_.data() + i);
        }
    }

    // Candidates to answers.
    void finish(const SearchJob& job, Judged& judged) {
        if (guessed_ && scan.best.count < job.rerank) {
            scan.best.count = 0;
            scan.best.threshold = INT32_MIN;
            scan_alone(job);
        }
        scan.best.compact();
        const int64_t n = scan.best.count, k = std::min(job.k, n), q = number_;
        if (job.guard)
            for (int64_t i = 0; i < n; i++) job.guard->check_kept(rows_[i]);
        judged.scores.resize(n);
        double* scores = judged.scores.data();
        if (job.kept.keep == Keep::none) {
            if (scratch_->owner != this) multiply_centers(job);
            const float common = kernels().search.product(query_, job.lists.middle, job.lists.dimensions);
            for (int64_t i = 0; i < n; i++) scores[i] = code_score(job, rows_[i], common);
        } else {
            const int64_t d = job.lists.dimensions;
            const int16_t* words = words_.data();  // null where distances count
            const Judge judge{query_, words, words ? words + (d + 15) / 16 * 16 : nullptr, word_unit()};
            kernels().search.kept_scores(job.kept, d, rows_.data(), n, judge, scores);
        }
        judged.choose(n, k, rows_.data(), job.kept.ids);
        for (int64_t i = 0; i < job.k; i++) {
            job.ids[q * job.k + i] = i < k ? judged.best[i].id : -1;
            job.scores[q * job.k + i] = i < k ? judged.best[i].score : -std::numeric_limits<double>::infinity();
        }
        if (job.scanned)
            for (int64_t i = 0; i < k; i++) job.scanned[q * job.k + i] = scores_[judged.best[i].place];
        if (!job.counts) return;
        int64_t scanned = 0;
        for (int32_t list : chosen()) scanned += job.lists.rows[list + 1] - job.lists.rows[list];
        job.counts[q * 3] = count_;
        job.counts[q * 3 + 1] = scanned;
        job.counts[q * 3 + 2] = n;
    }

private:
    static constexpr float kQueryLength = 32700.0f;
    int64_t number_, count_;
    const float *query_, *asked_, *turned_;  // as it was given, around the middle of lists, as sections have it
    float length_, byte_unit_;
    bool guessed_;
    Buffer<uint8_t> bytes_;
    Buffer<int16_t> words_;
    Buffer<float> moved_, rotated_, placed_;
    Buffer<int32_t> chosen_;  // lists to probe, ascending
    Buffer<float> bases_;     // what scores in them start from ...
    Buffer<int32_t> starts_;  // ... in units of the table; both have room for eight more
    Scratch* scratch_;
    Buffer<uint8_t> table_;
    Buffer<int32_t, true> scores_, rows_;  // of candidates

    // For products with kept rows; the last sixteen once more, where they do not overlap with whole sixteens.
    void round_words(int64_t d) {
        const int64_t whole = d / 16 * 16, room = (d + 15) / 16 * 16;
        words_.resize(room + 16);
        kernels().search.round_query(query_, d, length_ > 0.0f ? kQueryLength / length_ : 0.0f, words_.data());
        for (int64_t i = 0; i < 16; i++) {
            const int64_t at = d - 16 + i;
            words_.data()[room + i] = at >= whole ? words_[at] : int16_t{0};
        }
    }

    // The query as its sections have it.
    void turn(const SearchJob& job) {
        const int64_t d = job.lists.dimensions, all = job.packed.sections * job.packed.section_size;
        turned_ = asked_;
        if (job.turn.matrix) {
            rotated_.resize(d);
            kernels().search.turn_query(job.turn.matrix, turned_, d, rotated_.data());
            turned_ = rotated_.data();
        }
        if (!job.turn.places) return;
        placed_.resize(all);
        std::fill_n(placed_.data(), all, 0.0f);
        for (int64_t i = 0; i < d; i++) placed_.data()[job.turn.places[i]] = turned_[i];
        turned_ = placed_.data();
    }

    // By the centers themselves.
    void measure_bases(const Lists& lists) {
        const int64_t d = lists.dimensions;
        for (int64_t i = 0; i < count_; i++) {
            const int32_t list = chosen_[i];
            bases_.data()[i] = kernels().search.product(asked_, lists.centers + list * d, d) + lists.offsets[list];
        }
    }

    float word_unit() const { return length_ / kQueryLength; }

    const float* eta(const SearchJob& job, int64_t i) {
        return scratch_->eta.data() + (job.packed.own_books ? i * job.packed.sections * job.packed.columns : 0);
    }

    // Products with the centers, and the unit that suits all tables made of them.
    void multiply_centers(const SearchJob& job) {
        const Packed& packed = job.packed;
        const int64_t books = packed.own_books ? count_ : 1, values = packed.sections * packed.columns;
        scratch_->owner = this;
        scratch_->eta.resize(Scratch::eta_size(job, count_));
        const float largest_base = job.lists.largest_base * length_ + job.lists.largest_offset;
        scan.unit = 0.0f;
        for (int64_t i = 0; i < books; i++) {
            float* products = scratch_->eta.data() + i * values;
            float unit;
            if (packed.coding == Coding::loose) {
                multiply_loose(packed, chosen_[i], turned_, products);
                const float biases = std::abs(packed.bias_low) + 255.0f * packed.bias_step;
                unit = (largest_base + length_ * packed.reach + biases * bias_factor(packed)) / 1e9f;
                if (!(unit > 0.0f)) unit = 1.0f;
            } else {
                kernels().search.multiply_centers(packed, chosen_[i], turned_, products);
                unit = kernels().search.table_unit(packed, chosen_[i], products, length_, largest_base);
            }
            scan.unit = std::max(scan.unit, unit);
        }
    }

    float bias_factor(const Packed& packed) const { return packed.bias_by_length ? length_ : 1.0f; }

    // The table of some lists from the i-th on, and what scores in them start from.
    void make_table(const SearchJob& job, int64_t i, int64_t lists) {
        kernels().search.make_table(job.packed, chosen_[i], eta(job, i), length_, scan, table_.data());
        kernels().search.round_bases(bases_.data() + i, lists, scan, starts_.data() + i);
    }

    // Row by row, with scores as they are.
    void scan_loose(const SearchJob& job, int64_t i) {
        const Packed& packed = job.packed;
        const int64_t list = chosen_[i], first = job.lists.rows[list];
        for (int64_t row = first; row < job.lists.rows[list + 1]; row++) {
            const int64_t within = row - first;
            const int64_t place = job.lists.places[list] + within;
            if (job.allowed && !(job.allowed[place / kBlock] >> (place % kBlock) & 1)) continue;
            const float bias = (packed.bias_low + packed.bias_step * packed.loose_biases[row]) * bias_factor(packed);
            const float score = (bases_[i] + bias) + loose_product(packed, list, eta(job, i), row);
            const int32_t integer = as_key(score / scan.unit);
            if (integer < scan.best.threshold) continue;
            scan.best.scores[scan.best.count] = integer;
            scan.best.rows[scan.best.count++] = static_cast<int32_t>(row);
            if (scan.best.count == scan.best.capacity) scan.best.compact();
        }
    }

    // A filter may leave nothing of some lists and all of others: no guess then.
    void guess_threshold(const SearchJob& job) {
        guessed_ = false;
        if (!(job.share > 0.0f)) return;
        scratch_->shapes.resize((count_ + 7) / 8 * 8 * 3);
        const float score = kernels().search.likely_threshold(
            job.lists, chosen_.data(), bases_.data(), count_, length_, bias_factor(job.packed),
            static_cast<float>(job.rerank) / job.share, scratch_->shapes.data());
        const float integer = score / scan.unit;
        guessed_ = std::abs(integer) < 1e9f;
        if (guessed_) scan.best.threshold = static_cast<int32_t>(integer);
    }

    // The estimate of a row's score by its code, exact tables, gain and bias; `common` is <q, middle>.
    double code_score(const SearchJob& job, int64_t row, float common) {
        const Lists& lists = job.lists;
        const int64_t list = std::upper_bound(lists.rows, lists.rows + lists.count + 1, row) - lists.rows - 1;
        const int64_t i = std::lower_bound(chosen().begin(), chosen().end(), list) - chosen().begin();
        float score = decoded_score(job, i, row);
        if (job.kept.gains) score *= half_to_float(job.kept.gains[row]);
        const float bias = job.kept.biases ? job.kept.biases[row] : 0.0f;
        if (!job.kept.euclidean) return (bases_[i] + common) * (1.0f + bias) + score;
        // <q, x> - |x|^2 / 2, hence the distance: -|q - x|^2 is twice that less |q|^2.
        return 2.0 * ((bases_[i] + bias) + score) - double{length_} * length_;
    }

    // <q, decoded> of a row of the i-th list probed.
    float decoded_score(const SearchJob& job, int64_t i, int64_t row) {
        const Packed& packed = job.packed;
        const int64_t list = chosen_[i], place = row - job.lists.rows[list] + job.lists.places[list];
        if (packed.coding == Coding::loose) return loose_product(packed, list, eta(job, i), row);
        const bool scaled = packed.coding == Coding::scaled;
        const uint8_t* block = packed.blocks + place / kBlock * packed.block_bytes;
        const float* products = eta(job, i);
        const float* scales = of_list(packed, packed.scales, list, packed.sections * 16);
        const int64_t stride = scaled ? 2 * kBlock : kBlock;  // bytes a pair of sections
        float sums[4] = {};
        for (int64_t j = 0; j < packed.sections; j++) {
            const uint8_t* byte = block + place % kBlock + j / 2 * stride;
            const int shift = j % 2 * 4;
            float value = products[j * 16 + (byte[0] >> shift & 15)];
            if (scaled) value *= scales[j * 16 + (byte[kBlock] >> shift & 15)];
            sums[j % 4] += value;
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
};

}  // namespace
}  // namespace pcpq
