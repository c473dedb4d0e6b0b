// The order of lists before the scan, and of candidates after reranking.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/candidates.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "search/buffer.h"
#include "search/search.h"

namespace pcpq {

// The lists of highest rank, for up to four queries at a time.
class ListRanking {
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

    // The lists that query t probes: those of highest rank, ties to the lower number; ascending, with their bases.
    int64_t choose(const Lists& lists, const Probing& probing, int64_t t, float unit, float length,
                   Buffer<int32_t>& chosen, Buffer<float>& bases) {
        const SearchKernels& level = kernels().search;
        const int64_t n = lists.count;
        const int32_t* sums = sums_[t].data();
        for (auto* room : {&keys_, &best_keys_, &indices_}) room->resize((n + 7) / 8 * 8);
        int32_t likely = level.rank_lists(lists, sums, unit, length, probing.most, keys_.data());
        const auto above = [&](int32_t key) {
            return level.keep_above(keys_.data(), n, key, best_keys_.data(), indices_.data());
        };
        const bool weighed = probing.weighed();
        if (weighed) likely = level.weigh_lists(lists, keys_.data(), length, probing.temperature, probing.margin);
        int64_t count = above(weighed || probing.most < n ? likely : INT32_MIN);
        // All of them, so at least one is chosen.
        if (count < (weighed ? 1 : std::min(probing.most, n))) count = above(INT32_MIN);
        Candidates best{.wanted = probing.most,
                        .capacity = n,
                        .count = count,
                        .threshold = INT32_MIN,
                        .scores = best_keys_.data(),
                        .rows = indices_.data()};
        best.compact();
        count = best.count;
        chosen.resize(count);
        bases.resize(count + 8);
        for (int64_t i = 0; i < count; i++) {
            chosen.data()[i] = indices_[i];
            bases.data()[i] = sums[indices_[i]] * unit + lists.offsets[indices_[i]];
        }
        std::fill_n(bases.data() + count, 8, 0.0f);
        return count;
    }

private:
    Buffer<int32_t> sums_[4], keys_, best_keys_, indices_;
};

// Candidates with their final scores, in order.
class ResultRanking {
public:
    Buffer<double> scores;  // room for all candidates
    struct Result {
        double score = -std::numeric_limits<double>::infinity();
        int64_t id = -1, key = INT64_MIN;  // keys have the order of scores, and some order for NaN
        int32_t place = 0;                 // among the candidates
        Result() = default;
        Result(double score, int64_t id, int32_t place)
            : score(score), id(id), key(std::bit_cast<int64_t>(score + 0.0)), place(place) {
            if (key < 0) key ^= INT64_MAX;
        }
        // Larger scores first, then lower ids. Files may hold an id twice: then lower places.
        bool operator<(const Result& other) const { return (key > other.key) | ((key == other.key) & (id < other.id)); }
    };
    std::vector<Result> best;

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
        results_.resize(count);
        for (int64_t i = 0; i < count; i++) results_[i] = {scores[places_[i]], ids[rows[places_[i]]], places_[i]};
        sort(k);
    }

private:
    static constexpr int64_t kFew = 32;
    Buffer<int32_t> keys_, best_keys_, places_;
    std::vector<Result> results_;

    void sort(int64_t k) {
        const auto count = static_cast<int64_t>(results_.size());
        best.resize(count);
        if (count > kFew) {
            best = results_;
            std::sort(best.begin(), best.end(),
                      [](const Result& a, const Result& b) { return a < b || (!(b < a) && a.place < b.place); });
        } else {
            // The place of each is how many come before it: no branch that cannot be predicted. Results lie in the
            // order of their places, so of two equal ones the first comes first: every place is written, once.
            for (int64_t i = 0; i < count; i++) {
                int64_t place = 0;
                for (int64_t j = 0; j < i; j++) place += !(results_[i] < results_[j]);
                for (int64_t j = i + 1; j < count; j++) place += results_[j] < results_[i];
                best[place] = results_[i];
            }
        }
        best.resize(k);
    }
};

}  // namespace pcpq
