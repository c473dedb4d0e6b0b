// Every SIMD level must have the output of the portable one, to the last bit. Needs no Python, so that it runs wherever
// there is a compiler, under an emulator too. Prints a checksum of the output of each kernel, to compare processors.
// Exit code 1: a level differs, or there is none to compare.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "cases.h"
#include "search/checksum.h"

using namespace pcpq;

// A new kernel needs cases of its own.
static_assert(sizeof(SearchKernels) == 25 * sizeof(void*), "a kernel was added or removed: add or remove its cases");
static_assert(sizeof(Kernels) == sizeof(SearchKernels) + 5 * sizeof(void*),
              "a kernel was added or removed: add or remove its cases");

namespace {

std::vector<uint8_t> answers(const char* level, const Case& one) {
    select_kernels(level);
    Record record;
    one.run(kernels(), record);
    return record.bytes();
}

// Whether the output of a level is as expected; prints where it is not.
bool same(const char* level, const Case& one, const std::vector<uint8_t>& expected) {
    const std::vector<uint8_t> found = answers(level, one);
    if (found == expected && !found.empty()) return true;
    const auto place = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end()).first;
    std::printf("%s differs from portable: %s%s, byte %td of %zu\n", level, one.kernel, one.name.c_str(),
                place - expected.begin(), expected.size());
    return false;
}

struct Sum {
    int cases;
    uint32_t checksum;
};

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // line by line, in case a broken kernel ends the program
    Cases cases;
    add_encode_cases(cases);
    add_list_cases(cases);
    add_table_cases(cases);
    add_scan_cases(cases);
    add_search_cases(cases);
    std::map<std::string, int> differing;  // by level
    for (const char* level : kLevelNames)
        if (std::strcmp(level, "portable") != 0 && level_available(level)) differing[level] = 0;
    std::map<std::string, Sum> sums;  // by kernel
    for (const Case& one : cases.all()) {
        const std::vector<uint8_t> expected = answers("portable", one);
        Sum& sum = sums[one.kernel];
        sum.cases++;
        sum.checksum = crc32c(sum.checksum, expected.data(), static_cast<int64_t>(expected.size()));
        for (auto& [level, count] : differing) count += !same(level.c_str(), one, expected);
    }
    for (const auto& [kernel, sum] : sums)
        std::printf("%-16s %4d cases %08x\n", kernel.c_str(), sum.cases, sum.checksum);
    bool all = !differing.empty();
    for (const auto& [level, count] : differing) {
        std::printf("%s and portable: %zu cases, %d differ\n", level.c_str(), cases.all().size(), count);
        all = all && count == 0;
    }
    if (differing.empty()) std::printf("there is no level to compare with portable\n");
    return all ? 0 : 1;
}
