// Memory that lasts from search to search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

namespace pcpq {

// Room for n values: zeros at first, then what the last search left there. `counted`: a count says how much of the room
// is used, which is often little, so zeros would be wasted.
template <class T, bool counted = false>
class Buffer {
public:
    void resize(int64_t n) {
        if (n > size_) values_ = counted ? std::make_unique_for_overwrite<T[]>(n) : std::make_unique<T[]>(n);
        size_ = std::max(size_, n);
    }
    T* data() { return values_.get(); }
    int64_t size() const { return size_; }
    T operator[](int64_t i) const { return values_[i]; }

private:
    std::unique_ptr<T[]> values_;
    int64_t size_ = 0;
};

}  // namespace pcpq
