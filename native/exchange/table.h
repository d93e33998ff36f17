// The kernels of the exchange: rows of native/table.h.

ADAPTED(void, copyColumns, float* out, int64_t outStride, const float* from, int64_t fromStride,
        int64_t samples, int64_t columns)
ADAPTED(void, expandColumns, float* out, int64_t outStride, const float* from, int64_t fromStride,
        const int32_t* inverse, const int32_t* used, int64_t samples, int64_t columns)
ADAPTED(void, dExpandColumns, float* dFrom, int64_t fromStride, int64_t lists, const float* dOut,
        int64_t outStride, const int32_t* inverse, const int32_t* used, int64_t samples,
        int64_t columns)
ADAPTED(void, foldSubtrees, float* out, const float* const* parts, const Subtree* trees,
        int64_t count, int64_t n)
ADAPTED(void, foldPooled, float* out, int64_t outColumns, const PooledPart* parts, int64_t count,
        int64_t samples, int64_t columns, const int32_t* lengths, Precision precision)
ADAPTED(void, shareColumns, float* out, int64_t outColumns, const float* from, int64_t fromColumns,
        int64_t samples, int64_t columns, const int32_t* lengths)
ADAPTED(void, packColumns, void* to, const float* from, int64_t fromColumns, int64_t samples,
        int64_t columns, Precision precision)
ADAPTED(void, unpackColumns, float* out, int64_t outColumns, const void* from, int64_t samples,
        int64_t columns, Precision precision)
