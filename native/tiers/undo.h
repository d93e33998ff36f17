// Appends the former values of rows to an undo log (src/kernels/contract/undo.ts). Included by
// tiers/tiers.cc for each instruction set.

/// How many ids or rows ahead of the current one are prefetched.
constexpr int64_t seenAhead = 16, keptAhead = 8;

constexpr int64_t undoLineBytes = 64, undoHeadWords = 4;

/// Copies a row. Its width is one of a few, so that the branches are predicted.
INLINE void copyRow(char* to, const char* from, int64_t bytes) {
  if (bytes == 1) {
    *to = *from;
  } else if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes % 64 == 0) {
    for (int64_t at = 0; at < bytes; at += 64) std::memcpy(to + at, from + at, 64);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

/// Writes to `fresh`, which has `room`, the rows that were not seen, and marks them as seen. Returns
/// their number; -1: there is no room.
INLINE int64_t takeFresh(int32_t* fresh, int64_t room, const UndoneTile& tile, const int32_t* ids) {
  int64_t count = 0;
  for (int64_t k = tile.first; k < tile.end; k++) {
    if (k + seenAhead < tile.end) __builtin_prefetch(tile.seen + (ids[k + seenAhead] >> 5), 1, 3);
    const int32_t row = ids[k];
    const uint32_t word = tile.seen[row >> 5], bit = uint32_t{1} << (row & 31);
    if (count == room) return -1;
    // Without a branch: whether a row is new can't be predicted.
    fresh[count] = row;
    count += (word & bit) == 0;
    tile.seen[row >> 5] = word | bit;
  }
  return count;
}

/// See `UndoKernels.keepRows`. `lines`: of the log.
inline bool keepRows(char* log, int64_t lines, int32_t* used, const UndoneTile* tiles,
                     int64_t count, const int32_t* ids) {
  int64_t line = __atomic_load_n(used, __ATOMIC_RELAXED);
  for (const UndoneTile* tile = tiles; tile < tiles + count; tile++) {
    if (tile->first >= tile->end) continue;
    char* const begin = log + line * undoLineBytes;
    const int64_t room = (lines - line) * (undoLineBytes / 4) - undoHeadWords;
    int32_t* const rows = reinterpret_cast<int32_t*>(begin) + undoHeadWords;
    const int64_t fresh = takeFresh(rows, room < 0 ? 0 : room, *tile, ids);
    if (fresh < 0) return false;
    if (fresh == 0) continue;
    char* to[keptArraysMax];
    char* end = reinterpret_cast<char*>(rows + fresh);
    for (int64_t a = 0; a < tile->arrays; a++) {
      to[a] = end;
      end += (tile->rowBytes[a] * fresh + 3) / 4 * 4;
    }
    const int64_t own = (end - begin + undoLineBytes - 1) / undoLineBytes;
    if (own > lines - line) return false;
    for (int64_t i = 0; i < fresh; i++) {
      for (int64_t a = 0; a < tile->arrays; a++) {
        const int64_t bytes = tile->rowBytes[a];
        if (i + keptAhead < fresh) prefetch(tile->of[a] + rows[i + keptAhead] * bytes, bytes);
        copyRow(to[a], tile->of[a] + rows[i] * bytes, bytes);
        to[a] += bytes;
      }
    }
    int32_t* const head = reinterpret_cast<int32_t*>(begin);
    head[0] = static_cast<int32_t>(tile->tile);
    head[1] = static_cast<int32_t>(fresh);
    head[2] = static_cast<int32_t>(own);
    head[3] = 0;
    line += own;
  }
  // The count follows all values, wherever the thread ends.
  __atomic_store_n(used, static_cast<int32_t>(line), __ATOMIC_SEQ_CST);
  return true;
}
