// SPDX-License-Identifier: Apache-2.0
// The binary form between agent and vettad (docs/internals/agent-protocol.md).
// A frame is: u32 length of what follows, u8 type, body. All integers little-endian, texts u32
// length + bytes, doubles IEEE 754; an optional is u8 0|1 and the value. Protocol version N is
// understood by N and N+1. encode_* never fail; decode refuses truncated, oversized or unknown
// input with a reason and never over-reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"
#include "model/judgement.h"
#include "model/rank.h"

namespace vetta::model {

inline constexpr std::uint16_t protocol_version = 2;
/// The first version that knows Batch::places.
inline constexpr std::uint16_t protocol_of_places = 2;
inline constexpr std::uint32_t frame_bytes_max = 4U << 20U;
inline constexpr std::string_view agent_path = "/agent/v1/connect";  ///< HTTP upgrade
inline constexpr std::string_view agent_upgrade = "vetta-agent/1";

/// First frame of an agent.
struct Hello {
  std::uint16_t protocol = protocol_version;
  std::string cluster, node, version, boot_id;
  std::uint64_t agent_id = 0;  ///< random, a new one each start of the agent
  Time wall;
  bool is_root = false;
  bool shared_host = false;       ///< other nodes share this kernel
  std::vector<std::string> gaps;  ///< what this agent cannot see and why
};

/// vettad's answer.
struct Welcome {
  std::uint16_t protocol = protocol_version;
  Time wall;
  Duration sample_period{};
};

/// Sent both ways to measure the clock offset: offset = server_wall - (sent + received) / 2.
struct Ping {
  Time sent;         ///< the agent's wall clock
  Time server_wall;  ///< filled in by vettad
};

struct RankMarks {
  std::uint64_t rank_id = 0;
  std::uint64_t overwritten = 0;  ///< marks lost so far because the ring was full, counted
  std::vector<Mark> marks;
};

struct RankEnd {
  std::uint64_t rank_id = 0;
  Time end;
  std::optional<int> exit_code, exit_signal;  ///< both empty: it is gone, nobody saw how
};

struct RankSamples {
  std::uint64_t rank_id = 0;
  std::vector<RankSample> samples;
};

/// Where a rank is now: told when it stays there, and at its end.
struct RankPlace {
  std::uint64_t rank_id = 0;
  RankNow now;
};

/// What an agent has to say at one time; kept by it until acknowledged, so delivery is at least
/// once; vettad drops what it has by (agent_id, sequence), (rank_id, mark sequence) and
/// Event::dedup.
struct Batch {
  std::uint64_t agent_id = 0;
  std::uint64_t sequence = 0;  ///< rises by one for each batch of this agent_id
  std::uint64_t dropped_batches =
      0;                    ///< oldest batches given up because the spool was full, so far
  std::vector<Rank> ranks;  ///< new or changed registrations; repeated after a reconnect
  std::vector<RankEnd> ends;
  std::vector<RankMarks> marks;
  std::vector<RankSamples> rank_samples;
  std::vector<NodeSample> node_samples;
  std::vector<Event> events;
  std::vector<RankPlace> places;  ///< an empty list is left out, as in version 1
};

/// Everything of batches up to `sequence` is on disk, except ranks that vettad cannot place yet
/// (`unplaced`, their job is not known to it): the agent keeps those ranks' marks in their rings
/// and sends them again.
struct Ack {
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> unplaced;
};

/// vettad asks for samples and marks every second for these jobs until `until`; an empty list ends
/// it.
struct Burst {
  std::vector<std::uint64_t> job_ids;
  Time until;
};

using Frame = std::variant<Hello, Welcome, Ping, Batch, Ack, Burst>;

/// The whole frame with its length.
[[nodiscard]] std::string encode(const Frame& frame);
/// A frame without its length word.
[[nodiscard]] Result<Frame> decode(std::string_view body);

/// Collects bytes from a stream and gives whole frames; an oversized length is an error, after
/// which it is unusable.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }

  /// The next frame, or nothing if it is not complete yet.
  [[nodiscard]] Result<std::optional<Frame>> next();

  /// Bytes kept: after next() has given nothing, those of one incomplete frame.
  [[nodiscard]] std::size_t held_bytes() const { return buffer_.size(); }

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace vetta::model
