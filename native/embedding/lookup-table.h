// The kernels that initialise and look up rows, and random numbers: rows of native/table.h.

KERNEL(void, uniform, float* t, int64_t n, const uint32_t* key, uint32_t purpose, int64_t first,
       float scale)
KERNEL(void, dropout, float* x, int64_t n, const uint32_t* key, uint32_t purpose, uint32_t step,
       int64_t first, float keep, uint32_t limit)
KERNEL(void, born, const Table& rows, const uint32_t* key, uint32_t purpose, float scale)
KERNEL(void, bornAt, const Table& rows, const int32_t* places, const int32_t* ids, int64_t count,
       const uint32_t* key, uint32_t purpose, float scale, float initialState)
ADAPTED(void, pool, float* out, const Table* tables, const Bags& bags, int64_t first, int64_t count,
        int64_t columns)
