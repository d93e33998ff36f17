// The kernels that update tables, and dense tensors by the same rules: rows of native/table.h.

/// Returns the first table with a NaN or an infinity after the update, or -1. The update stops at
/// a table whose `completed` sums are not one a row, and writes both numbers to `wrong`.
ADAPTED(int64_t, updateRows, const Table* tables, const Bags& bags, const float* dPooled,
        int64_t columns, const Slices& slices, const Completed* completed, const uint64_t* order,
        WrongSums* wrong)
/// `order`: receives the sorted lookups of the table at the place of its ids, for `updateRows`; or
/// null.
ADAPTED(int64_t, rowSquares, float** squares, const Table* tables, int64_t index, const Bags& bags,
        const float* dPooled, int64_t columns, const Slices& slices, uint64_t* order)
ADAPTED(void, rowMeans, float* out, const float* const* squares, const int32_t* quanta,
        int64_t parts, int64_t rows, int64_t dim)
ADAPTED(int64_t, rowNorms, double** norms, const Table* tables, int64_t index, const Bags& bags,
        const float* dPooled, int64_t columns, const Slices& slices, const float* mean)
ADAPTED(void, dRows, float* const* dRows, float* const* counts, const Table* tables, int64_t index,
        const Bags& bags, const float* dPooled, int64_t columns, const Slices& slices)
ADAPTED(bool, applyRows, const Table& rows, const float* dRows, const float* counts, bool whole)
/// The dense optimizers, which treat a tensor as one long row. Returns false if g is not finite.
KERNEL(bool, applyFlat, const Rule& rule, float* w, float* state, float* second, const float* g,
       int64_t n)
