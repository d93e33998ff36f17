// The update rule of rows and dense tensors. src/kernels/contract/rules.ts has the same rules, in
// the same order; embedding/rules.h applies them.

#pragma once

#include <cstddef>
#include <cstdint>

namespace osiris {

enum class RuleKind {
  sgd,
  momentum,
  adagrad,
  rowWiseAdagrad,
  adam,
  partialRowWiseAdam,
  lamb,
  partialRowWiseLamb,
  ftrl
};

/// The moving average of rows (src/kernels/contract/row-average.ts) at step count `steps`.
struct Average {
  double decay = 0;
  int64_t steps = 0;

  /// The factor on a lag that was stored at step count `before`: decay^(steps - before), by
  /// repeated squaring.
  float shareOf(float before) const {
    double result = 1, square = decay;
    for (int64_t left = steps - static_cast<int64_t>(before); left > 0; left /= 2) {
      if (left % 2 == 1) result *= square;
      square *= square;
    }
    return static_cast<float>(result);
  }
};

/// The update rule of rows. All numbers are already rounded to float32.
struct Rule {
  RuleKind kind;
  float rate;   // learning rate; adam: learning rate / correction1
  float unit;   // lamb: 1 / correction1
  float l2;
  float decay;  // lamb: weight decay, a part of the direction
  float kept;   // other rules: 1 - learning rate * decay; lamb: 1
  float epsilon;
  float momentum;
  float beta1, beta2, rest1, rest2;  // rest = 1 - beta
  float root2;                       // sqrt(correction2)
  float beta, lambda1, lambda2;      // ftrl
  float clip;                        // elements of g are clamped to -clip .. clip; 0: they are not
  Average average;                   // used if the table's rows have a moving average
  uint32_t key[2], purpose, step;    // random stream of stochastic rounding

  bool isLamb() const { return kind == RuleKind::lamb || kind == RuleKind::partialRowWiseLamb; }
  /// Whether the rule needs the mean of squares of a row.
  bool hasMean() const {
    return kind == RuleKind::rowWiseAdagrad || kind == RuleKind::partialRowWiseAdam ||
           kind == RuleKind::partialRowWiseLamb;
  }
};

/// Reads a rule from its numbers, in the order of `listRules` in src/kernels/table/lists.ts.
constexpr size_t ruleNumbers = 20;
inline Rule ruleOf(const double* numbers) {
  const double *n = numbers + 1, rate = n[0], decay = n[2], beta1 = n[5], beta2 = n[6];
  Rule rule{};
  rule.kind = static_cast<RuleKind>(static_cast<int>(numbers[0]));
  const bool adam = rule.kind == RuleKind::adam || rule.kind == RuleKind::partialRowWiseAdam;
  rule.rate = static_cast<float>(adam ? rate / n[7] : rate);
  rule.unit = static_cast<float>(1 / n[7]);
  rule.l2 = static_cast<float>(n[1]);
  rule.decay = static_cast<float>(decay);
  rule.kept = rule.isLamb() ? 1 : static_cast<float>(1 - rate * decay);
  rule.epsilon = static_cast<float>(n[3]);
  rule.momentum = static_cast<float>(n[4]);
  rule.beta1 = static_cast<float>(beta1);
  rule.beta2 = static_cast<float>(beta2);
  rule.rest1 = static_cast<float>(1 - beta1);
  rule.rest2 = static_cast<float>(1 - beta2);
  rule.root2 = static_cast<float>(__builtin_sqrt(n[8]));
  rule.beta = static_cast<float>(n[9]);
  rule.lambda1 = static_cast<float>(n[10]);
  rule.lambda2 = static_cast<float>(n[11]);
  rule.clip = static_cast<float>(n[12]);
  rule.average = {n[13], static_cast<int64_t>(n[14])};
  for (int i = 0; i < 2; i++) rule.key[i] = static_cast<uint32_t>(n[15 + i]);
  rule.purpose = static_cast<uint32_t>(n[17]);
  rule.step = static_cast<uint32_t>(n[18]);
  return rule;
}

}  // namespace osiris
