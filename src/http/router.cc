// SPDX-License-Identifier: Apache-2.0
#include "http/router.h"

#include "core/text.h"

namespace vetta::http {
namespace {

bool is_parameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

struct Fit {
  bool fits = false;
  Pairs parameters;
};

Fit fit(std::string_view pattern, std::string_view path) {
  const auto wanted = split(pattern, "/");
  const auto given = split(path, "/");
  if (wanted.size() != given.size()) return {};
  Fit result;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!is_parameter(wanted[i])) {
      if (wanted[i] != given[i]) return {};
      continue;
    }
    auto value = percent_decode(given[i], false);
    if (!value || value->empty()) return {};
    result.parameters.emplace_back(wanted[i].substr(1, wanted[i].size() - 2), std::move(*value));
  }
  result.fits = true;
  return result;
}

}  // namespace

void Router::add(Route route) {
  for (const Route& known : routes_)
    VETTA_ASSERT(known.method != route.method || known.pattern != route.pattern,
                 "each method and pattern has one handler");
  routes_.push_back(std::move(route));
}

Router::Match Router::match(Method method, std::string_view path) const {
  const Method effective = method == Method::head ? Method::get : method;
  Match best;
  for (const Route& route : routes_) {
    Fit found = fit(route.pattern, path);
    if (!found.fits) continue;
    if (route.method != effective) {
      best.allowed += (best.allowed.empty() ? "" : ", ") + std::string(name(route.method));
      continue;
    }
    if (best.route == nullptr || found.parameters.size() < best.parameters.size()) {
      best.route = &route;
      best.parameters = std::move(found.parameters);
    }
  }
  return best;
}

}  // namespace vetta::http
