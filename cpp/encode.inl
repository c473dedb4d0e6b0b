// Codes for points: eight points at a time, one a lane, every center in turn.
//
// For a center c the loss of alpha * c is the parabola  w alpha^2 - 2 q alpha + constant, with
//   isotropic  w = |c|^2                               q = <r,c>
//   section    w = slope <r,c>^2 + ratio |c|^2         q = <r,c>                        slope = (1 - ratio) / |r|^2
//   whole      w = slope <u,c>^2 + ratio |c|^2         q = pull <u,c> + ratio <r,c>     slope = (1 - ratio) / |u|^2
// in units of the parallel weight. Over a whole vector the sections meet only in <e, u>: seen from one
// section, `pull` = slope * (<e, u> of the others + <r,u> of this one), so a sweep is the same search again.

namespace {

using pcpq::Codebook;
using pcpq::EncodeJob;
using pcpq::Loss;
using pcpq::Scale;

struct Best {
    Floats loss;
    Ints center;
    Ints scale;
    Floats alpha;
};

// One section of the codebook.
struct SectionBook {
    int64_t size, n_centers;
    int n_scales;
    const float *centers, *norms, *inverse_norms, *scales, *bounds;
};

inline SectionBook section_of(const Codebook& book, int64_t j) {
    return {book.section_size,
            book.n_centers,
            static_cast<int>(book.n_scales),
            book.centers + j * book.n_centers * book.section_size,
            book.norms + j * book.n_centers,
            book.inverse_norms + j * book.n_centers,
            book.scales + j * book.scale_stride,
            book.bounds + j * book.scale_stride};
}

// <x, c> for `Count` neighbouring centers; several at once keep the adders busy in long sections.
template <int D, int Count>
inline void dots(const float* x, const float* centers, int64_t size, Floats* out) {
    const int64_t length = D > 0 ? D : size;
    for (int i = 0; i < Count; i++) out[i] = load(x) * broadcast(centers[i * length]);
    for (int64_t t = 1; t < length; t++) {
        const Floats coordinate = load(x + t * kLanes);
        for (int i = 0; i < Count; i++) out[i] = out[i] + coordinate * broadcast(centers[i * length + t]);
    }
}

template <int D>
inline Floats inner(const float* x, const float* y, int64_t size) {
    const int64_t length = D > 0 ? D : size;
    Floats sum = load(x) * load(y);
    for (int64_t t = 1; t < length; t++) sum = sum + load(x + t * kLanes) * load(y + t * kLanes);
    return sum;
}

template <Loss loss>
inline void parabola(Floats along_r, Floats along_u, float norm, Floats ratio, Floats slope, Floats pull, Floats* w, Floats* q) {
    if constexpr (loss == Loss::isotropic) {
        *w = broadcast(norm);
        *q = along_r;
    } else {
        *w = slope * (along_u * along_u) + ratio * broadcast(norm);
        *q = loss == Loss::section ? along_r : pull * along_u + ratio * along_r;
    }
}

template <Loss loss, Scale scale, bool by_distance, int D>
inline void consider(const SectionBook& book, int64_t i, Floats along_r, Floats along_u, Floats ratio, Floats slope,
                     Floats pull, Best* best) {
    Floats w, q;
    parabola<loss>(along_r, along_u, book.norms[i], ratio, slope, pull, &w, &q);
    const Floats two = broadcast(2.0f);
    Floats alpha = broadcast(1.0f), cost;
    Ints level = broadcast_int(0);
    if constexpr (scale == Scale::exact) {
        alpha = loss == Loss::isotropic ? q * broadcast(book.inverse_norms[i]) : divide_or_zero(q, w);
    } else if constexpr (scale == Scale::quantized) {
        const Floats ideal = loss == Loss::isotropic ? q * broadcast(book.inverse_norms[i]) : divide_or_zero(q, w);
        level = rank(book.bounds, book.n_scales - 1, ideal);
        alpha = look_up(book.scales, book.n_scales, level);
    }
    if constexpr (by_distance) {
        cost = alpha * (alpha * broadcast(book.norms[i]) - two * along_r);
    } else if constexpr (scale == Scale::none) {
        cost = w - two * q;
    } else {
        cost = alpha * (alpha * w - two * q);
    }
    const Ints better = less(cost, best->loss);
    best->loss = choose(better, cost, best->loss);
    best->center = choose(better, broadcast_int(static_cast<int32_t>(i)), best->center);
    if constexpr (scale == Scale::quantized) best->scale = choose(better, level, best->scale);
    if constexpr (scale != Scale::none) best->alpha = choose(better, alpha, best->alpha);
}

template <Loss loss, Scale scale, bool by_distance, int D>
inline Best best_code(const SectionBook& book, const float* r, const float* u, Floats ratio, Floats slope, Floats pull) {
    Best best{broadcast(__builtin_inff()), broadcast_int(0), broadcast_int(0), broadcast(scale == Scale::none ? 1.0f : 0.0f)};
    constexpr int kTogether = D > 0 ? 1 : 4;
    Floats along_r[kTogether], along_u[kTogether];
    int64_t i = 0;
    for (; i + kTogether <= book.n_centers; i += kTogether) {
        dots<D, kTogether>(r, book.centers + i * book.size, book.size, along_r);
        if constexpr (loss == Loss::whole) dots<D, kTogether>(u, book.centers + i * book.size, book.size, along_u);
        for (int t = 0; t < kTogether; t++)
            consider<loss, scale, by_distance, D>(book, i + t, along_r[t], loss == Loss::whole ? along_u[t] : along_r[t],
                                                  ratio, slope, pull, &best);
    }
    for (; i < book.n_centers; i++) {
        dots<D, 1>(r, book.centers + i * book.size, book.size, along_r);
        if constexpr (loss == Loss::whole) dots<D, 1>(u, book.centers + i * book.size, book.size, along_u);
        consider<loss, scale, by_distance, D>(book, i, along_r[0], loss == Loss::whole ? along_u[0] : along_r[0], ratio,
                                              slope, pull, &best);
    }
    return best;
}

// Section j of points [first, first + 8) into out[coordinate][lane]; lanes past the end hold zeros.
template <int D>
inline void gather(const float* rows, int64_t n, int64_t stride, int64_t first, int64_t j, int64_t size, float* out) {
    const int64_t length = D > 0 ? D : size;
    const int64_t lanes = n - first < kLanes ? n - first : kLanes;
    for (int64_t lane = 0; lane < kLanes; lane++) {
        const float* row = rows + (first + lane) * stride + j * length;
        for (int64_t t = 0; t < length; t++) out[t * kLanes + lane] = lane < lanes ? row[t] : 0.0f;
    }
}

inline Floats gather_ratio(const float* ratios, int64_t n, int64_t stride, int64_t first, int64_t j) {
    float out[kLanes];
    for (int64_t lane = 0; lane < kLanes; lane++) out[lane] = first + lane < n ? ratios[(first + lane) * stride + j] : 1.0f;
    return load(out);
}

template <Scale scale>
inline void put(const EncodeJob& job, int64_t first, int64_t j, const Best& best) {
    int32_t centers[kLanes], scales[kLanes];
    float alphas[kLanes];
    store(centers, best.center);
    store(scales, best.scale);
    store(alphas, best.alpha);
    const int64_t lanes = job.n - first < kLanes ? job.n - first : kLanes;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t at = (first + lane) * job.book.sections + j;
        job.centers[at] = static_cast<uint16_t>(centers[lane]);
        if constexpr (scale == Scale::quantized) job.scales[at] = static_cast<uint8_t>(scales[lane]);
        if constexpr (scale == Scale::exact) job.alphas[at] = alphas[lane];
    }
}

// Every section on its own.
template <Loss loss, Scale scale, bool by_distance, int D>
void encode_sections(const EncodeJob& job) {
    constexpr int64_t kChunk = 128;  // points whose rows stay in cache while a section's centers do
    const Codebook& book = job.book;
    const int64_t stride = book.sections * book.section_size;
    float* r = job.scratch;
    for (int64_t start = 0; start < job.n; start += kChunk) {
        const int64_t stop = start + kChunk < job.n ? start + kChunk : job.n;
        for (int64_t j = 0; j < book.sections; j++) {
            const SectionBook section = section_of(book, j);
            for (int64_t first = start; first < stop; first += kLanes) {
                gather<D>(job.points, job.n, stride, first, j, book.section_size, r);
                Floats ratio = broadcast(1.0f), slope = broadcast(0.0f);
                if constexpr (loss == Loss::section) {
                    ratio = gather_ratio(job.ratios, job.n, book.sections, first, j);
                    slope = divide_or_zero(broadcast(1.0f) - ratio, inner<D>(r, r, book.section_size));
                }
                put<scale>(job, first, j, best_code<loss, scale, by_distance, D>(section, r, r, ratio, slope, slope));
            }
        }
    }
}

// <alpha c, u> of the chosen centers, lane by lane.
template <int D>
inline Floats chosen_along(const SectionBook& book, const Best& best, const float* u) {
    const int64_t length = D > 0 ? D : book.size;
    int32_t centers[kLanes];
    float sums[kLanes];
    store(centers, best.center);
    for (int lane = 0; lane < kLanes; lane++) {
        const float* c = book.centers + centers[lane] * length;
        float sum = 0.0f;
        for (int64_t t = 0; t < length; t++) sum += c[t] * u[t * kLanes + lane];
        sums[lane] = sum;
    }
    return best.alpha * load(sums);
}

// The sections together: start from the nearest codes, then improve one section at a time.
template <Scale scale, int D>
void encode_whole(const EncodeJob& job) {
    const Codebook& book = job.book;
    const int64_t m = book.sections, block = book.section_size * kLanes, stride = m * book.section_size;
    float* r = job.scratch;
    float* u = r + m * block;
    float* errors = u + m * block;  // (m, 8)  <e_j, u_j>
    float* targets = errors + m * kLanes;  // (m, 8)  <r_j, u_j>
    float* alphas = targets + m * kLanes;
    int32_t* centers = reinterpret_cast<int32_t*>(alphas + m * kLanes);
    const Floats one = broadcast(1.0f), zero = broadcast(0.0f);
    for (int64_t first = 0; first < job.n; first += kLanes) {
        Floats length = zero, total = zero;
        for (int64_t j = 0; j < m; j++) {
            const SectionBook section = section_of(book, j);
            gather<D>(job.points, job.n, stride, first, j, book.section_size, r + j * block);
            gather<D>(job.directions, job.n, stride, first, j, book.section_size, u + j * block);
            const Best best = best_code<Loss::isotropic, scale, false, D>(section, r + j * block, nullptr, one, zero, zero);
            const Floats target = inner<D>(r + j * block, u + j * block, book.section_size);
            const Floats error = target - chosen_along<D>(section, best, u + j * block);
            length = length + inner<D>(u + j * block, u + j * block, book.section_size);
            total = total + error;
            store(targets + j * kLanes, target);
            store(errors + j * kLanes, error);
            store(alphas + j * kLanes, best.alpha);
            store(centers + j * kLanes, best.center);
            put<scale>(job, first, j, best);
        }
        const Floats ratio = gather_ratio(job.ratios, job.n, 1, first, 0);
        const Floats slope = divide_or_zero(one - ratio, length);
        for (int sweep = 0; sweep < job.sweeps; sweep++) {
            Ints changed = broadcast_int(0);
            for (int64_t j = 0; j < m; j++) {
                const SectionBook section = section_of(book, j);
                const Floats others = total - load(errors + j * kLanes);
                const Floats target = load(targets + j * kLanes);
                const Best best = best_code<Loss::whole, scale, false, D>(section, r + j * block, u + j * block, ratio, slope,
                                                                         slope * (others + target));
                const Floats error = target - chosen_along<D>(section, best, u + j * block);
                total = others + error;
                int32_t codes[kLanes];
                float values[kLanes];
                store(codes, best.center);
                store(values, best.alpha);
                bool moved = false;
                for (int lane = 0; lane < kLanes; lane++) {
                    // An exact scale always moves a little; only a new center or a visible step counts.
                    const float step = values[lane] - alphas[j * kLanes + lane];
                    const float size = values[lane] < 0 ? -values[lane] : values[lane];
                    const bool stepped = step > 1e-3f * size || -step > 1e-3f * size;
                    moved = moved || stepped || codes[lane] != centers[j * kLanes + lane];
                    centers[j * kLanes + lane] = codes[lane];
                }
                if (moved) changed = broadcast_int(-1);
                store(errors + j * kLanes, error);
                store(alphas + j * kLanes, best.alpha);
                put<scale>(job, first, j, best);
            }
            if (!any(changed)) break;
        }
    }
}

// One scale for the whole vector and a sign for every section: center i with the other sign is i + k.
template <Loss loss, int D>
void encode_vector_scale(const EncodeJob& job) {
    const Codebook& book = job.book;
    const int64_t stride = book.sections * book.section_size, k = book.n_centers, s = book.n_scales;
    float* r = job.scratch;
    float* w = r + 2 * stride * kLanes + 4 * book.sections * kLanes;  // (k, 8)
    float* q = w + k * kLanes;                                        // (k, 8)
    float* totals = q + k * kLanes;                                   // (s, 8)
    int32_t* choices = reinterpret_cast<int32_t*>(totals + s * kLanes);  // (m, s, 8)
    const Floats two = broadcast(2.0f);
    for (int64_t first = 0; first < job.n; first += kLanes) {
        for (int64_t l = 0; l < s; l++) store(totals + l * kLanes, broadcast(0.0f));
        for (int64_t j = 0; j < book.sections; j++) {
            const SectionBook section = section_of(book, j);
            gather<D>(job.points, job.n, stride, first, j, book.section_size, r);
            Floats ratio = broadcast(1.0f), slope = broadcast(0.0f);
            if constexpr (loss == Loss::section) {
                ratio = gather_ratio(job.ratios, job.n, book.sections, first, j);
                slope = divide_or_zero(broadcast(1.0f) - ratio, inner<D>(r, r, book.section_size));
            }
            for (int64_t i = 0; i < k; i++) {
                Floats along, wi, qi;
                dots<D, 1>(r, section.centers + i * book.section_size, book.section_size, &along);
                parabola<loss>(along, along, section.norms[i], ratio, slope, slope, &wi, &qi);
                store(w + i * kLanes, wi);
                store(q + i * kLanes, qi);
            }
            for (int64_t l = 0; l < s; l++) {
                const Floats scale = broadcast(section.scales[l]);
                Floats least = broadcast(__builtin_inff());
                Ints choice = broadcast_int(0);
                for (int64_t i = 0; i < k; i++) {
                    const Floats step = scale * load(q + i * kLanes);
                    const Floats cost = scale * scale * load(w + i * kLanes) - two * magnitude(step);
                    const Ints better = less(cost, least);
                    const Ints negative = less(step, broadcast(0.0f));
                    const Ints code = choose(negative, broadcast_int(static_cast<int32_t>(i + k)),
                                             broadcast_int(static_cast<int32_t>(i)));
                    least = choose(better, cost, least);
                    choice = choose(better, code, choice);
                }
                store(totals + l * kLanes, load(totals + l * kLanes) + least);
                store(choices + (j * s + l) * kLanes, choice);
            }
        }
        Floats least = broadcast(__builtin_inff());
        Ints level = broadcast_int(0);
        for (int64_t l = 0; l < s; l++) {
            const Ints better = less(load(totals + l * kLanes), least);
            least = choose(better, load(totals + l * kLanes), least);
            level = choose(better, broadcast_int(static_cast<int32_t>(l)), level);
        }
        int32_t levels[kLanes];
        store(levels, level);
        const int64_t lanes = job.n - first < kLanes ? job.n - first : kLanes;
        for (int64_t lane = 0; lane < lanes; lane++) {
            job.scales[first + lane] = static_cast<uint8_t>(levels[lane]);
            for (int64_t j = 0; j < book.sections; j++)
                job.centers[(first + lane) * book.sections + j] =
                    static_cast<uint16_t>(choices[(j * s + levels[lane]) * kLanes + lane]);
        }
    }
}

template <Scale scale, int D>
void encode_with(const EncodeJob& job) {
    if (job.loss == Loss::whole) return encode_whole<scale, D>(job);
    if (job.loss == Loss::isotropic) return encode_sections<Loss::isotropic, scale, false, D>(job);
    if constexpr (scale != Scale::none) {
        if (job.by_distance) return encode_sections<Loss::section, scale, true, D>(job);
    }
    return encode_sections<Loss::section, scale, false, D>(job);
}

template <int D>
void encode_sized(const EncodeJob& job) {
    switch (job.scale) {
        case Scale::none: return encode_with<Scale::none, D>(job);
        case Scale::exact: return encode_with<Scale::exact, D>(job);
        case Scale::quantized: return encode_with<Scale::quantized, D>(job);
        case Scale::vector:
            return job.loss == Loss::isotropic ? encode_vector_scale<Loss::isotropic, D>(job)
                                               : encode_vector_scale<Loss::section, D>(job);
    }
}

void encode(const EncodeJob& job) {
    switch (job.book.section_size) {
        case 1: return encode_sized<1>(job);
        case 2: return encode_sized<2>(job);
        case 3: return encode_sized<3>(job);
        case 4: return encode_sized<4>(job);
        default: return encode_sized<0>(job);
    }
}

}  // namespace
