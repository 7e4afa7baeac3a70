// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <curl/curl.h>
#include <mutex>

#include "core/text.h"

namespace vetta::http {
namespace {

struct HeaderList {
  curl_slist* list = nullptr;

  HeaderList() = default;

  ~HeaderList() { curl_slist_free_all(list); }

  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

/// What a transfer's callbacks share.
struct Transfer {
  const ClientOptions* options = nullptr;
  CURL* easy = nullptr;
  std::string body;
  bool is_too_large = false;
  const std::function<bool(const SseEvent&)>* on_event = nullptr;
  SseReader reader;
  std::optional<Error> broken;
  bool is_satisfied = false;  ///< on_event wants no more
};

int progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto* transfer = static_cast<Transfer*>(self);
  const std::atomic<bool>* cancel = transfer->options->cancel;
  return cancel != nullptr && cancel->load() ? 1 : 0;
}

bool feed_events(Transfer& transfer, std::string_view bytes) {
  auto events = transfer.reader.append(bytes);
  if (!events) {
    transfer.broken = events.error();
    return false;
  }
  for (const SseEvent& event : *events)
    if (!(*transfer.on_event)(event)) {
      transfer.is_satisfied = true;
      return false;
    }
  return true;
}

std::size_t write_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto* transfer = static_cast<Transfer*>(self);
  const std::string_view bytes(data, size * count);
  long status = 0;
  curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
  if (transfer->on_event != nullptr && status == 200)
    return feed_events(*transfer, bytes) ? bytes.size() : 0;
  if (transfer->body.size() + bytes.size() > transfer->options->reply_bytes_max) {
    transfer->is_too_large = true;
    return 0;
  }
  transfer->body += bytes;
  return bytes.size();
}

long milliseconds(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

}  // namespace

struct Client::Impl {
  ClientOptions options;
  CURL* easy = nullptr;

  void prepare(Transfer& transfer, const std::string& url, HeaderList& headers);
  [[nodiscard]] Result<Reply> finish(Transfer& transfer, CURLcode code) const;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>()) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  impl_->options = std::move(options);
  impl_->easy = curl_easy_init();
  VETTA_ASSERT(impl_->easy != nullptr, "libcurl gives a handle unless memory is out");
}

Client::~Client() {
  curl_easy_cleanup(impl_->easy);
}

void Client::Impl::prepare(Transfer& transfer, const std::string& url, HeaderList& headers) {
  curl_easy_reset(easy);  // keeps the connection
  transfer.options = &options;
  transfer.easy = easy;
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  if (!options.server.socket.empty())
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, options.server.socket.c_str());
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_time_max));
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, options.agent_name.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &progress);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &write_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  if (!options.token.empty()) headers.add("Authorization: Bearer " + options.token);
  headers.add("Expect:");
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.list);
}

Result<Reply> Client::Impl::finish(Transfer& transfer, CURLcode code) const {
  const std::string where = "ask the vettad at " + options.server.text();
  if (transfer.broken) return std::unexpected(std::move(*transfer.broken).while_(where));
  if (transfer.is_too_large)
    return fail(Code::exhausted, where + ": its answer is larger than " +
                                     std::to_string(options.reply_bytes_max) + " bytes");
  switch (code) {
    case CURLE_OK: break;
    case CURLE_WRITE_ERROR:
      if (transfer.is_satisfied) break;
      return fail(Code::internal, where + ": " + curl_easy_strerror(code));
    case CURLE_ABORTED_BY_CALLBACK: return fail(Code::conflict, "interrupted");
    case CURLE_OPERATION_TIMEDOUT:
      return fail(Code::timeout, where + ": no answer within " + human(options.time_max),
                  "is it overloaded? GET /readyz tells; a longer wait is --timeout");
    default:
      return fail(
          Code::unavailable, where + ": " + curl_easy_strerror(code),
          "start vettad, or name it: --server unix:PATH or VETTA_SERVER; `vetta config explain` "
          "shows what was used");
  }
  Reply reply;
  long status = 0;
  const char* type = nullptr;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
  reply.status = static_cast<int>(status);
  reply.content_type = type == nullptr ? "" : type;
  reply.body = std::move(transfer.body);
  return reply;
}

Result<Reply> Client::request(Method method, std::string_view target, const std::string& body) {
  Transfer transfer;
  HeaderList headers;
  const std::string url = impl_->options.server.url + std::string(target);
  if (!body.empty()) headers.add("Content-Type: application/json");
  impl_->prepare(transfer, url, headers);
  curl_easy_setopt(impl_->easy, CURLOPT_TIMEOUT_MS, milliseconds(impl_->options.time_max));
  const std::string verb(name(method));
  curl_easy_setopt(impl_->easy, CURLOPT_CUSTOMREQUEST, verb.c_str());
  if (method == Method::head) curl_easy_setopt(impl_->easy, CURLOPT_NOBODY, 1L);
  if (method == Method::post || !body.empty()) {
    curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(body.size()));
  }
  const CURLcode code = curl_easy_perform(impl_->easy);
  return impl_->finish(transfer, code);
}

Result<void> Client::stream(std::string_view target, std::string_view last_event_id,
                            const std::function<bool(const SseEvent&)>& on_event, Reply& refused) {
  Transfer transfer;
  transfer.on_event = &on_event;
  HeaderList headers;
  headers.add("Accept: text/event-stream");
  if (!last_event_id.empty()) headers.add("Last-Event-ID: " + one_line(last_event_id, 200));
  const std::string url = impl_->options.server.url + std::string(target);
  impl_->prepare(transfer, url, headers);
  // A healthy stream has a heartbeat every 15 s; a minute of silence is a dead server.
  curl_easy_setopt(impl_->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(impl_->easy, CURLOPT_LOW_SPEED_TIME, 60L);
  const CURLcode code = curl_easy_perform(impl_->easy);
  refused = VETTA_TRY(impl_->finish(transfer, code));
  if (transfer.is_satisfied || refused.status != 200) return {};
  return fail(Code::unavailable, "the server ended the stream");
}

}  // namespace vetta::http
