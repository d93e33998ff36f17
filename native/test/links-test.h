// Tests direct links: checksums of any length, streams of frames in any chunks, whole and damaged,
// and threads that send to each other and are stopped at any moment.

#pragma once

#include <sys/socket.h>

#include <memory>

#include "links/links.h"
#include "test/test-support.h"

namespace osiris::test {

inline void testChecksum() {
  std::vector<uint8_t> bytes(static_cast<size_t>(below(20'000)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(below(256));
  const int64_t count = static_cast<int64_t>(bytes.size()), half = below(count + 1);
  const uint32_t whole = ~portableCrc32c(0xffffffffu, bytes.data(), count);
  expect(crc32c(bytes.data(), count) == whole, "any", "crc32c");
  const uint32_t first = crc32c(bytes.data(), half);
  expect(crc32c(bytes.data() + half, count - half, first) == whole, "any", "crc32c of two parts");
}

/// A frame with a payload of pieces from the beginning of `from` on, for route 7.
inline links::Outgoing frameOf(uint64_t sequence, uint8_t* from, const std::vector<int64_t>& sizes) {
  links::Outgoing frame;
  frame.header.resize(links::headBytes + links::pieceBytes * sizes.size());
  uint8_t* piece = frame.header.data() + links::headBytes;
  links::store(frame.header.data() + 12, static_cast<uint16_t>(sizes.size()));
  links::store(frame.header.data() + 16, sequence);
  uint64_t first = 0;
  for (const int64_t bytes : sizes) {
    links::store(piece, uint32_t{7});
    links::store(piece + 8, static_cast<uint32_t>(bytes));
    links::store(piece + 16, first);
    links::store(piece + 24, static_cast<uint64_t>(bytes));
    frame.payload.push_back({from + first, static_cast<size_t>(bytes)});
    first += bytes;
    piece += links::pieceBytes;
  }
  return frame;
}

/// Feeds a stream of frames in chunks: all arrive whole, or, if damaged, write nothing outside.
inline void testIntake() {
  const int64_t bytes = 1 + below(20'000);
  std::vector<uint8_t> from(static_cast<size_t>(bytes)), to(static_cast<size_t>(bytes));
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(below(256));
  std::vector<uint8_t> stream;
  int64_t frames = 1 + below(5), arrived = 0;
  for (int64_t i = 1; i <= frames; i++) {
    std::vector<int64_t> sizes;
    for (int64_t left = bytes; left > 0 && sizes.size() < 20; left -= sizes.back()) {
      sizes.push_back(below(left + 1));
    }
    links::Outgoing frame = frameOf(static_cast<uint64_t>(i), from.data(), sizes);
    uint32_t count = 0, crc = 0;
    for (const iovec& part : frame.payload) {
      crc = crc32c(static_cast<const uint8_t*>(part.iov_base), part.iov_len, crc);
      count += static_cast<uint32_t>(part.iov_len);
    }
    links::sealHeader(frame.header.data(), frame.header.size(), count, crc);
    stream.insert(stream.end(), frame.header.begin(), frame.header.end());
    stream.insert(stream.end(), from.begin(), from.begin() + count);
  }
  const bool isDamaged = below(2) == 0;
  if (isDamaged) stream[below(static_cast<int64_t>(stream.size()))] ^= 1 << below(8);
  links::Intake intake({{7, to.data(), static_cast<uint64_t>(bytes)}, {3, nullptr, 0}});
  links::Ending ending = links::Ending::none;
  for (size_t at = 0; at < stream.size() && ending == links::Ending::none;) {
    iovec spans[links::Intake::spansMax];
    const int count = intake.spans(spans);
    size_t some = std::min<size_t>(1 + below(3000), stream.size() - at), taken = 0;
    for (int i = 0; i < count && some > 0; i++) {
      const size_t part = std::min(some, spans[i].iov_len);
      std::memcpy(spans[i].iov_base, stream.data() + at + taken, part);
      taken += part, some -= part;
    }
    at += taken;
    ending = intake.take(static_cast<int64_t>(taken), [&](const uint8_t*, int64_t) { arrived++; });
  }
  if (isDamaged) {
    expect(arrived < frames, "any", "the end of a damaged stream");
  } else {
    expect(arrived == frames && ending == links::Ending::none, "any", "a stream of frames");
  }
}

/// A sender and a receiver over a pair of sockets; either is stopped while frames are under way.
inline void testLinkThreads() {
  int ends[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "any", "socketpair");
  constexpr int64_t bytes = 100'000;
  std::vector<uint8_t> from(bytes, 1), to(bytes);
  links::Reports sent([](void*) {}, nullptr), received([](void*) {}, nullptr);
  const auto channel = [&](int end) {
    return std::make_unique<links::Channel>(ends[end], nullptr, end == 0);
  };
  links::Sender sender(1, channel(0), sent, 1000);
  std::vector<links::Region> regions{{7, to.data(), bytes}};
  links::Receiver receiver(2, channel(1), received, 1000, regions);
  expect(sender.start() && receiver.start(), "any", "threads of a link");
  const int64_t frames = 1 + below(40);
  for (int64_t i = 1; i <= frames; i++) {
    sender.send(frameOf(static_cast<uint64_t>(i), from.data(), {below(bytes), 9}));
  }
  std::vector<uint8_t> drained(16'384);
  const int64_t drains = below(60);
  for (int64_t i = 0; i < drains; i++) received.drain(drained.data(), drained.size());
  if (below(2) == 0) sender.stop();
  receiver.stop();
  std::fill(to.begin(), to.end(), uint8_t{0});  // No thread writes any more.
  sender.stop();
  while (sent.drain(drained.data(), drained.size()) > 0) {
  }
}

}  // namespace osiris::test
