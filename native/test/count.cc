// Calls one kernel some times, for a count of its instructions in an emulator (cross.sh --count).
//
//   count SET KERNEL TIMES    prints a call's elements: multiply-adds of products, else floats

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels.h"

using namespace osiris;

/// Floats between -1 and 1.
static std::vector<float> floats(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t word = 1;
  for (float& value : values) {
    word = word * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int32_t>(word)) * 0x1p-31f;
  }
  return values;
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const Kernels* k = kernelsOf(arguments[1]);
  const std::string name = arguments[2];
  if (k == nullptr) return 2;
  const int64_t samples = 256, inputs = 256, outputs = 256, features = 27, dim = 32, rows = 4096;
  const auto x = floats(samples * features * dim), w = floats(rows * inputs), b = floats(rows);
  auto out = floats(samples * 4096), sums = floats(rows * inputs), row = floats(rows * dim);
  const int32_t bounds[] = {0, 256};
  const Slices slices{0, 1, bounds};
  std::vector<uint16_t> halves(static_cast<size_t>(rows * dim), 0x3800);
  std::vector<uint8_t> touched(static_cast<size_t>(rows));
  std::vector<int32_t> offsets, ids;
  for (int32_t i = 0; i <= samples; i++) offsets.push_back(20 * i);
  for (int32_t i = 0; i < 20 * samples; i++) ids.push_back(i * 577 % static_cast<int32_t>(rows));
  const Bags bags{1, samples, offsets.data(), ids.data(), nullptr};
  Table table{};
  table.weights = row.data();
  table.state = sums.data();
  table.touched = touched.data();
  table.rows = table.blockRows = rows;
  table.dim = table.tableDim = dim;
  table.stateWidth = table.blocks = 1;
  table.rule.kind = RuleKind::rowWiseAdagrad;
  table.rule.rate = table.rule.epsilon = 0.1f;
  table.rule.kept = 1;
  Table coded = table;
  coded.weights = nullptr;
  coded.precision = Precision::float16;
  coded.codes = halves.data();
  float *dW[] = {sums.data()}, *dB[] = {row.data()};
  const int64_t product = samples * inputs * outputs, looked = 20 * samples * dim;
  int64_t elements = 0;
  for (int64_t i = std::atoi(arguments[3]); i > 0; i--) {
    if (name == "linear") {
      k->linear(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, true);
      elements = product;
    } else if (name == "linearBfloat16") {
      k->linearBfloat16(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, true);
      elements = product;
    } else if (name == "dLinearWeight") {
      k->dLinearWeight(dW, dB, x.data(), w.data(), inputs, outputs, slices);
      elements = product;
    } else if (name == "interact") {
      k->interact(out.data(), x.data(), samples, features, dim, 1, true);
      elements = samples * features * (features - 1) / 2 * dim;
    } else if (name == "layerNorm") {
      k->layerNorm(out.data(), row.data(), x.data(), w.data(), b.data(), samples, 512, 1e-5f);
      elements = samples * 512;
    } else if (name == "pool") {
      k->pool(out.data(), &table, bags, 0, samples, dim);
      elements = looked;
    } else if (name == "poolFloat16") {
      k->pool(out.data(), &coded, bags, 0, samples, dim);
      elements = looked;
    } else if (name == "updateRows") {
      k->updateRows(&table, bags, x.data(), dim, slices, nullptr, nullptr, nullptr);
      elements = looked;
    } else {
      return 2;
    }
  }
  std::printf("%lld\n", static_cast<long long>(elements));
}
