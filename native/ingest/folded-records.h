// Folds and unfolds records: a bag that repeats the bag of the record before is stored as one word,
// the distance to its full copy. src/data/cache/folded-records.ts is the definition.

#pragma once

#include <cstdint>
#include <cstring>

namespace osiris {

/// The layout of a record. The lengths of its bags are at the end of its head.
struct RecordLayout {
  int64_t headWords, features;
  const uint8_t* kinds;  // (features): 1: upper halves of ids, 2: weights, 3: both

  int64_t lengthWords() const { return (features + 1) / 2; }
  /// Words after the head of a folded record, with one bit per bag that repeats.
  int64_t repeatWords() const { return (features + 31) / 32; }
  int64_t lengthOf(const int32_t* record, int64_t t) const {
    const int32_t pair = record[headWords - lengthWords() + t / 2];
    return static_cast<uint32_t>(pair) >> (t % 2 * 16) & 0xffff;
  }
  int64_t sizeOf(const int32_t* record, int64_t t) const {
    return lengthOf(record, t) * (1 + (kinds[t] & 1) + (kinds[t] >> 1));
  }
  /// Number of words of the record before it was folded.
  int64_t unfoldedWords(const int32_t* record) const {
    int64_t words = headWords;
    for (int64_t t = 0; t < features; t++) words += sizeOf(record, t);
    return words;
  }
};

/// Folds the record of words start .. end-1 of a block. `last` (3,features): for each feature, the
/// word at which the full copy of the last record's bag begins, or -1; its number of ids; and
/// whether the bag of this record repeats it. Returns the new end, or ~end if the record was
/// folded. An invalid record is left unchanged, and INT32_MIN is returned.
inline int64_t foldRecord(int32_t* words, int32_t* last, int64_t start, int64_t end,
                          const RecordLayout& layout) {
  constexpr int64_t none = INT32_MIN;
  int32_t* record = words + start;
  const int64_t features = layout.features, more = layout.repeatWords();
  if (start + layout.unfoldedWords(record) != end) return none;
  int32_t* repeats = last + 2 * features;
  int64_t at = start + layout.headWords, saved = 0;
  for (int64_t t = 0; t < features; t++) {
    const int64_t size = layout.sizeOf(record, t);
    const int64_t before = last[t];
    const bool may = size > 1 && before >= 0 && before + size <= start &&
                     last[features + t] == layout.lengthOf(record, t);
    const size_t bytes = static_cast<size_t>(size) * sizeof *words;
    const bool same = may && std::memcmp(words + before, words + at, bytes) == 0;
    repeats[t] = same;
    if (same) saved += size - 1;
    at += size;
  }
  const bool folded = saved > more;
  int64_t from = start + layout.headWords, to = from;
  const auto move = [&](int64_t out, int64_t in, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof *words;
    if (count > 0) std::memmove(words + out, words + in, bytes);
  };
  int32_t* bits = words + from;
  if (folded) {
    move(from + more, from, end - from);
    std::memset(bits, 0, static_cast<size_t>(more) * sizeof *bits);
    from += more;
    to += more;
  }
  for (int64_t t = 0; t < features; t++) {
    const int64_t size = layout.sizeOf(record, t);
    if (folded && repeats[t] != 0) {
      bits[t / 32] = static_cast<int32_t>(static_cast<uint32_t>(bits[t / 32]) | 1u << (t % 32));
      words[to] = static_cast<int32_t>(to - last[t]);
      to++;
    } else {
      if (from != to) move(to, from, size);
      last[t] = static_cast<int32_t>(to);
      last[features + t] = static_cast<int32_t>(layout.lengthOf(record, t));
      to += size;
    }
    from += size;
  }
  return folded ? ~to : to;
}

/// Appends `count` records, record i from starts[i] on, at word `used` of a block that has
/// `samples` records, and folds them. Writes their beginnings to the block's first words, as ~begin
/// if a record is folded. Returns the end of the records, or INT32_MIN if a record is invalid.
inline int64_t appendRecords(int32_t* words, int32_t* last, int64_t samples, int64_t used,
                             const int32_t* records, const int32_t* starts, int64_t count,
                             const RecordLayout& layout) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t size = starts[i + 1] - starts[i];
    std::memcpy(words + used, records + starts[i], static_cast<size_t>(size) * sizeof *words);
    int64_t end = foldRecord(words, last, used, used + size, layout);
    if (end == INT32_MIN) return end;
    if (end < 0) {
      words[samples] = static_cast<int32_t>(~used);
      end = ~end;
    }
    used = end;
    words[++samples] = static_cast<int32_t>(used);
  }
  return used;
}

/// Unfolds the record at word `from` of `words` (of `end` words) to `out`. `room`: number of words
/// of the unfolded record. Returns false if the record is invalid or a bag is outside `words`.
inline bool unfoldRecord(int32_t* out, int64_t room, const int32_t* words, int64_t from, int64_t end,
                         const RecordLayout& layout) {
  const int32_t* record = words + from;
  int64_t next = from + layout.headWords + layout.repeatWords();
  if (next > end || layout.unfoldedWords(record) != room) return false;
  const int32_t* bits = record + layout.headWords;
  std::memcpy(out, record, static_cast<size_t>(layout.headWords) * sizeof *out);
  out += layout.headWords;
  for (int64_t t = 0; t < layout.features; t++) {
    const int64_t size = layout.sizeOf(record, t);
    const bool repeats = (static_cast<uint32_t>(bits[t / 32]) >> (t % 32) & 1) != 0;
    if (next >= end && (repeats || size > 0)) return false;
    const int64_t source = repeats ? next - words[next] : next;
    if (source < 0 || source + size > end) return false;
    if (size > 0) std::memcpy(out, words + source, static_cast<size_t>(size) * sizeof *out);
    next += repeats ? 1 : size;
    out += size;
  }
  return true;
}

}  // namespace osiris
