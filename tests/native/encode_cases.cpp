// The encoder with every loss and kind of scale, and the inner loop of k-means++.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "cases.h"
#include "training/codebook.h"

using namespace pcpq;

namespace {

// m sections, k codewords and s scales each.
void encode(const Kernels& level, Record& record, Random random, Loss loss, Scale scale, bool by_distance, Values kind,
            int64_t n, int64_t m, int64_t size, int64_t k, int64_t s) {
    const std::vector<float> points = random.values(kind, n * m * size);
    const std::vector<float> directions = random.values(kind, n * m * size);
    std::vector<float> codewords = random.values(kind, m * k * size);
    if (k > 2) {
        std::fill_n(codewords.begin() + size, size, 0.0f);             // a codeword that is zero ...
        std::copy_n(codewords.begin(), size, codewords.end() - size);  // ... and one that is there twice
    }
    std::vector<float> scales = random.values(kind == Values::extreme ? Values::normal : kind, m * s);
    for (int64_t j = 0; j < m; j++) std::sort(scales.begin() + j * s, scales.begin() + (j + 1) * s);
    std::vector<float> ratios(n * m);
    for (float& ratio : ratios) ratio = random.between(0, 4) ? random.unit() : 1.0f;
    const PreparedCodebook codebook({.sections = m,
                                     .section_size = size,
                                     .n_codewords = k,
                                     .n_scales = s,
                                     .codewords = codewords.data(),
                                     .scales = scales.data()});
    std::vector<float> scratch(encode_scratch_floats(codebook.view(), scale)), alphas(n * m);
    std::vector<uint16_t> codes(n * m);
    std::vector<uint8_t> levels(n * m);
    level.encode({.codebook = codebook.view(),
                  .loss = loss,
                  .scale = scale,
                  .by_distance = by_distance,
                  .sweeps = 5,
                  .n = n,
                  .points = points.data(),
                  .directions = directions.data(),
                  .ratios = ratios.data(),
                  .codes = codes.data(),
                  .scales = levels.data(),
                  .alphas = alphas.data(),
                  .scratch = scratch.data()});
    record.add(codes);
    record.add(levels);
    record.add(alphas);
}

void lower_distances(const Kernels& level, Record& record, Random random, int64_t n, int64_t size, bool signed_too,
                     Values kind) {
    const std::vector<float> points = random.values(kind, n * size), seed = random.values(kind, size);
    std::vector<float> distances(n);
    for (float& distance : distances)
        distance = random.between(0, 1) ? std::numeric_limits<float>::infinity() : random.unit() * size;
    level.lower_distances(points.data(), n, size, seed.data(), signed_too, distances.data());
    record.add(distances);
}

void add_encoders(Cases& cases, Loss loss, Scale scale, bool by_distance, Values kind) {
    const bool levels = scale == Scale::quantized || scale == Scale::vector;
    const auto add = [&](int64_t n, int64_t m, int64_t size, int64_t k, int64_t s) {
        cases.add("encode", encode, loss, scale, by_distance, kind, n, m, size, k, levels ? s : 1);
    };
    // Look-ups in one register or two, in four, and in memory; as many bounds, less one.
    for (int64_t size : {1, 2, 3, 4, 5, 9})
        for (int64_t s : {1, 7, 8, 9, 16, 17, 18, 40})
            if (levels || s == 1) add(17, 3, size, 5, s);
    for (int64_t n : {1, 7, 8, 127, 128, 129, 137}) add(n, 2, 2, 4, 4);
    add(20, 2, 2, 1, 1);
    add(9, 1, 65, 33, 256);
    add(5, 2, 50, 16, 16);
    add(3, 1, 384, 6, 8);
}

}  // namespace

void add_encode_cases(Cases& cases) {
    for (Values kind : kAllValues) {
        for (Scale scale : {Scale::none, Scale::exact, Scale::quantized, Scale::vector}) {
            for (Loss loss : {Loss::isotropic, Loss::section, Loss::whole})
                if (loss != Loss::whole || scale != Scale::vector) add_encoders(cases, loss, scale, false, kind);
            if (scale != Scale::vector) add_encoders(cases, Loss::section, scale, true, kind);
        }
        for (bool signed_too : {false, true})
            for (int64_t n : {8, 16, 64})
                for (int64_t size : {1, 2, 5, 65, 100, 384})
                    cases.add("lower_distances", lower_distances, n, size, signed_too, kind);
    }
}
