// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/error_table.h"
#include "core/text.h"

namespace vetta::http {
namespace {

constexpr std::array<std::pair<Method, std::string_view>, 7> methods = {{
    {Method::get, "GET"},
    {Method::head, "HEAD"},
    {Method::post, "POST"},
    {Method::put, "PUT"},
    {Method::patch, "PATCH"},
    {Method::del, "DELETE"},
    {Method::options, "OPTIONS"},
}};

constexpr std::size_t query_pairs_max = 64;

std::optional<std::string_view> find(const Pairs& pairs, std::string_view key) {
  for (const auto& [name, value] : pairs)
    if (name == key) return value;
  return std::nullopt;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string_view name(Method method) {
  for (const auto& [value, text] : methods)
    if (value == method) return text;
  return "GET";
}

std::optional<Method> parse_method(std::string_view text) {
  for (const auto& [value, word] : methods)
    if (word == text) return value;
  return std::nullopt;
}

std::optional<std::string_view> Request::query_value(std::string_view key) const {
  return find(query, key);
}

std::optional<std::string_view> Request::header(std::string_view lower_case_name) const {
  return find(headers, lower_case_name);
}

std::string_view Request::parameter(std::string_view key) const {
  const auto value = find(parameters, key);
  VETTA_ASSERT(value.has_value(), "a handler asks only for the parameters of its own pattern");
  return value.value_or("");
}

std::optional<std::string_view> Request::bearer() const {
  constexpr std::string_view scheme = "bearer ";
  const auto value = header("authorization");
  if (!value || value->size() <= scheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    const char c = (*value)[i];
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower != scheme[i]) return std::nullopt;
  }
  return trim(value->substr(scheme.size()));
}

Response error_response(const Error& error) {
  return error_response(error, http_status(error.code));
}

Response error_response(const Error& error, int status) {
  nlohmann::ordered_json body;
  body["code"] = name(error.code);
  body["message"] = to_utf8(error.message);
  body["hint"] = to_utf8(error.hint);
  Response response;
  response.status = status;
  response.body = nlohmann::ordered_json{{"error", std::move(body)}}.dump() + "\n";
  return response;
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '+' && plus_is_space) {
      out += ' ';
    } else if (c != '%') {
      out += c;
    } else {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return fail(Code::invalid, "the address has a broken percent escape",
                    "write % as %25, and other bytes as two hexadecimal digits");
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
  return out;
}

Result<Pairs> parse_query(std::string_view text) {
  Pairs pairs;
  if (text.empty()) return pairs;
  for (const std::string_view part : split(text, "&")) {
    if (part.empty()) continue;
    if (pairs.size() == query_pairs_max)
      return fail(Code::invalid, "the address has more than 64 query parameters");
    const std::size_t equal = part.find('=');
    auto key = VETTA_TRY(percent_decode(part.substr(0, equal), true));
    std::string value;
    if (equal != std::string_view::npos)
      value = VETTA_TRY(percent_decode(part.substr(equal + 1), true));
    pairs.emplace_back(std::move(key), std::move(value));
  }
  return pairs;
}

}  // namespace vetta::http
