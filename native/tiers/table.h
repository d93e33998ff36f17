// The kernels of memory tiers: rows of native/table.h.

/// Returns false if a row finds no slot.
ADAPTED(bool, placeRows, const RowCache& cache, int32_t* places, const int32_t* ids, int64_t n,
        int32_t tick, PlacedLists& out)
KERNEL(void, gatherRecords, char* out, const Table& rows, const int32_t* places, int64_t count)
/// `at`, and the indices of `moveRecords`, are 0, 1, 2 ... if they are left out.
KERNEL(void, scatterRecords, const Table& rows, const int32_t* places, int64_t count,
       const char* records, Optional<const int32_t> at)
KERNEL(void, moveRecords, char* to, Optional<const int32_t> toAt, const char* from,
       Optional<const int32_t> fromAt,
       int64_t count, int64_t bytes)
/// Returns false if the log has no room.
ADAPTED(bool, keepRows, char* log, int64_t lines, int32_t* used, const UndoneTile* tiles,
        int64_t count, const int32_t* ids)
