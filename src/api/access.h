// SPDX-License-Identifier: Apache-2.0
// Who asks: the peer of a unix socket by the kernel's word, or a token. Several users and logins
// come later.
#pragma once

#include <cstdint>
#include <string>

#include "http/server.h"
#include "model/viewer.h"

namespace vetta::api {

struct AccessOptions {
  std::string token;          ///< its holder is an operator; at least 32 characters
  std::uint32_t own_uid = 0;  ///< the server's own user is an operator, as root is
};

/// A token counts on every listener; without one a unix peer is known by its uid. A wrong token is
/// refused even from a unix peer, so that a mistake shows.
[[nodiscard]] http::Authenticate make_authenticate(AccessOptions options);
[[nodiscard]] model::Viewer viewer_of(const http::Identity& identity);
/// Equal in content; takes as long whatever differs.
[[nodiscard]] bool is_equal_secret(std::string_view a, std::string_view b);

}  // namespace vetta::api
