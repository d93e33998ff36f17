// Moves rows between tiers (src/kernels/contract/records.ts). Included by tiers/tiers.cc for each
// instruction set.

/// How many rows ahead of the current row are prefetched.
constexpr int64_t recordsAhead = 16;

/// Bytes of a record's weights (or codes) and exponents, offset of its state, and total bytes.
struct RecordShape {
  int64_t weights, exponents, state, bytes;

  explicit RecordShape(const Table& t)
      : weights(rowBytes(t)), exponents(t.precision == Precision::int8 ? quantaOf(t.dim) : 0),
        state((weights + exponents + 3) / 4 * 4),
        bytes(state + t.stateWidth * static_cast<int64_t>(sizeof(float))) {}
};

/// Prefetches a row and its state.
INLINE void askForRow(const Table& t, int64_t place) {
  prefetch(rowsOf(t) + place * rowBytes(t), rowBytes(t));
  if (t.precision == Precision::int8) prefetch(t.exponents + place * quantaOf(t.dim), 1);
  prefetch(t.state + place * t.stateWidth, t.stateWidth * sizeof(float));
}

inline void gatherRecords(char* out, const Table& t, const int32_t* places, int64_t count) {
  const RecordShape shape(t);
  for (int64_t i = 0; i < count; i++, out += shape.bytes) {
    if (i + recordsAhead < count) askForRow(t, places[i + recordsAhead]);
    const int64_t place = places[i];
    std::memcpy(out, rowsOf(t) + place * shape.weights, shape.weights);
    char* end = out + shape.weights;
    for (int64_t q = 0; q < shape.exponents; q++) {
      *end++ = static_cast<char>(t.exponents[place * shape.exponents + q]);
    }
    while (end < out + shape.state) *end++ = 0;
    if (t.stateWidth > 0) std::memcpy(end, t.state + place * t.stateWidth, shape.bytes - shape.state);
  }
}

inline void scatterRecords(const Table& t, const int32_t* places, int64_t count,
                           const char* records, Optional<const int32_t> at) {
  const RecordShape shape(t);
  char* rows = const_cast<char*>(rowsOf(t));
  for (int64_t i = 0; i < count; i++) {
    if (i + recordsAhead < count) {
      askForRow(t, places[i + recordsAhead]);
      if (at != nullptr) prefetch(records + at[i + recordsAhead] * shape.bytes, shape.bytes);
    }
    const int64_t place = places[i];
    const char* from = records + (at == nullptr ? i : at[i]) * shape.bytes;
    std::memcpy(rows + place * shape.weights, from, shape.weights);
    for (int64_t q = 0; q < shape.exponents; q++) {
      t.exponents[place * shape.exponents + q] = static_cast<int8_t>(from[shape.weights + q]);
    }
    if (t.stateWidth > 0) {
      std::memcpy(t.state + place * t.stateWidth, from + shape.state, shape.bytes - shape.state);
    }
    t.touched[place] = 0;
  }
}

inline void moveRecords(char* to, Optional<const int32_t> toAt, const char* from,
                        Optional<const int32_t> fromAt,
                        int64_t count, int64_t bytes) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t next = i + recordsAhead;
    if (next < count && fromAt != nullptr) prefetch(from + fromAt[next] * bytes, bytes);
    if (next < count && toAt != nullptr) prefetch(to + toAt[next] * bytes, bytes);
    const int64_t source = fromAt == nullptr ? i : fromAt[i];
    const int64_t target = toAt == nullptr ? i : toAt[i];
    std::memcpy(to + target * bytes, from + source * bytes, bytes);
  }
}
