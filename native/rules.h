// How rows, and dense tensors, take their gradient: included once for each instruction set. The
// brackets are those of src/kernels/reference-rules.ts.

/// g += l2 * w
inline void regularise(float* g, const float* w, float l2, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec sum = fma(broadcast(l2), loadSome(w + c, some), loadSome(g + c, some));
    storeSome(g + c, some, sum);
  }
}

/// w -= rate * g
inline void applySgd(float rate, float* w, const float* g, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    storeSome(w + c, some, fnma(broadcast(rate), loadSome(g + c, some), loadSome(w + c, some)));
  }
}

inline void applyAdagrad(const Rule& rule, float* w, float* state, const float* g, int64_t n) {
  const Vec rate = broadcast(rule.rate), epsilon = broadcast(rule.epsilon);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadSome(g + c, some);
    const Vec acc = fma(d, d, loadSome(state + c, some));
    storeSome(state + c, some, acc);
    const Vec change = div(mul(rate, d), add(root(acc), epsilon));
    storeSome(w + c, some, sub(loadSome(w + c, some), change));
  }
}

inline void applyAdam(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n) {
  const Vec beta1 = broadcast(rule.beta1), rest1 = broadcast(rule.rest1);
  const Vec beta2 = broadcast(rule.beta2), rest2 = broadcast(rule.rest2);
  const Vec rate = broadcast(rule.rate), root2 = broadcast(rule.root2);
  const Vec epsilon = broadcast(rule.epsilon);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadSome(g + c, some);
    const Vec m = fma(rest1, d, mul(beta1, loadSome(state + c, some)));
    const Vec v = fma(mul(rest2, d), d, mul(beta2, loadSome(second + c, some)));
    storeSome(state + c, some, m);
    storeSome(second + c, some, v);
    const Vec change = div(mul(rate, m), add(div(root(v), root2), epsilon));
    storeSome(w + c, some, sub(loadSome(w + c, some), change));
  }
}

/// The sum of squares of one quantum of 32 columns: a pairwise tree, missing columns are 0.
inline float quantumSquares(const float* g, int64_t n) {
  float lane[32] = {};
  for (int64_t i = 0; i < n && i < 32; i++) lane[i] = g[i] * g[i];
  for (int i = 0; i < 16; i++) lane[i] += lane[i + 16];
  for (int i = 0; i < 8; i++) lane[i] += lane[i + 8];
  for (int i = 0; i < 4; i++) lane[i] += lane[i + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

inline float meanOfSquares(const float* g, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; c += 32) sum += quantumSquares(g + c, n - c);
  return sum / static_cast<float>(n);
}

/// One row, or one tensor, takes the gradient g, l2 included.
inline void applyFlat(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n) {
  switch (rule.kind) {
    case RuleKind::sgd: return applySgd(rule.rate, w, g, n);
    case RuleKind::adagrad: return applyAdagrad(rule, w, state, g, n);
    case RuleKind::adam: return applyAdam(rule, w, state, second, g, n);
    case RuleKind::rowWiseAdagrad: return;
  }
}

/// Row `row` takes its gradient g, which is overwritten. `mean`: of squares, where it is known.
inline void applyRow(const Table& t, int64_t row, float* g, const float* mean) {
  float* w = t.weights + row * t.dim;
  float* state = t.state + row * t.stateWidth;
  if (t.rule.l2 > 0) regularise(g, w, t.rule.l2, t.dim);
  t.touched[row] = 1;
  if (t.rule.kind != RuleKind::rowWiseAdagrad) {
    return applyFlat(t.rule, w, state, state + t.dim, g, t.dim);
  }
  const float acc = *state + (mean != nullptr ? *mean : meanOfSquares(g, t.dim));
  *state = acc;
  applySgd(t.rule.rate / (__builtin_sqrtf(acc) + t.rule.epsilon), w, g, t.dim);
}
