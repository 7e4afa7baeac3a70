// SPDX-License-Identifier: Apache-2.0
// One `fields` function a type lists its members once; Writer and Reader visit the same list, so
// that the two sides cannot disagree.
#include "model/wire.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <fmt/format.h>

namespace vetta::model {
namespace {

constexpr std::size_t text_bytes_max = 1U << 20U;

class Writer {
 public:
  static constexpr bool reads = false;

  explicit Writer(std::string& out) : out_(out) {}

  void raw(const void* data, std::size_t size) {
    out_.append(static_cast<const char*>(data), size);
  }

  void one(std::integral auto value) {
    static_assert(std::endian::native == std::endian::little, "the wire is little-endian");
    raw(&value, sizeof value);
  }

  void one(double value) { raw(&value, sizeof value); }

  void one(const std::string& text) {
    const std::string_view cut = std::string_view(text).substr(0, text_bytes_max);
    one(static_cast<std::uint32_t>(cut.size()));
    raw(cut.data(), cut.size());
  }

  void count(std::size_t n) { one(static_cast<std::uint32_t>(n)); }

 private:
  std::string& out_;
};

/// Reads until the first fault; after that every value is zero and `ok` is false.
class Reader {
 public:
  static constexpr bool reads = true;

  explicit Reader(std::string_view in) : in_(in) {}

  void raw(void* data, std::size_t size) {
    if (in_.size() < size) {
      ok_ = false;
      in_ = {};
      std::memset(data, 0, size);
      return;
    }
    std::memcpy(data, in_.data(), size);
    in_.remove_prefix(size);
  }

  template <std::integral T>
  void one(T& value) {
    if constexpr (std::same_as<T, bool>) {
      std::uint8_t byte = 0;
      raw(&byte, 1);
      value = byte != 0;
    } else {
      raw(&value, sizeof value);
    }
  }

  void one(double& value) { raw(&value, sizeof value); }

  void one(std::string& text) {
    std::uint32_t size = 0;
    one(size);
    if (size > in_.size() || size > text_bytes_max) {
      ok_ = false;
      in_ = {};
      return;
    }
    text.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }

  /// A list's length; each item needs at least one byte, so a lying length cannot make us allocate.
  std::size_t count() {
    std::uint32_t n = 0;
    one(n);
    if (n > in_.size()) {
      ok_ = false;
      in_ = {};
      return 0;
    }
    return n;
  }

  void refuse() {
    ok_ = false;
    in_ = {};
  }

  [[nodiscard]] bool ok() const { return ok_; }

  [[nodiscard]] bool at_end() const { return in_.empty(); }

 private:
  std::string_view in_;
  bool ok_ = true;
};

// Time and Duration travel as nanoseconds, enumerations as one byte.
template <typename Io>
void field(Io& io, auto& value);

template <typename Io, typename T>
void optional_field(Io& io, T& optional) {
  std::uint8_t has = 0;
  if constexpr (Io::reads) {
    io.one(has);
    if (has > 1) io.refuse();
    if (has == 1) field(io, optional.emplace());
  } else {
    has = optional.has_value() ? 1 : 0;
    io.one(has);
    if (optional) field(io, *optional);
  }
}

template <typename Io, typename T>
void list_field(Io& io, T& list) {
  if constexpr (Io::reads) {
    const std::size_t n = io.count();
    list.clear();
    list.reserve(std::min<std::size_t>(n, 4096));
    for (std::size_t i = 0; i < n && io.ok(); ++i) field(io, list.emplace_back());
  } else {
    io.count(list.size());
    for (auto& item : list) field(io, item);
  }
}

/// A list that a later version added at a frame's end: none is left out, as an older side sends it.
template <typename Io, typename T>
void late_list_field(Io& io, T& list) {
  if constexpr (Io::reads) {
    if (io.at_end()) return;
  } else {
    if (list.empty()) return;
  }
  list_field(io, list);
}

template <typename Io, typename... T>
void all(Io& io, T&... values) {
  (field(io, values), ...);
}

template <typename T>
concept IsMark = std::same_as<std::remove_const_t<T>, Mark>;

void fields(auto& io, IsMark auto& m) {
  all(io, m.sequence, m.step, m.start, m.duration);
  for (auto& phase : m.phases) field(io, phase);
  all(io, m.samples, m.loss, m.source);
}

template <typename T, typename U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

void fields(auto& io, Is<Rank> auto& r) {
  all(io, r.rank_id, r.job_id, r.step_id, r.slurm_restart, r.elastic_restart, r.rank, r.local_rank,
      r.world_size, r.task, r.node, r.uid, r.pid, r.devices, r.source, r.is_probed, r.start, r.end,
      r.exit_code, r.exit_signal, r.incarnation);
}

void fields(auto& io, Is<RankSample> auto& s) {
  all(io, s.time, s.cpu_seconds, s.rss_bytes, s.minor_faults, s.major_faults, s.read_bytes,
      s.write_bytes, s.voluntary_switches, s.involuntary_switches, s.threads, s.processes, s.gap);
}

void fields(auto& io, Is<NodeSample> auto& s) {
  all(io, s.time, s.cpu_seconds_busy, s.cpu_seconds_total, s.load_1m, s.memory_total_bytes,
      s.memory_available_bytes, s.network_receive_bytes, s.network_transmit_bytes, s.pressure_cpu,
      s.pressure_memory, s.pressure_io, s.shared_host, s.gap);
}

void fields(auto& io, Is<AttemptKey> auto& k) {
  all(io, k.cluster, k.job_id, k.submit);
}

void fields(auto& io, Is<Event> auto& e) {
  all(io, e.id, e.time, e.kind, e.attempt, e.node, e.rank, e.rank_id, e.exit_code, e.exit_signal,
      e.message, e.detail, e.source, e.dedup);
}

void fields(auto& io, Is<RankMarks> auto& m) {
  all(io, m.rank_id, m.overwritten, m.marks);
}

void fields(auto& io, Is<RankEnd> auto& e) {
  all(io, e.rank_id, e.end, e.exit_code, e.exit_signal);
}

void fields(auto& io, Is<RankSamples> auto& s) {
  all(io, s.rank_id, s.samples);
}

void fields(auto& io, Is<RankPlace> auto& p) {
  all(io, p.rank_id, p.now.step, p.now.phase, p.now.since, p.now.after);
}

void fields(auto& io, Is<Hello> auto& h) {
  all(io, h.protocol, h.cluster, h.node, h.version, h.boot_id, h.agent_id, h.wall, h.is_root,
      h.shared_host, h.gaps);
}

void fields(auto& io, Is<Welcome> auto& w) {
  all(io, w.protocol, w.wall, w.sample_period);
}

void fields(auto& io, Is<Ping> auto& p) {
  all(io, p.sent, p.server_wall);
}

void fields(auto& io, Is<Batch> auto& b) {
  all(io, b.agent_id, b.sequence, b.dropped_batches, b.ranks, b.ends, b.marks, b.rank_samples,
      b.node_samples, b.events);
  late_list_field(io, b.places);
}

void fields(auto& io, Is<Ack> auto& a) {
  all(io, a.sequence, a.unplaced);
}

void fields(auto& io, Is<Burst> auto& b) {
  all(io, b.job_ids, b.until);
}

template <typename T>
struct IsOptional : std::false_type {};

template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsVector : std::false_type {};

template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// Visits the value's bits through an integer of the wire's type.
template <typename Integer>
void through(auto& io, auto& value, auto make, auto take) {
  using Io = std::remove_reference_t<decltype(io)>;
  Integer number = 0;
  if constexpr (Io::reads) {
    io.one(number);
    value = make(number);
  } else {
    number = take(value);
    io.one(number);
  }
}

template <typename Io>
void field(Io& io, auto& value) {
  using T = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::integral<T> || std::same_as<T, double> || std::same_as<T, std::string>) {
    io.one(value);
  } else if constexpr (std::is_enum_v<T>) {
    through<std::uint8_t>(
        io, value, [](std::uint8_t n) { return static_cast<T>(n); },
        [](T v) { return static_cast<std::uint8_t>(v); });
  } else if constexpr (std::same_as<T, Time>) {
    through<std::int64_t>(io, value, from_epoch_nanoseconds, epoch_nanoseconds);
  } else if constexpr (std::same_as<T, Duration>) {
    through<std::int64_t>(
        io, value, [](std::int64_t n) { return Duration(n); },
        [](Duration d) { return d.count(); });
  } else if constexpr (IsOptional<T>::value) {
    optional_field(io, value);
  } else if constexpr (IsVector<T>::value) {
    list_field(io, value);
  } else {
    fields(io, value);
  }
}

template <std::size_t Index>
Result<Frame> decode_as(std::string_view payload) {
  Reader reader(payload);
  std::variant_alternative_t<Index, Frame> frame;
  fields(reader, frame);
  if (!reader.ok()) return fail(Code::invalid, "a frame is truncated or holds a false length");
  if (!reader.at_end()) return fail(Code::invalid, "a frame has bytes after its end");
  return Frame(std::move(frame));
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out(4, '\0');
  out.push_back(static_cast<char>(frame.index() + 1));
  Writer writer(out);
  std::visit([&](const auto& body) { fields(writer, body); }, frame);
  const auto size = static_cast<std::uint32_t>(out.size() - 4);
  std::memcpy(out.data(), &size, 4);
  return out;
}

Result<Frame> decode(std::string_view body) {
  if (body.empty()) return fail(Code::invalid, "a frame is empty");
  const std::string_view payload = body.substr(1);
  switch (body[0]) {
    case 1: return decode_as<0>(payload);
    case 2: return decode_as<1>(payload);
    case 3: return decode_as<2>(payload);
    case 4: return decode_as<3>(payload);
    case 5: return decode_as<4>(payload);
    case 6: return decode_as<5>(payload);
    default: break;
  }
  return fail(Code::invalid,
              fmt::format("frame type {} is not known to this version",
                          static_cast<unsigned char>(body[0])),
              "update the older of agent and vettad");
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  const auto wait = [this] {
    buffer_.erase(0, begin_);
    begin_ = 0;
    return std::optional<Frame>();
  };
  std::uint32_t size = 0;
  if (rest.size() < sizeof size) return wait();
  std::memcpy(&size, rest.data(), sizeof size);
  if (size > frame_bytes_max)
    return fail(Code::invalid,
                fmt::format("a frame of {} bytes is over the limit of {}", size, frame_bytes_max));
  if (rest.size() < sizeof size + size) return wait();
  begin_ += sizeof size + size;
  return std::optional(VETTA_TRY(decode(rest.substr(sizeof size, size))));
}

}  // namespace vetta::model
