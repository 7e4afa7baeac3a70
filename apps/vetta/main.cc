// SPDX-License-Identifier: Apache-2.0
// The command line.
#include <csignal>
#include <string>
#include <vector>

#include "cli/app.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a pager that ends early is no failure
  return vetta::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
