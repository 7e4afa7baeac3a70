// SPDX-License-Identifier: Apache-2.0
// vetta-conformance: reads a recorded text with the product's own parsers and prints what they
// read as one JSON value. For tests/conformance/run; not installed.
//
//   vetta-conformance nodes FILE               scontrol show node -o
//   vetta-conformance table FILE SEP [FREE]    a text with a header line
//   vetta-conformance records FILE SEP N       N fields a record, no header
//   vetta-conformance jobs FILE SEP FIELDS FREE    squeue with a header; FIELDS are -O's names
//   vetta-conformance accounting FILE SEP      sacct -p or -P with a header
//   vetta-conformance partitions|allocations|sdiag FILE
//   vetta-conformance keys FILE FIRST= KEY...    scontrol's Key=Value records
//   vetta-conformance gres|states|hostlist|tres|time FILE   one value a line
//   vetta-conformance poll SECONDS             the poller against the Slurm that is there
//   vetta-conformance time-jobs RUNS           how long reading its queue takes
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "live.h"
#include "read.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() < 3) {
    std::fputs(
        "usage: vetta-conformance KIND FILE [ARGUMENT...]; see apps/vetta-conformance/main.cc\n",
        stderr);
    return 2;
  }
  if (args[1] == "poll") return vetta::conformance::poll(std::atof(args[2].c_str()));
  if (args[1] == "time-jobs") return vetta::conformance::time_jobs(std::atoi(args[2].c_str()));
  std::ifstream in(args[2], std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) {
    std::fprintf(stderr, "vetta-conformance: %s cannot be read\n", args[2].c_str());
    return 1;
  }
  const std::string out =
      vetta::conformance::read(args[1], text.str(), {args.begin() + 3, args.end()});
  if (out.empty()) {
    std::fprintf(stderr, "vetta-conformance: there is no reader '%s'\n", args[1].c_str());
    return 2;
  }
  std::puts(out.c_str());
  return 0;
}
