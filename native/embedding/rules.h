// The update rules of rows and of dense tensors, with the bracketing of
// src/kernels/reference/rules.ts. Included by embedding/update.cc for each instruction set.

/// out = a row's gradient g, clamped to -most .. most. A NaN or an infinity becomes NaN, so that
/// the check for finite rows still detects it, and -0 becomes +0.
INLINE void clipRow(float* out, const float* g, float most, int64_t n) {
  const Vec top = broadcast(most), bottom = broadcast(-most);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec v = loadSome(g + c, some);
    storeSome(out + c, some, add(lesser(top, greater(bottom, v)), sub(v, v)));
  }
}

/// g += l2 * w
[[gnu::noinline]] static void regularise(float* g, const float* w, float l2, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec sum = fma(broadcast(l2), loadSome(w + c, some), loadSome(g + c, some));
    storeSome(g + c, some, sum);
  }
}

/// w = kept * w
[[gnu::noinline]] static void shrink(float* w, float kept, int64_t n) {
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    storeSome(w + c, some, mul(broadcast(kept), loadSome(w + c, some)));
  }
}

/// w -= rate * g. Checks that w, or g if `ofG`, is finite while it is in a register.
template <bool ofG = false>
INLINE Finite applySgd(float rate, float* w, const float* g, int64_t n) {
  Finite finite;
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadUpTo(g + c, some), sum = fnma(broadcast(rate), d, loadUpTo(w + c, some));
    finite.look(ofG ? d : sum);
    storeSome(w + c, some, sum);
  }
  return finite;
}

/// Reads w before it stores the state: a load after a store waits if their addresses differ by a
/// multiple of 4 KiB.
inline void applyMomentum(const Rule& rule, float* w, float* state, const float* g, int64_t n) {
  const Vec rate = broadcast(rule.rate), momentum = broadcast(rule.momentum);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec step = fma(momentum, loadSome(state + c, some), loadSome(g + c, some));
    const Vec before = loadSome(w + c, some);
    storeSome(state + c, some, step);
    storeSome(w + c, some, fnma(rate, step, before));
  }
}

inline void applyAdagrad(const Rule& rule, float* w, float* state, const float* g, int64_t n) {
  const Vec rate = broadcast(rule.rate), epsilon = broadcast(rule.epsilon);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadSome(g + c, some);
    const Vec acc = fma(d, d, loadSome(state + c, some));
    storeUpTo(state + c, some, acc);
    const Vec change = div(mul(rate, d), add(root(acc), epsilon));
    storeUpTo(w + c, some, sub(loadSome(w + c, some), change));
  }
}

/// Updates Adam's moments with g; calls `direction(c, some, u)` with u = factor*m / (sqrt(v)/root2
/// + epsilon). `second`: n second moments; with `partial`, the row's single second moment, which
/// the caller has updated.
template <bool partial, typename Direction>
INLINE void adamDirection(const Rule& rule, float factor, float* state, float* second,
                          const float* g, int64_t n, const Direction& direction) {
  const Vec beta1 = broadcast(rule.beta1), rest1 = broadcast(rule.rest1);
  const Vec beta2 = broadcast(rule.beta2), rest2 = broadcast(rule.rest2);
  const Vec scale = broadcast(factor), root2 = broadcast(rule.root2);
  const Vec epsilon = broadcast(rule.epsilon);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadSome(g + c, some);
    const Vec m = fma(rest1, d, mul(beta1, loadSome(state + c, some)));
    // Both moments of a short row lie in one vector: a load of it would wait for a store to it.
    Vec v = broadcast(*second);
    if (!partial) v = fma(mul(rest2, d), d, mul(beta2, loadSome(second + c, some)));
    // No masks: the check for finite rows loads these numbers, and waits for masked stores.
    storeUpTo(state + c, some, m);
    if (!partial) storeUpTo(second + c, some, v);
    direction(c, some, div(mul(scale, m), add(div(root(v), root2), epsilon)));
  }
}

template <bool partial>
inline void applyAdam(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n) {
  adamDirection<partial>(rule, rule.rate, state, second, g, n,
                         [&](int64_t c, int64_t some, Vec u) INLINE_LAMBDA {
                           storeUpTo(w + c, some, sub(loadSome(w + c, some), u));
                         });
}

/// The squares of one quantum of 32 columns, folded by a pairwise tree to the lanes of one vector,
/// which are not summed yet. Missing columns are 0. `d`, the quantum in `vectors` vectors, is
/// overwritten.
template <int vectors>
INLINE Vec vectorOfSquares(Vec (&d)[vectors]) {
  for (int v = 0; v < vectors; v++) d[v] = mul(d[v], d[v]);
  for (int half = 16 / lanes; half > 0; half /= 2) {
    for (int v = 0; v < half && v + half < vectors; v++) d[v] = add(d[v], d[v + half]);
  }
  return d[0];
}

/// `vectorOfSquares` of the quantum at g, which has n columns at most.
INLINE Vec squaresOf(const float* g, int64_t n) {
  Vec d[32 / lanes];
  UNROLL for (int v = 0; v < 32 / lanes; v++) d[v] = loadUpTo(g + v * lanes, left(n, v * lanes));
  return vectorOfSquares(d);
}

INLINE float quantumSquares(const float* g, int64_t n) { return sumOfLanes(squaresOf(g, n)); }

/// The mean of squares of n columns: the sums of quanta are added in order.
INLINE float meanOfSquares(const float* g, int64_t n) {
  float sum = 0;
  for (int64_t c = 0; c < n; c += 32) sum += quantumSquares(g + c, n - c);
  return sum / static_cast<float>(n);
}

/// The length of a vector: the sums of squares of its quanta, added in order in float64.
inline float norm(const float* v, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; c += 32) sum += static_cast<double>(quantumSquares(v + c, n - c));
  return static_cast<float>(__builtin_sqrt(sum));
}

/// Updates the second moment of a row with its mean of squares: the completed `mean`, or, if null,
/// that of g.
inline void moveSecond(const Rule& rule, float* second, const float* g, int64_t n,
                       const float* mean) {
  const float square = mean != nullptr ? *mean : meanOfSquares(g, n);
  *second = fmaOne(rule.rest2, square, rule.beta2 * *second);
}

/// Computes LAMB's update of weights, in scratch: Adam's direction + decay * w. Updates the moments
/// with g. `mean`: the completed mean of squares, or null.
inline float* lambDirection(const Rule& rule, const float* w, float* state, float* second,
                            const float* g, int64_t n, const float* mean) {
  float* u = scratches().direction.take<float>(n);
  const Vec decay = broadcast(rule.decay);
  const auto take = [&](int64_t c, int64_t some, Vec direction) INLINE_LAMBDA {
    storeUpTo(u + c, some, fma(decay, loadSome(w + c, some), direction));
  };
  if (rule.hasMean()) {
    moveSecond(rule, second, g, n, mean);
    adamDirection<true>(rule, rule.unit, state, second, g, n, take);
  } else {
    adamDirection<false>(rule, rule.unit, state, second, g, n, take);
  }
  return u;
}

inline float trustOf(const float* w, const float* u, int64_t n) {
  const float length = norm(w, n), uLength = norm(u, n);
  // If one of them is 0 (zero weights, zero gradients), the ratio is undefined: use 1.
  return length > 0 && uLength > 0 ? length / uLength : 1;
}

inline void applyLamb(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n, const Completed& known) {
  const float* u = lambDirection(rule, w, state, second, g, n, known.mean);
  const float trust = known.trust != nullptr ? *known.trust : trustOf(w, u, n);
  applySgd(rule.rate * trust, w, u, n);
}

inline void applyFtrl(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n) {
  const Vec rate = broadcast(rule.rate), beta = broadcast(rule.beta);
  const Vec lambda1 = broadcast(rule.lambda1), lambda2 = broadcast(rule.lambda2);
  for (int64_t c = 0; c < n; c += lanes) {
    const int64_t some = left(n, c);
    const Vec d = loadSome(g + c, some), before = loadSome(second + c, some);
    const Vec squares = fma(d, d, before), after = root(squares);
    const Vec slope = div(sub(after, root(before)), rate);
    const Vec z = fnma(slope, loadSome(w + c, some), add(loadSome(state + c, some), d));
    storeUpTo(second + c, some, squares);
    storeUpTo(state + c, some, z);
    const Vec below = positive(sub(sub(zero(), z), lambda1)), above = positive(sub(z, lambda1));
    const Vec scale = add(div(add(beta, after), rate), lambda2);
    storeUpTo(w + c, some, div(sub(below, above), scale));
  }
}

/// Applies any rule except SGD and row-wise Adagrad.
[[gnu::noinline]] static void applyOther(const Rule& rule, float* w, float* state, float* second,
                                         const float* g, int64_t n, const Completed& known) {
  switch (rule.kind) {
    case RuleKind::momentum: return applyMomentum(rule, w, state, g, n);
    case RuleKind::adagrad: return applyAdagrad(rule, w, state, g, n);
    case RuleKind::adam: return applyAdam<false>(rule, w, state, second, g, n);
    case RuleKind::partialRowWiseAdam:
      moveSecond(rule, second, g, n, known.mean);
      return applyAdam<true>(rule, w, state, second, g, n);
    case RuleKind::lamb:
    case RuleKind::partialRowWiseLamb: return applyLamb(rule, w, state, second, g, n, known);
    case RuleKind::ftrl: return applyFtrl(rule, w, state, second, g, n);
    case RuleKind::sgd:
    case RuleKind::rowWiseAdagrad: return;
  }
}

/// Elements of a chunk of a tensor: its gradient is checked and then applied while it is in cache.
constexpr int64_t flatChunk = 2048;

/// Updates a dense tensor with the gradient g. Returns false if g is not finite.
inline bool applyFlat(const Rule& rule, float* w, float* state, float* second, const float* g,
                      int64_t n) {
  Finite finite;
  const int64_t chunk = rule.isLamb() ? n : flatChunk;
  for (int64_t at = 0; at < n; at += chunk) {
    const int64_t size = n - at < chunk ? n - at : chunk;
    if (rule.kept != 1) shrink(w + at, rule.kept, size);
    if (rule.kind == RuleKind::sgd) {
      finite.also(applySgd<true>(rule.rate, w + at, g + at, size));
      continue;
    }
    finite.look(g + at, size);
    applyOther(rule, w + at, state + at, second + at, g + at, size, {});
  }
  return finite.all();
}

/// Whether the update is rate * g, with one rate per row: SGD and row-wise Adagrad.
INLINE bool isScaled(const Rule& rule) {
  return rule.kind == RuleKind::sgd || rule.kind == RuleKind::rowWiseAdagrad;
}

/// Whether an update of a row is only w -= rate * g: without l2, decay and moving average.
INLINE bool isPlain(const Table& t) {
  return isScaled(t.rule) && t.rule.l2 == 0 && t.rule.kept == 1 && !t.averaged;
}

/// The rate of a row under a rule for which `isScaled`. Updates the rule's state with g.
INLINE float rateOf(const Rule& rule, float* state, const float* g, int64_t n, const float* mean) {
  if (rule.kind == RuleKind::sgd) return rule.rate;
  *state += mean != nullptr ? *mean : meanOfSquares(g, n);
  return rule.rate / (__builtin_sqrtf(*state) + rule.epsilon);
}

/// Updates float32 weights and the state of a row with its gradient g, which is overwritten.
/// Returns whether the row is finite.
INLINE Finite takeGradient(const Table& t, float* w, float* state, float* g,
                           const Completed& known) {
  const Rule& rule = t.rule;
  if (rule.l2 > 0) regularise(g, w, rule.l2, t.dim);
  if (rule.kept != 1) shrink(w, rule.kept, t.dim);
  if (isScaled(rule)) {
    Finite finite = applySgd(rateOf(rule, state, g, t.dim, known.mean), w, g, t.dim);
    if (rule.kind == RuleKind::rowWiseAdagrad) finite.look(broadcast(*state));
    return finite;
  }
  applyOther(rule, w, state, state + t.dim, g, t.dim, known);
  Finite finite;
  finite.look(w, t.dim);
  finite.look(state, t.ruleWidth());
  return finite;
}

/// Scratch for a coded row: its float32 weights, and its rounding noise.
struct Room {
  float* weights;
  uint16_t* noise;

  explicit Room(const Table& t)
      : weights(scratches().decoded.take<float>(t.dim)),
        noise(scratches().noise.take<uint16_t>(t.dim + 64)) {}
};

/// Updates a coded row with the gradient g by a plain rule: the row is decoded, updated and rounded
/// without leaving registers. The caller has drawn the row's noise into `room`.
template <Precision precision>
INLINE_LARGE Finite stepCodedRow(const Table& t, int64_t row, const float* g, const float* mean,
                                 const Room& room) {
  float* state = t.stateOf(row);
  const Vec rate = broadcast(rateOf(t.rule, state, g, t.dim, mean));
  Finite finite;
  if (t.rule.kind == RuleKind::rowWiseAdagrad) finite.look(broadcast(*state));
  const RowView<precision> before(t, row);
  encodeRow<precision>(t, row, room.noise, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    // An unsummed gradient may contain -0, which a sum from 0 would turn into +0.
    const Vec w = fnma(rate, add(zero(), loadSome(g + c, n)), before.some(c, n));
    finite.look(w);
    return w;
  });
  return finite;
}

/// Updates a coded row by any rule; g is overwritten.
template <Precision precision>
[[gnu::noinline]] static Finite applyCodedRow(const Table& t, int64_t row, float* g,
                                              const Completed& known, const Room& room) {
  drawRow(room.noise, t, row);  // First, so that the processor overlaps it with the update.
  if (isPlain(t)) return stepCodedRow<precision>(t, row, g, known.mean, room);
  decodeRow<precision>(room.weights, t, row);
  const Finite finite = takeGradient(t, room.weights, t.ruleStateOf(row), g, known);
  encodeRow<precision>(t, row, room.noise, [&](int64_t c, int64_t n) INLINE_LAMBDA {
    return loadSome(room.weights + c, n);
  });
  return finite;
}

/// Updates the weights and the rule's state of a row, in any precision.
INLINE Finite changeRow(const Table& t, int64_t row, float* g, const Completed& known,
                        const Room& room) {
  switch (t.precision) {
    case Precision::float16: return applyCodedRow<Precision::float16>(t, row, g, known, room);
    case Precision::bfloat16: return applyCodedRow<Precision::bfloat16>(t, row, g, known, room);
    case Precision::int8: return applyCodedRow<Precision::int8>(t, row, g, known, room);
    case Precision::float32:
    case Precision::float8e4m3:  // No rows are stored in float8.
    case Precision::float8e5m2: break;
  }
  return takeGradient(t, t.weights + row * t.dim, t.ruleStateOf(row), g, known);
}

/// `changeRow` for rows with a moving average: it also updates the row's lag
/// (src/kernels/contract/row-average.ts).
[[gnu::noinline]] static Finite changeAveragedRow(const Table& t, int64_t row, float* g,
                                                  const Completed& known, const Room& room) {
  float* before = scratches().averaged.take<float>(t.dim);
  std::memcpy(before, rowWeights(t, row, room.weights), t.dim * sizeof(float));
  Finite finite = changeRow(t, row, g, known, room);
  const float* after = rowWeights(t, row, room.weights);
  float *lag = t.stateOf(row), *steps = lag + t.stateWidth - 1;
  const Vec share = broadcast(t.rule.average.shareOf(*steps));
  const Vec decay = broadcast(static_cast<float>(t.rule.average.decay));
  for (int64_t c = 0; c < t.dim; c += lanes) {
    const int64_t some = left(t.dim, c);
    const Vec change = sub(loadSome(before + c, some), loadSome(after + c, some));
    const Vec sum = fma(decay, change, mul(share, loadSome(lag + c, some)));
    finite.look(sum);
    storeSome(lag + c, some, sum);
  }
  *steps = static_cast<float>(t.rule.average.steps);
  return finite;
}

/// Updates row `row` with its gradient g, which is overwritten; see `takeGradient`.
INLINE Finite applyRow(const Table& t, int64_t row, float* g, const Completed& known,
                       const Room& room) {
  t.touched[row] = 1;
  if (t.rule.clip != 0) clipRow(g, g, t.rule.clip, t.dim);
  if (__builtin_expect(t.averaged, 0)) return changeAveragedRow(t, row, g, known, room);
  return changeRow(t, row, g, known, room);
}
