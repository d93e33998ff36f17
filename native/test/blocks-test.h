// Tests the kernels of model blocks on random shapes, compared with plain loops in double.

#pragma once

#include "test/test-support.h"

namespace osiris::test {

inline void testElements(const Kernels& k) {
  const int64_t n = 1 + below(100);
  Buffer a(n), b(n), sum(n), product(n);
  k.add(sum.data(), a.data(), b.data(), n);
  k.multiply(product.data(), a.data(), b.data(), n);
  Buffer dA(n), dB(n), both(n);
  k.dMultiply(dA.data(), dB.data(), sum.data(), a.data(), b.data(), n);
  k.multiplyAdd(both.data(), a.data(), b.data(), sum.data(), n);
  Buffer twice(n), leaky(n), d(n);
  k.scale(twice.data(), a.data(), n, 2);
  k.leakyRelu(leaky.data(), a.data(), n, 0.25f);
  Buffer before = d;
  k.dLeakyRelu(d.data(), leaky.data(), n, 0.25f);
  Buffer cut(n);
  k.relu(cut.data(), a.data(), n);
  const int64_t first = below(n);
  const int32_t widths[] = {static_cast<int32_t>(first), static_cast<int32_t>(n - first)};
  Buffer beside(n);
  const float* const values[] = {a.data(), a.data() + first};
  k.addBeside(beside.data(), values, widths, 2, b.data(), 1);
  for (int64_t i = 0; i < n; i++) {
    expect(beside[i] == sum[i], k.name, "addBeside");
    expect(cut[i] == std::max(a[i], 0.0f), k.name, "relu");
    expect(twice[i] == 2 * a[i], k.name, "scale");
    expect(leaky[i] == a[i] * (a[i] < 0 ? 0.25f : 1), k.name, "leakyRelu");
    expect(d[i] == before[i] * (a[i] < 0 ? 0.25f : 1), k.name, "dLeakyRelu");
    expect(dA[i] == sum[i] * b[i] && dB[i] == sum[i] * a[i], k.name, "dMultiply");
    expect(both[i] == product[i] + sum[i], k.name, "multiplyAdd");
    expect(near(sum[i], a[i] + b[i]), k.name, "add");
    expect(near(product[i], a[i] * b[i]), k.name, "multiply");
  }
}

/// Tests outputs that are so large that stores bypass the caches.
inline void testLarge(const Kernels& k) {
  const int64_t rows = 4100, dim = 65;
  Buffer a(rows * dim), b(rows * dim), out(rows * dim), saved(rows * 2);
  k.add(out.data(), a.data(), b.data(), rows * dim);
  for (int64_t i = 0; i < rows * dim; i++) expect(near(out[i], a[i] + b[i]), k.name, "large add");
  k.copyColumns({out.data(), dim}, {a.data(), dim}, rows, dim);
  for (int64_t i = 0; i < rows * dim; i++) expect(out[i] == a[i], k.name, "large copy");
  k.layerNorm(out.data(), saved.data(), a.data(), b.data(), b.data(), rows, dim, 1e-2f);
  Buffer gains(dim), biases(dim);
  float* const dGains[] = {gains.data()};
  float* const dBiases[] = {biases.data()};
  const auto bounds = boundsOf(8, rows);
  k.dLayerNorm(out.data(), dGains, dBiases, a.data(), saved.data(), b.data(), b.data(), dim,
               {0, 8, bounds.data()});
  k.products(out.data(), a.data(), b.data(), rows, 1, dim, 1, true, ProductForm::ab, {});
  for (int64_t i = 0; i < rows * dim; i++) {
    expect(near(out[i], a[0] * b[i]), k.name, "large products");
  }
}

inline void testRankProducts(const Kernels& k) {
  const RankShape shape{1 + below(5), 1 + below(34), 1 + below(70), 1 + below(34)};
  const int64_t n = shape.vectors, dim = shape.dim, rank = shape.rank;
  Buffer x(shape.samples * n * dim), w(rank * n), y(shape.samples * rank * dim);
  Buffer out(shape.samples * n * rank), dX(x.size()), dW(w.size());
  k.rankProducts(out.data(), y.data(), x.data(), w.data(), shape);
  const int64_t count = int64_t{1} << below(4);
  const auto bounds = boundsOf(count, shape.samples);
  float* const all[] = {dW.data()};
  const float* const plus[] = {x.data()};
  Buffer d(out.size());
  k.dRankProducts(dX.data(), all, d.data(), x.data(), y.data(), w.data(), shape,
                  {0, count, bounds.data()}, {plus, 1});
  std::vector<double> dWs(w.size());
  for (int64_t s = 0; s < shape.samples; s++) {
    const float *xs = x.data() + s * n * dim, *ys = y.data() + s * rank * dim;
    const float* ds = d.data() + s * n * rank;
    for (int64_t c = 0; c < dim; c++) {
      std::vector<double> dY(rank);
      for (int64_t r = 0; r < rank; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
          sum += 1.0 * w[r * n + i] * xs[i * dim + c];
          dY[r] += 1.0 * ds[i * rank + r] * xs[i * dim + c];
        }
        expect(near(ys[r * dim + c], sum), k.name, "rankProducts, sums");
      }
      for (int64_t i = 0; i < n; i++) {
        double sum = xs[i * dim + c];
        for (int64_t r = 0; r < rank; r++) {
          sum += w[r * n + i] * dY[r] + 1.0 * ds[i * rank + r] * ys[r * dim + c];
          dWs[r * n + i] += dY[r] * xs[i * dim + c];
        }
        expect(near(dX[(s * n + i) * dim + c], sum), k.name, "dRankProducts");
      }
    }
    for (int64_t i = 0; i < n * rank; i++) {
      double sum = 0;
      for (int64_t c = 0; c < dim; c++) {
        sum += 1.0 * xs[i / rank * dim + c] * ys[i % rank * dim + c];
      }
      expect(near(out[s * n * rank + i], sum), k.name, "rankProducts");
    }
  }
  for (int64_t i = 0; i < w.size(); i++) {
    expect(near(dW[i], dWs[i]), k.name, "dRankProducts, weights");
  }
}

inline void testExponentials(const Kernels& k) {
  const int64_t rows = 1 + below(5), dim = 1 + below(40), n = rows * dim;
  Buffer x(n), out(n), soft(n), d(n), dSoft(n);
  Buffer before = d;
  for (int64_t i = 0; i < n; i++) x[i] *= 20;
  k.sigmoid(out.data(), x.data(), n);
  k.dSigmoid(d.data(), out.data(), n);
  k.softmax(soft.data(), x.data(), rows, dim);
  k.dSoftmax(dSoft.data(), before.data(), soft.data(), rows, dim);
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0, along = 0;
    for (int64_t i = r * dim; i < (r + 1) * dim; i++) {
      sum += std::exp(1.0 * x[i]);
      along += 1.0 * before[i] * soft[i];
    }
    for (int64_t i = r * dim; i < (r + 1) * dim; i++) {
      const double o = 1 / (1 + std::exp(-1.0 * x[i]));
      expect(near(out[i], o), k.name, "sigmoid");
      expect(near(d[i], before[i] * o * (1 - o)), k.name, "dSigmoid");
      expect(near(soft[i], std::exp(1.0 * x[i]) / sum), k.name, "softmax");
      expect(near(dSoft[i], soft[i] * (before[i] - along)), k.name, "dSoftmax");
    }
  }
}

inline void testProducts(const Kernels& k) {
  const int64_t samples = 1 + below(4), rows = 1 + below(40), columns = 1 + below(70);
  const int64_t depth = 1 + below(40);
  const bool shared = below(2) == 0;
  const auto form = static_cast<ProductForm>(below(3));
  Buffer a((shared ? 1 : samples) * rows * depth), b(samples * depth * columns);
  Buffer out(samples * rows * columns), turned(samples * rows * columns);
  const float* const plus[] = {turned.data()};
  k.products(out.data(), a.data(), b.data(), samples, rows, columns, depth, shared, form,
             {plus, 1});
  const bool turnsA = form == ProductForm::aTb, turnsB = form == ProductForm::abT;
  for (int64_t s = 0; s < samples; s++) {
    for (int64_t m = 0; m < rows; m++) {
      for (int64_t n = 0; n < columns; n++) {
        double total = turned[(s * rows + m) * columns + n];
        for (int64_t p = 0; p < depth; p++) {
          const int64_t own = shared ? 0 : s * rows * depth;
          const double left = a[own + (turnsA ? p * rows + m : m * depth + p)];
          total += left * b[s * depth * columns + (turnsB ? n * depth + p : p * columns + n)];
        }
        expect(near(out[(s * rows + m) * columns + n], total), k.name, "products");
      }
    }
  }
  const int64_t count = int64_t{1} << below(4);
  const auto bounds = boundsOf(count, samples);
  Buffer dA(rows * depth), d(samples * rows * columns), x(samples * depth * columns);
  float* const all[] = {dA.data()};
  k.dShared(all, d.data(), x.data(), rows, columns, depth, {0, count, bounds.data()});
  for (int64_t m = 0; m < rows; m++) {
    for (int64_t p = 0; p < depth; p++) {
      double total = 0;
      for (int64_t s = 0; s < samples; s++) {
        for (int64_t n = 0; n < columns; n++) {
          total += 1.0 * d[(s * rows + m) * columns + n] * x[(s * depth + p) * columns + n];
        }
      }
      expect(near(dA[m * depth + p], total), k.name, "dShared");
    }
  }
}

inline void testPairs(const Kernels& k) {
  const int64_t samples = 1 + below(3), rows = 1 + below(6), columns = 1 + below(6);
  const int64_t dim = 1 + below(40);
  Buffer a(samples * rows * dim), b(samples * columns * dim), out(samples * rows * columns * dim);
  Buffer dA(samples * rows * dim), dB(samples * columns * dim);
  k.pairs(out.data(), a.data(), b.data(), samples, rows, columns, dim);
  k.dPairsLeft(dA.data(), out.data(), b.data(), samples, rows, columns, dim);
  k.dPairsRight(dB.data(), out.data(), a.data(), samples, rows, columns, dim);
  std::vector<double> lefts(dA.size()), rights(dB.size());
  for (int64_t j = 0; j < out.size(); j++) {
    const int64_t i = j % dim, n = j / dim % columns, row = j / dim / columns, s = row / rows;
    const int64_t right = (s * columns + n) * dim + i;
    expect(near(out[j], a[row * dim + i] * b[right]), k.name, "pairs");
    lefts[row * dim + i] += 1.0 * out[j] * b[right];
    rights[right] += 1.0 * out[j] * a[row * dim + i];
  }
  for (int64_t i = 0; i < dA.size(); i++) expect(near(dA[i], lefts[i]), k.name, "dPairsLeft");
  for (int64_t i = 0; i < dB.size(); i++) expect(near(dB[i], rights[i]), k.name, "dPairsRight");
}

inline void testPairSum(const Kernels& k) {
  const int64_t samples = 1 + below(4), count = 1 + below(12), dim = 1 + below(60);
  Buffer x(samples * count * dim), out(samples), dX(samples * count * dim);
  k.pairSum(out.data(), x.data(), samples, count, dim);
  k.dPairSum(dX.data(), out.data(), x.data(), samples, count, dim);
  const auto at = [&](int64_t s, int64_t f, int64_t i) { return x[(s * count + f) * dim + i]; };
  for (int64_t s = 0; s < samples; s++) {
    double total = 0;
    for (int64_t f = 0; f < count; f++) {
      for (int64_t i = 0; i < dim; i++) {
        double others = 0;
        for (int64_t g = 0; g < count; g++) others += g == f ? 0 : at(s, g, i);
        total += 0.5 * at(s, f, i) * others;
        expect(near(dX[(s * count + f) * dim + i], out[s] * others), k.name, "dPairSum");
      }
    }
    expect(near(out[s], total), k.name, "pairSum");
  }
}

inline void testBatchNorm(const Kernels& k) {
  const int64_t rows = 1 + below(20), width = 1 + below(60);
  Buffer x(rows * width), mean(width), unit(width), gain(width), bias(width), out(rows * width);
  Buffer dOut(rows * width), dX(rows * width), dMean(width), dSlope(width);
  Buffer dGain(width), dBias(width), sums(2 * width);
  const BatchNormColumns columns{mean.data(), unit.data(), gain.data(), bias.data()};
  const int64_t count = int64_t{1} << below(4);
  const auto bounds = boundsOf(count, rows);
  const Slices slices{0, count, bounds.data()};
  float* const all[] = {sums.data(), dGain.data(), dBias.data()};
  k.batchMoments(all, x.data(), mean.data(), width, slices);
  k.batchNorm(out.data(), x.data(), columns, rows, width, false);
  k.dBatchNormWeights(all + 1, all + 2, dOut.data(), x.data(), columns, width, slices);
  k.dBatchNorm(dX.data(), dOut.data(), x.data(), columns, dMean.data(), dSlope.data(), rows, width);
  for (int64_t c = 0; c < width; c++) {
    double sum = 0, squares = 0, slope = 0, total = 0;
    for (int64_t r = 0; r < rows; r++) {
      const int64_t i = r * width + c;
      const double centred = x[i] - mean[c], own = centred * unit[c];
      sum += centred;
      squares += centred * centred;
      slope += dOut[i] * own;
      total += dOut[i];
      expect(near(out[i], own * gain[c] + bias[c]), k.name, "batchNorm");
      const double expected = gain[c] * unit[c] * (dOut[i] - dMean[c] - own * dSlope[c]);
      expect(near(dX[i], expected), k.name, "dBatchNorm");
    }
    expect(near(sums[c], sum) && near(sums[width + c], squares), k.name, "batchMoments");
    expect(near(dGain[c], slope) && near(dBias[c], total), k.name, "dBatchNormWeights");
  }
}

inline void testLayerNorm(const Kernels& k) {
  const int64_t rows = 1 + below(9), dim = 1 + below(100);
  Buffer x(rows * dim), gain(dim), bias(dim), out(rows * dim), saved(rows * 2);
  Buffer dOut(rows * dim), dX(rows * dim), dGain(dim), dBias(dim);
  k.layerNorm(out.data(), saved.data(), x.data(), gain.data(), bias.data(), rows, dim, 1e-2f);
  const int64_t count = int64_t{1} << below(4);
  const auto bounds = boundsOf(count, rows);
  float* const dGains[] = {dGain.data()};
  float* const dBiases[] = {dBias.data()};
  k.dLayerNorm(dX.data(), dGains, dBiases, dOut.data(), saved.data(), x.data(), gain.data(), dim,
               {0, count, bounds.data()});
  std::vector<double> gains(dim), biases(dim);
  for (int64_t r = 0; r < rows; r++) {
    double mean = 0, variance = 0, sum = 0, along = 0;
    for (int64_t i = 0; i < dim; i++) mean += x[r * dim + i] / static_cast<double>(dim);
    for (int64_t i = 0; i < dim; i++) variance += std::pow(x[r * dim + i] - mean, 2) / dim;
    const double unit = 1 / std::sqrt(variance + 1e-2);
    const auto scaled = [&](int64_t i) { return (x[r * dim + i] - mean) * unit; };
    for (int64_t i = 0; i < dim; i++) {
      const double d = dOut[r * dim + i];
      expect(near(out[r * dim + i], scaled(i) * gain[i] + bias[i]), k.name, "layerNorm");
      sum += d * gain[i] / dim;
      along += d * gain[i] * scaled(i) / dim;
      gains[i] += d * scaled(i);
      biases[i] += d;
    }
    for (int64_t i = 0; i < dim; i++) {
      const double own = dOut[r * dim + i] * gain[i];
      expect(near(dX[r * dim + i], (own - sum - scaled(i) * along) * unit), k.name, "dLayerNorm");
    }
  }
  for (int64_t i = 0; i < dim; i++) {
    expect(near(dGain[i], gains[i]), k.name, "dLayerNorm, gain");
    expect(near(dBias[i], biases[i]), k.name, "dLayerNorm, bias");
  }
}

}  // namespace osiris::test
