// SPDX-License-Identifier: Apache-2.0
// From method and path to a handler: patterns like /api/v1/jobs/{id}; a literal segment goes before
// a parameter. Thread-safety: add first, then match from any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace vetta::http {

/// Runs on one of the server's threads, for several requests at a time; may block shortly.
using Handler = std::function<Answer(const Request&)>;

/// Whether a route asks who is there.
enum class Access : std::uint8_t { authenticated, open };

struct Route {
  Method method = Method::get;
  std::string pattern;
  Access access = Access::authenticated;
  Handler handler;
};

class Router {
 public:
  /// Asserts on a pattern that is there already.
  void add(Route route);

  struct Match {
    const Route* route = nullptr;  ///< nullptr: none
    Pairs parameters;
    std::string allowed;  ///< methods of that path when only the method did not fit
  };

  /// HEAD is answered by the handler of GET. A broken escape in the path matches nothing.
  [[nodiscard]] Match match(Method method, std::string_view path) const;

  [[nodiscard]] const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace vetta::http
