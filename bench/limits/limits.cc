// The machine's limits, as bare programs: what no kernel can exceed. One command, one line of JSON.
//
//   limits fma SECONDS                          GFLOP/s of fused multiply-adds from registers
//   limits pairs SECONDS                        the same of dot products of bfloat16 pairs
//   limits sgemm LIBRARY PASS M N K SECONDS     GFLOP/s of a BLAS (its shared library); PASS is
//                                               forward (A B^T), dInput (A B) or dWeight (A^T B)
//   limits gather ROWS DIM SECONDS              rows/s of a prefetched sum over random rows
//   limits update ROWS DIM SECONDS              rows/s of a prefetched read-modify-write
//
// SECONDS is how long each measures; the best of its rounds is printed. One thread; run several.

#include <dlfcn.h>
#include <sys/mman.h>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The best rate of `work` units a call, over rounds of `round` within `seconds`.
template <typename Round>
double best(double seconds, double work, Round round) {
  double rate = 0;
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    round();
    rate = std::max(rate, work / secondsSince(begin));
  } while (secondsSince(start) < seconds);
  return rate;
}

typedef float Vector __attribute__((vector_size(64)));

double fma(double seconds) {
  constexpr int chains = 12;
  constexpr int turns = 2'000'000;
  Vector sums[chains] = {};
  const Vector a = Vector{} + 1.000001f, b = Vector{} + 1e-9f;
  const double rate = best(seconds, 2.0 * 16 * chains * turns, [&] {
    for (int i = 0; i < turns; i++) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; c++) sums[c] = sums[c] * a + b;
    }
    asm volatile("" : : "r"(sums) : "memory");
  });
  return rate;
}

/// -1 where the processor has no such instruction.
double pairs([[maybe_unused]] double seconds) {
#if defined(__AVX512BF16__)
  constexpr int chains = 24;
  constexpr int turns = 1'000'000;
  __m512 sums[chains];
  for (auto &sum : sums) sum = _mm512_setzero_ps();
  const __m512bh a = (__m512bh)_mm512_set1_ps(1.0f), b = (__m512bh)_mm512_set1_ps(1e-9f);
  return best(seconds, 4.0 * 16 * chains * turns, [&] {
    __m512 s[chains];
#pragma GCC unroll 24
    for (int c = 0; c < chains; c++) s[c] = sums[c];
    for (int i = 0; i < turns; i++) {
#pragma GCC unroll 24
      for (int c = 0; c < chains; c++) s[c] = _mm512_dpbf16_ps(s[c], a, b);
    }
#pragma GCC unroll 24
    for (int c = 0; c < chains; c++) sums[c] = s[c];
    asm volatile("" : : "r"(sums) : "memory");
  });
#else
  return -1;
#endif
}

typedef void (*Sgemm)(int order, int transA, int transB, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

/// Memory that begins where a line of the cache does, as ours.
struct Matrix {
  explicit Matrix(size_t n, float value)
      : data(static_cast<float *>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64))) {
    for (size_t i = 0; i < n; i++) data[i] = value;
  }
  Matrix(const Matrix &) = delete;
  ~Matrix() { std::free(data); }
  float *data;
};

/// C (m,n) = A * B over k, its operands lying as they do in the pass.
double sgemm(const char *library, const char *pass, int m, int n, int k, double seconds) {
  void *handle = dlopen(library, RTLD_NOW);
  void *symbol = handle == nullptr ? nullptr : dlsym(handle, "cblas_sgemm");
  if (symbol == nullptr) return -1;
  Sgemm product;
  std::memcpy(&product, &symbol, sizeof product);
  const Matrix a(size_t(m) * k, 0.5f), b(size_t(n) * k, 0.25f), c(size_t(m) * n, 0);
  const bool acrossA = std::strcmp(pass, "dWeight") == 0;
  const bool alongB = std::strcmp(pass, "forward") == 0;
  return best(seconds, 2.0 * m * n * k, [&] {
    product(101, acrossA ? 112 : 111, alongB ? 112 : 111, m, n, k, 1.0f, a.data, acrossA ? m : k,
            b.data, alongB ? k : n, 0.0f, c.data, n);
  });
}

struct Table {
  float *rows;
  std::vector<uint32_t> ids;
};

Table makeTable(size_t rows, size_t dim) {
  const size_t bytes = rows * dim * sizeof(float);
  void *memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, bytes, MADV_HUGEPAGE);
  Table table{static_cast<float *>(memory), std::vector<uint32_t>(1 << 20)};
  for (size_t i = 0; i < rows * dim; i++) table.rows[i] = 1.0f;
  uint64_t state = 88172645463325252ull;
  for (auto &id : table.ids) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    id = uint32_t(state % rows);
  }
  return table;
}

/// How many ids ahead a row is asked for: covers the latency of memory, fits the miss buffers.
constexpr size_t ahead = 64;

inline void prefetchRow(const float *row, size_t dim) {
  for (size_t i = 0; i < dim; i += 16) __builtin_prefetch(row + i, 0, 2);
}

double gather(size_t rows, size_t dim, double seconds) {
  Table table = makeTable(rows, dim);
  std::vector<float> out(dim);
  const size_t n = table.ids.size();
  return best(seconds, double(n), [&] {
    for (size_t i = 0; i < n; i++) {
      prefetchRow(table.rows + size_t(table.ids[(i + ahead) % n]) * dim, dim);
      const float *row = table.rows + size_t(table.ids[i]) * dim;
      for (size_t d = 0; d < dim; d++) out[d] += row[d];
    }
    asm volatile("" : : "r"(out.data()) : "memory");
  });
}

double update(size_t rows, size_t dim, double seconds) {
  Table table = makeTable(rows, dim);
  std::vector<float> gradient(dim, 1e-6f);
  const size_t n = table.ids.size();
  return best(seconds, double(n), [&] {
    for (size_t i = 0; i < n; i++) {
      prefetchRow(table.rows + size_t(table.ids[(i + ahead) % n]) * dim, dim);
      float *row = table.rows + size_t(table.ids[i]) * dim;
      for (size_t d = 0; d < dim; d++) row[d] -= 0.01f * gradient[d];
    }
  });
}

}  // namespace

int main(int count, char **words) {
  const auto number = [&](int i) { return i < count ? std::atof(words[i]) : 0.0; };
  const char *what = count > 1 ? words[1] : "";
  double rate = -1;
  if (std::strcmp(what, "fma") == 0) rate = fma(number(2)) / 1e9;
  if (std::strcmp(what, "pairs") == 0) rate = pairs(number(2)) / 1e9;
  if (std::strcmp(what, "sgemm") == 0 && count > 3) {
    const int m = int(number(4)), n = int(number(5)), k = int(number(6));
    rate = sgemm(words[2], words[3], m, n, k, number(7)) / 1e9;
  }
  if (std::strcmp(what, "gather") == 0) rate = gather(number(2), number(3), number(4));
  if (std::strcmp(what, "update") == 0) rate = update(number(2), number(3), number(4));
  std::printf("{\"rate\":%.6g}\n", rate);
  return rate < 0 ? 1 : 0;
}
