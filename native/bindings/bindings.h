// Included at the end of kernels.cc.

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bindings/call.h"
#include "tiers/record-file.h"

// Bindings ---------------------------------------------------------------------------------------
// Typed arrays to pointers, no arithmetic. Shapes were checked by src/kernels/checked/checked.ts; only the
// element types are checked here, because a wrong one would be someone else's memory.

namespace {

using namespace osiris;

const Kernels* const best = bestKernels();
thread_local const Kernels* limited = nullptr;

/// The kernels that this thread runs.
const Kernels& running() { return limited != nullptr ? *limited : *best; }

// copyColumns(out, outFirst, outStride, from, fromFirst, fromStride, samples, columns)
void copyColumns(Call& call) {
  float *out = call.floats(0), *from = call.floats(3);
  const int64_t outFirst = call.integer(1), outStride = call.integer(2);
  const int64_t fromFirst = call.integer(4), fromStride = call.integer(5);
  const int64_t samples = call.integer(6), columns = call.integer(7);
  if (!call.valid()) return;
  running().copyColumns(out + outFirst, outStride, from + fromFirst, fromStride, samples, columns);
}

// uniform(t, key0, key1, purpose, first, scale)
void uniform(Call& call) {
  float* t = call.floats(0);
  const int64_t n = call.length(0);
  const Key key = keyOf(call, 1);
  const uint32_t purpose = call.word(3);
  const int64_t first = call.integer(4);
  const float scale = static_cast<float>(call.number(5));
  if (call.valid()) running().uniform(t, n, key.words, purpose, first, scale);
}

// linear(out, x, w, b, samples, inputs, outputs, relu, bfloat16)
void linear(Call& call) {
  float *out = call.floats(0), *x = call.floats(1), *w = call.floats(2), *b = call.floats(3);
  const int64_t samples = call.integer(4), inputs = call.integer(5), outputs = call.integer(6);
  const bool relu = call.flag(7);
  const auto kernel = call.flag(8) ? running().linearBfloat16 : running().linear;
  if (call.valid()) kernel(out, x, w, b, samples, inputs, outputs, relu);
}

// dRelu(d, out)
void dRelu(Call& call) {
  float *d = call.floats(0), *out = call.floats(1);
  const int64_t n = call.length(0);
  if (call.valid()) running().dRelu(d, out, n);
}

// dLinearInput(dX, dOut, w, samples, inputs, outputs, bfloat16)
void dLinearInput(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *w = call.floats(2);
  const int64_t samples = call.integer(3), inputs = call.integer(4), outputs = call.integer(5);
  const auto kernel = call.flag(6) ? running().dLinearInputBfloat16 : running().dLinearInput;
  if (call.valid()) kernel(dX, dOut, w, samples, inputs, outputs);
}

// dLinearWeight(dW[], dB[], dOut, x, inputs, outputs, firstSlice, bounds, bfloat16)
void dLinearWeight(Call& call) {
  const auto dW = call.floatsOf(0), dB = call.floatsOf(1);
  float *dOut = call.floats(2), *x = call.floats(3);
  const int64_t inputs = call.integer(4), outputs = call.integer(5);
  const Slices slices = slicesOf(call, 6);
  const auto kernel = call.flag(8) ? running().dLinearWeightBfloat16 : running().dLinearWeight;
  if (!call.valid()) return;
  kernel(dW.data(), dB.data(), dOut, x, inputs, outputs, slices);
}

// dropout(x, key0, key1, purpose, step, firstElement, keep, limit)
void dropout(Call& call) {
  float* x = call.floats(0);
  const int64_t n = call.length(0);
  const Key key = keyOf(call, 1);
  const uint32_t purpose = call.word(3), step = call.word(4);
  const int64_t first = call.integer(5);
  const float keep = static_cast<float>(call.number(6));
  const uint32_t limit = call.word(7);
  if (call.valid()) running().dropout(x, n, key.words, purpose, step, first, keep, limit);
}

// interact(out, x, samples, features, dim, copied, dots)
void interact(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t samples = call.integer(2), features = call.integer(3), dim = call.integer(4);
  const int64_t copied = call.integer(5);
  const bool dots = call.flag(6);
  if (call.valid()) running().interact(out, x, samples, features, dim, copied, dots);
}

// dInteract(dX, dOut, x, samples, features, dim, copied, dots)
void dInteract(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *x = call.floats(2);
  const int64_t samples = call.integer(3), features = call.integer(4), dim = call.integer(5);
  const int64_t copied = call.integer(6);
  const bool dots = call.flag(7);
  if (call.valid()) running().dInteract(dX, dOut, x, samples, features, dim, copied, dots);
}

// TABLES: weights[], states[], touched[], exponents and names[], numbers. BAGS: offsets, ids, weights.

// born(TABLES, key0, key1, purpose, scale)
void born(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const Key key = keyOf(call, 5);
  const uint32_t purpose = call.word(7);
  const float scale = static_cast<float>(call.number(8));
  if (call.valid()) running().born(tables[0], key.words, purpose, scale);
}

// pool(out, TABLES, BAGS, first, count)
void pool(Call& call) {
  float* out = call.floats(0);
  const auto tables = tablesOf(call, 1, false);
  const Bags bags = bagsOf(call, 6, tables);
  const int64_t first = call.integer(9), count = call.integer(10);
  if (!call.valid()) return;
  running().pool(out, tables.data(), bags, first, count, columnsOf(tables));
}

/// Arguments i, i+1: for each table what of its rows was completed, means and trusts; an empty
/// array: nothing.
std::vector<Completed> completedOf(Call& call, size_t i, const std::vector<Table>& tables) {
  const auto means = call.floatsOf(i), trusts = call.floatsOf(i + 1);
  std::vector<Completed> completed;
  for (size_t t = 0; t < tables.size() && call.valid(); t++) {
    completed.push_back({means[t], trusts[t]});
  }
  return completed;
}

// updateRows(TABLES, rules, BAGS, dPooled, firstSlice, bounds, means[], trusts[]): the first table
// of which a row is no longer finite, or -1
napi_value updateRows(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  std::vector<Completed> completed;
  if (!call.missing(12)) completed = completedOf(call, 12, tables);
  if (!call.valid()) return nullptr;
  const Completed* known = completed.empty() ? nullptr : completed.data();
  return call.answer(
      running().updateRows(tables.data(), bags, dPooled, columnsOf(tables), slices, known));
}

// rowSquares(TABLES, rules, BAGS, dPooled, firstSlice, bounds, table): Float32Array
napi_value rowSquares(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  const int64_t index = call.integer(12);
  if (!call.valid()) return nullptr;
  float* squares = nullptr;
  const int64_t count = running().rowSquares(&squares, tables[index], index, bags, dPooled,
                                             columnsOf(tables), slices);
  return call.answer(squares, count);
}

// rowNorms(TABLES, rules, BAGS, dPooled, firstSlice, bounds, table, means): Float64Array
napi_value rowNorms(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  const Bags bags = bagsOf(call, 6, tables);
  float* dPooled = call.floats(9);
  const Slices slices = slicesOf(call, 10);
  const int64_t index = call.integer(12);
  const float* means = call.missing(13) ? nullptr : call.floats(13);
  if (!call.valid()) return nullptr;
  double* norms = nullptr;
  const int64_t count = running().rowNorms(&norms, tables[index], index, bags, dPooled,
                                           columnsOf(tables), slices, means);
  return call.answer(norms, count);
}

// dRows(TABLES, BAGS, dPooled, firstSlice, bounds, table, dRows[], counts[])
void dRows(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const Bags bags = bagsOf(call, 5, tables);
  float* dPooled = call.floats(8);
  const Slices slices = slicesOf(call, 9);
  const int64_t index = call.integer(11);
  const auto d = call.floatsOf(12), counts = call.floatsOf(13);
  if (!call.valid()) return;
  running().dRows(d.data(), counts.data(), tables[index], index, bags, dPooled, columnsOf(tables),
                  slices);
}

// applyRows(TABLES, rules, dRows, counts, whole): -1 where all rows are finite, else 0
napi_value applyRows(Call& call) {
  const auto tables = tablesOf(call, 0, true);
  float *d = call.floats(6), *counts = call.floats(7);
  const bool whole = call.flag(8);
  if (!call.valid()) return nullptr;
  return call.answer(running().applyRows(tables[0], d, counts, whole) ? -1 : 0);
}

// foldSubtrees(out, parts[], trees): trees holds first and count of each part
void foldSubtrees(Call& call) {
  float* out = call.floats(0);
  const int64_t n = call.length(0);
  const auto parts = call.floatsOf(1);
  const int32_t* numbers = call.ints(2);
  if (!call.valid()) return;
  std::vector<Subtree> trees;
  for (size_t p = 0; p < parts.size(); p++) {
    trees.push_back({numbers[2 * p], numbers[2 * p + 1]});
  }
  running().foldSubtrees(out, parts.data(), trees.data(), static_cast<int64_t>(parts.size()), n);
}

// foldPooled(out, outFirst, outColumns, froms[], numbers, samples, columns, lengths, precision):
// numbers holds first column, columns, first block and blocks of each part; no columns: zeros
void foldPooled(Call& call) {
  float* out = call.floats(0);
  const int64_t outFirst = call.integer(1), outColumns = call.integer(2);
  const auto froms = call.floatsOf(3);
  const int32_t* numbers = call.ints(4);
  const int64_t samples = call.integer(5), columns = call.integer(6);
  const int32_t* lengths = call.missing(7) ? nullptr : call.ints(7);
  const auto precision = static_cast<Precision>(call.integer(8));
  if (!call.valid()) return;
  std::vector<PooledPart> parts;
  for (size_t p = 0; p < froms.size(); p++, numbers += 4) {
    const float* from = numbers[1] == 0 ? nullptr : froms[p] + numbers[0];
    parts.push_back({from, numbers[1], {numbers[2], numbers[3]}});
  }
  running().foldPooled(out + outFirst, outColumns, parts.data(),
                       static_cast<int64_t>(parts.size()), samples, columns, lengths, precision);
}

// shareColumns(out, outFirst, outColumns, from, fromFirst, fromColumns, columns, lengths)
void shareColumns(Call& call) {
  float *out = call.floats(0), *from = call.floats(3);
  const int64_t outFirst = call.integer(1), outColumns = call.integer(2);
  const int64_t fromFirst = call.integer(4), fromColumns = call.integer(5);
  const int64_t columns = call.integer(6), samples = call.length(7);
  const int32_t* lengths = call.ints(7);
  if (!call.valid()) return;
  running().shareColumns(out + outFirst, outColumns, from + fromFirst, fromColumns, samples,
                         columns, lengths);
}

// packColumns(to, from, fromFirst, fromColumns, samples, columns, precision)
void packColumns(Call& call) {
  uint8_t* to = call.bytes(0);
  const float* from = call.floats(1);
  const int64_t first = call.integer(2), fromColumns = call.integer(3);
  const int64_t samples = call.integer(4), columns = call.integer(5);
  const auto precision = static_cast<Precision>(call.integer(6));
  if (!call.valid()) return;
  running().packColumns(to, from + first, fromColumns, samples, columns, precision);
}

// unpackColumns(out, outFirst, outColumns, from, samples, columns, precision)
void unpackColumns(Call& call) {
  float* out = call.floats(0);
  const int64_t first = call.integer(1), outColumns = call.integer(2);
  const uint8_t* from = call.bytes(3);
  const int64_t samples = call.integer(4), columns = call.integer(5);
  const auto precision = static_cast<Precision>(call.integer(6));
  if (!call.valid()) return;
  running().unpackColumns(out + first, outColumns, from, samples, columns, precision);
}

// applyFlat(rule, w, state, second, g): -1 where all of g were finite, else 0
napi_value applyFlat(Call& call) {
  const double* numbers = call.doubles(0);
  float *w = call.floats(1), *state = call.floats(2), *second = call.floats(3);
  const float* g = call.floats(4);
  const int64_t n = call.length(1);
  if (!call.valid()) return nullptr;
  return call.answer(running().applyFlat(ruleOf(numbers), w, state, second, g, n) ? -1 : 0);
}

#include "bindings/cache-bindings.h"

// skewOf(t): elements of t before the first that lies on a boundary of 64 bytes.
napi_value skewOf(Call& call) {
  const uintptr_t past = reinterpret_cast<uintptr_t>(call.floats(0)) / sizeof(float) % 16;
  return call.answer(past == 0 ? 0 : 16 - static_cast<int64_t>(past));
}

// useLargePages(t): asks for pages of 2 MiB before the first touch, because lookups at random rows
// of a large table otherwise spend their time on address translation. It may be refused.
void useLargePages(Call& call) {
  const uintptr_t page = 2 << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(call.floats(0));
  const uintptr_t end = begin + static_cast<uintptr_t>(call.length(0)) * sizeof(float);
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (!call.valid() || first >= last) return;
#if defined(__linux__)
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

napi_value arithmetic(Call& call) {
  napi_value name = nullptr;
  napi_create_string_utf8(call.env(), running().arithmetic, NAPI_AUTO_LENGTH, &name);
  return name;
}

// limitIsa(name): for tests and benches, the kernels of one instruction set in this thread.
napi_value limitIsa(Call& call) {
  const std::string name = call.text(0);
  if (!call.valid()) return nullptr;
  const Kernels* kernels = kernelsOf(name.c_str());
  if (kernels != nullptr) limited = kernels;
  napi_value result = nullptr;
  napi_get_boolean(call.env(), kernels != nullptr, &result);
  return result;
}

/// Tells what became of a batch of records: first row that failed, errno, calls to the system.
void answer(double* outcome, const RecordOutcome& of) {
  outcome[0] = static_cast<double>(of.at);
  outcome[1] = of.error;
  outcome[2] = static_cast<double>(of.calls);
}

// readRecords(outcome, descriptor, recordBytes, rows, wanted, records)
void readRecords(Call& call) {
  double* outcome = call.doubles(0);
  const RecordFile file{static_cast<int>(call.integer(1)), call.integer(2)};
  const int32_t* rows = call.ints(3);
  const uint8_t* wanted = call.bytes(4);
  uint8_t* records = call.bytes(5);
  const int64_t count = call.length(3);
  if (call.valid()) answer(outcome, osiris::readRecords(file, rows, wanted, count, records));
}

// writeRecords(outcome, descriptor, recordBytes, rows, records)
void writeRecords(Call& call) {
  double* outcome = call.doubles(0);
  const RecordFile file{static_cast<int>(call.integer(1)), call.integer(2)};
  const int32_t* rows = call.ints(3);
  const uint8_t* records = call.bytes(4);
  const int64_t count = call.length(3);
  if (call.valid()) answer(outcome, osiris::writeRecords(file, rows, count, records));
}

// dropCached(descriptor): an errno, 0 where it went well
napi_value dropCached(Call& call) {
  const int descriptor = static_cast<int>(call.integer(0));
  if (!call.valid()) return nullptr;
  return call.answer(osiris::dropCached(descriptor));
}

// Exports ----------------------------------------------------------------------------------------

template <void (*kernel)(Call&)>
napi_value bound(napi_env env, napi_callback_info info) {
  try {
    Call call(env, info);
    kernel(call);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "There is no memory left for the scratch of a kernel");
  }
  return nullptr;
}

template <napi_value (*kernel)(Call&)>
napi_value answered(napi_env env, napi_callback_info info) {
  try {
    Call call(env, info);
    return kernel(call);
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, nullptr, "There is no memory left for the scratch of a kernel");
  }
  return nullptr;
}

constexpr napi_property_descriptor method(const char* name, napi_callback callback) {
  return {name, nullptr, callback, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}

}  // namespace

NAPI_MODULE_INIT() {
  const napi_property_descriptor properties[] = {
      method("arithmetic", answered<arithmetic>),
      method("limitIsa", answered<limitIsa>),
      method("useLargePages", bound<useLargePages>),
      method("copyColumns", bound<copyColumns>),
      method("uniform", bound<uniform>),
      method("born", bound<born>),
      method("linear", bound<linear>),
      method("dRelu", bound<dRelu>),
      method("dLinearInput", bound<dLinearInput>),
      method("dLinearWeight", bound<dLinearWeight>),
      method("dropout", bound<dropout>),
      method("interact", bound<interact>),
      method("dInteract", bound<dInteract>),
      method("skewOf", answered<skewOf>),
      method("pool", bound<pool>),
      method("updateRows", answered<updateRows>),
      method("rowSquares", answered<rowSquares>),
      method("rowNorms", answered<rowNorms>),
      method("dRows", bound<dRows>),
      method("applyRows", answered<applyRows>),
      method("foldSubtrees", bound<foldSubtrees>),
      method("foldPooled", bound<foldPooled>),
      method("shareColumns", bound<shareColumns>),
      method("packColumns", bound<packColumns>),
      method("unpackColumns", bound<unpackColumns>),
      method("applyFlat", answered<applyFlat>),
      method("placeRows", answered<placeRows>),
      method("gatherRecords", bound<gatherRecords>),
      method("scatterRecords", bound<scatterRecords>),
      method("bornAt", bound<bornAt>),
      method("moveRecords", bound<moveRecords>),
      method("readRecords", bound<readRecords>),
      method("writeRecords", bound<writeRecords>),
      method("dropCached", answered<dropCached>),
  };
  napi_define_properties(env, exports, sizeof properties / sizeof properties[0], properties);
  return exports;
}
