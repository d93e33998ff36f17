// Tests dense layers and the interaction on random shapes, compared with plain loops: bit for bit
// where the order of a sum is defined, else in double.

#pragma once

#include <deque>

#include "test/test-support.h"

namespace osiris::test {

/// a * b + c as a chain of the set rounds it: once, but twice in portable code that was compiled
/// without a fused multiply-add.
inline float chained(const Kernels& k, float a, float b, float c) {
#if !defined(__FP_FAST_FMAF)
  if (std::strcmp(k.name, "portable") == 0) return a * b + c;
#endif
  return std::fma(a, b, c);
}

inline void testLayer(const Kernels& k, int64_t samples, int64_t inputs, int64_t outputs) {
  Buffer x(samples * inputs), w(outputs * inputs), b(outputs), out(samples * outputs);
  k.linear(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, true);
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t o = 0; o < outputs; o++) {
      float sum = b[o];
      for (int64_t i = 0; i < inputs; i++) {
        sum = chained(k, x[s * inputs + i], w[o * inputs + i], sum);
      }
      expect(out[s * outputs + o] == std::max(sum, 0.0f), k.name, "linear");
    }
  }
  Buffer d(samples * outputs), dX(samples * inputs);
  k.dRelu(d.data(), out.data(), d.size());
  Buffer more(samples * inputs);
  const float* const plus[] = {more.data(), x.data()};
  k.dLinearInput(dX.data(), d.data(), w.data(), samples, inputs, outputs, {plus, 2}, x.data());
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t i = 0; i < inputs; i++) {
      float sum = 0;
      for (int64_t o = 0; o < outputs; o++) {
        sum = chained(k, d[s * outputs + o], w[o * inputs + i], sum);
      }
      sum = sum + more[s * inputs + i] + x[s * inputs + i];
      if (!(x[s * inputs + i] > 0)) sum = 0;
      expect(dX[s * inputs + i] == sum, k.name, "dLinearInput");
    }
  }
}

inline float toBfloat16(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

/// The sum of `count` slices from `first` on: their tree, of which each leaf is sumOf(slice).
template <typename SumOf>
float treeOf(int64_t first, int64_t count, const SumOf& sumOf) {
  if (count == 1) return sumOf(first);
  return treeOf(first, count / 2, sumOf) + treeOf(first + count / 2, count / 2, sumOf);
}

/// Tests weight gradients of some slices of a batch, short or longer than a block of samples.
/// `rounded`: the operands are in bfloat16. Its product adds samples in pairs, the second of a pair
/// before the first, and so does the reference here.
inline void testWeights(const Kernels& k, bool rounded) {
  const bool isLong = below(4) == 0;
  const int64_t samples = isLong ? 1 + below(1500) : 1 + below(90);
  const int64_t inputs = isLong ? 1 + below(50) : someInputs();
  const int64_t outputs = below(4) == 0 ? 1 : 1 + below(isLong ? 20 : 100);
  const int64_t first = below(8), count = 1 + below(isLong ? 3 : 16), most = int64_t{1} << below(5);
  const auto bounds = boundsOf(count, samples);
  Buffer x(samples * inputs), d(samples * outputs);
  std::vector<int64_t> sizes;  // slices of each subtree
  for (int64_t at = 0; at < count; at += sizes.back()) {
    sizes.push_back(1);
    const auto fits = [&](int64_t n) {
      return n <= most && (first + at) % n == 0 && at + n <= count;
    };
    while (fits(2 * sizes.back())) sizes.back() *= 2;
  }
  std::deque<Buffer> dW, dB;
  std::vector<float*> dWs, dBs;
  for (size_t i = 0; i < sizes.size(); i++) {
    dWs.push_back(dW.emplace_back(outputs * inputs).data());
    dBs.push_back(dB.emplace_back(outputs).data());
  }
  const Slices slices{first, count, bounds.data(), most};
  const auto run = rounded ? k.dLinearWeightBfloat16 : k.dLinearWeight;
  run(dWs.data(), dBs.data(), d.data(), x.data(), inputs, outputs, slices);
  int64_t at = 0;
  for (size_t tree = 0; tree < sizes.size(); at += sizes[tree++]) {
    for (int64_t o = 0; o < outputs; o++) {
      const auto sumOf = [&](bool swaps, auto&& add) {
        return treeOf(at, sizes[tree], [&](int64_t slice) {
          float sum = 0;
          const int64_t begin = bounds[slice], count = bounds[slice + 1] - begin;
          for (int64_t i = 0; i < count; i++) {
            const int64_t s = begin + (swaps && (i ^ 1) < count ? i ^ 1 : i);
            sum = add(sum, d[s * outputs + o], s);
          }
          return sum;
        });
      };
      const float bias = sumOf(false, [](float sum, float of, int64_t) { return sum + of; });
      expect(dBs[tree][o] == bias, k.name, "dLinearWeight, bias");
      for (int64_t i = 0; i < inputs; i++) {
        const float weight = sumOf(rounded, [&](float sum, float of, int64_t s) {
          const float with = x[s * inputs + i];
          return rounded ? std::fma(toBfloat16(of), toBfloat16(with), sum)
                         : chained(k, of, with, sum);
        });
        expect(dWs[tree][o * inputs + i] == weight, k.name, "dLinearWeight");
      }
    }
  }
}

/// Tests layers with bfloat16 operands.
inline void testBfloat16(const Kernels& k) {
  const int64_t samples = 1 + below(90), inputs = someInputs(), outputs = 1 + below(100);
  Buffer x(samples * inputs), w(outputs * inputs), b(outputs), out(samples * outputs);
  Buffer d(samples * outputs), dX(samples * inputs);
  k.linearBfloat16(out.data(), x.data(), w.data(), b.data(), samples, inputs, outputs, false);
  k.dLinearInputBfloat16(dX.data(), d.data(), w.data(), samples, inputs, outputs, {},
                         nullptr);
  for (Buffer* operand : {&x, &w, &d}) {
    for (int64_t i = 0; i < operand->size(); i++) (*operand)[i] = toBfloat16((*operand)[i]);
  }
  const auto sum = [](double start, int64_t n, auto&& term) {
    for (int64_t i = 0; i < n; i++) start += term(i);
    return start;
  };
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t o = 0; o < outputs; o++) {
      const auto term = [&](int64_t i) { return 1.0 * x[s * inputs + i] * w[o * inputs + i]; };
      expect(near(out[s * outputs + o], sum(b[o], inputs, term)), k.name, "linear, bfloat16");
    }
    for (int64_t i = 0; i < inputs; i++) {
      const auto term = [&](int64_t o) { return 1.0 * d[s * outputs + o] * w[o * inputs + i]; };
      expect(near(dX[s * inputs + i], sum(0, outputs, term)), k.name, "dLinearInput, bfloat16");
    }
  }
}

/// A sum that rounds up to the smallest normal number is kept; one that rounds below becomes 0.
inline void testLeastNormal(const Kernels& k) {
  const int64_t samples = 1 + below(20), outputs = 4 * (1 + below(10));
  Buffer x(samples), w(outputs), b(outputs), out(samples * outputs);
  for (int64_t s = 0; s < samples; s++) x[s] = -0x1p-76f;
  for (int64_t o = 0; o < outputs; o++) {
    b[o] = 0x1p-126f;
    w[o] = std::ldexp(0x1p-74f, -static_cast<int>(o % 4));  // The sum is 2^-150 to 2^-153 less.
  }
  k.linearBfloat16(out.data(), x.data(), w.data(), b.data(), samples, 1, outputs, false);
  for (int64_t i = 0; i < samples * outputs; i++) {
    expect(out[i] == (i % 4 == 0 ? 0 : 0x1p-126f), k.name, "the least normal number, bfloat16");
  }
}

inline void testInteraction(const Kernels& k) {
  const int64_t samples = 1 + below(3), features = 1 + below(40), dim = 1 + below(70);
  const int64_t copied = below(features + 1), pairs = features * (features - 1) / 2;
  const int64_t width = copied * dim + pairs;
  Buffer x(samples * features * dim), out(samples * width), d(samples * width);
  Buffer dX(samples * features * dim);
  k.interact(out.data(), x.data(), samples, features, dim, copied, true);
  k.dInteract(dX.data(), d.data(), x.data(), samples, features, dim, copied, true);
  for (int64_t s = 0; s < samples; s++) {
    const float* xs = x.data() + s * features * dim;
    for (int64_t i = 0; i < features; i++) {
      for (int64_t j = 0; j < i; j++) {
        double sum = 0;
        for (int64_t c = 0; c < dim; c++) sum += 1.0 * xs[i * dim + c] * xs[j * dim + c];
        expect(near(out[s * width + copied * dim + i * (i - 1) / 2 + j], sum), k.name, "interact");
      }
      for (int64_t c = 0; c < dim; c++) {
        double sum = i < copied ? d[s * width + i * dim + c] : 0;
        for (int64_t j = 0; j < features; j++) {
          if (j == i) continue;
          const int64_t high = std::max(i, j), low = std::min(i, j);
          const int64_t pair = s * width + copied * dim + high * (high - 1) / 2 + low;
          sum += 1.0 * d[pair] * xs[j * dim + c];
        }
        expect(near(dX[(s * features + i) * dim + c], sum), k.name, "dInteract");
      }
    }
  }
  const uint32_t key[2] = {1, 2};
  k.uniform(x.data(), x.size(), key, 3, below(1000), 0.5f);
  for (int64_t i = 0; i < x.size(); i++) expect(std::abs(x[i]) <= 0.5f, k.name, "uniform");
  k.dropout(d.data(), d.size(), key, 3, 4, below(1000), 0.5f, 1u << 31);
}

}  // namespace osiris::test
