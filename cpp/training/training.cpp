#include "training/training.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernels.h"

namespace pcpq {
namespace {

constexpr int64_t kDrawBlock = 256;

// Calls f.operator()<D>() with D the section's size if it is small, else 0: short loops unroll.
template <class Function>
void with_size(int64_t size, Function f) {
    switch (size) {
        case 1:
            return f.template operator()<1>();
        case 2:
            return f.template operator()<2>();
        case 3:
            return f.template operator()<3>();
        case 4:
            return f.template operator()<4>();
        default:
            return f.template operator()<0>();
    }
}

template <int D>
double squared_norm(const float* r, int64_t size) {
    const int64_t length = D > 0 ? D : size;
    double sum = 0.0;
    for (int64_t t = 0; t < length; t++) sum += double(r[t]) * r[t];
    return sum;
}

// Weights of one point's loss: e ((1 - p)/|r|^2 <error, r>^2 + p |error|^2).
struct PointWeights {
    double parallel, orthogonal;  // the two factors, e and |r|^2 included
};

template <int D>
PointWeights weights_of(const Clustered& data, int64_t i, const float* r) {
    const double weight = data.weights ? data.weights[i] : 1.0;
    if (!data.ratios) return {0.0, weight};
    const double norm = squared_norm<D>(r, data.size), ratio = data.ratios[i];
    return {norm > 0.0 ? weight * (1.0 - ratio) / norm : 0.0, weight * ratio};
}

template <int D>
void add_outer(double* matrix, const float* r, int64_t size, double factor) {
    const int64_t length = D > 0 ? D : size;
    for (int64_t a = 0; a < length; a++) {
        const double scaled = factor * r[a];
        for (int64_t b = a; b < length; b++) matrix[a * length + b] += scaled * r[b];
    }
}

void mirror(double* matrices, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; i++, matrices += size * size)
        for (int64_t a = 0; a < size; a++)
            for (int64_t b = 0; b < a; b++) matrices[a * size + b] = matrices[b * size + a];
}

// The first point whose running sum of distances passes the target, by blocks and then by points.
int64_t draw(const std::vector<float>& distances, int64_t n, double uniform) {
    std::vector<double> blocks((n + kDrawBlock - 1) / kDrawBlock);
    double total = 0.0;
    for (size_t b = 0; b < blocks.size(); b++) {
        const int64_t stop = std::min<int64_t>(n, (b + 1) * kDrawBlock);
        for (int64_t i = b * kDrawBlock; i < stop; i++) blocks[b] += distances[i];
        total += blocks[b];
    }
    // Every point is a seed already: any will do.
    if (!(total > 0.0)) return std::min<int64_t>(n - 1, static_cast<int64_t>(uniform * n));
    double rest = uniform * total;
    size_t b = 0;
    while (b + 1 < blocks.size() && rest >= blocks[b]) rest -= blocks[b++];
    const int64_t start = b * kDrawBlock, stop = std::min<int64_t>(n, start + kDrawBlock);
    int64_t last = start;
    for (int64_t i = start; i < stop; i++) {
        if (distances[i] > 0.0f) last = i;
        rest -= distances[i];
        if (rest < 0.0) return i;
    }
    return last;  // rounding left a rest
}

}  // namespace

void seed_rows(const SeedJob& job) {
    const auto [n, size, n_codewords, points, uniforms, sign_symmetric, rows] = job;
    const int64_t padded = (n + 7) / 8 * 8;
    std::vector<float> grouped(padded * size, 0.0f);
    std::vector<float> distances(padded, std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < size; t++) grouped[(i / 8 * size + t) * 8 + i % 8] = points[i * size + t];
    const Kernels& level = kernels();
    for (int64_t c = 0; c < n_codewords; c++) {
        rows[c] =
            c == 0 ? std::min<int64_t>(n - 1, static_cast<int64_t>(uniforms[0] * n)) : draw(distances, n, uniforms[c]);
        level.lower_distances(grouped.data(), padded, size, points + rows[c] * size, sign_symmetric, distances.data());
    }
}

void codeword_sums(const Clustered& data, const float* alphas, double* matrix, double* mass, double* vector) {
    with_size(data.size, [&]<int D>() {
        const int64_t size = D > 0 ? D : data.size;
        for (int64_t i = 0; i < data.n; i++) {
            const float* r = data.points + i * size;
            const int64_t c = data.assigned[i];
            const double alpha = alphas ? alphas[i] : 1.0;
            const double weight = data.weights ? data.weights[i] : 1.0;
            double* sum = vector + c * size;
            for (int64_t t = 0; t < size; t++) sum[t] += weight * alpha * r[t];
            if (!data.ratios) {
                mass[c] += weight * alpha * alpha;
                continue;
            }
            const PointWeights w = weights_of<D>(data, i, r);
            mass[c] += alpha * alpha * w.orthogonal;
            add_outer<D>(matrix + c * size * size, r, size, alpha * alpha * w.parallel);
        }
    });
    if (matrix) mirror(matrix, data.n_codewords, data.size);
}

void codeword_grams(const Clustered& data, double* matrix) {
    with_size(data.size, [&]<int D>() {
        const int64_t size = D > 0 ? D : data.size;
        for (int64_t i = 0; i < data.n; i++)
            add_outer<D>(matrix + data.assigned[i] * size * size, data.points + i * size, size,
                         data.weights ? data.weights[i] : 1.0);
    });
    mirror(matrix, data.n_codewords, data.size);
}

void point_losses(const Clustered& data, const float* alphas, double* losses) {
    with_size(data.size, [&]<int D>() {
        const int64_t size = D > 0 ? D : data.size;
        for (int64_t i = 0; i < data.n; i++) {
            const float* r = data.points + i * size;
            const float* c = data.codewords + data.assigned[i] * size;
            const double alpha = alphas ? alphas[i] : 1.0;
            const PointWeights w = weights_of<D>(data, i, r);
            double along = 0.0, square = 0.0;
            for (int64_t t = 0; t < size; t++) {
                const double error = r[t] - alpha * c[t];
                along += error * r[t];
                square += error * error;
            }
            losses[i] = w.parallel * along * along + w.orthogonal * square;
        }
    });
}

void best_alphas(const Clustered& data, float* alphas, float* curvatures) {
    with_size(data.size, [&]<int D>() {
        const int64_t size = D > 0 ? D : data.size;
        for (int64_t i = 0; i < data.n; i++) {
            const float* r = data.points + i * size;
            const float* c = data.codewords + data.assigned[i] * size;
            const PointWeights w = weights_of<D>(data, i, r);
            double along = 0.0, norm = 0.0;
            for (int64_t t = 0; t < size; t++) {
                along += double(r[t]) * c[t];
                norm += double(c[t]) * c[t];
            }
            const double curvature = w.parallel * along * along + w.orthogonal * norm;
            const double pull = (data.weights ? data.weights[i] : 1.0) * along;
            alphas[i] = static_cast<float>(curvature > 0.0 ? pull / curvature : 0.0);
            curvatures[i] = static_cast<float>(curvature);
        }
    });
}

void section_ratios(const RatioJob& job) {
    const auto [n, sections, size, table_size, points, thresholds, table, ratios] = job;
    for (int64_t i = 0; i < n * sections; i++) {
        const float* r = points + i * size;
        float square = 0.0f;
        for (int64_t t = 0; t < size; t++) square += r[t] * r[t];
        const float norm = std::sqrt(square), threshold = thresholds[i % sections];
        if (!(norm > threshold)) {
            ratios[i] = 1.0f;
            continue;
        }
        const float place = threshold / norm * static_cast<float>(table_size - 1);
        const int64_t below = std::min<int64_t>(table_size - 2, static_cast<int64_t>(place));
        const float part = place - static_cast<float>(below);
        ratios[i] = table[below] + part * (table[below + 1] - table[below]);
    }
}

namespace {

// Sums over a prefix of the values, so that the loss of any run is three differences.
struct Prefix {
    std::vector<double> weight, moment, square;

    Prefix(const double* values, const double* weights, int64_t n, double mean)
        : weight(n + 1), moment(n + 1), square(n + 1) {
        for (int64_t i = 0; i < n; i++) {
            const double v = values[i] - mean;
            weight[i + 1] = weight[i] + weights[i];
            moment[i + 1] = moment[i] + weights[i] * v;
            square[i + 1] = square[i] + weights[i] * v * v;
        }
    }
    double loss(int64_t start, int64_t stop) const {
        const double w = weight[stop] - weight[start], m = moment[stop] - moment[start];
        const double s = square[stop] - square[start];
        return w > 0.0 ? std::max(0.0, s - m * m / w) : 0.0;
    }
};

// best[j]: least loss of the first j values with one more level than `before`. The cut that reaches it never
// moves left as j grows, so halving the range of j halves the range of cuts (divide and conquer).
void add_level(const Prefix& prefix, const std::vector<double>& before, int64_t first, int64_t last, int64_t cut_first,
               int64_t cut_last, std::vector<double>& best, int32_t* cuts) {
    if (first > last) return;
    const int64_t j = first + (last - first) / 2;
    best[j] = std::numeric_limits<double>::infinity();
    int64_t chosen = cut_first;
    for (int64_t cut = cut_first; cut <= std::min(j, cut_last); cut++) {
        const double loss = before[cut] + prefix.loss(cut, j);
        if (loss < best[j]) {
            best[j] = loss;
            chosen = cut;
        }
    }
    cuts[j] = static_cast<int32_t>(chosen);
    add_level(prefix, before, first, j - 1, cut_first, chosen, best, cuts);
    add_level(prefix, before, j + 1, last, chosen, cut_last, best, cuts);
}

}  // namespace

void quantize_scalars(const double* values, const double* weights, int64_t n, int64_t n_levels, double* levels) {
    double total = 0.0, mean = 0.0;
    for (int64_t i = 0; i < n; i++) total += weights[i], mean += weights[i] * values[i];
    mean = total > 0.0 ? mean / total : values[0];
    const Prefix prefix(values, weights, n, mean);
    const int64_t used = std::min(n_levels, n);
    std::vector<double> best(n + 1), before(n + 1);
    std::vector<int32_t> cuts(used * (n + 1));
    for (int64_t j = 0; j <= n; j++) best[j] = prefix.loss(0, j);
    for (int64_t level = 1; level < used; level++) {
        before.swap(best);
        add_level(prefix, before, 0, n, 0, n, best, cuts.data() + level * (n + 1));
    }
    int64_t stop = n;
    for (int64_t level = used - 1; level >= 0; level--) {
        const int64_t start = level > 0 ? cuts[level * (n + 1) + stop] : 0;
        const double weight = prefix.weight[stop] - prefix.weight[start];
        // An empty or weightless run keeps its neighbour's place: levels stay ascending and finite.
        if (weight > 0.0)
            levels[level] = mean + (prefix.moment[stop] - prefix.moment[start]) / weight;
        else
            levels[level] = start < stop ? values[start] : (level + 1 < used ? levels[level + 1] : values[n - 1]);
        stop = start;
    }
    for (int64_t level = used; level < n_levels; level++) levels[level] = levels[used - 1];
}

}  // namespace pcpq
