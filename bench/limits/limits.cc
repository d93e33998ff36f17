// The machine's limits, measured by bare loops that no kernel can exceed. Each command prints one
// line of JSON.
//
//   limits fma SECONDS                          GFLOP/s of fused multiply-adds from registers
//   limits bf16 SECONDS                         the same of bfloat16 pairs, where AVX512-BF16 is
//   limits sgemm LIBRARY PASS M N K SECONDS     GFLOP/s of a BLAS (its shared library); PASS is
//                                               forward (A B^T), dInput (A B) or dWeight (A^T B)
//   limits gather ROWS LENGTH SECONDS           rows/s of prefetched sums of LENGTH random rows
//   limits update ROWS SECONDS [sorted]         rows/s of a prefetched read-modify-write, of random
//                                               rows in no order, or of the different rows of a
//                                               batch in ascending order
//   limits updateLines ROWS SECONDS [sorted]    the same, of a number and a byte elsewhere too
//   limits updateRecord ROWS SECONDS [sorted]   the same, of a number and a byte beside the row
//   limits memcpy BYTES SECONDS                 bytes/s of copies, over all rounds
//   limits socket KIND BYTES SECONDS            bytes/s between two threads over a bare socket, in
//                                               calls of BYTES: KIND is tcp or unix
//   limits socketProcessor KIND BYTES SECONDS   the same, bytes by second of processor time
//   limits trade BYTES SECONDS                  bytes/s of each of two threads, which copy BYTES
//                                               into each other's memory, and then from their own
//   limits file KIND PATH BYTES SECONDS         places/s of a new file of BYTES: KIND is read or
//                                               write (264 bytes at random ascending places, in the
//                                               page cache), or pageRead or pageWrite (4 KiB past
//                                               it, 64 at a time: what the disk can do)
//
// SECONDS is how long each measures; unless stated otherwise, the best of its rounds is printed.
// All but `trade` and `socket` run on one thread: start several processes for several threads.

#include <dlfcn.h>
#include <arpa/inet.h>
#include <fcntl.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
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

// As wide as the processor's registers: a compiler splits wider vectors element by element.
#ifdef __AVX512F__
constexpr size_t lanes = 16;
#else
constexpr size_t lanes = 8;
#endif
typedef float Vector __attribute__((vector_size(lanes * sizeof(float))));

double fma(double seconds) {
  constexpr int chains = 12;
  constexpr int turns = 2'000'000;
  Vector sums[chains] = {};
  const Vector a = Vector{} + 1.000001f, b = Vector{} + 1e-9f;
  const double rate = best(seconds, 2.0 * lanes * chains * turns, [&] {
    for (int i = 0; i < turns; i++) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; c++) sums[c] = sums[c] * a + b;
    }
    asm volatile("" : : "r"(sums) : "memory");
  });
  return rate;
}

#ifdef __AVX512BF16__
double bf16(double seconds) {
  constexpr int chains = 12;
  constexpr int turns = 2'000'000;
  __m512 sums[chains] = {};
  __m512bh a, b;
  std::memset(&a, 0, sizeof a);
  std::memset(&b, 0, sizeof b);
  asm volatile("" : "+v"(a), "+v"(b));
  return best(seconds, 2.0 * 32 * chains * turns, [&] {
    for (int i = 0; i < turns; i++) {
#pragma GCC unroll 12
      for (int c = 0; c < chains; c++) sums[c] = _mm512_dpbf16_ps(sums[c], a, b);
    }
    asm volatile("" : : "r"(sums) : "memory");
  });
}
#endif

typedef void (*Sgemm)(int order, int transA, int transB, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

/// Memory aligned to a cache line, as ours is.
struct Matrix {
  explicit Matrix(size_t n, float value)
      : data(static_cast<float *>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64))) {
    for (size_t i = 0; i < n; i++) data[i] = value;
  }
  Matrix(const Matrix &) = delete;
  ~Matrix() { std::free(data); }
  float *data;
};

/// C (m,n) = A * B over k, with operands laid out as in the pass.
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

/// Columns of a row: a constant, so that the compiler unrolls the loops below.
constexpr size_t dim = 64;
constexpr size_t vectors = dim / lanes;

/// How many ids ahead a row is prefetched: covers the latency of memory, fits the miss buffers.
constexpr size_t ahead = 64;

/// Memory on large pages, all of it written.
template <typename Element>
Element *largeMemory(size_t count, Element value) {
  const size_t bytes = std::max<size_t>(count * sizeof(Element), 1);
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  madvise(memory, bytes, MADV_HUGEPAGE);
  auto *elements = static_cast<Element *>(memory);
  std::fill(elements, elements + count, value);
  return elements;
}

struct Table {
  float *rows;  // `width` floats apart
  size_t lookups = 1 << 20;
  std::vector<uint32_t> ids;  // and `ahead` more, to prefetch at the end
};

Table makeTable(size_t rows, size_t width = dim) {
  Table table{largeMemory(rows * width, 1.0f)};
  table.ids.resize(table.lookups + ahead);
  uint64_t state = 88172645463325252ull;
  for (auto &id : table.ids) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    id = uint32_t(state % rows);
  }
  return table;
}

inline void prefetchRow(const float *row) {
  for (size_t i = 0; i < dim; i += 16) __builtin_prefetch(row + i, 0, 2);
}

/// Calls visit(i) for as many vectors of a row as there are numbers in `i`, from the first-th on.
/// Cache lines are not visited in ascending order, which a Zen takes for a stream: it then reads
/// lines after the row, too. Rows are volatile, so that the compiler keeps this order.
template <size_t first, typename Visit, size_t... i>
inline void eachVector(Visit visit, std::index_sequence<i...>) {
  constexpr size_t lines[] = {2, 0, 3, 1}, ofLine = vectors / 4;
  (visit(std::integral_constant<size_t, lines[(first + i) / ofLine] * ofLine + i % ofLine>()), ...);
}
constexpr std::make_index_sequence<vectors> all;
constexpr std::make_index_sequence<vectors / 2> half;

double gather(size_t rows, size_t length, double seconds) {
  const Table table = makeTable(rows);
  constexpr size_t window = 4096;  // bags whose sums are kept: as many as a training step keeps
  std::vector<float> storage(window * dim + 16);
  float *out = storage.data() + 16 - reinterpret_cast<uintptr_t>(storage.data()) / 4 % 16;
  const size_t bags = table.lookups / length;
  return best(seconds, double(bags * length), [&] {
    const uint32_t *id = table.ids.data();
    for (size_t bag = 0; bag < bags; bag++) {
      Vector sum[vectors] = {};
      for (size_t k = 0; k < length; k++, id++) {
        prefetchRow(table.rows + id[ahead] * dim);
        auto *row = reinterpret_cast<const volatile Vector *>(table.rows + *id * dim);
        eachVector<0>([&](size_t i) { sum[i] += row[i]; }, all);
      }
      Vector *to = reinterpret_cast<Vector *>(out + bag % window * dim);
      for (size_t i = 0; i < vectors; i++) to[i] = sum[i];
    }
    asm volatile("" : : "r"(out) : "memory");
  });
}

/// Where a row has a number and a byte, as the state of row-wise Adagrad and the mark of a touched
/// row: nowhere, in arrays of their own, or in a cache line after the row.
enum class State { none, lines, record };

/// Each row is written in two halves, with `ahead` rows in between: with all its lines at once
/// it takes a Zen 4 almost a third longer. `isSorted`: the ids are ascending and different, in
/// batches of as many lookups as an update of a training step has. The rate counts lookups.
template <State kept>
double update(size_t rows, double seconds, bool isSorted) {
  constexpr size_t width = kept == State::record ? dim + 16 : dim;
  constexpr size_t batch = 1 << 18;
  Table table = makeTable(rows, width);
  auto &ids = table.ids;
  auto end = ids.begin() + (isSorted ? 0 : table.lookups);
  for (size_t at = 0; isSorted && at < table.lookups; at += batch) {
    std::sort(ids.begin() + at, ids.begin() + at + batch);
    end = std::unique_copy(ids.begin() + at, ids.begin() + at + batch, end);
  }
  const size_t count = end - ids.begin();
  const Vector gradient = Vector{} + 1e-6f;
  float *state = largeMemory(kept == State::lines ? rows : 0, 0.0f);
  uint8_t *marks = largeMemory<uint8_t>(kept == State::lines ? rows : 0, 0);
  return best(seconds, double(table.lookups), [&] {
    const uint32_t *id = ids.data();
    for (size_t k = 0; k < count + ahead; k++, id++) {
      if (k < count) {
        float *next = table.rows + id[ahead] * width, *own = table.rows + *id * width;
        prefetchRow(next);
        if (kept == State::lines) {
          __builtin_prefetch(&state[id[ahead]], 0, 2);
          __builtin_prefetch(&marks[id[ahead]], 0, 2);
          state[*id] += 1e-6f;
          marks[*id] = 1;
        } else if (kept == State::record) {
          __builtin_prefetch(next + dim, 0, 2);
          own[dim] += 1e-6f;
          own[dim + 1] = 1;
        }
        auto *row = reinterpret_cast<volatile Vector *>(own);
        eachVector<0>([&](size_t i) { row[i] = row[i] - 0.01f * gradient; }, half);
      }
      if (k >= ahead) {
        auto *row = reinterpret_cast<volatile Vector *>(table.rows + id[-ptrdiff_t(ahead)] * width);
        eachVector<vectors / 2>([&](size_t i) { row[i] = row[i] - 0.01f * gradient; }, half);
      }
    }
  });
}

/// The mean, not the best: a thread that shares a core or memory with others loses time to them.
double copy(size_t bytes, double seconds) {
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const auto start = Clock::now();
  double copied = 0;
  do {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    copied += double(bytes);
  } while (secondsSince(start) < seconds);
  return copied / secondsSince(start);
}

/// A connected pair of sockets: Unix, or TCP over the loopback.
bool connectPair(const char *kind, int ends[2]) {
  if (std::strcmp(kind, "unix") == 0) return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  auto *name = reinterpret_cast<sockaddr *>(&at);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  bind(listener, name, length);
  listen(listener, 1);
  getsockname(listener, name, &length);
  ends[0] = ::socket(AF_INET, SOCK_STREAM, 0);
  if (connect(ends[0], name, length) != 0) return false;
  ends[1] = accept(listener, nullptr, nullptr);
  close(listener);
  setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return ends[1] >= 0;
}

/// One thread sends from its memory, one receives into another: the mean, as in `copy`.
double socketPair(const char *kind, size_t bytes, double seconds, bool isProcessor) {
  constexpr size_t parts = 16;
  int ends[2];
  if (!connectPair(kind, ends)) return -1;
  const std::vector<char> from(parts * bytes, 1);
  std::vector<char> to(parts * bytes, 2);
  double received = 0;
  const auto start = Clock::now();
  std::thread sender([&] {
    for (size_t i = 0; secondsSince(start) < seconds; i++) {
      for (size_t done = 0; done < bytes;) {
        const ssize_t some = send(ends[0], &from[i % parts * bytes + done], bytes - done, 0);
        if (some <= 0) return;
        done += some;
      }
    }
    shutdown(ends[0], SHUT_WR);
  });
  for (size_t at = 0;;) {
    const ssize_t some = recv(ends[1], &to[at], std::min(bytes, to.size() - at), 0);
    if (some <= 0) break;
    received += double(some);
    at = (at + some) % to.size();
  }
  const double wall = secondsSince(start);
  sender.join();
  for (const int end : ends) close(end);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto secondsOf = [](const timeval &time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return received / (isProcessor ? secondsOf(used.ru_utime) + secondsOf(used.ru_stime) : wall);
}

/// An all-to-all of two threads that a receiver also reads: what a thread wrote is in the caches of
/// its core, from where the other core fetches it. The mean, as of `copy`.
double trade(size_t bytes, double seconds) {
  std::vector<char> own[2], inbox[2], read[2];
  for (int i = 0; i < 2; i++) {
    for (auto *one : {&own[i], &inbox[i], &read[i]}) one->assign(bytes, char(i));
  }
  std::atomic<int64_t> arrived{0};
  std::atomic<bool> isOver{false};
  std::atomic<int64_t> rounds{0};
  const auto meet = [&](int64_t count) {
    arrived++;
    while (arrived < 2 * count) std::this_thread::yield();
  };
  const auto start = Clock::now();
  const auto run = [&](int i) {
    for (int64_t round = 1;; round++) {
      std::memcpy(inbox[1 - i].data(), own[i].data(), bytes);
      asm volatile("" : : "r"(inbox[1 - i].data()) : "memory");
      if (i == 0) isOver = secondsSince(start) >= seconds;
      meet(2 * round - 1);
      const bool isLast = isOver;
      std::memcpy(read[i].data(), inbox[i].data(), bytes);
      asm volatile("" : : "r"(read[i].data()) : "memory");
      meet(2 * round);
      if (i == 0) rounds = round;
      if (isLast) return;
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return double(bytes) * double(rounds) / secondsSince(start);
}

/// Bare reads and writes at random places of a file.
double file(const char *kind, const char *path, int64_t bytes, double seconds) {
  constexpr int64_t record = 264, page = 4096, calls = 4096;
  constexpr int threads = 64;
  const bool isPage = std::strncmp(kind, "page", 4) == 0;
  const bool isRead = std::strcmp(kind, isPage ? "pageRead" : "read") == 0;
  std::vector<char> filler(1 << 20, 1);
  int at = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (int64_t done = 0; done < bytes; done += 1 << 20) {
    if (pwrite(at, filler.data(), filler.size(), done) < 0) return -1;
  }
  if (isPage) {
    if (fdatasync(at) != 0) return -1;
    close(at);
    at = open(path, O_RDWR | O_DIRECT);
  }
  unlink(path);
  if (at < 0) return -1;
  const int64_t size = isPage ? page : record;
  std::atomic<bool> failed{false};
  const auto batch = [&](uint64_t seed, int64_t count) {
    alignas(4096) static thread_local char buffer[page];
    std::vector<int64_t> places(count);
    for (int64_t &place : places) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      place = int64_t((seed >> 20) % uint64_t(bytes / size)) * size;
    }
    std::sort(places.begin(), places.end());
    for (const int64_t place : places) {
      const ssize_t done = isRead ? pread(at, buffer, size, place) : pwrite(at, buffer, size, place);
      if (done != size) failed = true;
    }
  };
  uint64_t seed = 1;
  const double rate = best(seconds, isPage ? threads * 64 : calls, [&] {
    if (!isPage) return batch(seed++, calls);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; i++) running.emplace_back(batch, seed++ << 32, 64);
    for (std::thread &one : running) one.join();
  });
  close(at);
  return failed ? -1 : rate;
}

/// Takes one connection at a port of any address, and reads it to its end.
double tcpServe(int port) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(uint16_t(port));
  if (bind(listening, reinterpret_cast<sockaddr *>(&place), sizeof place) != 0) return -1;
  if (listen(listening, 1) != 0) return -1;
  const int at = accept(listening, nullptr, nullptr);
  std::vector<char> buffer(1 << 20);
  const auto start = Clock::now();
  double received = 0;
  for (ssize_t got; (got = recv(at, buffer.data(), buffer.size(), 0)) > 0;) received += double(got);
  return received / secondsSince(start);
}

/// Sends to `tcpServe` for some seconds, and waits until it has all bytes.
double tcpSend(const char *address, int port, double seconds) {
  const int at = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(uint16_t(port));
  if (inet_pton(AF_INET, address, &place.sin_addr) != 1) return -1;
  if (connect(at, reinterpret_cast<sockaddr *>(&place), sizeof place) != 0) return -1;
  std::vector<char> buffer(1 << 20, 1);
  const auto start = Clock::now();
  double sent = 0;
  do {
    const ssize_t some = send(at, buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (some < 0) return -1;
    sent += double(some);
  } while (secondsSince(start) < seconds);
  shutdown(at, SHUT_WR);
  while (recv(at, buffer.data(), buffer.size(), 0) > 0) continue;
  return sent / secondsSince(start);
}

}  // namespace

int main(int count, char **words) {
  const auto number = [&](int i) { return i < count ? std::atof(words[i]) : 0.0; };
  const char *what = count > 1 ? words[1] : "";
  double rate = -1;
  if (std::strcmp(what, "fma") == 0) rate = fma(number(2)) / 1e9;
#ifdef __AVX512BF16__
  if (std::strcmp(what, "bf16") == 0) rate = bf16(number(2)) / 1e9;
#endif
  if (std::strcmp(what, "sgemm") == 0 && count > 3) {
    const int m = int(number(4)), n = int(number(5)), k = int(number(6));
    rate = sgemm(words[2], words[3], m, n, k, number(7)) / 1e9;
  }
  if (std::strcmp(what, "gather") == 0) rate = gather(number(2), number(3), number(4));
  const bool isSorted = count > 4 && std::strcmp(words[4], "sorted") == 0;
  if (std::strcmp(what, "update") == 0) {
    rate = update<State::none>(number(2), number(3), isSorted);
  }
  if (std::strcmp(what, "updateLines") == 0) {
    rate = update<State::lines>(number(2), number(3), isSorted);
  }
  if (std::strcmp(what, "updateRecord") == 0) {
    rate = update<State::record>(number(2), number(3), isSorted);
  }
  if (std::strcmp(what, "memcpy") == 0) rate = copy(size_t(number(2)), number(3));
  if (std::strncmp(what, "socket", 6) == 0 && count > 4) {
    rate = socketPair(words[2], size_t(number(3)), number(4), what[6] != 0);
  }
  if (std::strcmp(what, "trade") == 0) rate = trade(size_t(number(2)), number(3));
  if (std::strcmp(what, "file") == 0 && count > 5) {
    rate = file(words[2], words[3], int64_t(number(4)), number(5));
  }
  if (std::strcmp(what, "tcpServe") == 0) rate = tcpServe(int(number(2)));
  if (std::strcmp(what, "tcpSend") == 0 && count > 4) {
    rate = tcpSend(words[2], int(number(3)), number(4));
  }
  std::printf("{\"rate\":%.6g}\n", rate);
  return rate < 0 ? 1 : 0;
}
