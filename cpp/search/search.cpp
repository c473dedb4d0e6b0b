// A search: lists by their centroids, rows by their codes, candidates by their vectors. The loops that take the time
// are in the SIMD levels; here is their order.
#include "search/search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "search/checksum.h"
#include "search/query_search.h"

namespace pcpq {
namespace {

constexpr int64_t kLargestBatch = 512;    // queries scanned list by list
constexpr int64_t kBatchBytes = 1 << 20;  // of their tables and candidates: as many as stay in the L2 cache ...
constexpr int64_t kQueriesAList = 8;      // ... or more, for that many to share the reading of a list
constexpr int64_t kSmallestBatch = 8;
constexpr int64_t kLastingBytes = 1 << 23;  // that a thread keeps between searches

// Adds up the time of each stage, if it is asked for.
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

// Scans list by list for many queries, four at a time.
class BatchScan {
public:
    void run(const SearchJob& job, std::vector<QuerySearch>& searches, int64_t count) {
        sort_by_list(job, searches, count);
        const SearchKernels& level = kernels().search;
        const ScanInput input{.lists = job.lists, .codes = job.codes, .allowed = job.allowed};
        const ScanInput copies = copies_of(job);
        for (int64_t list = 0; list < job.lists.count; list++) {
            if (starts_[list] == starts_[list + 1]) continue;
            check_list(job, list);
            set_ahead(input, list, ahead_);
            if (job.second.rows) set_ahead(copies, list, ahead_of_copies_);
            // Even groups: three and two queries take less than four and one.
            int64_t groups = (starts_[list + 1] - starts_[list] + 3) / 4;
            for (int64_t i = starts_[list], some; groups > 0; groups--, i += some) {
                some = (starts_[list + 1] - i + groups - 1) / groups;
                Scan* scans[4];
                int32_t bases[4];
                for (int64_t t = 0; t < some; t++) {
                    scans[t] = &searches[visits_[i + t].query].scan;
                    bases[t] = visits_[i + t].base;
                }
                level.scan_list[some - 1](input, list, ahead_.data(), scans, bases);
                if (job.second.rows) level.scan_list[some - 1](copies, list, ahead_of_copies_.data(), scans, bases);
            }
        }
    }

private:
    struct Visit {
        int32_t query, base;  // what the query's scores in the list start from
    };
    std::vector<int64_t> starts_, next_;  // (L + 1,) where each list's visits begin
    std::vector<Visit> visits_;
    std::vector<int32_t> ahead_, ahead_of_copies_;  // for every block of a list, one that is prefetched meanwhile

    // As many blocks as the list has come after it: hardly any list is left out by all queries.
    static void set_ahead(const ScanInput& input, int64_t list, std::vector<int32_t>& ahead) {
        const Coding coding = input.codes.coding;
        const BlockRange blocks = blocks_of(input.lists, coding, list);
        const int64_t last = input.lists.places[input.lists.count] / block_rows(coding) - 1;
        if (static_cast<int64_t>(ahead.size()) < blocks.count) ahead.resize(blocks.count);
        for (int64_t b = 0; b < blocks.count; b++)
            ahead[b] = static_cast<int32_t>(std::min(blocks.first + blocks.count + b, last));
    }

    void sort_by_list(const SearchJob& job, std::vector<QuerySearch>& searches, int64_t count) {
        starts_.assign(job.lists.count + 1, 0);
        for (int64_t q = 0; q < count; q++)
            for (int32_t list : searches[q].chosen()) starts_[list + 1]++;
        for (int64_t list = 0; list < job.lists.count; list++) starts_[list + 1] += starts_[list];
        next_.assign(starts_.begin(), starts_.end() - 1);
        visits_.resize(starts_.back());
        for (int64_t q = 0; q < count; q++) {
            const auto chosen = searches[q].chosen();
            for (size_t i = 0; i < chosen.size(); i++)
                visits_[next_[chosen[i]]++] = {.query = static_cast<int32_t>(q), .base = searches[q].start(i)};
        }
    }
};

// Learns from queries that were scanned and have not finished, which mends what they missed.
void learn(const SearchJob& job, std::span<const QuerySearch> scanned) {
    const int64_t guessed = std::ranges::count_if(scanned, &QuerySearch::guessed);
    const auto missed = [&](const QuerySearch& one) { return one.missed(job); };
    job.guesses->learn(guessed, std::ranges::count_if(scanned, missed));
}

// The memory that a thread works in.
struct Workspace {
    std::vector<QuerySearch> searches;
    ListRanking list_ranking;
    BatchScan batch;
    Scratch scratch;
    ResultRanking ranking;
    Buffer<float> projected;

    // What the lists and codes of a job need of some queries from one on.
    const float* project(const SearchJob& job, int64_t first, int64_t count) {
        const Projection& projection = job.projection;
        const float* queries = job.queries + first * projection.dimensions;
        if (!projection.matrix) return queries;
        projected.resize(count * job.lists.dimensions);
        kernels().search.project(projection.matrix, queries, count, projection.dimensions, job.lists.dimensions,
                                 projected.data());
        return projected.data();
    }

    void search(const SearchJob& job, int64_t start, int64_t count) {
        StageClock clock(job.seconds);
        const bool list_by_list = count >= kSmallestBatch && QuerySearch::shared_table(job);
        if (static_cast<int64_t>(searches.size()) < count) searches.resize(count);
        for (int64_t q = 0; q < count; q += 4) {
            const int64_t some = std::min<int64_t>(4, count - q);
            const uint8_t* queries[4];
            const float* rows = project(job, start + q, some);
            for (int64_t t = 0; t < some; t++)
                queries[t] = searches[q + t].take(job, start + q + t, rows + t * job.lists.dimensions);
            list_ranking.score(job.lists, queries, some);
            clock.stage(0);
            for (int64_t t = 0; t < some; t++) {
                searches[q + t].prepare(job, list_ranking, t, scratch);
                clock.stage(1);
                if (list_by_list) continue;
                searches[q + t].scan_alone(job);
                clock.stage(2);
                learn(job, {&searches[q + t], 1});
                searches[q + t].finish(job, ranking);
                clock.stage(3);
            }
        }
        if (!list_by_list) return;
        batch.run(job, searches, count);
        clock.stage(2);
        learn(job, {searches.data(), static_cast<size_t>(count)});
        for (int64_t q = 0; q < count; q++) searches[q].finish(job, ranking);
        clock.stage(3);
    }
};

// New memory costs a query as much as its tables do, so a thread keeps its workspace, unless that is large.
Workspace& lasting_workspace() {
    static thread_local Workspace lasting;
    return lasting;
}

// Room is taken for what can be found, however much is asked for.
SearchJob within_limits(SearchJob job) {
    job.probing.most = std::min(job.probing.most, job.lists.count);
    job.rerank = std::clamp<int64_t>(job.rerank, 1, std::max<int64_t>(job.lists.rows[job.lists.count], 1));
    return job;
}

}  // namespace

void search(const SearchJob& asked) {
    const SearchJob job = within_limits(asked);
    Workspace passing;
    // In parts of equal size: in a small one few queries would share a list.
    const int64_t sharing = kQueriesAList * job.lists.count / std::max<int64_t>(QuerySearch::probes(job), 1);
    const int64_t together = std::min(std::max(kBatchBytes / QuerySearch::bytes(job), sharing) + 1, kLargestBatch);
    const int64_t parts = (job.n_queries + together - 1) / together;
    const int64_t queries = parts ? (job.n_queries + parts - 1) / parts : 0;
    const int64_t bytes = queries * QuerySearch::bytes(job) + QuerySearch::shared_bytes(job);
    Workspace& work = bytes <= kLastingBytes ? lasting_workspace() : passing;
    for (int64_t start = 0; start < job.n_queries; start += queries)
        work.search(job, start, std::min(queries, job.n_queries - start));
}

void search_segments(std::span<const SearchJob> jobs) {
    Workspace passing;
    const bool small = std::ranges::all_of(jobs, [](const SearchJob& asked) {
        const SearchJob job = within_limits(asked);
        return QuerySearch::bytes(job) + QuerySearch::shared_bytes(job) <= kLastingBytes;
    });
    Workspace& work = small ? lasting_workspace() : passing;
    if (work.searches.empty()) work.searches.resize(1);
    QuerySearch& one = work.searches[0];
    for (const SearchJob& asked : jobs) {
        const SearchJob job = within_limits(asked);
        if (&asked == &jobs.front()) {
            const uint8_t* query = one.take(job, 0, work.project(job, 0, 1));
            work.list_ranking.score(job.lists, &query, 1);
            one.prepare(job, work.list_ranking, 0, work.scratch);
        } else if ((job.lists.centroids == nullptr) == (jobs.front().lists.centroids == nullptr)) {
            one.prepare_segment(job);
        } else {  // scores start from other bases
            one.prepare(job, work.list_ranking, 0, work.scratch);
        }
        one.scan_alone(job);
        learn(job, {&one, 1});
        one.finish(job, work.ranking);
    }
}

}  // namespace pcpq
