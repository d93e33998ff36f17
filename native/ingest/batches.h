// Copies samples from the blocks of a data cache into batches. src/data/cache/batch-copies.ts is
// the definition.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ingest/folded-records.h"

namespace osiris {

/// Copies `count` records: record i from word froms[i] on (of `wordCount`) to the words starts[i]
/// .. starts[i+1]-1. If froms[i] is negative, the record is folded, is read from word ~froms[i] on,
/// and is unfolded. Returns false if a record is invalid.
inline bool copyRecords(int32_t* out, const int32_t* starts, const int32_t* words,
                          int64_t wordCount, const int32_t* froms, int64_t count,
                          const RecordLayout& layout) {
  for (int64_t i = 0; i < count;) {
    const int64_t first = i++;
    if (froms[first] < 0) {
      const int64_t room = starts[first + 1] - starts[first];
      int32_t* to = out + starts[first];
      if (!unfoldRecord(to, room, words, ~froms[first], wordCount, layout)) return false;
      continue;
    }
    // Records that are adjacent in a block are copied at once.
    while (i < count && froms[i] - froms[first] == starts[i] - starts[first]) i++;
    const int64_t size = starts[i] - starts[first];
    if (froms[first] + size > wordCount) return false;
    std::memcpy(out + starts[first], words + froms[first], static_cast<size_t>(size) * sizeof *out);
  }
  return true;
}

/// The layout of the records of a data cache.
struct RecordShape {
  int64_t labels;
  int64_t denseAt, dense;   // first word and number of dense features
  int64_t headWords;        // words before the bags
  int64_t features;
  const uint8_t* kinds;     // (features): 1: upper halves of ids, 2: weights, 3: both
};

/// The output arrays of a batch; `highs` and `weights` may be nullptr.
struct BatchMemory {
  float *labels, *dense;
  int32_t *lengths, *ids, *highs;
  float* weights;
  int64_t room;  // capacity, in ids
};

/// Samples of a group, which is copied feature by feature: a feature's values of a group fill whole
/// cache lines, and the group's samples stay in the cache.
constexpr int64_t samplesTogether = 64;

/// Writes the lengths of the bags of records first .. end-1, and adds the number of ids of each
/// feature to `counts`. Returns false if a record's size does not match its bags.
inline bool copyLengths(int32_t* lengths, int64_t* counts, const int32_t* words,
                        const int32_t* starts, int64_t samples, int64_t first, int64_t end,
                        const RecordShape& shape) {
  const int64_t lengthsAt = shape.headWords - (shape.features + 1) / 2;
  int64_t sizes[samplesTogether] = {};
  for (int64_t t = 0; t < shape.features; t++) {
    const int shift = t % 2 * 16;
    const int64_t wordsOfId = 1 + (shape.kinds[t] & 1) + (shape.kinds[t] >> 1);
    for (int64_t b = first; b < end; b++) {
      const uint32_t pair = static_cast<uint32_t>(words[starts[b] + lengthsAt + t / 2]);
      const int32_t length = static_cast<int32_t>(pair >> shift & 0xffff);
      lengths[t * samples + b] = length;
      counts[t] += length;
      sizes[b - first] += length * wordsOfId;
    }
  }
  for (int64_t b = first; b < end; b++) {
    if (shape.headWords + sizes[b - first] != starts[b + 1] - starts[b]) return false;
  }
  return true;
}

/// Whether every bag of the records first .. end-1 is a single 32-bit id without a weight.
inline bool areSingles(const int32_t* words, const int32_t* starts, int64_t first, int64_t end,
                       const RecordShape& shape) {
  const int64_t pairs = shape.features / 2, rest = shape.features % 2;
  const int64_t lengthsAt = shape.headWords - pairs - rest;
  bool same = true;
  for (int64_t t = 0; t < shape.features; t++) same = same && shape.kinds[t] == 0;
  for (int64_t b = first; same && b < end; b++) {
    const int32_t* lengths = words + starts[b] + lengthsAt;
    int32_t other = starts[b + 1] - starts[b] - static_cast<int32_t>(shape.headWords + shape.features);
    for (int64_t i = 0; i < pairs; i++) other |= lengths[i] ^ 0x0001'0001;
    if (rest == 1) other |= lengths[pairs] ^ 1;
    same = other == 0;
  }
  return same;
}

/// Copies the bags of a feature from `count` records. The bag of record i is in `words` from
/// next[i] on; next[i] is advanced to the record's next bag. `place`: index of the first id in the
/// batch. Returns one past the last id.
inline int64_t copyFeature(const BatchMemory& out, int64_t place, const int32_t* lengths,
                           const int32_t* words, int32_t* next, int64_t count, uint8_t kind) {
  for (int64_t i = 0; i < count; i++) {
    const int32_t length = lengths[i];
    if (length == 1 && kind == 0) {
      out.ids[place++] = words[next[i]++];
      continue;
    }
    const auto copy = [&](void* to) {
      if (to != nullptr && length > 0) {
        std::memcpy(to, words + next[i], static_cast<size_t>(length) * sizeof *words);
      }
      next[i] += length;
    };
    copy(out.ids + place);
    if ((kind & 1) != 0) copy(out.highs == nullptr ? nullptr : out.highs + place);
    if ((kind & 2) != 0) copy(out.weights == nullptr ? nullptr : out.weights + place);
    place += length;
  }
  return place;
}

/// Copies `samples` records into a batch, in which bags are feature-major. Returns the number of
/// ids; if it is above the capacity, no ids are copied. Returns -1 if a record's size does not
/// match its bags.
inline int64_t copyBatch(const BatchMemory& out, const int32_t* words, const int32_t* starts,
                         int64_t samples, const RecordShape& shape) {
  std::vector<int64_t> places(static_cast<size_t>(shape.features));
  std::vector<uint8_t> singles;
  for (int64_t first = 0; first < samples; first += samplesTogether) {
    const int64_t end = std::min(samples, first + samplesTogether);
    const auto copyFloats = [&](float* to, int64_t at, int64_t count) {
      if (count == 0) return;
      for (int64_t b = first; b < end; b++) {
        std::memcpy(to + b * count, words + starts[b] + at, static_cast<size_t>(count) * sizeof *to);
      }
    };
    copyFloats(out.labels, 0, shape.labels);
    copyFloats(out.dense, shape.denseAt, shape.dense);
    singles.push_back(areSingles(words, starts, first, end, shape));
    if (singles.back() != 0) {
      for (int64_t t = 0; t < shape.features; t++) {
        std::fill_n(out.lengths + t * samples + first, end - first, 1);
        places[static_cast<size_t>(t)] += end - first;
      }
    } else if (!copyLengths(out.lengths, places.data(), words, starts, samples, first, end, shape)) {
      return -1;
    }
  }
  int64_t ids = 0;
  for (int64_t& place : places) {
    const int64_t count = place;
    place = ids;
    ids += count;
  }
  if (ids > out.room) return ids;
  if (out.weights != nullptr) std::fill(out.weights, out.weights + ids, 1.0f);
  for (int64_t first = 0; first < samples; first += samplesTogether) {
    const int64_t count = std::min(samples - first, samplesTogether);
    int32_t next[samplesTogether];
    for (int64_t i = 0; i < count; i++) {
      next[i] = starts[first + i] + static_cast<int32_t>(shape.headWords);
    }
    for (int64_t t = 0; t < shape.features; t++) {
      int64_t& place = places[static_cast<size_t>(t)];
      if (singles[static_cast<size_t>(first / samplesTogether)] != 0) {
        for (int64_t i = 0; i < count; i++) out.ids[place + i] = words[next[i] + t];
        place += count;
        continue;
      }
      const int32_t* lengths = out.lengths + t * samples + first;
      place = copyFeature(out, place, lengths, words, next, count, shape.kinds[t]);
    }
  }
  return ids;
}

}  // namespace osiris
