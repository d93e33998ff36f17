// The kernels of model blocks, besides dense layers and interactions: rows of native/table.h.

/// Element-wise: out = a + b; out = a * b.
KERNEL(void, add, float* out, const float* a, const float* b, int64_t n)
KERNEL(void, multiply, float* out, const float* a, const float* b, int64_t n)
/// Element-wise: dA = dOut * b, dB = dOut * a; out = a * b + c, with the product rounded first.
KERNEL(void, dMultiply, float* dA, float* dB, const float* dOut, const float* a, const float* b,
       int64_t n)
KERNEL(void, multiplyAdd, float* out, const float* a, const float* b, const float* c, int64_t n)
/// out (rows,C) = the concatenated columns of `count` values (rows,widths[i]) + other (rows,C).
ADAPTED(void, addBeside, float* out, const float* const* values, const int32_t* widths,
        int64_t count, const float* other, int64_t rows)
KERNEL(void, relu, float* out, const float* x, int64_t n)
KERNEL(void, scale, float* out, const float* x, int64_t n, float factor)
KERNEL(void, leakyRelu, float* out, const float* x, int64_t n, float slope)
/// In place: d, the gradient of n elements of out, becomes that of x.
KERNEL(void, dLeakyRelu, float* d, const float* out, int64_t n, float slope)
KERNEL(void, sigmoid, float* out, const float* x, int64_t n)
KERNEL(void, dSigmoid, float* d, const float* out, int64_t n)
KERNEL(void, softmax, float* out, const float* x, int64_t rows, int64_t dim)
KERNEL(void, dSoftmax, float* dX, const float* dOut, const float* out, int64_t rows, int64_t dim)
/// out = each vector of a (B,rows,dim) times each vector of b (B,columns,dim); then the
/// backwards.
KERNEL(void, pairs, float* out, const float* a, const float* b, int64_t samples, int64_t rows,
       int64_t columns, int64_t dim)
KERNEL(void, dPairsLeft, float* out, const float* a, const float* b, int64_t samples, int64_t rows,
       int64_t columns, int64_t dim)
KERNEL(void, dPairsRight, float* out, const float* a, const float* b, int64_t samples, int64_t rows,
       int64_t columns, int64_t dim)
/// For each sample, out (rows,columns) = a * b, over `depth`; `shared`: all samples share a.
KERNEL(void, products, float* out, const float* a, const float* b, int64_t samples, int64_t rows,
       int64_t columns, int64_t depth, bool shared, ProductForm form, const Addends& plus)
/// For subtree p, dA[p] (rows,depth) = the sum over samples and columns of dOut (B,rows,columns)
/// times b (B,depth,columns).
KERNEL(void, dShared, float* const* dA, const float* dOut, const float* b, int64_t rows,
       int64_t columns, int64_t depth, const Slices& slices)
/// y (B,K,D) = w (K,N) * x (B,N,D), and out (B,N,K) = x * y^T.
KERNEL(void, rankProducts, float* out, float* y, const float* x, const float* w,
       const RankShape& shape)
/// dX (B,N,D), and dW[p] (K,N) for subtree p.
KERNEL(void, dRankProducts, float* dX, float* const* dW, const float* dOut, const float* x,
       const float* y, const float* w, const RankShape& shape, const Slices& slices,
       const Addends& plus)
KERNEL(void, pairSum, float* out, const float* x, int64_t samples, int64_t count, int64_t dim)
KERNEL(void, dPairSum, float* dX, const float* dOut, const float* x, int64_t samples, int64_t count,
       int64_t dim)
KERNEL(void, layerNorm, float* out, float* saved, const float* x, const float* gain,
       const float* bias, int64_t rows, int64_t dim, float epsilon)
/// dX is not computed if it is left out.
KERNEL(void, dLayerNorm, Optional<float> dX, float* const* dGain, float* const* dBias, const float* dOut,
       const float* saved, const float* x, const float* gain, int64_t dim, const Slices& slices)
KERNEL(void, batchMoments, float* const* sums, const float* x, const float* shift, int64_t width,
       const Slices& slices)
KERNEL(void, batchNorm, float* out, const float* x, const BatchNormColumns& columns, int64_t rows,
       int64_t width, bool relu)
KERNEL(void, dBatchNormWeights, float* const* dGain, float* const* dBias, const float* dOut,
       const float* x, const BatchNormColumns& columns, int64_t width, const Slices& slices)
KERNEL(void, dBatchNorm, float* dX, const float* dOut, const float* x,
       const BatchNormColumns& columns, const float* dMean, const float* dSlope, int64_t rows,
       int64_t width)
