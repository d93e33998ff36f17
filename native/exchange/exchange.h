// Kernels of the exchange of pooled vectors and their gradients: fold a table's tiles, divide by
// bag lengths, expand distinct lists, pack. Included by exchange/exchange.cc for each instruction
// set.

// Folding ----

INLINE void loadQuantum(Vec (&v)[quantumVectors], const float* from, int64_t columns) {
  UNROLL for (int i = 0; i < quantumVectors; i++) {
    v[i] = loadUpTo(from + i * lanes, left(columns, i * lanes));
  }
}

INLINE void storeQuantum(float* out, const Vec (&v)[quantumVectors], int64_t columns) {
  UNROLL for (int i = 0; i < quantumVectors; i++) {
    storeUpTo(out + i * lanes, left(columns, i * lanes), v[i]);
  }
}

/// NaN in the lanes where `isNone`, else the float of `bits`.
INLINE Vec noneWhere(Signed isNone, Words bits) {
  return (Vec)(isNone ? Words{} + 0x7fc00000 : bits);
}

/// v with infinities replaced by NaN: int8 has one code for both, which the exponent ignores.
INLINE Vec numberOrNone(Vec v) {
  return noneWhere((Signed)((Words)v & 0x7fffffff) >= 0x7f800000, (Words)v);
}

/// A float of fewer bits: `mantissa` bits, and exponents that begin at 1 - bias. Codes from `top`
/// on are no numbers: NaN in the format without infinities (OCP's E4M3), in others infinity first.
template <int mantissa, int bias, bool hasInfinity>
struct SmallFloat {
  static constexpr int shift = 23 - mantissa, rebased = (127 - bias) << mantissa;
  static constexpr int32_t least = (128 - bias) << 23, top = (2 * bias + 1) << mantissa;
  static constexpr int32_t codesEnd = hasInfinity ? top : top + (1 << mantissa) - 1;

  /// A float whose step is the step of subnormals, so that adding it rounds to them.
  static Vec stepOfSubnormals() { return broadcast(powerOf2(24 - bias - mantissa)); }

  /// The float that a size rounds to, ties to even; `codesEnd` and above: no number.
  static Words near(Words size) {
    const Words large = (size + ((1 << (shift - 1)) - 1) + (size >> shift & 1)) >> shift << shift;
    const Words small =
        (Words)sub(add((Vec)size, stepOfSubnormals()), stepOfSubnormals());
    return (Signed)size < least ? small : large;
  }

  static Vec round(Vec v) {
    const Words size = (Words)v & 0x7fffffff, sign = (Words)v ^ size, kept = near(size);
    const Signed isOver = (Signed)(kept >> shift) - rebased >= codesEnd;
    if constexpr (!hasInfinity) return noneWhere(isOver, sign | kept);
    return noneWhere((Signed)size > 0x7f800000, sign | (isOver ? Words{} + 0x7f800000 : kept));
  }

  /// The codes of 8 bits, sign-extended; all NaN have one code.
  static Words codeOf(Vec v) {
    const Words size = (Words)v & 0x7fffffff, sign = (Words)v >> 24 & 0x80;
    const Signed large = (Signed)(near(size) >> shift) - rebased;
    const Signed small = (Signed)(Words)add((Vec)size, stepOfSubnormals()) -
                         (Signed)(Words)stepOfSubnormals();
    const Signed code = (Signed)size < least ? small : large;
    const Signed isNone = hasInfinity ? (Signed)size > 0x7f800000 : code >= codesEnd;
    const Words number = sign | (Words)(code < codesEnd ? code : Signed{} + codesEnd);
    return (Words)((Signed)((isNone ? Words{} + 0x7f : number) << 24) >> 24);
  }

  static Vec floatOf(Words codes) {
    const Words rest = codes & 0x7f, sign = (codes & 0x80) << 24;
    const Words small = (Words)mul(toFloat(rest), broadcast(powerOf2(1 - bias - mantissa)));
    const Words number = (Signed)rest < 1 << mantissa ? small : (rest + rebased) << shift;
    if constexpr (!hasInfinity) return noneWhere((Signed)rest == codesEnd, sign | number);
    const Words whole = (Signed)rest < top ? number : Words{} + 0x7f800000;
    return noneWhere((Signed)rest > top, sign | whole);
  }
};

using Float8e4m3 = SmallFloat<3, 7, false>;
using Float8e5m2 = SmallFloat<2, 15, true>;

/// The formats of the exchange: those of stored weights, and the floats of 8 bits.
template <>
struct Format<Precision::float8e4m3> {
  using Code = int8_t;
  using Float = Float8e4m3;
};
template <>
struct Format<Precision::float8e5m2> {
  using Code = int8_t;
  using Float = Float8e5m2;
};

template <Precision precision>
constexpr bool isFloat8 =
    precision == Precision::float8e4m3 || precision == Precision::float8e5m2;

/// Whether vectors are multiplied by a scale before they are rounded; others have float32's range,
/// or exponents of their own.
template <Precision precision>
constexpr bool isScaled = isFloat8<precision> || precision == Precision::float16;

template <Precision precision>
INLINE void scaleQuantum(Vec (&v)[quantumVectors], float scale) {
  if constexpr (isScaled<precision>) {
    UNROLL for (int i = 0; i < quantumVectors; i++) v[i] = mul(v[i], broadcast(scale));
  }
}

/// Rounds one quantum, or `columns` of it, to the nearest codes of its multiple by `scale`.
template <Precision precision>
INLINE void packQuantum(typename Format<precision>::Code* codes, int8_t* exponent,
                        Vec (&v)[quantumVectors], int64_t columns, float scale) {
  scaleQuantum<precision>(v, scale);
  if constexpr (isFloat8<precision>) {
    UNROLL for (int i = 0; i < quantumVectors; i++) {
      const int64_t n = left(columns, i * lanes);
      storeCodes(codes + i * lanes, n, Format<precision>::Float::codeOf(v[i]));
    }
  } else {
    if (precision == Precision::int8) {
      UNROLL for (int i = 0; i < quantumVectors; i++) v[i] = numberOrNone(v[i]);
    }
    encodeQuantum<precision, true>(codes, exponent, v, columns, nullptr);
  }
}

template <Precision precision>
INLINE void unpackQuantum(Vec (&v)[quantumVectors], const typename Format<precision>::Code* codes,
                          const int8_t* exponent, int64_t columns, float scale) {
  Vec unit = zero();
  if (precision == Precision::int8) unit = broadcast(powerOf2(*exponent));
  UNROLL for (int i = 0; i < quantumVectors; i++) {
    const int64_t n = left(columns, i * lanes);
    if constexpr (isFloat8<precision>) {
      v[i] = Format<precision>::Float::floatOf(loadCodes(codes + i * lanes, n));
    } else {
      v[i] = Format<precision>::load(codes + i * lanes, n, unit);
    }
    if (precision == Precision::int8) {
      const Signed code = (Signed)loadCodes(codes + i * lanes, n);
      v[i] = noneWhere(code == -128, (Words)v[i]);
    }
  }
  scaleQuantum<precision>(v, 1 / scale);
}

INLINE Vec roundBfloat16(Vec v) {
  const Words size = (Words)v & 0x7fffffff, sign = (Words)v ^ size;
  const Words near = (size + 0x7fff + (size >> 16 & 1)) & 0xffff0000;
  return noneWhere((Signed)size > 0x7f800000, sign | near);
}

template <Precision precision>
INLINE Vec roundLane(Vec v) {
  if constexpr (precision == Precision::bfloat16) return roundBfloat16(v);
  else if constexpr (precision == Precision::float16) return SmallFloat<10, 15, true>::round(v);
  else return Format<precision>::Float::round(v);
}

/// A quantum after packing and unpacking, without leaving registers.
template <Precision precision>
INLINE void roundQuantum(Vec (&v)[quantumVectors], float scale) {
  if constexpr (precision == Precision::int8) {
    UNROLL for (int i = 0; i < quantumVectors; i++) v[i] = numberOrNone(v[i]);
    const int power = exponentOf(v);
    const Vec up = broadcast(powerOf2(-power)), down = broadcast(powerOf2(power));
    UNROLL for (int i = 0; i < quantumVectors; i++) {
      const Vec moved = add(mul(v[i], up), broadcast(0.5f));
      const Words code = floorOf(within(broadcast(-127), moved, broadcast(127)));
      const Signed isNone = (Signed)((Words)v[i] & 0x7fffffff) > 0x7f800000;
      v[i] = noneWhere(isNone, (Words)mul(toFloat(code), down));
    }
  } else if constexpr (precision != Precision::float32) {
    scaleQuantum<precision>(v, scale);
    UNROLL for (int i = 0; i < quantumVectors; i++) v[i] = roundLane<precision>(v[i]);
    scaleQuantum<precision>(v, 1 / scale);
  }
}

/// Calls `use` with the precision of exchanged vectors as a compile-time constant.
template <typename Use>
INLINE void withWirePrecision(Precision precision, const Use& use) {
  switch (precision) {
    case Precision::float8e4m3:
      return use(std::integral_constant<Precision, Precision::float8e4m3>{});
    case Precision::float8e5m2:
      return use(std::integral_constant<Precision, Precision::float8e5m2>{});
    default: return withPrecision(precision, use);
  }
}

/// The parts of a table, in the order of its blocks. joins[p]: the number of tree nodes that part p
/// completes.
struct Parts {
  const PooledPart* parts;
  const int64_t* joins;
  int64_t count;
};

/// Folds one quantum of one sample by the tree over parts; divides by `length`, if there is one.
template <Precision precision>
INLINE void foldQuantum(float* out, const Parts& all, int64_t sample, int64_t c, int64_t columns,
                        const int32_t* length, float scale) {
  Vec stack[33][quantumVectors], top[quantumVectors];
  int64_t depth = 0;
  for (int64_t p = 0; p < all.count; p++) {
    const PooledPart& part = all.parts[p];
    UNROLL for (int i = 0; i < quantumVectors; i++) top[i] = zero();
    if (part.from != nullptr) loadQuantum(top, part.from + sample * part.columns + c, columns);
    roundQuantum<precision>(top, scale);
    for (int64_t join = all.joins[p]; join > 0; join--) {
      depth--;
      UNROLL for (int i = 0; i < quantumVectors; i++) top[i] = add(stack[depth][i], top[i]);
      roundQuantum<precision>(top, scale);
    }
    UNROLL for (int i = 0; i < quantumVectors; i++) stack[depth][i] = top[i];
    depth++;
  }
  if (length != nullptr && *length > 0) {
    const Vec divisor = broadcast(static_cast<float>(*length));
    UNROLL for (int i = 0; i < quantumVectors; i++) top[i] = div(top[i], divisor);
  }
  storeQuantum(out, top, columns);
}

inline void foldPooled(Columns out, const PooledPart* parts, int64_t count, int64_t samples,
                       int64_t columns, const int32_t* lengths, Precision precision,
                       float scale) {
  int64_t* joins = scratches().trees.take<int64_t>(count);
  for (int64_t p = 0; p < count; p++) {
    joins[p] = 0;
    // A right half completes its parent, which may be a right half, too.
    for (Subtree node = parts[p].tree; node.first % (2 * node.count) != 0; joins[p]++) {
      node = {node.first - node.count, 2 * node.count};
    }
  }
  const Parts all{parts, joins, count};
  withWirePrecision(precision, [&](auto rounded) INLINE_LAMBDA {
    for (int64_t b = 0; b < samples; b++) {
      for (int64_t c = 0; c < columns; c += quantumColumns) {
        foldQuantum<rounded>(out.at + b * out.stride + c, all, b, c, columns - c,
                             lengths == nullptr ? nullptr : lengths + b, scale);
      }
    }
  });
}

inline void shareColumns(Columns out, Columns from, int64_t samples, int64_t columns,
                         const int32_t* lengths) {
  for (int64_t b = 0; b < samples; b++, out.at += out.stride, from.at += from.stride) {
    const Vec length = broadcast(static_cast<float>(lengths[b]));
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t n = left(columns, c);
      storeUpTo(out.at + c, n, lengths[b] > 0 ? div(loadUpTo(from.at + c, n), length) : zero());
    }
  }
}

// Distinct lists ----

/// out[b] = from[inverse[b]]. `used`, if not null: the columns that a list has; the others become
/// 0.
inline void expandColumns(Columns out, Columns from, const int32_t* inverse, Optional<const int32_t> used,
                          int64_t samples, int64_t columns) {
  for (int64_t b = 0; b < samples; b++, out.at += out.stride) {
    const int64_t u = inverse[b], n = used == nullptr ? columns : used[u];
    std::memcpy(out.at, from.at + u * from.stride, n * sizeof(float));
    std::memset(out.at + n, 0, (columns - n) * sizeof(float));
  }
}

/// out[places[i]] = from[i], for `count` rows.
inline void placeColumns(Columns out, Columns from, const int32_t* places, int64_t count,
                         int64_t columns) {
  for (int64_t i = 0; i < count; i++, from.at += from.stride) {
    std::memcpy(out.at + places[i] * out.stride, from.at, columns * sizeof(float));
  }
}

/// dFrom[u] = the sum of dOut[b] over the samples b with inverse[b] = u, in their order.
inline void dExpandColumns(Columns dFrom, int64_t lists, Columns dOut, const int32_t* inverse,
                           Optional<const int32_t> used, int64_t samples, int64_t columns) {
  for (int64_t u = 0; u < lists; u++) {
    std::memset(dFrom.at + u * dFrom.stride, 0, columns * sizeof(float));
  }
  for (int64_t b = 0; b < samples; b++, dOut.at += dOut.stride) {
    const int64_t u = inverse[b];
    addRow(dFrom.at + u * dFrom.stride, dOut.at, used == nullptr ? columns : used[u]);
  }
}

/// out = the fold of subtrees, chunk by chunk, so that the stack of sums stays in the first-level
/// cache.
inline void foldSubtrees(float* out, const float* const* parts, const Subtree* trees,
                         int64_t count, int64_t n) {
  constexpr int64_t chunk = 512;
  float* sums = scratches().fold.take<float>(64 * chunk);
  for (int64_t at = 0; at < n; at += chunk) {
    const int64_t size = n - at < chunk ? n - at : chunk;
    const float* stack[64];
    Subtree nodes[64];
    int64_t depth = 0;
    for (int64_t p = 0; p < count; p++) {
      const float* value = parts[p] + at;
      Subtree node = trees[p];
      while (depth > 0 && nodes[depth - 1].count == node.count &&
             nodes[depth - 1].first % (2 * node.count) == 0) {
        depth--;
        const float* other = stack[depth];
        float* sum = sums + depth * chunk;
        for (int64_t i = 0; i < size; i++) sum[i] = other[i] + value[i];
        node = {nodes[depth].first, 2 * node.count};
        value = sum;
      }
      nodes[depth] = node;
      stack[depth++] = value;
    }
    std::memmove(out + at, stack[0], size * sizeof(float));
  }
}

// Packing ----

/// Calls use(at, code, exponent, columns) for each quantum of columns of each sample: the offsets
/// of its first element in rows `stride` apart and in the codes, the index of its exponent, and the
/// number of columns left.
template <Precision precision, typename Use>
INLINE void eachQuantum(int64_t stride, int64_t samples, int64_t columns, const Use& use) {
  const int64_t quanta = quantaOf(columns);
  for (int64_t b = 0; b < samples; b++) {
    for (int64_t q = 0; q < quanta; q++) {
      const int64_t c = q * quantumColumns;
      use(b * stride + c, b * columns + c, b * quanta + q, columns - c);
    }
  }
}

inline void packColumns(void* to, Columns from, int64_t samples, int64_t columns,
                        Precision precision, float scale) {
  withWirePrecision(precision, [&](auto packed) INLINE_LAMBDA {
    if constexpr (packed == Precision::float32) {
      float* out = static_cast<float*>(to);
      for (int64_t b = 0; b < samples; b++) {
        std::memcpy(out + b * columns, from.at + b * from.stride, columns * sizeof(float));
      }
    } else {
      auto* codes = static_cast<typename Format<packed>::Code*>(to);
      int8_t* exponents = static_cast<int8_t*>(to) + samples * columns;
      eachQuantum<packed>(from.stride, samples, columns,
                          [&](int64_t at, int64_t code, int64_t exponent, int64_t n)
                              INLINE_LAMBDA {
                                Vec v[quantumVectors];
                                loadQuantum(v, from.at + at, n);
                                packQuantum<packed>(codes + code, exponents + exponent, v, n,
                                                    scale);
                              });
    }
  });
}

inline void unpackColumns(Columns out, const void* from, int64_t samples, int64_t columns,
                          Precision precision, float scale) {
  withWirePrecision(precision, [&](auto packed) INLINE_LAMBDA {
    if constexpr (packed == Precision::float32) {
      const float* in = static_cast<const float*>(from);
      for (int64_t b = 0; b < samples; b++) {
        std::memcpy(out.at + b * out.stride, in + b * columns, columns * sizeof(float));
      }
    } else {
      const auto* codes = static_cast<const typename Format<packed>::Code*>(from);
      const int8_t* exponents = static_cast<const int8_t*>(from) + samples * columns;
      eachQuantum<packed>(out.stride, samples, columns,
                          [&](int64_t at, int64_t code, int64_t exponent, int64_t n)
                              INLINE_LAMBDA {
                                Vec v[quantumVectors];
                                unpackQuantum<packed>(v, codes + code, exponents + exponent, n,
                                                      scale);
                                storeQuantum(out.at + at, v, n);
                              });
    }
  });
}
