// SPDX-License-Identifier: Apache-2.0
// The server against a raw socket: what well and badly behaved clients get, and what is counted.
#include "http/server.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <rapidcheck.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/client.h"
#include "http/stream.h"

namespace vetta::http {
namespace {

using namespace std::chrono_literals;

/// A TCP connection that sends and reads bytes as they are.
class Raw {
 public:
  explicit Raw(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval wait{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    sockaddr generic{};
    std::memcpy(&generic, &address, sizeof generic);
    is_open_ = connect(fd_, &generic, sizeof generic) == 0;
  }

  ~Raw() { close(fd_); }

  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void send(std::string_view bytes) const {
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  void send_if_possible(std::string_view bytes) const {
    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
  }

  void finish() const { shutdown(fd_, SHUT_WR); }

  /// Until the text is seen or the connection ends.
  std::string read_until(std::string_view text) const {
    std::string got;
    char c = 0;
    while (got.find(text) == std::string::npos && recv(fd_, &c, 1, 0) == 1) got += c;
    return got;
  }

  std::string read_all() const {
    std::string got;
    std::array<char, 4096> piece{};
    for (ssize_t n = recv(fd_, piece.data(), piece.size(), 0); n > 0;
         n = recv(fd_, piece.data(), piece.size(), 0))
      got.append(piece.data(), static_cast<std::size_t>(n));
    return got;
  }

  [[nodiscard]] bool is_open() const { return is_open_; }

 private:
  int fd_;
  bool is_open_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = "/tmp/vetta-http-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }

  void TearDown() override {
    server_.reset();
    rmdir(folder_.c_str());
  }

  void run(ServerOptions options = {}) {
    if (!options.authenticate)
      options.authenticate = [](const Request& request) -> Result<Identity> {
        if (request.bearer() == "right") return Identity{{}, true, "token"};
        if (request.peer.is_unix && request.peer.uid == getuid())
          return Identity{request.peer.uid, true, "unix"};
        return fail(Code::denied, "this needs a token", "send Authorization: Bearer TOKEN");
      };
    server_ = std::make_unique<Server>(std::move(options), router());
    tcp_ = server_->listen(parse_listen("127.0.0.1:0").value()).value();
    local_ = server_->listen(parse_listen("unix:" + folder_ + "/s").value()).value();
    server_->start();
  }

  Router router() {
    Router router;
    router.add({Method::get, "/open", Access::open,
                [](const Request&) -> Answer { return Response{.body = "fine"}; }});
    router.add({Method::get, "/who", Access::authenticated, [](const Request& request) -> Answer {
                  return Response{.body = request.identity.how};
                }});
    router.add({Method::post, "/echo/{word}", Access::open, [](const Request& request) -> Answer {
                  return Response{.body = std::string(request.parameter("word")) + request.body};
                }});
    router.add({Method::get, "/throw", Access::open,
                [](const Request&) -> Answer { throw std::runtime_error("oops"); }});
    router.add({Method::get, "/events", Access::open, [this](const Request& request) -> Answer {
                  auto stream = std::make_shared<EventStream>(4096, 50ms);
                  const std::scoped_lock lock(mutex_);
                  last_id_ = std::string(request.header("last-event-id").value_or(""));
                  stream_ = stream;
                  stream->push({"1", "hello", "first"});
                  return Streaming{stream};
                }});
    router.add({Method::get, "/up", Access::open,
                [this](const Request&) -> Answer { return echo_upgrade(); }});
    return router;
  }

  Upgrade echo_upgrade() {
    const auto raw = std::make_shared<std::shared_ptr<RawStream>>();
    return Upgrade{.protocol = "echo/1",
                   .idle_max = 5s,
                   .on_open = [raw](const std::shared_ptr<RawStream>& opened) { *raw = opened; },
                   .on_bytes =
                       [raw](std::string_view bytes) {
                         if (bytes.find("bye") != std::string_view::npos) return false;
                         return (*raw)->send("<" + std::string(bytes) + ">");
                       },
                   .on_close =
                       [this](std::string_view reason) {
                         const std::scoped_lock lock(mutex_);
                         closed_ = reason;
                       }};
  }

  std::string ask(std::string_view request) const {
    const Raw raw(tcp_.port);
    raw.send(request);
    raw.finish();
    return raw.read_all();
  }

  Client client(bool over_unix, std::string token = "") const {
    ClientOptions options;
    options.server = parse_server(over_unix ? local_.text() : tcp_.text()).value();
    options.token = std::move(token);
    options.time_max = 10s;
    return Client(std::move(options));
  }

  /// Waits until a meter has its value; a test that fails here would have hung.
  void expect_soon(const std::function<bool()>& holds) const {
    for (int i = 0; i < 2000 && !holds(); ++i) poll(nullptr, 0, 2);
    EXPECT_TRUE(holds());
  }

  std::string folder_;
  std::unique_ptr<Server> server_;
  Endpoint tcp_, local_;
  std::mutex mutex_;
  std::string last_id_, closed_;
  std::weak_ptr<EventStream> stream_;
};

TEST_F(ServerTest, KeepsAConnectionForSeveralRequests) {
  run();
  auto client = this->client(false, "right");
  for (int i = 0; i < 3; ++i) {
    const auto reply = client.request(Method::get, "/who");
    ASSERT_TRUE(reply) << reply.error().text();
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body, "token");
  }
  EXPECT_EQ(server_->meters().connections, 1U);
  EXPECT_EQ(server_->meters().requests, 3U);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  run();
  const std::string got =
      ask("POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1"
          "POST /echo/b HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  const auto first = got.find("\r\n\r\na1");
  ASSERT_NE(first, std::string::npos) << got;
  EXPECT_NE(got.find("\r\n\r\nb", first), std::string::npos) << got;
}

TEST_F(ServerTest, UnixPeersAreKnownByTheirCredentials) {
  run();
  EXPECT_EQ(client(true).request(Method::get, "/who")->body, "unix");
  const auto denied = client(false, "wrong").request(Method::get, "/who").value();
  EXPECT_EQ(denied.status, 401);
  EXPECT_NE(denied.body.find("this needs a token"), std::string::npos);
  EXPECT_EQ(server_->meters().denied, 1U);
}

TEST_F(ServerTest, HeadHasTheLengthAndNoBody) {
  run();
  const std::string got = ask("HEAD /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(got.find("Content-Length: 4"), std::string::npos) << got;
  EXPECT_TRUE(got.ends_with("\r\n\r\n")) << got;
}

TEST_F(ServerTest, UnknownPathsAndMethodsAreToldApart) {
  run();
  auto client = this->client(false);
  EXPECT_EQ(client.request(Method::get, "/nowhere")->status, 404);
  const auto wrong = client.request(Method::put, "/open");
  EXPECT_EQ(wrong->status, 405);
  EXPECT_NE(wrong->body.find("it takes GET"), std::string::npos);
  EXPECT_NE(ask("BREW /open HTTP/1.1\r\n\r\n").find("400"), std::string::npos);
}

TEST_F(ServerTest, AnExceptionOfAHandlerIsA500AndTheServerGoesOn) {
  run();
  auto client = this->client(false);
  const auto reply = client.request(Method::get, "/throw");
  EXPECT_EQ(reply->status, 500);
  EXPECT_NE(reply->body.find("oops"), std::string::npos);
  EXPECT_EQ(client.request(Method::get, "/open")->status, 200);
}

TEST_F(ServerTest, HeaderAndBodyBombsAreRefused) {
  ServerOptions options;
  options.limits.header_bytes_max = 2048;
  options.limits.body_bytes_max = 1000;
  run(options);
  EXPECT_NE(ask("GET /open HTTP/1.1\r\nX: " + std::string(5000, 'a') + "\r\n\r\n").find(" 431 "),
            std::string::npos);
  std::string many = "GET /open HTTP/1.1\r\n";
  for (int i = 0; i < 500; ++i) many += "X" + std::to_string(i) + ": y\r\n";
  EXPECT_NE(ask(many + "\r\n").find(" 431 "), std::string::npos);
  EXPECT_NE(ask("POST /echo/a HTTP/1.1\r\nContent-Length: 1001\r\n\r\n").find(" 413 "),
            std::string::npos);
  EXPECT_NE(ask("POST /echo/a HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n").find(" 4"),
            std::string::npos);
  EXPECT_NE(ask("POST /echo/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n" +
                std::string(0xfff, 'x'))
                .find(" 413 "),
            std::string::npos);
  EXPECT_EQ(server_->meters().too_large, 5U);
  EXPECT_EQ(client(false).request(Method::get, "/open")->status, 200);
}

TEST_F(ServerTest, ASlowClientIsClosed) {
  ServerOptions options;
  options.limits.header_time_max = 50ms;
  options.limits.idle_max = 50ms;
  run(options);
  const Raw half(tcp_.port);
  half.send("GET /open HT");
  EXPECT_EQ(half.read_all(), "");
  expect_soon([&] { return server_->meters().timeouts == 1; });
  const Raw silent(tcp_.port);
  EXPECT_EQ(silent.read_all(), "");
}

TEST_F(ServerTest, ConnectionsHaveALimit) {
  ServerOptions options;
  options.limits.connections_max = 1;
  run(options);
  const Raw first(tcp_.port);
  first.send("GET /open HTTP/1.1\r\n\r\n");
  EXPECT_NE(first.read_until("fine").find("200"), std::string::npos);
  const Raw second(tcp_.port);
  EXPECT_EQ(second.read_all(), "");
  EXPECT_EQ(server_->meters().connections_refused, 1U);
}

TEST_F(ServerTest, OneUserCannotTakeAllConnections) {
  std::atomic<bool> is_trusted = false;
  ServerOptions options;
  options.limits.user_connections_max = 2;
  options.is_trusted = [&](std::uint32_t) { return is_trusted.load(); };
  options.authenticate = [](const Request& request) -> Result<Identity> {
    return Identity{request.peer.uid, request.bearer() == "right", "unix"};
  };
  run(options);
  std::unique_ptr<Client> first(new Client(client(true)));
  std::unique_ptr<Client> second(new Client(client(true)));
  auto third = client(true);
  EXPECT_EQ(first->request(Method::get, "/open")->status, 200);
  EXPECT_EQ(second->request(Method::get, "/open")->status, 200);
  const auto refused = third.request(Method::get, "/open");
  ASSERT_TRUE(refused) << refused.error().text();
  EXPECT_EQ(refused->status, 503);
  EXPECT_NE(refused->body.find("has 2 connections"), std::string::npos) << refused->body;
  EXPECT_EQ(client(false).request(Method::get, "/open")->status, 200) << "TCP has no user";
  is_trusted = true;
  EXPECT_EQ(client(true).request(Method::get, "/open")->status, 200);
  is_trusted = false;
  first.reset();
  // A connection that has ended is given back in a moment, not at once.
  const auto expect_admitted = [&](Client& who, const char* target) {
    bool is_admitted = false;
    expect_soon([&] {
      const auto reply = who.request(Method::get, target);
      is_admitted = is_admitted || (reply && reply->status == 200);
      return is_admitted;
    });
  };
  auto fourth = client(true), fifth = client(true, "right");
  expect_admitted(fourth, "/open");
  EXPECT_EQ(client(true).request(Method::get, "/open")->status, 503);
  second.reset();
  // An operator, with a token, is no ordinary user, whoever's socket it is.
  expect_admitted(fifth, "/who");
  auto sixth = client(true);
  expect_admitted(sixth, "/open");
}

TEST_F(ServerTest, AReserveIsKeptForRootAndTheServersOwn) {
  std::atomic<bool> is_trusted = false;
  ServerOptions options;
  options.limits.connections_max = 4;
  options.limits.connections_reserve = 2;
  options.is_trusted = [&](std::uint32_t) { return is_trusted.load(); };
  run(options);
  const Raw first(tcp_.port), second(tcp_.port);
  first.send("GET /open HTTP/1.1\r\n\r\n");
  (void)first.read_until("fine");
  second.send("GET /open HTTP/1.1\r\n\r\n");
  (void)second.read_until("fine");
  const Raw third(tcp_.port);
  EXPECT_EQ(third.read_all(), "");
  EXPECT_EQ(client(true).request(Method::get, "/open")->status, 503);
  is_trusted = true;
  EXPECT_EQ(client(true).request(Method::get, "/open")->status, 200);
}

TEST_F(ServerTest, OneUserCannotTakeAllStreams) {
  ServerOptions options;
  options.limits.user_streams_max = 0;
  options.is_trusted = [](std::uint32_t) { return false; };
  run(options);
  auto client = this->client(true);
  Reply refused;
  static_cast<void>(client.stream("/events", "", [](const SseEvent&) { return false; }, refused));
  EXPECT_NE(refused.body.find("event streams open already"), std::string::npos) << refused.body;
  const Raw over_tcp(tcp_.port);
  over_tcp.send("GET /events HTTP/1.1\r\n\r\n");
  EXPECT_NE(over_tcp.read_until("first").find("200"), std::string::npos);
}

TEST_F(ServerTest, NonsenseGetsAnAnswerOrAnEndAndNeverMore) {
  run();
  EXPECT_TRUE(rc::check("random bytes", [&](const std::string& bytes) {
    const Raw raw(tcp_.port);
    raw.send_if_possible(bytes);
    raw.finish();
    const std::string got = raw.read_all();
    RC_ASSERT(got.empty() || got.starts_with("HTTP/1.1 "));
  }));
  EXPECT_TRUE(rc::check("a request with one byte changed", [&] {
    std::string text = "POST /echo/a?x=%41 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    const Raw raw(tcp_.port);
    raw.send_if_possible(text);
    raw.finish();
    const std::string got = raw.read_all();
    RC_ASSERT(got.empty() || got.starts_with("HTTP/1.1 "));
  }));
  EXPECT_EQ(client(false).request(Method::get, "/open")->status, 200);
  EXPECT_EQ(server_->meters().responses_5xx, 0U);
}

TEST_F(ServerTest, EventsArriveAndTheLastIdIsHandedOn) {
  run();
  auto client = this->client(true);
  std::vector<SseEvent> got;
  Reply refused;
  const auto done = client.stream(
      "/events", "41",
      [&](const SseEvent& event) {
        got.push_back(event);
        const std::scoped_lock lock(mutex_);
        if (const auto stream = stream_.lock(); got.size() == 1 && stream)
          stream->push({"2", "", "second"});
        return got.size() < 2;
      },
      refused);
  ASSERT_TRUE(done) << done.error().text();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1].data, "second");
  EXPECT_EQ(last_id_, "41");
  expect_soon([&] { return server_->meters().streams_open == 0; });
  expect_soon([&] { return stream_.expired(); });
}

TEST_F(ServerTest, ASlowReaderOfEventsIsCutOff) {
  ServerOptions options;
  options.limits.write_time_max = 200ms;
  run(options);
  const Raw raw(tcp_.port);
  raw.send("GET /events HTTP/1.1\r\n\r\n");
  EXPECT_NE(raw.read_until("first").find("text/event-stream"), std::string::npos);
  const auto stream = stream_.lock();
  ASSERT_NE(stream, nullptr);
  // Nobody reads: the kernel's buffers fill, then the queue of 4 KiB.
  bool is_taken = true;
  for (int i = 0; i < 1'000'000 && is_taken; ++i)
    is_taken = stream->push({"", "", std::string(1000, 'x')});
  EXPECT_FALSE(is_taken);
  expect_soon([&] { return server_->meters().streams_cut == 1; });
}

TEST_F(ServerTest, SilenceIsFilledWithAHeartbeat) {
  run();
  const Raw raw(tcp_.port);
  raw.send("GET /events HTTP/1.1\r\n\r\n");
  EXPECT_NE(raw.read_until(": still here").find("first"), std::string::npos);
}

TEST_F(ServerTest, AnUpgradeHandsTheBytesOver) {
  run();
  const Raw raw(tcp_.port);
  raw.send("GET /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\nearly");
  const std::string got = raw.read_until("<early>");
  EXPECT_NE(got.find("101 Switching Protocols"), std::string::npos) << got;
  EXPECT_NE(got.find("<early>"), std::string::npos) << got;
  raw.send("bye");
  EXPECT_EQ(raw.read_all(), "");
  const std::scoped_lock lock(mutex_);
  EXPECT_EQ(closed_, "the protocol was not kept");
}

TEST_F(ServerTest, StopEndsStreamsAndUpgradesSoon) {
  run();
  const Raw events(tcp_.port);
  events.send("GET /events HTTP/1.1\r\n\r\n");
  (void)events.read_until("first");
  const Raw idle(tcp_.port);
  const Raw up(tcp_.port);
  up.send("GET /up HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n");
  (void)up.read_until("\r\n\r\n");
  const Duration begin = monotonic_now();
  server_->stop(1s);
  EXPECT_LT(monotonic_now() - begin, 2s);
  EXPECT_EQ(idle.read_all(), "");
  const std::scoped_lock lock(mutex_);
  EXPECT_EQ(closed_, "vettad is stopping");
}

TEST_F(ServerTest, ASocketLeftBehindIsReplacedAndALiveOneIsNot) {
  run();
  ServerOptions options;
  Server other(options, Router());
  const auto taken = other.listen(local_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::conflict);
  EXPECT_FALSE(other.listen(tcp_));
  const std::string left = folder_ + "/left";
  {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    left.copy(address.sun_path, left.size());
    sockaddr_storage generic{};
    std::memcpy(&generic, &address, sizeof address);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&generic), sizeof address), 0);
    close(fd);
  }
  EXPECT_TRUE(other.listen(parse_listen("unix:" + left).value()));
  other.stop(0s);
  struct stat status{};
  EXPECT_NE(lstat(left.c_str(), &status), 0);
}

TEST(Client, SaysThatNobodyListens) {
  ClientOptions options;
  options.server = parse_server("unix:/tmp/there-is-no-such-socket").value();
  Client client(options);
  const auto reply = client.request(Method::get, "/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::unavailable);
  EXPECT_NE(reply.error().text().find("unix:/tmp/there-is-no-such-socket"), std::string::npos);
}

TEST_F(ServerTest, AClientCanBeInterrupted) {
  run();
  std::atomic<bool> cancel = true;
  ClientOptions options;
  options.server = parse_server(tcp_.text()).value();
  options.cancel = &cancel;
  Client client(options);
  Reply refused;
  const auto done = client.stream("/events", "", [](const SseEvent&) { return true; }, refused);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::conflict);
}

}  // namespace
}  // namespace vetta::http
