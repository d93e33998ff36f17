// A product of small matrices for each sample. Included by blocks/blocks.cc for each instruction
// set.
//
// out (M,N) = A (M,K) * B (K,N): each element is one chain of fused multiply-adds over k in
// ascending order, from 0. A tile of `out` is in registers. The chain reads A as (K,M) and B as
// (K,N) in whole vectors, so an operand that lies otherwise is copied first.

/// Whole vectors that hold n floats, in floats.
INLINE int64_t padded(int64_t n) { return (n + lanes - 1) / lanes * lanes; }

/// Rows and vectors of columns of one sample's product.
template <int rows, int vectors>
void productTile(float* out, int64_t stride, int64_t columns, int64_t k, const float* a,
                 int64_t stepA, const float* b, int64_t stepB) {
  Vec acc[rows][vectors];
  UNROLL for (int m = 0; m < rows; m++) {
    UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = zero();
  }
  for (int64_t p = 0; p < k; p++, a += stepA, b += stepB) {
    Vec bs[vectors];
    UNROLL for (int v = 0; v < vectors; v++) bs[v] = load(b + v * lanes);
    UNROLL for (int m = 0; m < rows; m++) {
      const Vec am = broadcast(a[m]);
      UNROLL for (int v = 0; v < vectors; v++) acc[m][v] = fma(am, bs[v], acc[m][v]);
    }
  }
  UNROLL for (int m = 0; m < rows; m++) {
    UNROLL for (int v = 0; v < vectors; v++) {
      storeSome(out + m * stride + v * lanes, left(columns, v * lanes), acc[m][v]);
    }
  }
}

constexpr int productRows = lanes == 16 ? 8 : 4;
using ProductKernel = void (*)(float*, int64_t, int64_t, int64_t, const float*, int64_t,
                               const float*, int64_t);

template <int... rows>
ProductKernel pickProduct(int64_t m, bool wide, std::integer_sequence<int, rows...>) {
  static const ProductKernel narrow[] = {productTile<rows + 1, 1>...};
  static const ProductKernel full[] = {productTile<rows + 1, 2>...};
  return (wide ? full : narrow)[m - 1];
}

inline void products(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                     int64_t columns, int64_t depth, bool shared, ProductForm form) {
  constexpr std::make_integer_sequence<int, productRows> all{};
  const bool turnsA = form != ProductForm::aTb;
  const bool turnsB = form == ProductForm::abT;
  const int64_t wide = padded(columns);
  const bool copiesB = turnsB || wide != columns;
  float* aT = scratches().leftOperand.take<float>(turnsA ? depth * rows : 0);
  float* bs = scratches().rightOperand.take<float>(copiesB ? depth * wide : 0);
  if (copiesB) std::memset(bs, 0, depth * wide * sizeof(float));
  if (turnsA && shared) transpose(aT, rows, a, depth, rows, depth);
  for (int64_t s = 0; s < samples; s++, out += rows * columns, b += depth * columns) {
    if (turnsA && !shared) transpose(aT, rows, a, depth, rows, depth);
    const float* left = turnsA ? aT : a;
    if (turnsB) transpose(bs, wide, b, depth, columns, depth);
    for (int64_t k = 0; copiesB && !turnsB && k < depth; k++) {
      std::memcpy(bs + k * wide, b + k * columns, columns * sizeof(float));
    }
    const float* right = copiesB ? bs : b;
    for (int64_t m = 0; m < rows; m += productRows) {
      const int64_t some = rows - m < productRows ? rows - m : productRows;
      for (int64_t n = 0; n < columns; n += 2 * lanes) {
        const auto kernel = pickProduct(some, columns - n > lanes, all);
        kernel(out + m * columns + n, columns, columns - n, depth, left + m, rows, right + n, wide);
      }
    }
    if (!shared) a += rows * depth;
  }
}

/// out (B,N,M) from in (B,M,N).
inline void transposeEach(float* out, const float* in, int64_t samples, int64_t rows,
                          int64_t columns) {
  for (int64_t s = 0; s < samples; s++, out += rows * columns, in += rows * columns) {
    transpose(out, rows, in, columns, rows, columns);
  }
}
