// A guess at the score of the last candidate before anything is scanned. Scores of a list's rows are about normally
// distributed around its base; the guess is a score that more rows than are wanted lie above, over all lists. It only
// saves work: a scan that finds too few is done again with a lower one.
#pragma once

#include <cstdint>

#include "kernels/index_arrays.h"
#include "kernels/rank_lists.h"
#include "simd/simd.h"

namespace pcpq {
namespace {

// The guess aims at so many rows more than are wanted: few rows are further off.
constexpr float kGuessMore = 40.0f;
constexpr float kNearEnough = 1.15f;  // times as many are accepted
constexpr int kGuessRounds = 16;

// The share above z of a distribution with lighter tails than the normal one (which has 0.07 instead of 0.12), since
// residuals of a list are about equally long.
inline Floats share_above(Floats z) {
    const Floats x = z * (broadcast(1.5976f) + broadcast(0.12f) * z * z);
    return divide_or_zero(broadcast(1.0f), broadcast(1.0f) + power_of_e(x));
}

// The guess aims at `times` as many rows as are wanted. `shapes` has room for three times n rounded up to 8.
inline float guess_threshold(const Lists& lists, const int32_t* chosen, const float* bases, int64_t n, float length,
                             float bias_factor, float wanted, float times, float* shapes) {
    const int64_t padded = (n + 7) / 8 * 8;
    float *means = shapes, *inverses = shapes + padded, *counts = shapes + 2 * padded;
    float total = 0.0f, first = 0.0f, second = 0.0f;  // moments of all rows together, above the first list's mean
    for (int64_t i = 0; i < n; i++) {
        const int32_t list = chosen[i];
        const float variance =
            length * length * lists.energies[list] + bias_factor * bias_factor * lists.bias_variances[list];
        means[i] = bases[i] + bias_factor * lists.bias_means[list];
        inverses[i] = variance > 0.0f ? 1.0f / __builtin_sqrtf(variance) : 1e30f;
        counts[i] = static_cast<float>(lists.rows[list + 1] - lists.rows[list]);
        const float above = means[i] - means[0];
        total += counts[i];
        first += counts[i] * above;
        second += counts[i] * (variance + above * above);
    }
    for (int64_t i = n; i < padded; i++) means[i] = inverses[i] = counts[i] = 0.0f;
    const float least = times * (wanted + kGuessMore), most = kNearEnough * least;
    if (total < 2.0f * most) return -__builtin_inff();
    // Where it would be if all rows had one normal distribution; then moved by the error of the share above it.
    const float deviation = __builtin_sqrtf(larger(second / total - first / total * (first / total), 0.0f));
    const float goal = normal_quantile(0.5f * (least + most) / total);
    float guess = means[0] + first / total + goal * deviation;
    float low = -__builtin_inff(), high = __builtin_inff();
    for (int round = 0; round < kGuessRounds; round++) {
        Floats sums = broadcast(0.0f);
        for (int64_t i = 0; i < padded; i += kLanes)
            sums = sums + load(counts + i) * share_above((broadcast(guess) - load(means + i)) * load(inverses + i));
        const float above = sum_of_lanes(sums);
        if (above >= least && above <= most) return guess;
        (above < least ? high : low) = guess;
        guess += (goal - normal_quantile(larger(above, 0.1f) / total)) * deviation;
        if (!(guess > low && guess < high)) guess = 0.5f * (low + high);
    }
    return low;
}

}  // namespace
}  // namespace pcpq
