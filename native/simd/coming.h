// Prefetching of operands. A product prefetches the operands of later products line by line while
// it multiplies, so that they are in the second-level cache in time. If all lines were prefetched
// at once, they would wait for the processor's miss buffers. Included by parts with products.

INLINE void askLine(const float* p) { __builtin_prefetch(p, 0, 2); }

/// Prefetches into the first-level cache memory that is read within hundreds of cycles.
INLINE void askSoon(const float* p) { __builtin_prefetch(p, 0, 3); }

INLINE void askFloats(const float* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) askLine(p + i);
}

/// Runs of memory to prefetch. Each tile takes some of their lines.
class ComingRuns {
 public:
  void add(const float* p, int64_t floats) {
    if (floats > 0) runs_[count_++] = {p, (floats + 15) / 16};
  }

  /// Takes the next lines, and returns their address; nullptr: none are left. If the run has fewer
  /// lines, the memory after it is prefetched, too, which does no harm.
  const float* take(int64_t lines) {
    if (at_ == count_) return nullptr;
    Run& run = runs_[at_];
    const float* p = run.p;
    run.p += 16 * lines;
    run.lines -= lines;
    if (run.lines <= 0) at_++;
    return p;
  }

  /// Prefetches all lines that were not taken.
  void rest() {
    for (; at_ < count_; at_++) askFloats(runs_[at_].p, 16 * runs_[at_].lines);
  }

 private:
  struct Run {
    const float* p;
    int64_t lines;
  };
  Run runs_[addendsMax + 4];
  int64_t count_ = 0, at_ = 0;
};

/// Rows of memory, of which tiles take a line every few k, or a row each, to prefetch it.
class ComingRows {
 public:
  ComingRows() = default;
  /// `rows` rows of `floats` each, `stride` apart.
  ComingRows(const float* p, int64_t rows, int64_t stride, int64_t floats)
      : p_(p), rows_(floats > 0 ? rows : 0), stride_(stride),
        // Where not all rows begin on a boundary, a row may have a part of one more line.
        lines_((floats + 15) / 16 + (stride % 16 == 0 ? 0 : 1)) {}

  /// Takes the next line, and returns an address in it; nullptr: none is left.
  const float* take() {
    if (rows_ <= 0) return nullptr;
    const float* line = p_ + 16 * line_;
    if (++line_ < lines_) return line;
    line_ = 0;
    p_ += stride_;
    rows_--;
    return line;
  }

  /// Prefetches the next row.
  void askRow() {
    if (rows_ > 0) askRows(1);
  }
  void askAll() { askRows(rows_); }

 private:
  void askRows(int64_t rows) {
    for (rows_ -= rows; rows > 0; rows--, p_ += stride_) {
      for (int64_t i = 0; i < lines_; i++) askLine(p_ + 16 * i);
    }
  }

  const float* p_ = nullptr;
  int64_t rows_ = 0, stride_ = 0, lines_ = 0, line_ = 0;
};
