// The kernels of the exchange: rows of native/table.h.

KERNEL(void, copyColumns, Columns out, Columns from, int64_t samples, int64_t columns)
ADAPTED(void, copyRuns, Columns out, Columns from, int64_t samples, const int32_t* runs,
        int64_t count)
KERNEL(void, expandColumns, Columns out, Columns from, const int32_t* inverse, Optional<const int32_t> used,
       int64_t samples, int64_t columns)
KERNEL(void, placeColumns, Columns out, Columns from, const int32_t* places, int64_t count,
       int64_t columns)
KERNEL(void, dExpandColumns, Columns dFrom, int64_t lists, Columns dOut, const int32_t* inverse,
       Optional<const int32_t> used, int64_t samples, int64_t columns)
ADAPTED(void, foldSubtrees, float* out, const float* const* parts, const Subtree* trees,
        int64_t count, int64_t n)
ADAPTED(void, foldPooled, Columns out, const PooledPart* parts, int64_t count, int64_t samples,
        int64_t columns, const int32_t* lengths, Precision precision, float scale)
KERNEL(void, shareColumns, Columns out, Columns from, int64_t samples, int64_t columns,
       const int32_t* lengths)
KERNEL(void, packColumns, void* to, Columns from, int64_t samples, int64_t columns,
       Precision precision, float scale)
KERNEL(void, unpackColumns, Columns out, const void* from, int64_t samples, int64_t columns,
       Precision precision, float scale)
KERNEL(void, selectLargest, int32_t* indices, uint16_t* codes, int64_t k, float* residual,
       const float* sum, int64_t n)
KERNEL(void, addSelected, float* out, const int32_t* indices, const uint16_t* codes, int64_t k)
