// SPDX-License-Identifier: Apache-2.0
#include "api/access.h"

#include <gtest/gtest.h>

namespace vetta::api {
namespace {

const std::string token(64, 'a');

http::Request from_unix(std::uint32_t uid) {
  http::Request request;
  request.peer.is_unix = true;
  request.peer.uid = uid;
  return request;
}

http::Request with_token(const std::string& text) {
  http::Request request;
  request.headers = {{"authorization", "Bearer " + text}};
  return request;
}

TEST(Access, UnixPeersAreKnownByUidAndRootAndOwnAreOperators) {
  const auto authenticate = make_authenticate({.token = token, .own_uid = 990});
  EXPECT_TRUE(authenticate(from_unix(0))->is_operator);
  EXPECT_TRUE(authenticate(from_unix(990))->is_operator);
  const auto user = authenticate(from_unix(1000)).value();
  EXPECT_FALSE(user.is_operator);
  EXPECT_EQ(viewer_of(user).uid, 1000U);
}

TEST(Access, TcpNeedsTheToken) {
  const auto authenticate = make_authenticate({.token = token, .own_uid = 990});
  EXPECT_EQ(authenticate(http::Request()).error().code, Code::denied);
  EXPECT_TRUE(authenticate(with_token(token))->is_operator);
  for (const std::string& wrong :
       {std::string(), token + "a", token.substr(1), std::string(64, 'b')})
    EXPECT_FALSE(authenticate(with_token(wrong))) << wrong;
}

TEST(Access, AWrongTokenIsRefusedEvenFromAUnixPeer) {
  const auto authenticate = make_authenticate({.token = token, .own_uid = 990});
  http::Request request = from_unix(0);
  request.headers = {{"authorization", "Bearer wrong"}};
  EXPECT_FALSE(authenticate(request));
}

TEST(Access, SecretsAreComparedWhole) {
  EXPECT_TRUE(is_equal_secret("", ""));
  EXPECT_TRUE(is_equal_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "xbc", "abcabc"})
    EXPECT_FALSE(is_equal_secret("abc", other)) << other;
}

}  // namespace
}  // namespace vetta::api
