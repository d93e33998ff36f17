// Element-wise arithmetic. Included by blocks/blocks.cc for each instruction set.

/// out = take(a, b), vector by vector; `far`: with stores that bypass the caches.
template <typename Take>
INLINE void eachOfTwo(float* out, const float* a, const float* b, int64_t n, bool far, Take take) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) storeFar(out + i, lanes, take(load(a + i), load(b + i)), far);
  const int64_t some = left(n, i);
  if (some > 0) storeSome(out + i, some, take(loadSome(a + i, some), loadSome(b + i, some)));
}

inline void add(float* out, const float* a, const float* b, int64_t n) {
  const bool far = n > farFloats && out != a && out != b;
  eachOfTwo(out, a, b, n, far, [&](Vec x, Vec y) INLINE_LAMBDA { return add(x, y); });
  endFar();
}

inline void multiply(float* out, const float* a, const float* b, int64_t n) {
  const bool far = n > farFloats && out != a && out != b;
  eachOfTwo(out, a, b, n, far, [&](Vec x, Vec y) INLINE_LAMBDA { return mul(x, y); });
  endFar();
}

/// Calls take(first, count) for each vector of n elements; the last vector may be partial.
template <typename Take>
INLINE void eachVectorOf(int64_t n, Take take) {
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) take(i, lanes);
  if (i < n) take(i, n - i);
}

inline void dMultiply(float* dA, float* dB, const float* dOut, const float* a, const float* b,
                      int64_t n) {
  const bool far = n > farFloats;
  eachVectorOf(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    const Vec d = loadSome(dOut + i, some);
    // Before the stores: a load waits for a store to the same offset in another page.
    const Vec ofA = mul(d, loadSome(b + i, some)), ofB = mul(d, loadSome(a + i, some));
    storeFar(dA + i, some, ofA, far);
    storeFar(dB + i, some, ofB, far);
  });
  endFar();
}

inline void multiplyAdd(float* out, const float* a, const float* b, const float* c, int64_t n) {
  const bool far = n > farFloats;
  eachVectorOf(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    const Vec product = mul(loadSome(a + i, some), loadSome(b + i, some));
    storeFar(out + i, some, add(product, loadSome(c + i, some)), far);
  });
  endFar();
}

inline void addBeside(float* out, const float* const* values, const int32_t* widths, int64_t count,
                      const float* other, int64_t rows) {
  int64_t columns = 0;
  for (int64_t i = 0; i < count; i++) columns += widths[i];
  const bool far = rows * columns > farFloats;
  for (int64_t row = 0; row < rows; row++) {
    for (int64_t i = 0; i < count; i++) {
      const int64_t width = widths[i];
      eachOfTwo(out, values[i] + row * width, other, width, far,
                [&](Vec x, Vec y) INLINE_LAMBDA { return add(x, y); });
      out += width;
      other += width;
    }
  }
  endFar();
}

inline void relu(float* out, const float* x, int64_t n) {
  eachVectorOf(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    storeSome(out + i, some, positive(loadSome(x + i, some)));
  });
}

inline void scale(float* out, const float* x, int64_t n, float factor) {
  eachVectorOf(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    storeSome(out + i, some, mul(loadSome(x + i, some), broadcast(factor)));
  });
}

/// x, or x * slope below 0.
inline void leakyRelu(float* out, const float* x, int64_t n, float slope) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] < 0 ? x[i] * slope : x[i];
}

inline void dLeakyRelu(float* d, const float* out, int64_t n, float slope) {
  for (int64_t i = 0; i < n; i++) d[i] = out[i] < 0 ? d[i] * slope : d[i];
}

/// out (B,M,N,D) = a (B,M,D) * b (B,N,D): each vector of a times each vector of b.
inline void pairs(float* out, const float* a, const float* b, int64_t samples, int64_t rows,
                  int64_t columns, int64_t dim) {
  for (int64_t s = 0; s < samples; s++, b += columns * dim) {
    for (int64_t m = 0; m < rows; m++, a += dim) {
      for (int64_t n = 0; n < columns; n++, out += dim) multiply(out, a, b + n * dim, dim);
    }
  }
}

/// out (D) = the sum over `count` vectors of d (`stepD` apart) times x (`dim` apart), as one chain
/// of fused multiply-adds per column.
INLINE void chainOfPairs(float* out, const float* d, int64_t stepD, const float* x, int64_t count,
                         int64_t dim) {
  for (int64_t c = 0; c < dim; c += lanes) {
    const int64_t n = left(dim, c);
    Vec sum = zero();
    for (int64_t k = 0; k < count; k++) {
      sum = fma(loadSome(d + k * stepD + c, n), loadSome(x + k * dim + c, n), sum);
    }
    storeSome(out + c, n, sum);
  }
}

inline void dPairsLeft(float* dA, const float* dOut, const float* b, int64_t samples, int64_t rows,
                       int64_t columns, int64_t dim) {
  for (int64_t s = 0; s < samples; s++, b += columns * dim) {
    for (int64_t m = 0; m < rows; m++, dA += dim, dOut += columns * dim) {
      chainOfPairs(dA, dOut, dim, b, columns, dim);
    }
  }
}

inline void dPairsRight(float* dB, const float* dOut, const float* a, int64_t samples,
                        int64_t rows, int64_t columns, int64_t dim) {
  for (int64_t s = 0; s < samples; s++, a += rows * dim, dOut += rows * columns * dim) {
    for (int64_t n = 0; n < columns; n++, dB += dim) {
      chainOfPairs(dB, dOut + n * dim, columns * dim, a, rows, dim);
    }
  }
}
