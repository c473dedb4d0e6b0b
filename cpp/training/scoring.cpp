#include "training/scoring.h"

#include <cstdint>
#include <vector>

namespace pcpq {
namespace {

// A float that counts its operations.
struct Counted {
    float value = 0.0f;
    static thread_local OperationCounts counts;

    Counted() = default;
    Counted(float v) : value(v) {}
};
thread_local OperationCounts Counted::counts;

inline void multiply_add(float& sum, float a, float b) {
    sum += a * b;
}
inline void multiply_add(Counted& sum, Counted a, Counted b) {
    sum.value += a.value * b.value;
    Counted::counts.multiply_adds++;
}
inline float product(float a, float b) {
    return a * b;
}
inline Counted product(Counted a, Counted b) {
    Counted::counts.multiplications++;
    return {a.value * b.value};
}
inline float look_up(const float* table, int64_t i) {
    return table[i];
}
inline Counted look_up(const Counted* table, int64_t i) {
    Counted::counts.look_ups++;
    return table[i];
}
inline void add(float& sum, float a) {
    sum += a;
}
inline void add(Counted& sum, Counted a) {
    sum.value += a.value;
    Counted::counts.additions++;
}
inline float value_of(float a) {
    return a;
}
inline float value_of(Counted a) {
    return a.value;
}

// Points whose codes stay in cache for several queries.
constexpr int64_t kPoints = 512;

template <class Number>
void fill_table(const ScoreJob& job, const float* query, Number* table) {
    const int64_t d = job.section_size, s = job.scale_codes ? job.n_scales : 1;
    for (int64_t j = 0; j < job.sections; j++) {
        for (int64_t c = 0; c < job.n_codewords; c++) {
            const float* codeword = job.codewords + (j * job.n_codewords + c) * d;
            Number eta = 0.0f;
            for (int64_t t = 0; t < d; t++) multiply_add(eta, Number(codeword[t]), Number(query[j * d + t]));
            Number* row = table + (j * job.n_codewords + c) * s;
            if (!job.scale_codes) {
                row[0] = eta;
            } else {
                for (int64_t l = 0; l < s; l++) row[l] = product(eta, Number(job.scales[j * s + l]));
            }
        }
    }
}

template <class Number, class Code>
void sum_rows(const ScoreJob& job, const Number* table, int64_t first, int64_t last, float* scores) {
    const int64_t m = job.sections, k = job.n_codewords, s = job.scale_codes ? job.n_scales : 1;
    const Code* codes = static_cast<const Code*>(job.codes);
    for (int64_t i = first; i < last; i++) {
        const Code* code = codes + i * m;
        Number sum = 0.0f;
        if (job.alphas) {
            const float* alpha = job.alphas + i * m;
            for (int64_t j = 0; j < m; j++) multiply_add(sum, Number(alpha[j]), look_up(table, j * k + code[j]));
        } else if (job.scale_codes) {
            const uint8_t* level = job.scale_codes + i * m;
            for (int64_t j = 0; j < m; j++) add(sum, look_up(table, (j * k + code[j]) * s + level[j]));
        } else {
            for (int64_t j = 0; j < m; j++) add(sum, look_up(table, j * k + code[j]));
        }
        scores[i] = value_of(sum);
    }
}

template <class Number>
void score_as(const ScoreJob& job) {
    const int64_t entries = job.sections * job.n_codewords * (job.scale_codes ? job.n_scales : 1);
    // As many queries together as keep their tables within a second-level cache.
    const int64_t together = entries > 32768 ? 1 : 32768 / entries;
    std::vector<Number> tables(entries * together);
    for (int64_t start = 0; start < job.n_queries; start += together) {
        const int64_t stop = start + together < job.n_queries ? start + together : job.n_queries;
        for (int64_t q = start; q < stop; q++)
            fill_table(job, job.queries + q * job.sections * job.section_size, tables.data() + (q - start) * entries);
        for (int64_t first = 0; first < job.n; first += kPoints) {
            const int64_t last = first + kPoints < job.n ? first + kPoints : job.n;
            for (int64_t q = start; q < stop; q++) {
                const Number* table = tables.data() + (q - start) * entries;
                float* scores = job.scores + q * job.n;
                if (job.wide_codes)
                    sum_rows<Number, uint16_t>(job, table, first, last, scores);
                else
                    sum_rows<Number, uint8_t>(job, table, first, last, scores);
            }
        }
    }
}

template <class Code>
void decode_as(const ScoreJob& job) {
    const Code* codes = static_cast<const Code*>(job.codes);
    const int64_t d = job.section_size;
    for (int64_t i = 0; i < job.n; i++) {
        for (int64_t j = 0; j < job.sections; j++) {
            const int64_t at = i * job.sections + j;
            const float* codeword = job.codewords + (j * job.n_codewords + codes[at]) * d;
            const float alpha = job.alphas        ? job.alphas[at]
                                : job.scale_codes ? job.scales[j * job.n_scales + job.scale_codes[at]]
                                                  : 1.0f;
            for (int64_t t = 0; t < d; t++) job.scores[at * d + t] = alpha * codeword[t];
        }
    }
}

}  // namespace

void score(const ScoreJob& job) {
    score_as<float>(job);
}

OperationCounts count_score_operations(const ScoreJob& job) {
    std::vector<float> scores(job.n * job.n_queries);
    ScoreJob counted = job;
    counted.scores = scores.data();
    Counted::counts = {};
    score_as<Counted>(counted);
    return Counted::counts;
}

void decode(const ScoreJob& job) {
    job.wide_codes ? decode_as<uint16_t>(job) : decode_as<uint8_t>(job);
}

}  // namespace pcpq
