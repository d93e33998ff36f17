// Bindings of the kernels of dense layers, dense optimizers and random numbers.

#pragma once

#include "bindings/running.h"

namespace {

using namespace osiris;

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

// packLayer(out, w, inputs, outputs)
void packLayer(Call& call) {
  float *out = call.floats(0), *w = call.floats(1);
  const int64_t inputs = call.integer(2), outputs = call.integer(3);
  if (call.valid()) running().packLayer(out, w, inputs, outputs);
}

// linearPacked(out, x, packed, b, samples, inputs, outputs, relu)
void linearPacked(Call& call) {
  float *out = call.floats(0), *x = call.floats(1), *packed = call.floats(2), *b = call.floats(3);
  const int64_t samples = call.integer(4), inputs = call.integer(5), outputs = call.integer(6);
  const bool relu = call.flag(7);
  if (call.valid()) running().linearPacked(out, x, packed, b, samples, inputs, outputs, relu);
}

// dRelu(d, out)
void dRelu(Call& call) {
  float *d = call.floats(0), *out = call.floats(1);
  const int64_t n = call.length(0);
  if (call.valid()) running().dRelu(d, out, n);
}

// dLinearInput(dX, dOut, w, samples, inputs, outputs, bfloat16, plus[], above)
void dLinearInput(Call& call) {
  float *dX = call.floats(0), *dOut = call.floats(1), *w = call.floats(2);
  const int64_t samples = call.integer(3), inputs = call.integer(4), outputs = call.integer(5);
  const auto kernel = call.flag(6) ? running().dLinearInputBfloat16 : running().dLinearInput;
  const auto plus = call.floatsOf(7);
  const float* above = call.missing(8) ? nullptr : call.floats(8);
  if (call.valid()) kernel(dX, dOut, w, samples, inputs, outputs, addendsOf(plus), above);
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

// applyFlat(rule, w, state, second, g): returns -1 if all elements of g were finite, else 0
napi_value applyFlat(Call& call) {
  const double* numbers = call.doubles(0);
  float *w = call.floats(1), *state = call.floats(2), *second = call.floats(3);
  const float* g = call.floats(4);
  const int64_t n = call.length(1);
  if (!call.valid()) return nullptr;
  return call.answer(running().applyFlat(ruleOf(numbers), w, state, second, g, n) ? -1 : 0);
}

}  // namespace
