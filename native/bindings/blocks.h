// Bindings of the kernels of model blocks.

#pragma once

#include "bindings/running.h"

namespace {

using namespace osiris;

// add(out, a, b)
void add(Call& call) {
  float *out = call.floats(0), *a = call.floats(1), *b = call.floats(2);
  const int64_t n = call.length(0);
  if (call.valid()) running().add(out, a, b, n);
}

// multiply(out, a, b)
void multiply(Call& call) {
  float *out = call.floats(0), *a = call.floats(1), *b = call.floats(2);
  const int64_t n = call.length(0);
  if (call.valid()) running().multiply(out, a, b, n);
}

// dMultiply(dA, dB, dOut, a, b)
void dMultiply(Call& call) {
  float *dA = call.floats(0), *dB = call.floats(1), *dOut = call.floats(2);
  float *a = call.floats(3), *b = call.floats(4);
  const int64_t n = call.length(2);
  if (call.valid()) running().dMultiply(dA, dB, dOut, a, b, n);
}

// multiplyAdd(out, a, b, c)
void multiplyAdd(Call& call) {
  float *out = call.floats(0), *a = call.floats(1), *b = call.floats(2), *c = call.floats(3);
  const int64_t n = call.length(0);
  if (call.valid()) running().multiplyAdd(out, a, b, c, n);
}

// addBeside(out, values[], widths, other)
void addBeside(Call& call) {
  float *out = call.floats(0), *other = call.floats(3);
  const auto values = call.floatsOf(1);
  const int32_t* widths = call.ints(2);
  const int64_t count = call.length(2), n = call.length(0);
  if (!call.valid()) return;
  int64_t columns = 0;
  for (int64_t i = 0; i < count; i++) columns += widths[i];
  const int64_t rows = columns == 0 ? 0 : n / columns;
  running().addBeside(out, values.data(), widths, count, other, rows);
}

// relu(out, x)
void relu(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t n = call.length(0);
  if (call.valid()) running().relu(out, x, n);
}

/// Calls an element-wise kernel with the arguments out, x and a number.
template <typename Kernel>
void callWithNumber(Call& call, Kernel kernel) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t n = call.length(0);
  const float number = static_cast<float>(call.number(2));
  if (call.valid()) kernel(out, x, n, number);
}

// scale(out, x, factor)
void scale(Call& call) { callWithNumber(call, running().scale); }

// leakyRelu(out, x, slope)
void leakyRelu(Call& call) { callWithNumber(call, running().leakyRelu); }

// dLeakyRelu(d, out, slope)
void dLeakyRelu(Call& call) { callWithNumber(call, running().dLeakyRelu); }

// sigmoid(out, x)
void sigmoid(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t n = call.length(0);
  if (call.valid()) running().sigmoid(out, x, n);
}

// dSigmoid(d, out)
void dSigmoid(Call& call) {
  float *d = call.floats(0), *out = call.floats(1);
  const int64_t n = call.length(0);
  if (call.valid()) running().dSigmoid(d, out, n);
}

// softmax(out, x, dim)
void softmax(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t dim = call.integer(2), rows = dim == 0 ? 0 : call.length(0) / dim;
  if (call.valid()) running().softmax(out, x, rows, dim);
}

// dSoftmax(dX, dOut, out, dim)
void dSoftmax(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *out = call.floats(2);
  const int64_t dim = call.integer(3), rows = dim == 0 ? 0 : call.length(0) / dim;
  if (call.valid()) running().dSoftmax(dX, dOut, out, rows, dim);
}

/// Calls a kernel of pairs. Arguments 3 .. 5: samples, rows, columns. The columns of a vector are
/// `elements` / `vectors`.
template <typename Kernel>
void callPairs(Call& call, Kernel kernel, int64_t elements, int64_t vectors) {
  float *out = call.floats(0), *one = call.floats(1), *other = call.floats(2);
  const int64_t samples = call.integer(3), rows = call.integer(4), columns = call.integer(5);
  const int64_t dim = vectors == 0 ? 0 : elements / vectors;
  if (call.valid()) kernel(out, one, other, samples, rows, columns, dim);
}

// pairs(out, a, b, samples, rows, columns)
void pairs(Call& call) {
  callPairs(call, running().pairs, call.length(1), call.integer(3) * call.integer(4));
}

// dPairsLeft(dA, dOut, b, samples, rows, columns)
void dPairsLeft(Call& call) {
  callPairs(call, running().dPairsLeft, call.length(0), call.integer(3) * call.integer(4));
}

// dPairsRight(dB, dOut, a, samples, rows, columns)
void dPairsRight(Call& call) {
  callPairs(call, running().dPairsRight, call.length(0), call.integer(3) * call.integer(5));
}

// products(out, a, b, samples, rows, columns, depth, shared, form, plus[])
void products(Call& call) {
  float *out = call.floats(0), *a = call.floats(1), *b = call.floats(2);
  const int64_t samples = call.integer(3), rows = call.integer(4), columns = call.integer(5);
  const int64_t depth = call.integer(6);
  const bool shared = call.flag(7);
  const auto form = static_cast<ProductForm>(call.integer(8));
  const auto plus = call.floatsOf(9);
  if (!call.valid()) return;
  const Addends addends = addendsOf(plus);
  running().products(out, a, b, samples, rows, columns, depth, shared, form, addends);
}

// dShared(dA[], dOut, b, rows, columns, depth, firstSlice, bounds)
void dShared(Call& call) {
  const auto dA = call.floatsOf(0);
  float *dOut = call.floats(1), *b = call.floats(2);
  const int64_t rows = call.integer(3), columns = call.integer(4), depth = call.integer(5);
  const Slices slices = slicesOf(call, 6);
  if (!call.valid()) return;
  running().dShared(dA.data(), dOut, b, rows, columns, depth, slices);
}

/// Arguments i .. i+3: samples, vectors, columns of a vector, rank.
RankShape rankShapeOf(Call& call, size_t i) {
  return {call.integer(i), call.integer(i + 1), call.integer(i + 2), call.integer(i + 3)};
}

// rankProducts(out, y, x, w, samples, vectors, dim, rank)
void rankProducts(Call& call) {
  float *out = call.floats(0), *y = call.floats(1), *x = call.floats(2), *w = call.floats(3);
  const RankShape shape = rankShapeOf(call, 4);
  if (call.valid()) running().rankProducts(out, y, x, w, shape);
}

// dRankProducts(dX, dW[], dOut, x, y, w, samples, vectors, dim, rank, firstSlice, bounds, plus[])
void dRankProducts(Call& call) {
  const auto dW = call.floatsOf(1);
  float *dX = call.floats(0), *dOut = call.floats(2);
  float *x = call.floats(3), *y = call.floats(4), *w = call.floats(5);
  const RankShape shape = rankShapeOf(call, 6);
  const Slices slices = slicesOf(call, 10);
  const auto plus = call.floatsOf(12);
  if (!call.valid()) return;
  running().dRankProducts(dX, dW.data(), dOut, x, y, w, shape, slices, addendsOf(plus));
}

// pairSum(out, x, count, dim)
void pairSum(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const int64_t samples = call.length(0), count = call.integer(2), dim = call.integer(3);
  if (call.valid()) running().pairSum(out, x, samples, count, dim);
}

// dPairSum(dX, dOut, x, count, dim)
void dPairSum(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *x = call.floats(2);
  const int64_t samples = call.length(1), count = call.integer(3), dim = call.integer(4);
  if (call.valid()) running().dPairSum(dX, dOut, x, samples, count, dim);
}

// layerNorm(out, saved, x, gain, bias, epsilon)
void layerNorm(Call& call) {
  float *out = call.floats(0), *saved = call.floats(1), *x = call.floats(2);
  float *gain = call.floats(3), *bias = call.floats(4);
  const int64_t rows = call.length(1) / 2, dim = call.length(3);
  const float epsilon = static_cast<float>(call.number(5));
  if (call.valid()) running().layerNorm(out, saved, x, gain, bias, rows, dim, epsilon);
}

// dLayerNorm(dX or undefined, dGain[], dBias[], dOut, saved, x, gain, firstSlice, bounds)
void dLayerNorm(Call& call) {
  float* dX = call.missing(0) ? nullptr : call.floats(0);
  const auto dGain = call.floatsOf(1), dBias = call.floatsOf(2);
  float *dOut = call.floats(3), *saved = call.floats(4), *x = call.floats(5);
  float* gain = call.floats(6);
  const int64_t dim = call.length(6);
  const Slices slices = slicesOf(call, 7);
  if (!call.valid()) return;
  running().dLayerNorm(dX, dGain.data(), dBias.data(), dOut, saved, x, gain, dim, slices);
}

/// Arguments i .. i+3: mean, unit, gain, bias.
BatchNormColumns columnsOf(Call& call, size_t i) {
  return {call.floats(i), call.floats(i + 1), call.floats(i + 2), call.floats(i + 3)};
}

// batchMoments(sums[], x, shift, firstSlice, bounds)
void batchMoments(Call& call) {
  const auto sums = call.floatsOf(0);
  float *x = call.floats(1), *shift = call.floats(2);
  const int64_t width = call.length(2);
  const Slices slices = slicesOf(call, 3);
  if (call.valid()) running().batchMoments(sums.data(), x, shift, width, slices);
}

// batchNorm(out, x, mean, unit, gain, bias, relu)
void batchNorm(Call& call) {
  float *out = call.floats(0), *x = call.floats(1);
  const auto columns = columnsOf(call, 2);
  const int64_t width = call.length(2), rows = width == 0 ? 0 : call.length(1) / width;
  const bool relu = call.flag(6);
  if (call.valid()) running().batchNorm(out, x, columns, rows, width, relu);
}

// dBatchNormWeights(dGain[], dBias[], dOut, x, mean, unit, gain, bias, firstSlice, bounds)
void dBatchNormWeights(Call& call) {
  const auto dGain = call.floatsOf(0), dBias = call.floatsOf(1);
  float *dOut = call.floats(2), *x = call.floats(3);
  const auto columns = columnsOf(call, 4);
  const int64_t width = call.length(4);
  const Slices slices = slicesOf(call, 8);
  if (!call.valid()) return;
  running().dBatchNormWeights(dGain.data(), dBias.data(), dOut, x, columns, width, slices);
}

// dBatchNorm(dX, dOut, x, mean, unit, gain, bias, dMean, dSlope)
void dBatchNorm(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *x = call.floats(2);
  const auto columns = columnsOf(call, 3);
  float *dMean = call.floats(7), *dSlope = call.floats(8);
  const int64_t width = call.length(3), rows = width == 0 ? 0 : call.length(2) / width;
  if (call.valid()) running().dBatchNorm(dX, dOut, x, columns, dMean, dSlope, rows, width);
}

}  // namespace
