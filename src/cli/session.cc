// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sstream>
#include <unistd.h>

#include "core/error_table.h"
#include "core/text.h"
#include "core/time.h"

namespace vetta::cli {
namespace {

std::atomic<bool> is_interrupted = false;

void on_signal(int) {
  is_interrupted = true;
}

Result<std::string> read_token(const Setting& file) {
  if (file.value.empty()) return std::string();
  std::ifstream in(file.value, std::ios::binary);
  if (!in)
    return fail(Code::denied, "read the token file " + file.value + ": " + errno_text(errno),
                "it was named by " + file.origin + "; vettad's --token-file writes it");
  std::string token(4096, '\0');
  in.read(token.data(), static_cast<std::streamsize>(token.size()));
  token.resize(static_cast<std::size_t>(in.gcount()));
  token = trim(token);
  for (const char c : token)
    if (c < '!' || c > '~')
      return fail(Code::invalid, "the token file " + file.value + " holds no token",
                  "it was named by " + file.origin + "; a token is one line of letters and digits");
  return token;
}

}  // namespace

const std::atomic<bool>& interrupted() {
  return is_interrupted;
}

void listen_for_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::vector<std::string> Session::columns() const {
  std::vector<std::string> all;
  for (const std::string_view name : split(common_.columns, ",")) {
    std::string lower(trim(name));
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!lower.empty()) all.push_back(std::move(lower));
  }
  return all;
}

Result<http::Client*> Session::client() {
  if (client_) return client_.get();
  const auto settings = VETTA_TRY(settle(common_.flags, process_environment()));
  http::ClientOptions options;
  auto server = http::parse_server(settings.server.value);
  if (!server)
    return std::unexpected(
        std::move(server.error()).while_("take the server from " + settings.server.origin));
  options.server = *server;
  server_ = server->text();
  options.token = VETTA_TRY(read_token(settings.token_file));
  options.agent_name = "vetta";
  if (!common_.timeout.empty()) options.time_max = VETTA_TRY(parse_span(common_.timeout));
  options.cancel = &is_interrupted;
  client_ = std::make_unique<http::Client>(std::move(options));
  return client_.get();
}

std::string Session::server_text() const {
  return server_;
}

Result<Json> Session::ask(http::Method method, std::string_view target) {
  auto* asker = VETTA_TRY(client());
  const auto reply = VETTA_TRY(asker->request(method, target));
  if (reply.status >= 300) return std::unexpected(error_of(reply));
  Json body = Json::parse(reply.body, nullptr, false);
  if (body.is_discarded() || !body.is_object())
    return fail(Code::internal, "the answer of " + server_ + " is no JSON object",
                "is that a vettad? --server or VETTA_SERVER names another");
  return body;
}

Result<Json> Session::get(std::string_view target) {
  return ask(http::Method::get, target);
}

Result<Json> Session::post(std::string_view target) {
  return ask(http::Method::post, target);
}

Error error_of(const http::Reply& reply) {
  Error error;
  error.code = code_of_status(reply.status);
  const Json body = Json::parse(reply.body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_object()) {
    const Json& inner = body["error"];
    error.message = to_utf8(inner.value("message", ""));
    error.hint = to_utf8(inner.value("hint", ""));
    if (reply.status != 401) error.code = code_of_name(inner.value("code", ""));
  }
  if (error.message.empty())
    error.message = "the server answered with status " + std::to_string(reply.status);
  return error;
}

int end_with(const Error& error, bool as_json) {
  if (is_interrupted) return exit_interrupted;
  if (as_json) {
    Error bare = error;
    bare.hint.clear();
    const Json body = {{"error",
                        {{"code", std::string(name(error.code))},
                         {"message", to_utf8(bare.text())},
                         {"hint", to_utf8(error.hint)}}}};
    std::fputs((model::dump(body) + "\n").c_str(), stderr);
  } else {
    Error bare = error;
    bare.hint.clear();
    std::string text = "vetta: " + to_utf8(bare.text()) + "\n";
    if (!error.hint.empty()) text += "       try: " + to_utf8(error.hint) + "\n";
    std::fputs(text.c_str(), stderr);
  }
  return exit_code(error.code);
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) _exit(errno == EPIPE ? exit_fine : exit_could_not);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_json(const Json& json) {
  print(model::dump(json) + "\n");
}

Target& Target::add(std::string_view key, std::string_view value) {
  text_ += has_query_ ? '&' : '?';
  has_query_ = true;
  text_ += http::percent_encode(key) + "=" + http::percent_encode(value);
  return *this;
}

Target& Target::add_if(std::string_view key, std::string_view value) {
  return value.empty() ? *this : add(key, value);
}

}  // namespace vetta::cli
