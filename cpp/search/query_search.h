// One query from its products with the lists to its results; search.cpp has many of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "search/buffer.h"
#include "search/checksum.h"
#include "search/ranking.h"
#include "search/rerank_query.h"
#include "search/search.h"

namespace pcpq {

// What one query after the other needs while it is prepared or reranked: a copy per query would leave the cache before
// the scan.
struct Scratch {
    const void* owner = nullptr;  // the query whose products these are
    Buffer<float> products;       // with the codewords: (m, 16), or that for every list probed
    Buffer<ProductRange> ranges;  // of the products: (m,), or that for every list probed
    Buffer<float> shapes;         // of the lists probed, while a threshold is guessed
    Buffer<int32_t> blocks;       // of the lists probed, one after the other

    static int64_t products_size(const SearchJob& job, int64_t probes) {
        return (job.codes.per_list ? probes : 1) * job.codes.sections * job.codes.n_codewords;
    }
};

// What a scan of second lists reads.
inline ScanInput copies_of(const SearchJob& job) {
    return {.lists = job.second.lists, .codes = job.second.codes, .allowed = job.second_allowed};
}

// Throws FormatError unless the codes of a list are as they were written.
inline void check_list(const SearchJob& job, int64_t list) {
    if (job.guard) job.guard->check_list(list);
    if (job.second.guard) job.second.guard->check_list(list);
}

// Lookup tables of wide codes are read 64 bytes at a time, which takes longer across two lines.
struct alignas(64) CacheLine {
    uint8_t bytes[64];
};

// All that one query needs from start to end: `take`, `prepare`, a scan, `finish`.
class QuerySearch {
public:
    Scan scan;

    // About how many lists a query probes. By weights, `most` is eight times the average (MOST_TIMES in
    // ivf/probing.py), and few queries probe more than twice as many.
    static int64_t probes(const SearchJob& job) {
        const int64_t some = job.probing.weighed() ? job.probing.most / 8 + 1 : job.probing.most;
        return std::min(some, job.lists.count);
    }

    // About the memory that each query takes, and that all take together in addition.
    static int64_t bytes(const SearchJob& job);
    static int64_t shared_bytes(const SearchJob& job);

    // One lookup table serves all lists, so queries can share the reading of a list.
    static bool shared_table(const SearchJob& job) {
        return !job.codes.per_list && job.codes.coding != Coding::unpacked;
    }

    // Takes query q of the job, and what its projection is, and returns it as bytes, for products with lists.
    const uint8_t* take(const SearchJob& job, int64_t q, const float* projected);

    // Chooses lists by their products with query t of the ranking, and makes the lookup table.
    void prepare(const SearchJob& job, ListRanking& ranking, int64_t t, Scratch& scratch);

    // Makes the lookup table for another segment with the same lists and codebooks; the lists chosen stay.
    void prepare_segment(const SearchJob& job);

    // Whether the threshold is a guess, and whether it was too high: too few rows reach it. `finish` mends that.
    bool guessed() const { return guessed_; }
    bool missed(const SearchJob& job) const { return guessed_ && scan.best.count < wanted(job); }

    // The lists to probe, ascending.
    std::span<const int32_t> chosen() { return {chosen_.data(), static_cast<size_t>(count_)}; }

    // What the integer scores of the i-th list's rows start from.
    int32_t start(int64_t i) const { return starts_[i]; }

    // Scans the lists for this query alone.
    void scan_alone(const SearchJob& job);

    // Reranks the candidates and writes the results of the job.
    void finish(const SearchJob& job, ResultRanking& ranking);

private:
    int64_t number_, count_;
    const float* query_;     // as it was given
    const float* centered_;  // projected; euclidean: less the mean of the centroids
    const float* rotated_;   // as its sections have it
    float length_, byte_unit_;
    bool guessed_;
    Buffer<uint8_t> bytes_;
    RerankForms rerank_forms_;
    Buffer<float> difference_, product_, spread_;  // what centered_ and rotated_ point to
    Buffer<int32_t> chosen_;
    Buffer<float> bases_;     // what scores in the chosen lists start from ...
    Buffer<int32_t> starts_;  // ... in units of the lookup table; both have room for eight more
    Scratch* scratch_;
    Buffer<CacheLine> table_;
    Buffer<int32_t, true> scores_, rows_;  // of candidates
    Buffer<int32_t> slots_;                // where a row is among the candidates, by a hash of the row

    // Candidates of the scan: a row may be among them twice.
    static int64_t wanted(const SearchJob& job) { return job.second.rows ? 2 * job.rerank : job.rerank; }

    uint8_t* table() { return table_.data()->bytes; }
    void rotate(const SearchJob& job);
    void multiply_codewords(const SearchJob& job);
    void guess_threshold(const SearchJob& job, float times);
    void scan_again(const SearchJob& job);
    void make_table(const SearchJob& job, int64_t i, int64_t lists);
    void scan_lists(const SearchJob& job, const ScanInput& input);
    const int32_t* blocks_ahead(const ScanInput& input);
    void scan_unpacked(const SearchJob& job, int64_t i);
    void join_copies(const SearchJob& job);
    double code_score(const SearchJob& job, int64_t row, float common);
    float decoded_score(const SearchJob& job, int64_t i, int64_t row);

    float bias_factor(const Codes& codes) const { return codes.bias_by_length ? length_ : 1.0f; }

    // Products with the codewords of the i-th list probed.
    const float* products(const SearchJob& job, int64_t i) {
        return scratch_->products.data() + (job.codes.per_list ? i * job.codes.sections * job.codes.n_codewords : 0);
    }
};

}  // namespace pcpq
