// SPDX-License-Identifier: Apache-2.0
// What the rank plugin and the probe say (docs/internals/agent-protocol.md, sections 1 and 2) as
// values. Pure; input is untrusted bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace vetta::collect {

inline constexpr std::size_t registration_bytes_max = 4096;
inline constexpr std::size_t hello_bytes_max = 8192;

/// A task of a step began or ended.
struct Registration {
  bool is_exit = false;
  std::uint64_t job_id = 0;
  std::string step_id;
  std::uint32_t restart = 0;
  std::int32_t task = -1, local_task = -1, tasks = -1;
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< 0: unknown
  std::string devices;
  std::optional<int> wait_status;  ///< of an exit
  Time time;
};

[[nodiscard]] Result<Registration> parse_registration(std::string_view text);

/// A probe wants a ring.
struct ProbeHello {
  std::int32_t pid = 0;  ///< as the process sees itself: in a container not the kernel's
  std::int32_t rank = -1, local_rank = -1, world_size = -1;
  std::uint32_t elastic_restart = 0;
  std::string source;
};

[[nodiscard]] Result<ProbeHello> parse_probe_hello(std::string_view json);
[[nodiscard]] std::string probe_reply(std::string_view ring_path, std::uint64_t bytes);
[[nodiscard]] std::string probe_refusal(std::string_view sentence);

}  // namespace vetta::collect
