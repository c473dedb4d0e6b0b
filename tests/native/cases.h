// Cases for the kernels: each makes its input from a seed, calls one kernel of a level and records the output.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"

// The output of a level, byte by byte. Levels may differ in the bits of NaN.
class Record {
public:
    template <class T>
    void add(T value) {
        if constexpr (std::is_floating_point_v<T>)
            if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
    }
    template <class T>
    void add(const std::vector<T>& values, int64_t count) {
        for (int64_t i = 0; i < count; i++) add(values[i]);
    }
    template <class T>
    void add(const std::vector<T>& values) {
        add(values, static_cast<int64_t>(values.size()));
    }

    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

enum class Values { normal, ties, extreme };
constexpr Values kAllValues[] = {Values::normal, Values::ties, Values::extreme};

// Random numbers that are equal on every machine.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t bits() {  // splitmix64
        state_ += 0x9e3779b97f4a7c15;
        uint64_t z = state_;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(bits() % uint64_t(high - low + 1)); }
    float unit() { return static_cast<float>(bits() >> 40) * 0x1p-24f; }
    float normal() {
        float sum = -6.0f;
        for (int i = 0; i < 12; i++) sum += unit();
        return sum;
    }
    // Ties are whole numbers and halves; extremes reach both ends of float32, zeros of both signs among them.
    float value(Values kind) {
        static constexpr float extremes[] = {0.0f,  -0.0f,  1e-42f, -3e-39f, 1e-20f, -1e-20f,
                                             1e18f, -1e18f, 3e38f,  -3e38f,  1.0f,   -1.0f};
        if (kind == Values::ties) return 0.5f * static_cast<float>(between(-4, 4));
        if (kind == Values::extreme) return extremes[between(0, 11)];
        return normal();
    }
    std::vector<float> values(Values kind, int64_t n) {
        std::vector<float> out(n);
        for (float& x : out) x = value(kind);
        return out;
    }
    template <class T>
    std::vector<T> integers(int64_t n, int64_t low, int64_t high) {
        std::vector<T> out(n);
        for (T& x : out) x = static_cast<T>(between(low, high));
        return out;
    }

private:
    uint64_t state_;
};

struct Case {
    const char* kernel;
    std::string name;
    std::function<void(const pcpq::Kernels&, Record&)> run;
};

// Gathers cases; each has a seed of its own, and is named by its arguments.
class Cases {
public:
    template <class Function, class... Arguments>
    void add(const char* kernel, Function run, Arguments... arguments) {
        std::string name;
        ((name += " " + std::to_string(static_cast<int64_t>(arguments))), ...);
        const uint64_t seed = all_.size();
        all_.push_back({kernel, name, [=](const pcpq::Kernels& level, Record& record) {
                            run(level, record, Random(seed), arguments...);
                        }});
    }
    const std::vector<Case>& all() const { return all_; }

private:
    std::vector<Case> all_;
};

inline int64_t to_eight(int64_t n) {
    return (n + 7) / 8 * 8;
}
// Up to `most` rows per list, exactly `most` in the first; some lists begin in the block of the one before.
inline void place_lists(Random& random, int64_t count, int64_t most, int64_t block_rows, std::vector<int64_t>& rows,
                        std::vector<int64_t>& places) {
    rows = places = {0};
    for (int64_t list = 0; list < count; list++) {
        const int64_t n = list == 0 ? most : random.between(0, most);
        const bool ends_block = list + 1 == count || random.between(0, 1);
        const int64_t end = places.back() + n;
        rows.push_back(rows.back() + n);
        places.push_back(ends_block ? (end + block_rows - 1) / block_rows * block_rows : end);
    }
}

// Where loops over lanes, over sixteen, over groups begin and end; and usual sizes.
constexpr int64_t kDimensions[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 31, 32, 33, 65, 100, 384};
constexpr int64_t kCounts[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 257};

void add_encode_cases(Cases& cases);
void add_list_cases(Cases& cases);
void add_table_cases(Cases& cases);
void add_scan_cases(Cases& cases);
void add_search_cases(Cases& cases);
