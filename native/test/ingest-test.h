// Tests the parsing of data: fields of lines of random bytes in memory of exact size, compared with
// a plain search for fields and the C library's numbers; hashed ids; transforms of columns.

#pragma once

#include <cstdlib>
#include <string>

#include "ingest/ids.h"
#include "ingest/transforms.h"
#include "test/test-support.h"

namespace osiris::test {

/// The expected number of a field; NaN for an empty field, infinity for other text.
inline double numberOf(const std::string& text, bool integer) {
  if (text.empty()) return NAN;
  int64_t digits = 0, points = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (!digit && !(text[i] == '-' && i == 0) && text[i] != '.') return INFINITY;
    digits += digit;
    points += text[i] == '.';
  }
  const bool plain = digits > 0 && digits <= 15 && points <= (integer ? 0 : 1);
  return plain ? std::strtod(text.c_str(), nullptr) : INFINITY;
}

/// Parses a few lines of random fields, and checks their beginnings, numbers and ids.
inline void testFields() {
  const double dense[] = {0, 1, 1, 0};
  const double ids[] = {2, 1, 7, 1001, 0, 0, 1, 2, 0, 1000, 5, 1, 0, 0, 0, 9, 0, 0};
  const FieldPlan plan{3, ',', below(2) == 0 ? -1 : '"', 2, dense, 3, ids};
  const int64_t lines = 1 + below(20);
  std::vector<std::string> texts;
  std::vector<uint8_t> bytes;
  std::vector<int32_t> starts, ends;
  for (int64_t line = 0; line < lines; line++) {
    std::string text;
    for (int64_t i = below(40); i > 0; i--) {
      text += below(6) == 0 ? ",,,,-.a\""[below(8)] : "0123456789"[below(10)];
    }
    starts.push_back(static_cast<int32_t>(bytes.size()));
    bytes.insert(bytes.end(), text.begin(), text.end());
    ends.push_back(below(20) == 0 ? -1 : static_cast<int32_t>(bytes.size()));
    texts.push_back(text);
  }
  bytes.shrink_to_fit();
  std::vector<int32_t> begins(static_cast<size_t>(4 * lines)), rows(static_cast<size_t>(3 * lines));
  std::vector<double> numbers(static_cast<size_t>(2 * lines));
  readFields({begins.data(), numbers.data(), rows.data()}, bytes.data(), starts.data(), ends.data(),
             lines, plan);
  for (int64_t line = 0; line < lines; line++) {
    const std::string& text = texts[line];
    const bool quoted = plan.quote >= 0 && text.find('"') != std::string::npos;
    const bool whole = !quoted && ends[line] >= 0 && std::count(text.begin(), text.end(), ',') == 2;
    const int32_t* own = begins.data() + 4 * line;
    expect((own[0] != -1) == whole, "any", "readFields, whether a line is whole");
    if (!whole || own[0] == -1) continue;
    std::vector<std::string> fields;
    for (int64_t i = 0; i < 3; i++) {
      fields.push_back(text.substr(own[i] - starts[line], own[i + 1] - 1 - own[i]));
    }
    expect(fields[0] + ',' + fields[1] + ',' + fields[2] == text, "any", "readFields, the fields");
    for (int64_t i = 0; i < 2; i++) {
      const double wanted = numberOf(fields[static_cast<size_t>(dense[2 * i])], dense[2 * i + 1] == 1);
      const double got = numbers[static_cast<size_t>(i * lines + line)];
      expect(std::isnan(wanted) ? std::isnan(got) : wanted == got, "any", "readFields, a number");
    }
    const auto row = [&](int64_t i) { return rows[static_cast<size_t>(i * lines + line)]; };
    expect(fields[2].empty() ? row(0) == -1 : row(0) >= 1 && row(0) <= 1000, "any", "a hashed row");
    const double id = fields[1].size() <= 9 ? numberOf(fields[1], true) - 5 : NAN;
    const double plain = id >= 0 && id < 1000 && fields[1][0] != '-' ? id : -1;
    expect(row(1) == (fields[1].empty() ? 0 : plain), "any", "an id's row");
    expect(row(2) == -1, "any", "readFields, ids of text");
  }
}

/// Hashes ids of all lengths, compared with hashes of the C library's decimal digits.
inline void testHashedIds() {
  const int64_t count = below(40);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (int64_t& id : ids) id = static_cast<int64_t>(engine()) >> below(64);
  const bool isUnsigned = below(2) == 0;
  hashIds(rows.data(), ids.data(), count, isUnsigned, 7, 1001);
  for (int64_t i = 0; i < count; i++) {
    const std::string text =
        isUnsigned ? std::to_string(static_cast<uint64_t>(ids[i])) : std::to_string(ids[i]);
    const uint8_t* at = reinterpret_cast<const uint8_t*>(text.data());
    const uint32_t hash = murmurHash3(at, at + text.size(), 7);
    expect(rows[i] == static_cast<int32_t>(1 + hash % 1000), "any", "hashIds");
  }
}

/// Transforms columns of random ids and numbers in memory of exact size: buckets are compared with
/// a count of borders, and n-grams of one id with its hash.
inline void testTransforms() {
  const int64_t rows = 1 + below(20), n = 1 + below(3);
  const HashArguments hash{engine(), 1 + below(int64_t{1} << (1 + below(48)))};
  std::vector<int32_t> offsets{0}, outOffsets{0};
  for (int64_t row = 0; row < rows; row++) {
    const int32_t length = static_cast<int32_t>(below(6));
    offsets.push_back(offsets.back() + length);
    outOffsets.push_back(outOffsets.back() + std::max(length - static_cast<int32_t>(n) + 1, 0));
  }
  const size_t count = static_cast<size_t>(offsets.back());
  std::vector<int64_t> ids(count), hashed(count), grams(static_cast<size_t>(outOffsets.back()));
  for (int64_t& id : ids) id = static_cast<int64_t>(engine()) >> below(64);
  std::vector<uint64_t> mixed(count);
  sigridHash(hashed.data(), ids.data(), offsets.back(), hash);
  nGram(grams.data(), outOffsets.data(), ids.data(), offsets.data(), rows, n, mixed.data(), hash);
  for (int64_t id : hashed) expect(id >= 0 && id < hash.max, "any", "sigridHash");
  for (size_t i = 0; i < grams.size(); i++) {
    const bool inside = grams[i] >= 0 && grams[i] < hash.max;
    const bool alone = n > 1 || grams[i] == sigridHashOf(mixed[i], hash);
    expect(inside && alone, "any", "nGram");
  }
  std::vector<double> borders(static_cast<size_t>(1 + below(9))), values(count);
  for (double& border : borders) border = static_cast<double>(below(9));
  std::sort(borders.begin(), borders.end());
  for (double& value : values) value = below(9) == 0 ? NAN : static_cast<double>(below(20)) / 2;
  std::vector<int64_t> buckets(count);
  bucketize(buckets.data(), values.data(), offsets.back(), borders.data(),
            static_cast<int64_t>(borders.size()));
  for (size_t i = 0; i < count; i++) {
    int64_t low = 0;
    for (double border : borders) low += border < values[i];
    const bool last = low >= static_cast<int64_t>(borders.size()) - 1;
    const int64_t wanted = low + (!last && borders[low + 1] <= values[i] ? 1 : 0);
    expect(buckets[i] == wanted, "any", "bucketize");
  }
}

}  // namespace osiris::test
