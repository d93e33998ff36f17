// The frames of direct links, as their receiver takes them: src/exchange/links/link-frames.ts has
// the format, and the invariants F1 to F3, which `Intake` upholds.

#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "simd/crc32c.h"

namespace osiris::links {

constexpr int64_t frameBytesMax = 1 << 20;
constexpr int64_t piecesMax = 64, missingMax = 64;
constexpr int64_t headBytes = 48, pieceBytes = 32;
constexpr int64_t headerBytesMax = headBytes + 8 * missingMax + pieceBytes * piecesMax;

/// Why a connection ended: the order of `endings` in link-frames.ts. `none`: it goes on.
enum class Ending : int32_t { none = -1, cut, closed, header, payload, misfit, order };

template <typename Number>
Number load(const uint8_t* at) {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

template <typename Number>
void store(uint8_t* at, Number number) {
  std::memcpy(at, &number, sizeof number);
}

/// Completes a header, whose other fields JavaScript wrote.
inline void sealHeader(uint8_t* header, int64_t bytes, uint32_t payloadBytes, uint32_t payloadCrc) {
  store(header + 4, payloadBytes);
  store(header + 8, payloadCrc);
  store(header, crc32c(header + 4, bytes - 4));
}

/// The memory that a route's sender may write.
struct Region {
  uint32_t route;
  uint8_t* first;
  uint64_t bytes;
};

/// Takes the bytes of one connection, and puts the payloads into the regions of their routes.
class Intake {
 public:
  /// Most bytes that are read at once: their checksum is computed while they are in the cache.
  static constexpr int64_t readBytesMax = 256 << 10;
  static constexpr int spansMax = piecesMax + 1;

  explicit Intake(std::vector<Region> regions) : regions_(std::move(regions)) {
    std::sort(regions_.begin(), regions_.end(),
              [](const Region& a, const Region& b) { return a.route < b.route; });
  }

  /// Where the next bytes belong: the rest of a payload, then the buffer of headers. Returns the
  /// number of spans.
  int spans(iovec* to) {
    int count = 0;
    int64_t room = readBytesMax;
    uint64_t written = written_;
    for (size_t i = piece_; i < pieces_.size(); i++, written = 0) {
      const uint64_t some = std::min<uint64_t>(pieces_[i].bytes - written, room);
      if (some > 0) to[count++] = {pieces_[i].to + written, some};
      room -= some;
      if (room == 0) return count;
    }
    to[count++] = {buffer_ + buffered_, sizeof buffer_ - buffered_};
    return count;
  }

  /// Takes `count` bytes that were read into the spans. Calls whole(header, bytes) for every frame
  /// that is whole now. Returns why the connection must end.
  template <typename Whole>
  Ending take(int64_t count, Whole whole) {
    while (count > 0 && piece_ < pieces_.size()) {
      const Piece& piece = pieces_[piece_];
      const int64_t some = std::min<int64_t>(count, piece.bytes - written_);
      crc_ = crc32c(piece.to + written_, some, crc_);
      count -= some;
      step(some);
    }
    buffered_ += count;
    int64_t at = 0;
    for (;;) {
      if (isArriving_) {
        while (piece_ < pieces_.size() && at < buffered_) {
          const Piece& piece = pieces_[piece_];
          const int64_t some = std::min<int64_t>(buffered_ - at, piece.bytes - written_);
          std::memcpy(piece.to + written_, buffer_ + at, some);
          crc_ = crc32c(buffer_ + at, some, crc_);
          at += some;
          step(some);
        }
        if (piece_ < pieces_.size()) break;
        if (crc_ != load<uint32_t>(header_ + 8)) return Ending::payload;
        isArriving_ = false;
        whole(header_, headerBytes_);
      }
      const uint8_t* header = buffer_ + at;
      if (buffered_ - at < headBytes) break;
      const int64_t pieces = load<uint16_t>(header + 12), missing = load<uint16_t>(header + 14);
      if (pieces > piecesMax || missing > missingMax) return Ending::header;
      headerBytes_ = headBytes + 8 * missing + pieceBytes * pieces;
      if (buffered_ - at < headerBytes_) break;
      if (crc32c(header + 4, headerBytes_ - 4) != load<uint32_t>(header)) return Ending::header;  // F1
      std::memcpy(header_, header, headerBytes_);
      const Ending ending = begin(headBytes + 8 * missing);
      if (ending != Ending::none) return ending;
      at += headerBytes_;
    }
    std::memmove(buffer_, buffer_ + at, buffered_ - at);
    buffered_ -= at;
    return Ending::none;
  }

 private:
  struct Piece {
    uint8_t* to;
    int64_t bytes;
  };

  /// Begins a frame whose header is verified and has its pieces at `at`.
  Ending begin(int64_t at) {
    pieces_.clear();
    uint64_t sum = 0;
    for (; at < headerBytes_; at += pieceBytes) {
      const uint32_t route = load<uint32_t>(header_ + at), bytes = load<uint32_t>(header_ + at + 8);
      const uint64_t first = load<uint64_t>(header_ + at + 16);
      const uint64_t total = load<uint64_t>(header_ + at + 24);
      const auto region =
          std::lower_bound(regions_.begin(), regions_.end(), route,
                           [](const Region& one, uint32_t of) { return one.route < of; });
      const bool fits = region != regions_.end() && region->route == route && bytes <= total &&
                        first <= region->bytes && bytes <= region->bytes - first;
      if (!fits) return Ending::misfit;  // F2
      if (bytes > 0) pieces_.push_back({region->first + first, bytes});
      sum += bytes;
    }
    if (sum != load<uint32_t>(header_ + 4) || sum > frameBytesMax) return Ending::misfit;
    const uint64_t sequence = load<uint64_t>(header_ + 16);
    const bool isEmpty = load<uint16_t>(header_ + 12) == 0;
    if (sequence == 0 ? !isEmpty : sequence <= sequence_) return Ending::order;  // F3
    if (sequence > 0) sequence_ = sequence;
    isArriving_ = true;
    piece_ = 0;
    written_ = 0;
    crc_ = 0;
    return Ending::none;
  }

  void step(int64_t bytes) {
    written_ += bytes;
    if (written_ < pieces_[piece_].bytes) return;
    written_ = 0;
    piece_++;
  }

  std::vector<Region> regions_;
  uint64_t sequence_ = 0;
  // The frame that is arriving: its header, the pieces with bytes, and what is written of them.
  bool isArriving_ = false;
  uint8_t header_[headerBytesMax];
  int64_t headerBytes_ = 0;
  std::vector<Piece> pieces_;
  size_t piece_ = 0;
  int64_t written_ = 0;
  uint32_t crc_ = 0;
  // Bytes after that: the header of the next frame, if more is there, and small frames.
  uint8_t buffer_[8192];
  int64_t buffered_ = 0;
};

}  // namespace osiris::links
