// What a query brings to the scan: products of its sections with the centers, as floats and as small integers.

namespace {

// Row by row, so that a coordinate's sum has one order whatever the SIMD level.
inline void turn_query(const float* matrix, const float* query, int64_t d, float* out) {
    for (int64_t j = 0; j < d; j++) out[j] = 0.0f;
    for (int64_t i = 0; i < d; i++, matrix += d) {
        const Floats x = broadcast(query[i]);
        int64_t j = 0;
        for (; j + kLanes <= d; j += kLanes) store(out + j, load(out + j) + x * load(matrix + j));
        for (; j < d; j++) out[j] += query[i] * matrix[j];
    }
}

// eta[j][i] = <q_j, c_ij>, (m, 16).
template <int D>
void products(const Packed& packed, const float* centers, const float* query, float* eta) {
    const int64_t size = D > 0 ? D : packed.section_size;
    for (int64_t j = 0; j < packed.sections; j++, centers += 16 * size, query += size) {  // (D, 16): a center a column
        Floats low = load(centers) * broadcast(query[0]), high = load(centers + 8) * broadcast(query[0]);
        for (int64_t t = 1; t < size; t++) {
            low = low + load(centers + t * 16) * broadcast(query[t]);
            high = high + load(centers + t * 16 + 8) * broadcast(query[t]);
        }
        store(eta + j * 16, low);
        store(eta + j * 16 + 8, high);
    }
}

inline void multiply_centers(const Packed& packed, int64_t list, const float* query, float* eta) {
    const float* centers = of_list(packed, packed.centers, list, packed.sections * packed.section_size * 16);
    switch (packed.section_size) {
        case 1:
            return products<1>(packed, centers, query, eta);
        case 2:
            return products<2>(packed, centers, query, eta);
        case 3:
            return products<3>(packed, centers, query, eta);
        case 4:
            return products<4>(packed, centers, query, eta);
        default:
            return products<0>(packed, centers, query, eta);
    }
}

// The bias is two more sections: its byte's low digit and its high one.
inline float bias_step_of(const Packed& packed, float length) {
    return packed.bias_by_length ? packed.bias_step * length : packed.bias_step;
}
inline float bias_low_of(const Packed& packed, float length) {
    return packed.bias_by_length ? packed.bias_low * length : packed.bias_low;
}

inline float usable(float unit) {
    return unit > 0.0f ? unit : 1.0f;  // nothing but zeros: any unit will do
}

// Plain codes: unsigned bytes from each section's least product upwards. The unit is such that any four neighbours add
// up to at most 254 with rounding, all of them to less than 65,536.
inline float plain_unit(const Packed& packed, const float* eta, float step, float largest_base) {
    const int64_t padded = table_sections(packed);
    float four = 0.0f, widest = 0.0f, total = 0.0f;
    for (int64_t j = 0; j < padded; j++) {
        float range = 0.0f;
        if (j < packed.sections) {
            const Floats a = load(eta + j * 16), b = load(eta + j * 16 + 8);
            range = greatest_lane(larger(a, b)) - least_lane(smaller(a, b));
        } else if (j < packed.sections + 2) {
            range = step * (j == packed.sections ? 15 : 240);
        }
        four += range;
        total += range;
        if (j % 4 == 3) {
            widest = larger(widest, four);
            four = 0.0f;
        }
    }
    return larger(larger(widest / 252.0f, total / (65500.0f - 0.5f * padded)), largest_base / 1e9f);
}

inline void plain_table(const Packed& packed, const float* eta, float step, Scan& scan, uint8_t* table) {
    const Floats inverse = broadcast(1.0f / scan.unit);
    for (int64_t j = 0; j < packed.sections; j++) {
        const Floats a = load(eta + j * 16), b = load(eta + j * 16 + 8);
        const float low = least_lane(smaller(a, b));
        store_bytes(table + j * 16, (a - broadcast(low)) * inverse, (b - broadcast(low)) * inverse);
        scan.constant += low;
    }
    for (int64_t j = packed.sections; j < table_sections(packed); j++) {
        const float digit = j == packed.sections ? step : j == packed.sections + 1 ? 16 * step : 0.0f;
        for (int i = 0; i < 16; i++)
            table[j * 16 + i] = static_cast<uint8_t>(__builtin_lrintf(i * digit * (1.0f / scan.unit)));
    }
    scan.zero = 0;
}

// Scaled codes: signed bytes, shifted by 128. A sum is <q, decoded> in units: by Cauchy and Schwarz |q| * reach bounds
// it, plus the bias and half a unit of rounding a section times the largest step.
inline float scaled_unit(const Packed& packed, int64_t list, const float* eta, float length, float step,
                         float largest_base) {
    const float* step_units = of_list(packed, packed.step_units, list, packed.sections);
    float largest = 4.0f * step;
    for (int64_t j = 0; j < packed.sections; j++) {
        const Floats sizes = larger(magnitude(load(eta + j * 16)), magnitude(load(eta + j * 16 + 8)));
        largest = larger(largest, greatest_lane(sizes) * step_units[j]);
    }
    const float room = 32700.0f - 0.5f * packed.largest_step * (packed.sections + 2);
    const float by_sum = (length * packed.reach + 255.0f * step) / room;
    return larger(larger(by_sum, largest / 126.0f), largest_base / 1e9f);
}

inline void scaled_table(const Packed& packed, int64_t list, const float* eta, float step, Scan& scan, uint8_t* table) {
    const float* step_units = of_list(packed, packed.step_units, list, packed.sections);
    const float inverse = 1.0f / scan.unit;
    const Floats zero = broadcast(128.0f);
    for (int64_t j = 0; j < packed.sections; j++) {
        const Floats factor = broadcast(step_units[j] * inverse);
        store_bytes(table + j * 16, load(eta + j * 16) * factor + zero, load(eta + j * 16 + 8) * factor + zero);
    }
    if (packed.sections % 2) store_bytes(table + packed.sections * 16, zero, zero);
    const auto digit = [&](float size) { return static_cast<uint8_t>(128 + int64_t{as_key(size * step * inverse)}); };
    scan.bias_eta = static_cast<uint16_t>(digit(4.0f) | digit(0.25f) << 8);
    scan.zero = kSignedZero;
}

// What one unit of a table must be, so that no sum of it is too large and a base is less than 2^30.
inline float table_unit(const Packed& packed, int64_t list, const float* eta, float length, float largest_base) {
    const float step = bias_step_of(packed, length);
    return usable(packed.coding == Coding::scaled ? scaled_unit(packed, list, eta, length, step, largest_base)
                                                  : plain_unit(packed, eta, step, largest_base));
}

// Table, constant and zero of a scan whose unit is known.
inline void make_table(const Packed& packed, int64_t list, const float* eta, float length, Scan& scan, uint8_t* table) {
    const float step = bias_step_of(packed, length);
    scan.constant = bias_low_of(packed, length);
    if (packed.coding == Coding::scaled)
        scaled_table(packed, list, eta, step, scan, table);
    else
        plain_table(packed, eta, step, scan, table);
}

// What integer scores of lists start from; both have room for n rounded up to 8.
inline void round_bases(const float* bases, int64_t n, const Scan& scan, int32_t* starts) {
    const Floats inverse = broadcast(1.0f / scan.unit), constant = broadcast(scan.constant);
    // What is no number, or too large, came from a file that lies: it must not lead out of the integers.
    const Floats least = broadcast(-0x1p30f), most = broadcast(0x1p30f);
    for (int64_t i = 0; i < n; i += kLanes) {
        store(starts + i, to_ints(smaller(larger((load(bases + i) + constant) * inverse, least), most)));
        for (int lane = 0; lane < kLanes; lane++) starts[i + lane] -= scan.zero;
    }
}

}  // namespace
