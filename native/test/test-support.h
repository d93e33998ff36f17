// Shared by the tests of the kernels: random numbers, a count of failures, and buffers that detect
// writes out of bounds.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels.h"

namespace osiris::test {

inline std::mt19937_64 engine(20240607);
inline int failures = 0;

inline int64_t below(int64_t limit) {
  return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit));
}

inline void expect(bool good, const char* isa, const char* what) {
  if (good) return;
  failures++;
  std::fprintf(stderr, "%s: %s is wrong\n", isa, what);
}

/// Floats between guard words; the sanitizer checks accesses outside the heap block.
class Buffer {
 public:
  explicit Buffer(int64_t n, bool filled = true) : words_(static_cast<size_t>(n) + 2 * guards) {
    std::fill(words_.begin(), words_.end(), guard);
    for (int64_t i = 0; i < n; i++) {
      data()[i] = filled ? static_cast<float>(below(2001) - 1000) / 1000 : 0.0f;
    }
  }
  ~Buffer() {
    for (size_t i = 0; i < guards; i++) {
      expect(words_[i] == guard && words_[words_.size() - 1 - i] == guard, "any", "a guard word");
    }
  }
  float* data() { return words_.data() + guards; }
  float& operator[](int64_t i) { return data()[i]; }
  int64_t size() const { return static_cast<int64_t>(words_.size() - 2 * guards); }

 private:
  static constexpr size_t guards = 4;
  static constexpr float guard = 12345.678f;
  std::vector<float> words_;
};

inline bool near(float a, double b) { return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(b)); }

inline std::vector<int32_t> boundsOf(int64_t slices, int64_t samples) {
  std::vector<int32_t> bounds;
  for (int64_t i = 0; i <= slices; i++) {
    bounds.push_back(static_cast<int32_t>(i * samples / slices));
  }
  return bounds;
}

/// A number of inputs of a layer: mostly few, sometimes more than one block of a product.
inline int64_t someInputs() {
  const int64_t inputs = 1 + below(below(4) == 0 ? 1300 : 200);
  return below(4) == 0 ? (inputs + 15) / 16 * 16 : inputs;  // whole vectors
}

}  // namespace osiris::test
