#include "search/query_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/candidates.h"
#include "kernels/half.h"
#include "kernels/index_arrays.h"
#include "kernels/kernels.h"
#include "kernels/prefetch.h"
#include "search/checksum.h"
#include "search/rows.h"
#include "search/unpacked.h"

namespace pcpq {
namespace {

constexpr float kTimesAgain = 8.0f;
constexpr int64_t kBytesAhead = 1 << 14;  // of codes, prefetched by a single query before they are read

}  // namespace

int64_t QuerySearch::bytes(const SearchJob& job) {
    const int64_t numbers = 2 * Candidates::capacity_for(wanted(job)) + 6 * probes(job);
    return 4 * numbers + table_size(job.codes) + 2 * job.projection.dimensions;
}

int64_t QuerySearch::shared_bytes(const SearchJob& job) {
    const int64_t most = 2 * probes(job), blocks = job.lists.n_words() * most / std::max<int64_t>(job.lists.count, 1);
    return 4 * (Scratch::products_size(job, most) + blocks);
}

const uint8_t* QuerySearch::take(const SearchJob& job, int64_t q, const float* projected) {
    const int64_t d = job.lists.dimensions, all = job.projection.dimensions;
    number_ = q;
    query_ = job.queries + q * all;
    centered_ = projected;
    if (job.kept.euclidean) {
        difference_.resize(d);
        for (int64_t i = 0; i < d; i++) difference_.data()[i] = projected[i] - job.lists.mean[i];
        centered_ = difference_.data();
    }
    length_ = static_cast<float>(length_of(centered_, d));
    bytes_.resize(d + 16);
    byte_unit_ = kernels().search.query_to_bytes(centered_, d, length_, job.lists.longest_query, bytes_.data());
    const float whole = job.projection.matrix ? static_cast<float>(length_of(query_, all)) : length_;
    rerank_forms_.set(query_, all, whole, job.kept.euclidean);
    rotate(job);
    return bytes_.data();
}

void QuerySearch::prepare(const SearchJob& job, ListRanking& ranking, int64_t t, Scratch& scratch) {
    scratch_ = &scratch;
    count_ = ranking.choose(job.lists, job.probing, t, job.lists.unit * byte_unit_, length_, chosen_, bases_);
    if (job.lists.centroids)
        kernels().search.measure_bases(job.lists, centered_, chosen_.data(), count_, bases_.data());
    prepare_segment(job);
}

void QuerySearch::prepare_segment(const SearchJob& job) {
    const int64_t capacity = Candidates::capacity_for(wanted(job));
    scores_.resize(capacity);
    rows_.resize(capacity);
    table_.resize((table_size(job.codes) + 63) / 64);
    scan.lookup_table = table();
    scan.best = {.wanted = wanted(job),
                 .capacity = capacity,
                 .count = 0,
                 .threshold = INT32_MIN,
                 .scores = scores_.data(),
                 .rows = rows_.data(),
                 .rows_of_copies = job.second.rows,
                 .n_rows = job.second.rows ? static_cast<int32_t>(job.lists.rows[job.lists.count]) : INT32_MAX};
    multiply_codewords(job);
    guess_threshold(job, job.guesses->times());
    starts_.resize(bases_.size());
    if (shared_table(job)) make_table(job, 0, count_);
}

void QuerySearch::scan_alone(const SearchJob& job) {
    for (int64_t i = 0; i < count_; i++) check_list(job, chosen_[i]);
    scan_lists(job, {.lists = job.lists, .codes = job.codes, .allowed = job.allowed});
    if (job.second.rows) scan_lists(job, copies_of(job));
}

// The guess was too high: with a much lower one, and at last without one.
void QuerySearch::scan_again(const SearchJob& job) {
    for (float times = kTimesAgain * job.guesses->times(); missed(job);
         times = std::numeric_limits<float>::infinity()) {
        scan.best.count = 0;
        guess_threshold(job, times);
        scan_alone(job);
    }
}

void QuerySearch::scan_lists(const SearchJob& job, const ScanInput& input) {
    Scan* self = &scan;
    const int32_t* ahead = job.codes.coding == Coding::unpacked ? nullptr : blocks_ahead(input);
    for (int64_t i = 0; i < count_; i++) {
        if (job.codes.coding == Coding::unpacked) {
            scan_unpacked(job, i);
            continue;
        }
        if (job.codes.per_list) make_table(job, i, 1);
        kernels().search.scan_list[0](input, chosen_[i], ahead, &self, starts_.data() + i);
        ahead += blocks_of(input.lists, input.codes.coding, chosen_[i]).count;
    }
}

void QuerySearch::finish(const SearchJob& job, ResultRanking& ranking) {
    if (missed(job)) scan_again(job);
    scan.best.compact();
    if (job.second.rows) join_copies(job);
    const int64_t n = scan.best.count, k = std::min(job.k, n), q = number_, d = job.projection.dimensions;
    if (job.guard)
        for (int64_t i = 0; i < n; i++) job.guard->check_kept(rows_[i]);
    ranking.scores.resize(n);
    double* scores = ranking.scores.data();
    if (job.kept.keep == Keep::none) {
        if (scratch_->owner != this) multiply_codewords(job);
        const float common = kernels().search.inner_product(query_, job.lists.mean, d);
        for (int64_t i = 0; i < n; i++) scores[i] = code_score(job, rows_[i], common);
    } else {
        kernels().search.rerank(job.kept, d, rows_.data(), n, rerank_forms_.get(), scores);
    }
    ranking.choose(n, k, rows_.data(), job.kept.ids);
    for (int64_t i = 0; i < job.k; i++) {
        job.ids[q * job.k + i] = i < k ? ranking.best[i].id : -1;
        job.scores[q * job.k + i] = i < k ? ranking.best[i].score : -std::numeric_limits<double>::infinity();
    }
    if (job.scanned)
        for (int64_t i = 0; i < k; i++) job.scanned[q * job.k + i] = scores_[ranking.best[i].place];
    if (!job.counts) return;
    int64_t scanned = 0;
    const Lists& lists = job.second.rows ? job.second.both : job.lists;
    for (int32_t list : chosen()) scanned += lists.rows[list + 1] - lists.rows[list];
    job.counts[q * 3] = count_;
    job.counts[q * 3 + 1] = scanned;
    job.counts[q * 3 + 2] = n;
}

void QuerySearch::rotate(const SearchJob& job) {
    const int64_t d = job.lists.dimensions, all = job.codes.sections * job.codes.section_size;
    rotated_ = centered_;
    if (job.rotation.matrix) {
        product_.resize(d);
        kernels().search.project(job.rotation.matrix, rotated_, 1, d, d, product_.data());
        rotated_ = product_.data();
    }
    if (!job.rotation.columns) return;
    spread_.resize(all);
    std::fill_n(spread_.data(), all, 0.0f);
    for (int64_t i = 0; i < d; i++) spread_.data()[job.rotation.columns[i]] = rotated_[i];
    rotated_ = spread_.data();
}

// Products with the codewords, and the unit that suits all lookup tables made of them.
void QuerySearch::multiply_codewords(const SearchJob& job) {
    const Codes& codes = job.codes;
    const int64_t codebooks = codes.per_list ? count_ : 1, values = codes.sections * codes.n_codewords;
    scratch_->owner = this;
    scratch_->products.resize(Scratch::products_size(job, count_));
    scratch_->ranges.resize(codebooks * codes.sections);
    const float largest_base = job.lists.largest_base * length_ + job.lists.largest_offset;
    scan.unit = 0.0f;
    for (int64_t i = 0; i < codebooks; i++) {
        float* out = scratch_->products.data() + i * values;
        float unit;
        if (codes.coding == Coding::unpacked) {
            unpacked_products(codes, chosen_[i], rotated_, out);
            const float biases = std::abs(codes.bias_low) + 255.0f * codes.bias_step;
            unit = (largest_base + length_ * codes.reach + biases * bias_factor(codes)) / 1e9f;
            if (!(unit > 0.0f)) unit = 1.0f;
        } else {
            ProductRange* ranges = scratch_->ranges.data() + i * codes.sections;
            kernels().search.codeword_products(codes, chosen_[i], rotated_, out, ranges);
            unit = kernels().search.lookup_unit(codes, chosen_[i], ranges, length_, largest_base);
        }
        scan.unit = std::max(scan.unit, unit);
    }
}

// A filter may leave nothing of some lists and all of others: no guess then.
void QuerySearch::guess_threshold(const SearchJob& job, float times) {
    guessed_ = false;
    scan.best.threshold = INT32_MIN;
    if (!(job.share > 0.0f)) return;
    // A small segment has hardly any rows in these lists: all of them are candidates.
    const Lists& lists = job.second.rows ? job.second.both : job.lists;
    const int64_t enough = wanted(job);
    int64_t rows = 0;
    for (int64_t i = 0; i < count_ && rows <= enough; i++) rows += lists.rows[chosen_[i] + 1] - lists.rows[chosen_[i]];
    if (rows <= enough) return;
    scratch_->shapes.resize((count_ + 7) / 8 * 8 * 3);
    const float score =
        kernels().search.guess_threshold(lists, chosen_.data(), bases_.data(), count_, length_, bias_factor(job.codes),
                                         static_cast<float>(enough) / job.share, times, scratch_->shapes.data());
    const float integer = score / scan.unit;
    guessed_ = std::abs(integer) < 1e9f;
    if (guessed_) scan.best.threshold = static_cast<int32_t>(integer);
}

// The lookup table of some lists from the i-th on, and what scores in them start from.
void QuerySearch::make_table(const SearchJob& job, int64_t i, int64_t lists) {
    const ProductRange* ranges = scratch_->ranges.data() + (job.codes.per_list ? i * job.codes.sections : 0);
    kernels().search.make_lookup_table(job.codes, chosen_[i], products(job, i), ranges, length_, scan, table());
    kernels().search.round_bases(bases_.data() + i, lists, scan, starts_.data() + i);
}

// A row that was found in both of its lists becomes one candidate, with the better score of the two.
void QuerySearch::join_copies(const SearchJob& job) {
    Candidates& best = scan.best;
    const int64_t n = job.lists.rows[job.lists.count];
    const int bits = std::bit_width(static_cast<uint64_t>(best.count)) + 1;  // at most half of the slots are filled
    const uint64_t slots = uint64_t{1} << bits;
    slots_.resize(static_cast<int64_t>(slots));
    std::fill_n(slots_.data(), slots, -1);
    int64_t count = 0;
    for (int64_t i = 0; i < best.count; i++) {
        const int32_t row = best.row_of(best.rows[i]);
        if (row < 0 || row >= n) throw FormatError("a second list holds row " + std::to_string(row));
        uint64_t slot = static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u >> (64 - bits);
        const auto other = [&] { return slots_.data()[slot]; };
        while (other() >= 0 && best.rows[other()] != row) slot = (slot + 1) & (slots - 1);
        if (other() >= 0) {
            best.scores[other()] = std::max(best.scores[other()], best.scores[i]);
            continue;
        }
        slots_.data()[slot] = static_cast<int32_t>(count);
        best.rows[count] = row;
        best.scores[count++] = best.scores[i];
    }
    best.count = count;
    best.wanted = job.rerank;
    best.compact();
}

// The blocks of the chosen lists, from those on that are prefetched while the first is read. A single query would wait
// for every list: lists are small and lie anywhere in memory.
const int32_t* QuerySearch::blocks_ahead(const ScanInput& input) {
    const Codes& codes = input.codes;
    const int64_t distance = (kBytesAhead + codes.block_bytes - 1) / codes.block_bytes;
    int64_t count = distance;
    for (int32_t list : chosen()) count += blocks_of(input.lists, codes.coding, list).count;
    // Eight at a time: one loop after the other, each of few steps, could not be predicted.
    constexpr int64_t kTogether = 8;
    scratch_->blocks.resize(count + kTogether);
    int32_t *first = scratch_->blocks.data(), *end = first;
    for (int32_t list : chosen()) {
        const BlockRange blocks = blocks_of(input.lists, codes.coding, list);
        for (int64_t b = 0; b < blocks.count; b += kTogether)
            for (int64_t i = b; i < b + kTogether; i++) end[i] = static_cast<int32_t>(blocks.first + i);
        end += blocks.count;
    }
    std::fill_n(end, distance, end > first ? end[-1] : 0);  // at the end, what is there already
    for (int64_t b = 0; b < distance; b++) prefetch_row(codes.blocks + first[b] * codes.block_bytes, codes.block_bytes);
    return first + distance;
}

// Row by row, with exact products.
void QuerySearch::scan_unpacked(const SearchJob& job, int64_t i) {
    const Codes& codes = job.codes;
    const int64_t list = chosen_[i], first = job.lists.rows[list];
    for (int64_t row = first; row < job.lists.rows[list + 1]; row++) {
        const int64_t place = job.lists.places[list] + row - first;
        if (job.allowed && !(job.allowed[place / kMaskRows] >> (place % kMaskRows) & 1)) continue;
        const float bias = (codes.bias_low + codes.bias_step * codes.unpacked_biases[row]) * bias_factor(codes);
        const float score = (bases_[i] + bias) + unpacked_score(codes, list, products(job, i), row);
        const int32_t integer = as_key(score / scan.unit);
        if (integer < scan.best.threshold) continue;
        scan.best.scores[scan.best.count] = integer;
        scan.best.rows[scan.best.count++] = static_cast<int32_t>(row);
        if (scan.best.count == scan.best.capacity) scan.best.compact();
    }
}

// The estimate of a row's score by its code: exact products, gain and bias. `common` is <q, mean of the centroids>.
double QuerySearch::code_score(const SearchJob& job, int64_t row, float common) {
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
float QuerySearch::decoded_score(const SearchJob& job, int64_t i, int64_t row) {
    const Codes& codes = job.codes;
    const float* found = products(job, i);
    const int64_t list = chosen_[i], place = row - job.lists.rows[list] + job.lists.places[list];
    if (codes.coding == Coding::unpacked) return unpacked_score(codes, list, found, row);
    const int64_t rows = block_rows(codes.coding);
    const uint8_t* block = codes.blocks + place / rows * codes.block_bytes + place % rows;
    float sums[4] = {};
    if (codes.coding == Coding::wide) {
        for (int64_t j = 0; j < codes.sections; j++) sums[j % 4] += found[j * 64 + wide_code(block, j)];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    const bool scaled = codes.coding == Coding::scaled;
    const float* scales = of_list(codes, codes.scales, list, codes.sections * 16);
    const int64_t stride = scaled ? 64 : 32;  // bytes per pair of sections
    for (int64_t j = 0; j < codes.sections; j++) {
        const uint8_t* byte = block + j / 2 * stride;
        const int shift = j % 2 * 4;
        float value = found[j * 16 + (byte[0] >> shift & 15)];
        if (scaled) value *= scales[j * 16 + (byte[32] >> shift & 15)];
        sums[j % 4] += value;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace pcpq
