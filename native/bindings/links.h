// Bindings of direct links: the threads of one host's connections (links/links.h), and the call of
// JavaScript's `wake` when they have reports. All threads end with their environment.

#pragma once

#include <map>

#include "bindings/call.h"
#include "links/links.h"

namespace osiris {

/// The connections of one host, and a reference that keeps the memory of its exchange.
class HostLinks {
 public:
  HostLinks(napi_env env, napi_value memory, Array<uint8_t> bytes, napi_value wake)
      : env_(env), bytes_(bytes), reports_(call, this) {
    napi_value name = nullptr;
    napi_create_string_utf8(env, "osiris: links", NAPI_AUTO_LENGTH, &name);
    napi_create_reference(env, memory, 1, &memory_);
    isOpen_ = napi_create_threadsafe_function(env, wake, nullptr, name, 0, 1, nullptr, nullptr,
                                              nullptr, nullptr, &wake_) == napi_ok;
    // After the function, so that the threads end before it does.
    napi_add_env_cleanup_hook(env, end, this);
  }
  HostLinks(const HostLinks&) = delete;
  HostLinks& operator=(const HostLinks&) = delete;
  ~HostLinks() { close(); }

  void close() {
    if (!isOpen_) return;
    isOpen_ = false;
    for (auto& one : connections_) one.second->stop();
    connections_.clear();
    napi_remove_env_cleanup_hook(env_, end, this);
    napi_release_threadsafe_function(wake_, napi_tsfn_abort);
    napi_delete_reference(env_, memory_);
  }

  bool add(uint32_t id, std::unique_ptr<links::Connection> connection) {
    if (!isOpen_ || !connection->start()) return false;
    connections_[id] = std::move(connection);
    return true;
  }

  links::Connection* find(uint32_t id) {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : found->second.get();
  }

  void stop(uint32_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    found->second->stop();
    connections_.erase(found);
  }

  Array<uint8_t> bytes() const { return bytes_; }
  links::Reports& reports() { return reports_; }

  /// The bytes of a range of the memory; nullptr where it has no such range.
  uint8_t* range(double first, double count) const {
    const double length = static_cast<double>(bytes_.length);
    const bool isWithin = first >= 0 && count >= 0 && first + count <= length;
    return isWithin ? bytes_.data + static_cast<int64_t>(first) : nullptr;
  }

 private:
  static void call(void* of) {
    napi_call_threadsafe_function(static_cast<HostLinks*>(of)->wake_, nullptr,
                                  napi_tsfn_nonblocking);
  }
  static void end(void* of) { static_cast<HostLinks*>(of)->close(); }

  const napi_env env_;
  const Array<uint8_t> bytes_;
  napi_ref memory_ = nullptr;
  napi_threadsafe_function wake_ = nullptr;
  bool isOpen_ = false;
  links::Reports reports_;
  std::map<uint32_t, std::unique_ptr<links::Connection>> connections_;
};

template <>
struct Argument<HostLinks*> {
  static constexpr size_t count = 1;
  HostLinks* value = nullptr;
  Argument(Call& call, size_t i) {
    void* found = nullptr;
    if (napi_get_value_external(call.environment(), call.value(i), &found) == napi_ok) {
      value = static_cast<HostLinks*>(found);
    } else {
      call.refuse("Expected the links of a host");
    }
  }
  HostLinks* get() const { return value; }
};

namespace binding {

/// Returns the links of a host over its exchange's memory. `wake` is called when there are reports.
inline napi_value openLinks(napi_env env, napi_value memory, napi_value wake) {
  Array<uint8_t> bytes{};
  void* data = nullptr;
  size_t length = 0;
  napi_get_typedarray_info(env, memory, nullptr, &length, &data, nullptr, nullptr);
  bytes = {static_cast<uint8_t*>(data), static_cast<int64_t>(length)};
  const auto remove = [](napi_env, void* of, void*) { delete static_cast<HostLinks*>(of); };
  napi_value result = nullptr;
  napi_create_external(env, new HostLinks(env, memory, bytes, wake), remove, nullptr, &result);
  return result;
}

/// A descriptor of our own for an open socket, in TLS if there is a key.
inline std::unique_ptr<links::Channel> channelOf(int64_t descriptor, Array<const uint8_t> key,
                                                 bool isClient) {
  const int own = fcntl(static_cast<int>(descriptor), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return nullptr;
  const bool isTls = key.length == static_cast<int64_t>(links::keyBytes);
  return std::make_unique<links::Channel>(own, isTls ? key.data : nullptr, isClient);
}

inline bool hasTls() { return links::Tls::isThere(); }

/// Begins to send frames on a socket, in TLS if the key is not empty. Returns false where the
/// system has no thread for it.
inline bool startSender(HostLinks* of, int64_t id, int64_t descriptor, Array<const uint8_t> key,
                        int64_t openMs) {
  auto channel = channelOf(descriptor, key, true);
  const auto name = static_cast<uint32_t>(id);
  return channel != nullptr && of->add(name, std::make_unique<links::Sender>(
                                                 name, std::move(channel), of->reports(), openMs));
}

/// Sends an answer on a socket, then begins to take frames, in TLS if the key is not empty.
/// `regions`: route, first byte and bytes of each.
inline Refusable<bool> startReceiver(HostLinks* of, int64_t id, int64_t descriptor,
                                     Array<const uint8_t> key, int64_t openMs,
                                     Array<const uint8_t> answer, Array<const double> regions) {
  std::vector<links::Region> all;
  for (int64_t i = 0; i + 2 < regions.length; i += 3) {
    const double* one = regions.data + i;
    uint8_t* first = of->range(one[1], one[2]);
    if (first == nullptr) return {false, "Expected regions within the memory"};
    all.push_back({static_cast<uint32_t>(one[0]), first, static_cast<uint64_t>(one[2])});
  }
  // Its few bytes fit into the buffer of a new socket.
  const auto bytes = static_cast<size_t>(answer.length);
  const auto socket = static_cast<int>(descriptor);
  if (write(socket, answer.data, bytes) != answer.length) return {false, ""};
  auto channel = channelOf(descriptor, key, false);
  const auto name = static_cast<uint32_t>(id);
  return {channel != nullptr &&
              of->add(name, std::make_unique<links::Receiver>(name, std::move(channel),
                                                              of->reports(), openMs,
                                                              std::move(all))),
          ""};
}

/// Sends a frame with this header, which is copied, and a payload of ranges of the memory, which
/// is not: first byte and bytes of each. Returns false where the connection has too many.
inline Refusable<bool> sendFrame(HostLinks* of, int64_t id, Array<const uint8_t> header,
                                 Array<const double> ranges) {
  auto* sender = dynamic_cast<links::Sender*>(of->find(static_cast<uint32_t>(id)));
  if (sender == nullptr) return {true, ""};
  if (header.length < links::headBytes) return {false, "Expected a whole header"};
  links::Outgoing frame{{header.data, header.data + header.length}, {}};
  for (int64_t i = 0; i + 1 < ranges.length; i += 2) {
    uint8_t* first = of->range(ranges.data[i], ranges.data[i + 1]);
    if (first == nullptr) return {false, "Expected pieces within the memory"};
    frame.payload.push_back({first, static_cast<size_t>(ranges.data[i + 1])});
  }
  return {sender->send(std::move(frame)), ""};
}

/// Moves reports into `to`. Returns their bytes; 0: no more are there.
inline int64_t drainLinks(HostLinks* of, Array<uint8_t> to) {
  return of->reports().drain(to.data, to.length);
}

/// Ends a connection. When it returns, its thread has ended.
inline void stopLink(HostLinks* of, int64_t id) { of->stop(static_cast<uint32_t>(id)); }

inline void closeLinks(HostLinks* of) { of->close(); }

/// The CRC-32C of bytes, after others with the checksum `before`.
inline int64_t checksum(Array<const uint8_t> bytes, int64_t before) {
  return crc32c(bytes.data, bytes.length, static_cast<uint32_t>(before));
}

}  // namespace binding

}  // namespace osiris
