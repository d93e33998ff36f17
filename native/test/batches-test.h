// Tests the copying of records into batches: random records in memory of exact size, in random
// order, compared with a plain search sample by sample.

#pragma once

#include <vector>

#include "ingest/batches.h"
#include "test/test-support.h"

namespace osiris::test {

/// Copies a batch of random records with random bags.
inline void testBatches() {
  const int64_t features = below(5), dense = below(3), labels = 1 + below(2);
  const int64_t headWords = labels + 1 + dense + (features + 1) / 2;  // The 1 is a sample weight.
  std::vector<uint8_t> kinds(static_cast<size_t>(features));
  for (uint8_t& kind : kinds) kind = static_cast<uint8_t>(below(4));
  std::vector<int32_t> block, froms, starts{0}, from{0};
  std::vector<std::vector<int32_t>> lengths;
  for (int record = 0; record < 20; record++) {
    lengths.emplace_back(static_cast<size_t>(features));
    int64_t size = headWords;
    std::vector<int32_t> pairs(static_cast<size_t>(features + 1) / 2);
    for (size_t t = 0; t < kinds.size(); t++) {
      const int32_t length = lengths.back()[t] = static_cast<int32_t>(below(4));
      pairs[t / 2] |= length << (t % 2 * 16);
      size += length * (1 + (kinds[t] & 1) + (kinds[t] >> 1));
    }
    for (int64_t i = 0; i < size; i++) block.push_back(static_cast<int32_t>(below(1 << 20)));
    std::copy(pairs.begin(), pairs.end(), block.begin() + from.back() + labels + 1 + dense);
    from.push_back(static_cast<int32_t>(block.size()));
  }
  block.shrink_to_fit();
  const int64_t samples = below(2 * samplesTogether);
  std::vector<size_t> chosen;
  for (int64_t b = 0; b < samples; b++) {
    const bool next = b > 0 && below(2) == 0 && chosen.back() < 19;
    chosen.push_back(next ? chosen.back() + 1 : static_cast<size_t>(below(20)));
    froms.push_back(from[chosen.back()]);
    starts.push_back(starts.back() + from[chosen.back() + 1] - froms.back());
  }
  std::vector<int32_t> words(static_cast<size_t>(starts.back()));
  const RecordLayout layout{headWords, features, kinds.data()};
  const int64_t blockWords = static_cast<int64_t>(block.size());
  expect(copyRecords(words.data(), starts.data(), block.data(), blockWords, froms.data(), samples,
                     layout),
         "any", "copyRecords");
  int64_t ids = 0;
  for (size_t record : chosen) {
    for (int32_t length : lengths[record]) ids += length;
  }
  const size_t B = static_cast<size_t>(samples), N = static_cast<size_t>(ids);
  std::vector<float> outLabels(B * static_cast<size_t>(labels)), weights(N);
  std::vector<float> outDense(B * static_cast<size_t>(dense));
  std::vector<int32_t> outLengths(B * kinds.size()), outIds(N), highs(N);
  BatchMemory out{outLabels.data(), outDense.data(), outLengths.data(), outIds.data(),
                  highs.data(),     weights.data(),  ids};
  const RecordShape shape{labels, labels + 1, dense, headWords, features, kinds.data()};
  expect(copyBatch(out, words.data(), starts.data(), samples, shape) == ids, "any", "copyBatch");
  const auto bits = [](float value) {
    int32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
  };
  std::vector<int32_t> next;
  for (size_t b = 0; b < B; b++) {
    const int32_t* record = block.data() + froms[b];
    const bool same = bits(outLabels[b * static_cast<size_t>(labels)]) == record[0] &&
                      (dense == 0 || bits(outDense[b * static_cast<size_t>(dense)]) == record[labels + 1]);
    expect(same, "any", "copyBatch, labels and dense features");
    next.push_back(froms[b] + static_cast<int32_t>(headWords));
  }
  size_t at = 0;
  for (size_t t = 0; t < kinds.size(); t++) {
    for (size_t b = 0; b < B; b++) {
      const int32_t length = lengths[chosen[b]][t];
      expect(outLengths[t * B + b] == length, "any", "copyBatch, a length");
      const int32_t *id = block.data() + next[b], *end = id + length;
      const int32_t* high = (kinds[t] & 1) != 0 ? end : nullptr;
      const int32_t* weight = (kinds[t] & 2) != 0 ? end + (high == nullptr ? 0 : length) : nullptr;
      for (int32_t i = 0; i < length; i++, at++) {
        bool same = outIds[at] == id[i] && (high == nullptr || highs[at] == high[i]);
        same = same && bits(weights[at]) == (weight == nullptr ? bits(1) : weight[i]);
        expect(same, "any", "copyBatch, an id");
      }
      next[b] += length * (1 + (kinds[t] & 1) + (kinds[t] >> 1));
    }
  }
  out.room = ids - 1;
  const int64_t asked = copyBatch(out, words.data(), starts.data(), samples, shape);
  expect(asked == ids, "any", "copyBatch, without room");
  if (samples == 0) return;
  starts.back()++;  // Makes the last record longer than its bags; the rest must not be read.
  const int64_t damaged = copyBatch(out, words.data(), starts.data(), samples, shape);
  expect(damaged == -1, "any", "copyBatch, a record that is none");
}

/// Folds records with few different bags into a block, and unfolds them.
inline void testFoldedRecords() {
  const int64_t features = below(70), headWords = 1 + below(3) + (features + 1) / 2;
  const int64_t lengthsAt = headWords - (features + 1) / 2;
  std::vector<uint8_t> kinds(static_cast<size_t>(features));
  for (uint8_t& kind : kinds) kind = static_cast<uint8_t>(below(4));
  const RecordLayout layout{headWords, features, kinds.data()};
  std::vector<int32_t> records, starts{0};
  const int64_t count = below(33);
  for (int64_t i = 0; i < count; i++) {
    const size_t start = records.size();
    records.resize(start + static_cast<size_t>(headWords));
    for (int64_t t = 0; t < features; t++) {
      const int32_t length = static_cast<int32_t>(below(4));
      records[start + static_cast<size_t>(lengthsAt + t / 2)] |= length << (t % 2 * 16);
      const int64_t size = length * (1 + (kinds[static_cast<size_t>(t)] & 1) + (kinds[static_cast<size_t>(t)] >> 1));
      const int32_t value = static_cast<int32_t>(below(2));
      for (int64_t word = 0; word < size; word++) records.push_back(value);
    }
    starts.push_back(static_cast<int32_t>(records.size()));
  }
  records.shrink_to_fit();
  const int64_t used = count + 1, more = layout.repeatWords();
  std::vector<int32_t> block(static_cast<size_t>(used + more) + records.size());
  std::vector<int32_t> last(static_cast<size_t>(3 * features), -1);
  block[0] = static_cast<int32_t>(used);
  const int64_t end = appendRecords(block.data(), last.data(), 0, used, records.data(),
                                    starts.data(), count, layout);
  expect(end >= used && end <= used + static_cast<int64_t>(records.size()), "any", "appendRecords");
  block.resize(static_cast<size_t>(end));
  block.shrink_to_fit();
  std::vector<int32_t> back(records.size());
  const bool good = copyRecords(back.data(), starts.data(), block.data(), end, block.data(), count,
                                layout);
  expect(good && back == records, "any", "copyRecords, folded");
  if (count == 0 || features == 0) return;
  // A corrupt word must not cause a read out of bounds.
  const size_t hit = static_cast<size_t>(used + below(end - used));
  block[hit] = static_cast<int32_t>(below(INT32_MAX)) - (below(2) == 0 ? 0 : 1 << 30);
  copyRecords(back.data(), starts.data(), block.data(), end, block.data(), count, layout);
}

}  // namespace osiris::test
