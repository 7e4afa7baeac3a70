// SPDX-License-Identifier: Apache-2.0
// The reader and the poller against the Slurm that is there, for bench/slurm.
#pragma once

#include <string>

namespace vetta::conformance {

/// Polls for so many seconds with default limits; prints a JSON line for each round.
int poll(double seconds);
/// Asks squeue once and reads its answer `runs` times; prints {"jobs", "bytes", "parse_ms": [...]}.
int time_jobs(int runs);

}  // namespace vetta::conformance
