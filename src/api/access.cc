// SPDX-License-Identifier: Apache-2.0
#include "api/access.h"

namespace vetta::api {

bool is_equal_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

http::Authenticate make_authenticate(AccessOptions options) {
  VETTA_ASSERT(options.token.size() >= 32, "a token that can be guessed is none");
  return [options = std::move(options)](const http::Request& request) -> Result<http::Identity> {
    if (const auto token = request.bearer()) {
      if (is_equal_secret(*token, options.token))
        return http::Identity{.uid = request.peer.uid, .is_operator = true, .how = "token"};
      return fail(Code::denied, "the token is not this server's",
                  "VETTA_TOKEN_FILE names the file that vettad's --token-file wrote");
    }
    if (request.peer.is_unix && request.peer.uid) {
      const bool is_operator = *request.peer.uid == 0 || *request.peer.uid == options.own_uid;
      return http::Identity{.uid = request.peer.uid, .is_operator = is_operator, .how = "unix"};
    }
    return fail(Code::denied, "this server wants to know who asks",
                "connect through its unix socket, or set VETTA_TOKEN_FILE to the file that "
                "vettad's --token-file wrote");
  };
}

model::Viewer viewer_of(const http::Identity& identity) {
  return {.uid = identity.uid, .is_operator = identity.is_operator};
}

}  // namespace vetta::api
