// Arithmetic element by element. Included by blocks/blocks.cc for each instruction set.

inline void addElements(float* out, const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t some = left(n, i);
    storeSome(out + i, some, add(loadSome(a + i, some), loadSome(b + i, some)));
  }
}

inline void multiplyElements(float* out, const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t some = left(n, i);
    storeSome(out + i, some, mul(loadSome(a + i, some), loadSome(b + i, some)));
  }
}
