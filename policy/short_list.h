// short_list.h: a list of at most N values that lives where it stands and allocates nothing.
//
// For what is known to be few, such as the budgets on the path of a request.
//
// Errors: adding to a full list is our bug and asserts.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace turnstile::policy {

template <typename T, std::size_t N>
class ShortList {
 public:
  ShortList() = default;
  ShortList(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  void push_back(T value) {
    assert(size_ < N && "a short list is not overfilled");
    values_[size_++] = std::move(value);
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t index) const { return values_[index]; }
  const T* begin() const { return values_.data(); }
  const T* end() const { return values_.data() + size_; }

 private:
  std::array<T, N> values_{};
  std::size_t size_ = 0;
};

}  // namespace turnstile::policy
