// SPDX-License-Identifier: Apache-2.0
// One connection: read a request, answer it, and again; or turn into a stream. The limits live
// here: each wait has a deadline, each size a bound, and each refusal its counter.
#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>

#include "core/text.h"
#include "http/server_detail.h"

namespace vetta::http::detail {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Wire = beast::basic_stream<asio::generic::stream_protocol>;
using boost::system::error_code;

std::string view(beast::string_view text) {
  return {text.data(), text.size()};
}

std::string lower(beast::string_view text) {
  std::string out(text.data(), text.size());
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// A client's mistake as HTTP wants it: with a status that core's table does not have.
Response refusal(int status, std::string message, std::string hint) {
  return error_response(Error{.code = status == 408 ? Code::timeout : Code::invalid,
                              .message = std::move(message),
                              .hint = std::move(hint),
                              .place = {},
                              .attempts = {}},
                        status);
}

Response refusal_of(error_code error, const Limits& limits) {
  if (error == beast::http::error::header_limit)
    return refusal(
        431,
        "the request's header is larger than " + std::to_string(limits.header_bytes_max) + " bytes",
        "send fewer or shorter header fields");
  if (error == beast::http::error::body_limit)
    return refusal(
        413,
        "the request's body is larger than " + std::to_string(limits.body_bytes_max) + " bytes",
        "send less at a time");
  if (error == beast::error::timeout)
    return refusal(408, "the request did not arrive in time", "send it in one go");
  return refusal(400, "this is no HTTP request: " + error.message(), "");
}

void count_status(Counters& counters, int status) {
  if (status >= 500)
    ++counters.responses_5xx;
  else if (status >= 400)
    ++counters.responses_4xx;
  else
    ++counters.responses_2xx;
}

template <typename T>
class Gauge {
 public:
  explicit Gauge(T& count) : count_(count) { ++count_; }

  ~Gauge() { --count_; }

  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;

 private:
  T& count_;
};

class OnExit {
 public:
  explicit OnExit(std::function<void()> act) : act_(std::move(act)) {}

  ~OnExit() { act_(); }

  OnExit(const OnExit&) = delete;
  OnExit& operator=(const OnExit&) = delete;

 private:
  std::function<void()> act_;
};

}  // namespace

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Socket socket, Peer peer, std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        wire_(std::move(socket)),
        peer_(std::move(peer)),
        is_counted_(is_ordinary(*shared_, peer_)) {}

  ~Session() {
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->sessions.erase(this);
      --shared_->counters.connections_open;
      if (is_counted_) give_back(&Use::connections);
    }
    shared_->ended.notify_all();
  }

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void start() {
    asio::co_spawn(
        wire_.get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
  }

  /// From any thread: ends an idle wait and every stream.
  void end() {
    asio::post(wire_.get_executor(), [self = shared_from_this()] {
      if (self->queue_ != nullptr) self->queue_->close();
      if (self->is_idle_) self->wire_.cancel();
    });
  }

  void cut() {
    asio::post(wire_.get_executor(), [self = shared_from_this()] {
      if (self->queue_ != nullptr) self->queue_->close();
      self->wire_.close();
    });
  }

 private:
  using Parser = beast::http::request_parser<beast::http::string_body>;

  asio::awaitable<void> run();
  asio::awaitable<bool> wait_for_request();
  asio::awaitable<std::optional<Request>> read_request(bool& keep_alive);
  asio::awaitable<bool> write_response(const Response& response, bool keep_alive, bool is_head);
  asio::awaitable<bool> write_text(std::string text);
  asio::awaitable<void> stream_events(std::shared_ptr<EventStream> stream);
  asio::awaitable<void> upgrade(Upgrade upgrade);
  asio::awaitable<bool> feed(const Upgrade& upgrade, RawStream& raw,
                             const std::shared_ptr<asio::steady_timer>& resumed);
  asio::awaitable<void> watch_for_end();
  asio::awaitable<void> write_queue(ByteQueue& queue, Duration silence_max,
                                    std::string_view filler);
  /// Under the lock: one less of its user.
  void give_back(std::size_t Use::* count);
  /// Whether the user may have one more stream, which is then counted.
  bool take_stream();
  Result<Request> convert(const Parser& parser) const;
  Answer answer(Request& request);

  std::shared_ptr<Shared> shared_;
  Wire wire_;
  Peer peer_;
  beast::flat_buffer buffer_;
  bool is_idle_ = false;
  bool is_counted_;             ///< among its user's connections
  ByteQueue* queue_ = nullptr;  ///< of the stream that this connection has become
  std::shared_ptr<asio::steady_timer> ready_;
};

asio::awaitable<void> Session::run() {
  const auto self = shared_from_this();
  while (co_await wait_for_request()) {
    bool keep_alive = false;
    auto request = co_await read_request(keep_alive);
    if (!request) break;
    Answer what = answer(*request);
    if (auto* events = std::get_if<Streaming>(&what)) {
      co_await stream_events(std::move(events->stream));
      break;
    }
    if (auto* change = std::get_if<Upgrade>(&what)) {
      co_await upgrade(std::move(*change));
      break;
    }
    keep_alive = keep_alive && !shared_->is_stopping;
    const bool is_head = request->method == Method::head;
    if (!co_await write_response(std::get<Response>(what), keep_alive, is_head) || !keep_alive)
      break;
  }
  error_code ignored;
  wire_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  wire_.close();
}

/// The first byte of the next request; false when the client has left or has been idle too long.
asio::awaitable<bool> Session::wait_for_request() {
  if (shared_->is_stopping) co_return false;
  if (buffer_.size() > 0) co_return true;
  error_code error;
  is_idle_ = true;
  wire_.expires_after(
      std::chrono::duration_cast<std::chrono::milliseconds>(shared_->options.limits.idle_max));
  const std::size_t bytes = co_await wire_.async_read_some(
      buffer_.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
  is_idle_ = false;
  buffer_.commit(bytes);
  co_return !error;
}

asio::awaitable<std::optional<Request>> Session::read_request(bool& keep_alive) {
  const Limits& limits = shared_->options.limits;
  Counters& counters = shared_->counters;
  Parser parser;
  parser.header_limit(limits.header_bytes_max);
  parser.body_limit(limits.body_bytes_max);
  error_code error;
  wire_.expires_after(
      std::chrono::duration_cast<std::chrono::milliseconds>(limits.header_time_max));
  co_await beast::http::async_read_header(wire_, buffer_, parser,
                                          asio::redirect_error(asio::use_awaitable, error));
  if (!error) {
    wire_.expires_after(
        std::chrono::duration_cast<std::chrono::milliseconds>(limits.body_time_max));
    co_await beast::http::async_read(wire_, buffer_, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
  }
  if (error == beast::http::error::end_of_stream || error == asio::error::operation_aborted)
    co_return std::nullopt;
  ++counters.requests;
  if (error) {
    const bool is_size =
        error == beast::http::error::header_limit || error == beast::http::error::body_limit;
    ++(error == beast::error::timeout ? counters.timeouts
       : is_size                      ? counters.too_large
                                      : counters.bad_requests);
    if (error != beast::error::timeout)
      co_await write_response(refusal_of(error, limits), false, false);
    else
      wire_.close();
    co_return std::nullopt;
  }
  keep_alive = parser.get().keep_alive();
  auto request = convert(parser);
  if (!request) {
    ++counters.bad_requests;
    co_await write_response(error_response(request.error()), false, false);
    co_return std::nullopt;
  }
  co_return std::move(*request);
}

Result<Request> Session::convert(const Parser& parser) const {
  const auto& message = parser.get();
  Request request;
  const auto method = parse_method(view(message.method_string()));
  if (!method)
    return fail(Code::invalid,
                "the method '" + one_line(view(message.method_string()), 40) + "' is not known");
  request.method = *method;
  const std::string target = view(message.target());
  if (!target.starts_with('/'))
    return fail(Code::invalid, "the request's target must be a path, like /api/v1/jobs");
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos)
    request.query = VETTA_TRY(parse_query(std::string_view(target).substr(mark + 1)));
  for (const auto& field : message)
    request.headers.emplace_back(lower(field.name_string()), view(field.value()));
  request.body = message.body();
  request.peer = peer_;
  return request;
}

Answer Session::answer(Request& request) {
  Counters& counters = shared_->counters;
  Router::Match match = shared_->router.match(request.method, request.path);
  if (match.route == nullptr) {
    if (match.allowed.empty())
      return error_response(fail(Code::not_found,
                                 "there is nothing at " + one_line(request.path, 120),
                                 "GET /api/v1/openapi.json lists what there is")
                                .error());
    Response response = refusal(
        405, one_line(request.path, 120) + " does not take " + std::string(name(request.method)),
        "it takes " + match.allowed);
    response.headers.emplace_back("Allow", match.allowed);
    return response;
  }
  request.parameters = std::move(match.parameters);
  if (match.route->access == Access::authenticated) {
    auto identity = shared_->options.authenticate
                        ? shared_->options.authenticate(request)
                        : fail(Code::denied, "this server lets nobody in");
    if (!identity) {
      ++counters.denied;
      Response response = error_response(identity.error(), 401);
      response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"vetta\"");
      return response;
    }
    request.identity = std::move(*identity);
    if (request.identity.is_operator && is_counted_) {
      const std::scoped_lock lock(shared_->mutex);
      give_back(&Use::connections);
      is_counted_ = false;
    }
  }
  const Duration begin = monotonic_now();
  Answer what;
  try {
    what = match.route->handler(request);
  } catch (const std::exception& error) {
    what = error_response(fail(Code::internal,
                               "answering " + one_line(request.path, 120) +
                                   " went wrong: " + one_line(error.what(), 200),
                               "this is a fault of vettad: its log has more")
                              .error());
  }
  counters.handler_ns += static_cast<std::uint64_t>((monotonic_now() - begin).count());
  return what;
}

asio::awaitable<bool> Session::write_response(const Response& response, bool keep_alive,
                                              bool is_head) {
  count_status(shared_->counters, response.status);
  beast::http::response<beast::http::string_body> message;
  message.version(11);
  message.result(static_cast<unsigned>(response.status));
  message.set(beast::http::field::content_type, response.content_type);
  message.set(beast::http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  for (const auto& [key, value] : response.headers) message.set(key, value);
  message.keep_alive(keep_alive);
  message.content_length(response.body.size());
  if (!is_head) message.body() = response.body;
  beast::http::response_serializer<beast::http::string_body> serializer(message);
  error_code error;
  wire_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(
      shared_->options.limits.write_time_max));
  if (is_head)
    co_await beast::http::async_write_header(wire_, serializer,
                                             asio::redirect_error(asio::use_awaitable, error));
  else
    co_await beast::http::async_write(wire_, serializer,
                                      asio::redirect_error(asio::use_awaitable, error));
  if (error == beast::error::timeout) ++shared_->counters.timeouts;
  co_return !error;
}

asio::awaitable<bool> Session::write_text(std::string text) {
  error_code error;
  wire_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(
      shared_->options.limits.write_time_max));
  std::size_t sent = 0;
  while (!error && sent < text.size())
    sent += co_await wire_.async_write_some(asio::buffer(text.data() + sent, text.size() - sent),
                                            asio::redirect_error(asio::use_awaitable, error));
  if (error == beast::error::timeout) ++shared_->counters.timeouts;
  co_return !error;
}

/// Reads until the client hangs up, so that a stream nobody listens to ends at once.
asio::awaitable<void> Session::watch_for_end() {
  const auto self = shared_from_this();
  error_code error;
  std::array<char, 256> scratch{};
  while (!error)
    co_await wire_.async_read_some(asio::buffer(scratch),
                                   asio::redirect_error(asio::use_awaitable, error));
  if (queue_ != nullptr) queue_->close();
}

/// Writes what the queue holds until it is closed and empty; after `silence_max` without anything
/// the filler goes out, or, without a filler, nothing.
asio::awaitable<void> Session::write_queue(ByteQueue& queue, Duration silence_max,
                                           std::string_view filler) {
  ready_ = std::make_shared<asio::steady_timer>(wire_.get_executor());
  queue.on_ready([timer = std::weak_ptr(ready_), executor = wire_.get_executor()] {
    asio::post(executor, [timer] {
      if (const auto alive = timer.lock()) alive->cancel();
    });
  });
  while (true) {
    const bool is_open = queue.is_open();
    std::string bytes = queue.take();
    if (!bytes.empty()) {
      if (!co_await write_text(std::move(bytes))) break;
      continue;
    }
    if (!is_open) break;
    error_code error;
    ready_->expires_after(silence_max);
    co_await ready_->async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error && !filler.empty() && !co_await write_text(std::string(filler))) break;
  }
  if (queue.was_cut()) ++shared_->counters.streams_cut;
  queue.on_ready({});
  queue.close();
  wire_.cancel();  // of the reading half, which has nobody to answer any more
}

asio::awaitable<void> Session::stream_events(std::shared_ptr<EventStream> stream) {
  Counters& counters = shared_->counters;
  if (counters.streams_open >= shared_->options.limits.streams_max) {
    stream->close();
    co_await write_response(error_response(fail(Code::exhausted, "too many event streams are open",
                                                "close some pages or watches, or raise streams_max")
                                               .error()),
                            false, false);
    co_return;
  }
  if (!take_stream()) {
    stream->close();
    co_await write_response(
        error_response(fail(Code::exhausted,
                            "user " + std::to_string(peer_.uid.value_or(0)) + " has " +
                                std::to_string(shared_->options.limits.user_streams_max) +
                                " event streams open already",
                            "close some pages or watches")
                           .error()),
        false, false);
    co_return;
  }
  const OnExit leave([this] {
    const std::scoped_lock lock(shared_->mutex);
    if (is_counted_) give_back(&Use::streams);
  });
  const Gauge open(counters.streams_open);
  count_status(counters, 200);
  queue_ = &stream->queue();
  const bool is_begun = co_await write_text(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
  if (is_begun) {
    wire_.expires_never();
    asio::co_spawn(
        wire_.get_executor(), [self = shared_from_this()] { return self->watch_for_end(); },
        asio::detached);
    if (shared_->is_stopping) stream->close();
    co_await write_queue(stream->queue(), stream->heartbeat(), ": still here\n\n");
  }
  stream->close();
  queue_ = nullptr;
}

/// Feeds what has come; then waits while the consumer holds the reading. False ends it.
asio::awaitable<bool> Session::feed(const Upgrade& upgrade, RawStream& raw,
                                    const std::shared_ptr<asio::steady_timer>& resumed) {
  if (buffer_.size() > 0) {
    const bool goes_on =
        upgrade.on_bytes({static_cast<const char*>(buffer_.data().data()), buffer_.size()});
    buffer_.consume(buffer_.size());
    if (!goes_on) co_return false;
  }
  while (raw.is_held() && raw.queue().is_open()) {
    error_code ignored;
    resumed->expires_after(std::chrono::seconds(1));
    co_await resumed->async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return true;
}

asio::awaitable<void> Session::upgrade(Upgrade upgrade) {
  const Gauge open(shared_->counters.upgrades_open);
  ++shared_->counters.responses_2xx;
  if (!co_await write_text("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " +
                           upgrade.protocol + "\r\n\r\n"))
    co_return;
  const auto raw = std::make_shared<RawStream>();
  const auto resumed = std::make_shared<asio::steady_timer>(wire_.get_executor());
  raw->on_resume([timer = std::weak_ptr(resumed), executor = wire_.get_executor()] {
    asio::post(executor, [timer] {
      if (const auto alive = timer.lock()) alive->cancel();
    });
  });
  queue_ = &raw->queue();
  wire_.expires_never();
  asio::co_spawn(
      wire_.get_executor(),
      [self = shared_from_this(), raw] {
        return self->write_queue(raw->queue(), std::chrono::hours(1), "");
      },
      asio::detached);
  upgrade.on_open(raw);
  std::string reason = "the other side closed the connection";
  error_code error;
  while (!error && raw->queue().is_open()) {
    if (!co_await feed(upgrade, *raw, resumed)) {
      reason = "the protocol was not kept";
      break;
    }
    wire_.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(upgrade.idle_max));
    const std::size_t bytes = co_await wire_.async_read_some(
        buffer_.prepare(64U << 10U), asio::redirect_error(asio::use_awaitable, error));
    buffer_.commit(bytes);
    if (error == beast::error::timeout) reason = "nothing came for too long";
  }
  if (raw->queue().was_cut()) reason = "it read its answers too slowly";
  if (shared_->is_stopping) reason = "vettad is stopping";
  upgrade.on_close(reason);
  raw->close();
  queue_ = nullptr;
}

void Session::give_back(std::size_t Use::* count) {
  const auto at = shared_->users.find(peer_.uid.value_or(nobody));
  if (at == shared_->users.end()) return;
  --(at->second.*count);
  if (at->second.connections == 0 && at->second.streams == 0) shared_->users.erase(at);
}

bool Session::take_stream() {
  if (!is_counted_) return true;
  const std::scoped_lock lock(shared_->mutex);
  Use& use = shared_->users[peer_.uid.value_or(nobody)];
  if (use.streams >= shared_->options.limits.user_streams_max) return false;
  ++use.streams;
  return true;
}

void serve(Socket socket, Peer peer, const std::shared_ptr<Shared>& shared) {
  const auto session = std::make_shared<Session>(std::move(socket), std::move(peer), shared);
  {
    const std::scoped_lock lock(shared->mutex);
    shared->sessions.emplace(session.get(), session);
  }
  session->start();
}

namespace {

std::vector<std::shared_ptr<Session>> all_sessions(Shared& shared) {
  std::vector<std::shared_ptr<Session>> all;
  const std::scoped_lock lock(shared.mutex);
  for (auto& [raw, weak] : shared.sessions)
    if (auto session = weak.lock()) all.push_back(std::move(session));
  return all;
}

}  // namespace

void end_sessions(Shared& shared) {
  for (const auto& session : all_sessions(shared)) session->end();
}

void cut_sessions(Shared& shared) {
  for (const auto& session : all_sessions(shared)) session->cut();
}

}  // namespace vetta::http::detail
