// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <type_traits>
#include <vector>

#include "records/codec_detail.h"

namespace vetta::records {
namespace {

constexpr char version = 1;

class Put {
 public:
  explicit Put(std::string& out) : out_(out) {}

  void operator()(const std::string& text) {
    number(text.size());
    out_ += text;
  }

  void operator()(Time value) { number(epoch_nanoseconds(value)); }

  void operator()(Duration value) { number(std::int64_t{value.count()}); }

  template <typename T>
    requires std::is_arithmetic_v<T>
  void operator()(const T& value) {
    number(value);
  }

  template <typename T>
  void operator()(const std::optional<T>& value) {
    number(static_cast<char>(value ? 1 : 0));
    if (value) (*this)(*value);
  }

  template <typename T>
  void operator()(const std::vector<T>& values) {
    number(values.size());
    for (const auto& value : values) (*this)(value);
  }

  void operator()(const model::Gres& gres);

 private:
  template <typename T>
  void number(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }

  std::string& out_;
};

/// Stops being ok at the first value that is not there.
class Take {
 public:
  explicit Take(std::string_view in) : in_(in) {}

  void operator()(std::string& text) {
    std::size_t size = 0;
    number(size);
    if (size > in_.size()) return give_up();
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }

  void operator()(Time& value) {
    std::int64_t ns = 0;
    number(ns);
    value = from_epoch_nanoseconds(ns);
  }

  void operator()(Duration& value) {
    std::int64_t ns = 0;
    number(ns);
    value = Duration(ns);
  }

  void operator()(bool& value) {
    char byte = 0;
    number(byte);
    value = byte != 0;
  }

  template <typename T>
    requires std::is_arithmetic_v<T>
  void operator()(T& value) {
    number(value);
  }

  template <typename T>
  void operator()(std::optional<T>& value) {
    char is_there = 0;
    number(is_there);
    if (is_there != 0) (*this)(value.emplace());
  }

  template <typename T>
  void operator()(std::vector<T>& values) {
    std::size_t size = 0;
    number(size);
    if (size > in_.size()) return give_up();
    values.resize(size);
    for (auto& value : values) (*this)(value);
  }

  void operator()(model::Gres& gres);

  [[nodiscard]] bool is_whole() const { return ok_ && in_.empty(); }

 private:
  template <typename T>
  void number(T& value) {
    if (in_.size() < sizeof(T)) return give_up();
    std::memcpy(&value, in_.data(), sizeof(T));
    in_.remove_prefix(sizeof(T));
  }

  void give_up() {
    ok_ = false;
    in_ = {};
  }

  std::string_view in_;
  bool ok_ = true;
};

void fields(auto& g, auto& io)
  requires requires { g.allocated_indices; }
{
  io(g.name);
  io(g.type);
  io(g.total);
  io(g.allocated);
  io(g.allocated_indices);
}

void fields(auto& n, auto& io)
  requires requires { n.host_name; }
{
  io(n.name);
  io(n.address);
  io(n.host_name);
  io(n.states);
  io(n.reason);
  io(n.reason_user);
  io(n.reason_since);
  io(n.boot);
  io(n.last_busy);
  io(n.partitions);
  io(n.cpus);
  io(n.cpus_allocated);
  io(n.memory_bytes);
  io(n.memory_allocated_bytes);
  io(n.memory_free_bytes);
  io(n.load);
  io(n.gres);
  io(n.features);
  io(n.version);
  io(n.architecture);
  io(n.operating_system);
}

void fields(auto& p, auto& io)
  requires requires { p.preempt_mode; }
{
  io(p.name);
  io(p.is_default);
  io(p.state);
  io(p.nodes);
  io(p.node_count);
  io(p.cpus);
  io(p.priority_tier);
  io(p.time_limit);
  io(p.preempt_mode);
  io(p.gpus);
}

void Put::operator()(const model::Gres& gres) {
  fields(gres, *this);
}

void Take::operator()(model::Gres& gres) {
  fields(gres, *this);
}

template <typename T>
std::string encode_value(const T& value) {
  std::string out(1, version);
  Put put(out);
  fields(value, put);
  return out;
}

template <typename T>
std::optional<T> decode_value(std::string_view bytes) {
  if (bytes.empty() || bytes.front() != version) return std::nullopt;
  T value;
  Take take(bytes.substr(1));
  fields(value, take);
  if (!take.is_whole()) return std::nullopt;
  return value;
}

}  // namespace

std::string encode(const model::Node& node) {
  return encode_value(node);
}

std::string encode(const model::Partition& partition) {
  return encode_value(partition);
}

std::optional<model::Node> decode_node(std::string_view bytes) {
  return decode_value<model::Node>(bytes);
}

std::optional<model::Partition> decode_partition(std::string_view bytes) {
  return decode_value<model::Partition>(bytes);
}

}  // namespace vetta::records
