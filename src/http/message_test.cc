// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "http/endpoint.h"
#include "http/router.h"

namespace vetta::http {
namespace {

TEST(Percent, DecodesWhatItEncodes) {
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [](const std::string& text) {
    const auto back = percent_decode(percent_encode(text), false);
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == text);
  }));
}

TEST(Percent, RefusesBrokenEscapes) {
  for (const char* text : {"%", "%4", "%zz", "a%f", "%%41"})
    EXPECT_FALSE(percent_decode(text, false)) << text;
  EXPECT_EQ(percent_decode("a+b", true).value(), "a b");
  EXPECT_EQ(percent_decode("a+b", false).value(), "a+b");
}

TEST(Query, KeepsOrderAndEmptyValues) {
  const auto pairs = parse_query("state=RUNNING&me&name=a%20b&state=").value();
  const Pairs expected = {{"state", "RUNNING"}, {"me", ""}, {"name", "a b"}, {"state", ""}};
  EXPECT_EQ(pairs, expected);
}

TEST(Query, HasALimit) {
  std::string bomb;
  for (int i = 0; i < 65; ++i) bomb += "a=1&";
  EXPECT_EQ(parse_query(bomb).error().code, Code::invalid);
}

TEST(Request, BearerIsReadWithoutRegardToCase) {
  Request request;
  EXPECT_FALSE(request.bearer());
  request.headers = {{"authorization", "bEARER  s3cret "}};
  EXPECT_EQ(request.bearer(), "s3cret");
  request.headers = {{"authorization", "Basic Zm9v"}};
  EXPECT_FALSE(request.bearer());
}

TEST(ErrorResponse, IsJsonWithStatusFromTheTable) {
  const Response response =
      error_response(fail(Code::not_found, "no job \"7\"\n\xff", "try vetta job list").error());
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body,
            "{\"error\":{\"code\":\"not_found\",\"message\":\"no job \\\"7\\\"\\n\xEF\xBF\xBD\","
            "\"hint\":\"try vetta job list\"}}\n");
}

TEST(Listen, TakesUnixAndLoopback) {
  EXPECT_EQ(parse_listen("unix:/run/vettad/vettad.sock").value().path, "/run/vettad/vettad.sock");
  EXPECT_EQ(parse_listen("127.0.0.1:0").value().text(), "127.0.0.1:0");
  EXPECT_EQ(parse_listen("localhost:6820").value().text(), "127.0.0.1:6820");
  EXPECT_EQ(parse_listen("[::1]:6820").value().text(), "[::1]:6820");
  EXPECT_EQ(parse_listen("127.9.9.9:1").value().port, 1);
}

TEST(Listen, RefusesWhatOthersReachAndSaysWhy) {
  for (const char* text : {"0.0.0.0:6820", "10.0.0.1:80", "[::]:80", "example.org:80", "*:80"}) {
    const auto refused = parse_listen(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Code::denied) << text;
    EXPECT_NE(refused.error().message.find("TLS"), std::string::npos);
  }
}

TEST(Listen, RefusesNonsense) {
  for (const char* text :
       {"", "unix:", "unix:relative", "127.0.0.1", "127.0.0.1:x", ":", "127.0.0.1:65536", "6820"}) {
    EXPECT_FALSE(parse_listen(text)) << text;
  }
  EXPECT_FALSE(parse_listen("unix:/" + std::string(120, 'a')));
}

TEST(Server, AddressesOfClients) {
  EXPECT_EQ(parse_server("unix:/a/b").value().socket, "/a/b");
  EXPECT_EQ(parse_server("http://127.0.0.1:1/").value().url, "http://127.0.0.1:1");
  EXPECT_EQ(parse_server("127.0.0.1:1").value().url, "http://127.0.0.1:1");
  EXPECT_FALSE(parse_server("nonsense"));
  EXPECT_FALSE(parse_server("http://a b"));
  EXPECT_FALSE(parse_server(""));
}

Handler nothing() {
  return [](const Request&) -> Answer { return Response{}; };
}

TEST(Router, LiteralGoesBeforeParameter) {
  Router router;
  router.add({Method::get, "/jobs/{id}", Access::open, nothing()});
  router.add({Method::get, "/jobs/stats", Access::open, nothing()});
  EXPECT_EQ(router.match(Method::get, "/jobs/stats").route->pattern, "/jobs/stats");
  const auto found = router.match(Method::head, "/jobs/4711%5F2");
  ASSERT_NE(found.route, nullptr);
  EXPECT_EQ(found.parameters, (Pairs{{"id", "4711_2"}}));
}

TEST(Router, TellsMethodsOfAPathFromNoPath) {
  Router router;
  router.add({Method::post, "/a/{b}/c", Access::open, nothing()});
  EXPECT_EQ(router.match(Method::get, "/a/x/c").allowed, "POST");
  EXPECT_EQ(router.match(Method::get, "/a/x").allowed, "");
  EXPECT_EQ(router.match(Method::post, "/a//c").route, nullptr);
  EXPECT_EQ(router.match(Method::post, "/a/%zz/c").route, nullptr);
  EXPECT_EQ(router.match(Method::post, "/a/x/c/").route, nullptr);
}

}  // namespace
}  // namespace vetta::http
