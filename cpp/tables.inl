// What a query brings to the scan: products of its sections with the centers, as floats and as small integers.

namespace {

// eta[j][i] = <q_j, c_ij>, (m, 16).
template <int D>
void products(const Packed& packed, const float* query, float* eta) {
    const int64_t size = D > 0 ? D : packed.section_size;
    for (int64_t j = 0; j < packed.sections; j++) {
        const float* centers = packed.centers + j * 16 * size;  // (D, 16): a center a column
        float* out = eta + j * 16;
        for (int i = 0; i < 16; i++) out[i] = centers[i] * query[j * size];
        for (int64_t t = 1; t < size; t++) {
            const float x = query[j * size + t];
            for (int i = 0; i < 16; i++) out[i] += centers[t * 16 + i] * x;
        }
    }
}

inline void multiply_centers(const Packed& packed, const float* query, float* eta) {
    switch (packed.section_size) {
        case 1:
            return products<1>(packed, query, eta);
        case 2:
            return products<2>(packed, query, eta);
        case 3:
            return products<3>(packed, query, eta);
        case 4:
            return products<4>(packed, query, eta);
        default:
            return products<0>(packed, query, eta);
    }
}

// The bias is two more sections: its byte's low digit and its high one.
inline float bias_step_of(const Packed& packed, float length) {
    return packed.bias_by_length ? packed.bias_step * length : packed.bias_step;
}
inline float bias_low_of(const Packed& packed, float length) {
    return packed.bias_by_length ? packed.bias_low * length : packed.bias_low;
}

inline float larger(float a, float b) {
    return a > b ? a : b;
}
inline float usable(float unit) {
    return unit > 0.0f ? unit : 1.0f;  // nothing but zeros: any unit will do
}

// Unsigned bytes from each section's least product upwards. The unit is such that any four neighbours add up to
// at most 254 with rounding, all of them to less than 65,536, and a base to less than 2^30.
inline void plain_table(const Packed& packed, const float* eta, float length, float largest_base, Scan& scan,
                        uint8_t* table) {
    const int64_t padded = table_sections(packed);
    const float step = bias_step_of(packed, length);
    float constant = bias_low_of(packed, length), four = 0.0f, widest = 0.0f, total = 0.0f;
    for (int64_t j = 0; j < padded; j++) {
        float low = 0.0f, high = 0.0f;
        if (j < packed.sections) {
            low = high = eta[j * 16];
            for (int i = 1; i < 16; i++) {
                low = eta[j * 16 + i] < low ? eta[j * 16 + i] : low;
                high = eta[j * 16 + i] > high ? eta[j * 16 + i] : high;
            }
            constant += low;
        } else if (j < packed.sections + 2) {
            high = step * (j == packed.sections ? 15 : 240);
        }
        four += high - low;
        total += high - low;
        if (j % 4 == 3) {
            widest = four > widest ? four : widest;
            four = 0.0f;
        }
    }
    const float unit = usable(larger(larger(widest / 252.0f, total / (65500.0f - 0.5f * padded)), largest_base / 1e9f));
    const float inverse = 1.0f / unit;
    for (int64_t j = 0; j < packed.sections; j++) {
        float low = eta[j * 16];
        for (int i = 1; i < 16; i++) low = eta[j * 16 + i] < low ? eta[j * 16 + i] : low;
        for (int i = 0; i < 16; i++)
            table[j * 16 + i] = static_cast<uint8_t>(static_cast<int32_t>((eta[j * 16 + i] - low) * inverse + 0.5f));
    }
    for (int64_t j = packed.sections; j < padded; j++) {
        const float digit = j == packed.sections ? step : j == packed.sections + 1 ? 16 * step : 0.0f;
        for (int i = 0; i < 16; i++)
            table[j * 16 + i] = static_cast<uint8_t>(static_cast<int32_t>(i * digit * inverse + 0.5f));
    }
    scan.unit = unit;
    scan.constant = constant;
    scan.zero = 0;
}

// Signed bytes, shifted by 128. A sum is <q, decoded> in units: by Cauchy and Schwarz |q| * reach bounds it,
// plus the bias and half a unit of rounding a section times the largest step.
inline void scaled_table(const Packed& packed, const float* eta, float length, float largest_base, Scan& scan,
                         uint8_t* table) {
    const int64_t padded = table_sections(packed);
    const float step = bias_step_of(packed, length);
    float largest = 0.0f;
    for (int64_t j = 0; j < packed.sections; j++)
        for (int i = 0; i < 16; i++) largest = larger(largest, __builtin_fabsf(eta[j * 16 + i]) * packed.step_units[j]);
    const float room = 32700.0f - 0.5f * packed.largest_step * (packed.sections + 2);
    const float by_sum = (length * packed.reach + 255.0f * step) / room,
                by_byte = larger(largest, 4.0f * step) / 126.0f;
    const float unit = usable(larger(larger(by_sum, by_byte), largest_base / 1e9f));
    const float inverse = 1.0f / unit;
    for (int64_t j = 0; j < padded; j++)
        for (int i = 0; i < 16; i++) {
            const float value = j < packed.sections ? eta[j * 16 + i] * packed.step_units[j] * inverse : 0.0f;
            table[j * 16 + i] = static_cast<uint8_t>(128 + __builtin_lrintf(value));
        }
    const auto upper = static_cast<uint16_t>(128 + __builtin_lrintf(4.0f * step * inverse));
    const auto lower = static_cast<uint16_t>(128 + __builtin_lrintf(0.25f * step * inverse));
    scan.bias_eta = static_cast<uint16_t>(upper | lower << 8);
    scan.unit = unit;
    scan.constant = bias_low_of(packed, length);
    scan.zero = kSignedZero;
}

inline void make_table(const Packed& packed, const float* eta, float length, float largest_base, Scan& scan,
                       uint8_t* table) {
    (packed.scaled ? scaled_table : plain_table)(packed, eta, length, largest_base, scan, table);
}

}  // namespace
