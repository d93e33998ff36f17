// The logistic function and the softmax, in float64. Included by blocks/blocks.cc for each
// instruction set.
//
// JavaScript's engine and mathematical libraries differ in the last bits of exponentials. The
// reference kernels use Math.exp of V8, which computes exp(x) by the method of fdlibm (Sun
// Microsystems, 1993): x = k ln 2 + r with |r| <= ln 2 / 2, and a rational approximation of exp(r).
// This file does the same operations in the same order on vectors, so the bits are those of
// Math.exp.

constexpr int wideLanes = lanes / 2;
typedef float Narrow __attribute__((vector_size(4 * wideLanes)));
typedef double Wide __attribute__((vector_size(8 * wideLanes)));
typedef int64_t Whole __attribute__((vector_size(8 * wideLanes)));

INLINE Wide widely(double v) { return Wide{} + v; }

INLINE Wide widen(const float* p, int64_t n) {
  Narrow v{};
  __builtin_memcpy(&v, p, n * sizeof(float));
  return __builtin_convertvector(v, Wide);
}

INLINE void narrow(float* p, int64_t n, Wide v) {
  const Narrow rounded = __builtin_convertvector(v, Narrow);
  __builtin_memcpy(p, &rounded, n * sizeof(float));
}

/// Calls take(first, count) for each vector of n elements.
template <typename Take>
INLINE void eachWide(int64_t n, Take take) {
  int64_t i = 0;
  for (; i + wideLanes <= n; i += wideLanes) take(i, wideLanes);
  if (i < n) take(i, n - i);
}

/// exp(x) for x <= 0. Below -700 it returns exp(-700), as both are 0 when rounded to float32.
INLINE Wide expOfNegative(Wide x) {
  x = x < -700.0 ? widely(-700) : x;
  const Wide size = -x;
  // k = x / ln 2, rounded as in fdlibm: subtract a half, then round towards 0.
  const Wide steps = x * 1.44269504088896338700e+00 - 0.5;
  const double shift = 0x1.8p52;
  Wide k = (steps + shift) - shift;
  k = k < steps ? k + 1.0 : k;
  k = size < 0x1.0a2b2p0 ? widely(-1) : k;
  k = size < 0x1.62e43p-2 ? widely(0) : k;
  const Wide hi = x - k * 6.93147180369123816490e-01, lo = k * 1.90821492927058770002e-10;
  const Wide r = hi - lo, t = r * r;
  Wide series = t * 4.13813679705723846039e-08 + -1.65339022054652515390e-06;
  series = t * series + 6.61375632143793436117e-05;
  series = t * series + -2.77777777770155933842e-03;
  series = t * series + 1.66666666666666019037e-01;
  const Wide c = r - t * series;
  const Wide y = 1.0 - ((lo - (r * c) / (2.0 - c)) - hi);
  // Adding `shift` moves k to the low bits of the fraction, and the shift by 52 into the exponent.
  const Whole exponent = (reinterpret_cast<Whole>(k + shift) + 1023) << 52;
  return size < 0x1p-28 ? 1.0 + x : y * reinterpret_cast<Wide>(exponent);
}

inline void sigmoid(float* out, const float* x, int64_t n) {
  eachWide(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    const Wide v = widen(x + i, some);
    const Wide small = expOfNegative(v >= 0.0 ? -v : v);
    narrow(out + i, some, (v >= 0.0 ? widely(1) : small) / (1.0 + small));
  });
}

inline void dSigmoid(float* d, const float* out, int64_t n) {
  eachWide(n, [&](int64_t i, int64_t some) INLINE_LAMBDA {
    const Wide o = widen(out + i, some);
    narrow(d + i, some, widen(d + i, some) * o * (1.0 - o));
  });
}

/// out (R,D): the softmax of each row of x (R,D). The sum over a row is sequential.
inline void softmax(float* out, const float* x, int64_t rows, int64_t dim) {
  double* powers = scratches().leftOperand.take<double>(dim);
  for (int64_t row = 0; row < rows; row++, x += dim, out += dim) {
    float most = x[0];
    for (int64_t i = 1; i < dim; i++) most = x[i] > most ? x[i] : most;
    eachWide(dim, [&](int64_t i, int64_t some) INLINE_LAMBDA {
      const Wide power = expOfNegative(widen(x + i, some) - static_cast<double>(most));
      __builtin_memcpy(powers + i, &power, some * sizeof(double));
    });
    double sum = 0;
    for (int64_t i = 0; i < dim; i++) sum += powers[i];
    eachWide(dim, [&](int64_t i, int64_t some) INLINE_LAMBDA {
      Wide power{};
      __builtin_memcpy(&power, powers + i, some * sizeof(double));
      narrow(out + i, some, power / sum);
    });
  }
}

inline void dSoftmax(float* dX, const float* dOut, const float* out, int64_t rows, int64_t dim) {
  for (int64_t row = 0; row < rows; row++, dX += dim, dOut += dim, out += dim) {
    double along = 0;
    for (int64_t i = 0; i < dim; i++) along += static_cast<double>(dOut[i]) * out[i];
    eachWide(dim, [&](int64_t i, int64_t some) INLINE_LAMBDA {
      narrow(dX + i, some, widen(out + i, some) * (widen(dOut + i, some) - along));
    });
  }
}
