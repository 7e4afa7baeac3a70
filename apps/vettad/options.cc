// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>
#include <optional>
#include <unistd.h>

#include "core/config.h"
#include "core/environment.h"
#include "core/text.h"
#include "http/endpoint.h"

namespace vetta::daemon {
namespace {

constexpr std::string_view system_config = "/etc/vetta/vettad.toml";
constexpr std::string_view system_state = "/var/lib/vetta";

/// Flags as given; what is empty was not.
struct Flags {
  Options options;
  std::optional<std::string> visibility, keep, keep_series, threads;
};

/// Root, or the user that the system's folder belongs to; everybody else runs it at rung L0.
bool is_system() {
  return geteuid() == 0 || access(std::string(system_state).c_str(), W_OK) == 0;
}

std::string default_state() {
  if (is_system()) return std::string(system_state);
  const std::string xdg = environment_variable("XDG_STATE_HOME");
  if (xdg.starts_with('/')) return xdg + "/vetta";
  const std::string home = environment_variable("HOME");
  return home.starts_with('/') ? home + "/.local/state/vetta"
                               : "/tmp/vetta-" + std::to_string(geteuid());
}

std::string default_listen() {
  if (is_system()) return "unix:/run/vettad/vettad.sock";
  const std::string runtime = environment_variable("XDG_RUNTIME_DIR");
  return "unix:" + (runtime.starts_with('/') ? runtime + "/vetta" : default_state()) +
         "/vettad.sock";
}

bool take_switch(Flags& flags, std::string_view word) {
  Options& o = flags.options;
  if (word == "-h" || word == "--help") return o.mode = Mode::help, true;
  if (word == "--version") return o.mode = Mode::version, true;
  if (word == "--check") return o.mode = Mode::check, true;
  if (word == "--check-config") return o.mode = Mode::check_config, true;
  if (word == "--dump-config") return o.mode = Mode::dump_config, true;
  if (word == "--json") return o.json = true, true;
  return false;
}

bool take_value(Flags& flags, std::string_view name, const std::string& value) {
  Options& o = flags.options;
  if (name == "--config") return o.config = value, true;
  if (name == "--state") return o.state = value, true;
  if (name == "--listen") return o.listen.push_back(value), true;
  if (name == "--port-file") return o.port_file = value, true;
  if (name == "--token-file") return o.token_file = value, true;
  if (name == "--cluster") return o.cluster = value, true;
  if (name == "--slurm-conf") return o.slurm_conf = value, true;
  if (name == "--slurm-bin-dir") return o.slurm_bin_dir = value, true;
  if (name == "--visibility") return flags.visibility = value, true;
  if (name == "--keep") return flags.keep = value, true;
  if (name == "--keep-series") return flags.keep_series = value, true;
  if (name == "--threads") return flags.threads = value, true;
  return false;
}

bool is_value_flag(std::string_view name) {
  Flags scratch;
  return take_value(scratch, name, "");
}

std::unexpected<Error> needs_value(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> examples[] = {
      {"--config", "/etc/vetta/vettad.toml"},
      {"--state", "/var/lib/vetta"},
      {"--listen", "127.0.0.1:7117"},
      {"--port-file", "/tmp/vettad.port"},
      {"--token-file", "/etc/vetta/token"},
      {"--cluster", "alps"},
      {"--slurm-conf", "/etc/slurm/slurm.conf"},
      {"--slurm-bin-dir", "/usr/bin"},
      {"--visibility", "own"},
      {"--keep", "90d"},
      {"--keep-series", "30d"},
      {"--threads", "4"},
  };
  std::string hint;
  for (const auto& [flag, value] : examples)
    if (flag == name) hint = fmt::format("{} {} (for example)", flag, value);
  return fail(Code::invalid, name + " needs a value", std::move(hint));
}

Result<Flags> parse_flags(const std::vector<std::string>& words) {
  Flags flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    if (take_switch(flags, name)) continue;
    std::optional<std::string> value;
    if (const std::size_t equal = name.find('=');
        name.starts_with("--") && equal != std::string::npos) {
      value = name.substr(equal + 1);
      name.resize(equal);
    }
    if (!is_value_flag(name))
      return fail(Code::invalid, "there is no flag '" + one_line(name, 60) + "'",
                  "vettad --help lists them");
    if (!value && i + 1 < words.size()) value = words[++i];
    if (!value || value->empty()) return needs_value(name);
    take_value(flags, name, *value);
  }
  return flags;
}

template <typename T>
void fill(T& field, const std::optional<T>& value) {
  if (value) field = *value;
}

/// What the file says, where no flag said it.
Result<void> read_file(Options& options, Config& file) {
  const auto text = [&](std::string& field, std::string_view key) -> Result<void> {
    const auto value = VETTA_TRY(file.text(key));
    if (field.empty()) fill(field, value);
    return {};
  };
  VETTA_TRY(text(options.state, "state"));
  VETTA_TRY(text(options.port_file, "port_file"));
  VETTA_TRY(text(options.token_file, "token_file"));
  VETTA_TRY(text(options.cluster, "cluster"));
  VETTA_TRY(text(options.slurm_conf, "slurm_conf"));
  VETTA_TRY(text(options.slurm_bin_dir, "slurm_bin_dir"));
  const auto listen = VETTA_TRY(file.texts("listen"));
  if (options.listen.empty()) options.listen = listen;
  fill(options.visibility, VETTA_TRY(file.text("visibility")));
  fill(options.keep, VETTA_TRY(file.span("keep")));
  fill(options.keep_series, VETTA_TRY(file.span("keep_series")));
  fill(options.sample_period, VETTA_TRY(file.span("sample_period")));
  fill(options.threads, VETTA_TRY(file.integer("threads", 1, 64)));
  if (const auto rpcs = VETTA_TRY(file.integer("rpcs_per_minute_max", 1, 600)))
    options.rpcs_per_minute_max = static_cast<double>(*rpcs);
  VETTA_TRY(file.refuse_unknown());
  return {};
}

Result<void> apply_file(Options& options) {
  const bool is_named = !options.config.empty();
  if (!is_named) options.config = system_config;
  auto file = Config::read(options.config);
  if (!file) {
    if (!is_named && file.error().code == Code::not_found) {
      options.config.clear();
      return {};
    }
    Error error = std::move(file.error());
    error.code = Code::invalid;
    return std::unexpected(std::move(error));
  }
  return read_file(options, *file);
}

Result<void> apply_late_flags(Options& options, const Flags& flags) {
  fill(options.visibility, flags.visibility);
  if (flags.keep) options.keep = VETTA_TRY(parse_span(*flags.keep));
  if (flags.keep_series) options.keep_series = VETTA_TRY(parse_span(*flags.keep_series));
  if (flags.threads) options.threads = VETTA_TRY(parse_int(*flags.threads));
  return {};
}

Result<void> check(const Options& options) {
  if (options.visibility != "open" && options.visibility != "own")
    return fail(Code::invalid, "visibility is '" + one_line(options.visibility, 40) + "'",
                "write \"open\" (everybody sees all jobs) or \"own\" (users see their own)");
  if (options.threads < 1 || options.threads > 64)
    return fail(Code::invalid, "threads must be between 1 and 64");
  if (options.keep < std::chrono::hours(1) || options.keep_series < std::chrono::hours(1))
    return fail(Code::invalid, "keep and keep_series must be at least an hour (1h)");
  if (!options.state.starts_with('/'))
    return fail(Code::invalid, "state must be an absolute path, and is '" + options.state + "'");
  for (const std::string& address : options.listen) VETTA_TRY(http::parse_listen(address));
  return {};
}

}  // namespace

Result<Options> read_options(const std::vector<std::string>& words) {
  auto flags = VETTA_TRY(parse_flags(words));
  Options options = flags.options;
  if (options.mode == Mode::help || options.mode == Mode::version) return options;
  VETTA_TRY(apply_file(options));
  VETTA_TRY(apply_late_flags(options, flags));
  if (options.state.empty()) options.state = default_state();
  if (options.listen.empty()) options.listen = {default_listen()};
  if (options.token_file.empty()) options.token_file = options.state + "/token";
  if (options.slurm_conf.empty()) options.slurm_conf = environment_variable("SLURM_CONF");
  VETTA_TRY(check(options));
  return options;
}

std::string dump_config(const Options& o) {
  std::string listen;
  for (const std::string& address : o.listen)
    listen += (listen.empty() ? "" : ", ") + toml_text(address);
  std::string out = fmt::format("state = {}\nlisten = [{}]\ntoken_file = {}\n", toml_text(o.state),
                                listen, toml_text(o.token_file));
  const auto optional = [&](std::string_view key, const std::string& value) {
    out += fmt::format("{}{} = {}\n", value.empty() ? "# " : "", key, toml_text(value));
  };
  optional("port_file", o.port_file);
  optional("cluster", o.cluster);
  optional("slurm_conf", o.slurm_conf);
  optional("slurm_bin_dir", o.slurm_bin_dir);
  out += fmt::format(
      "visibility = {}\nkeep = {}\nkeep_series = {}\nsample_period = {}\nthreads = {}\n"
      "rpcs_per_minute_max = {:.0f}\n",
      toml_text(o.visibility), toml_text(print_span(o.keep)), toml_text(print_span(o.keep_series)),
      toml_text(print_span(o.sample_period)), o.threads, std::max(1.0, o.rpcs_per_minute_max));
  return out;
}

std::string help_text() {
  return R"(Reads a Slurm cluster and its training jobs, keeps what they did, and answers.

Usage: vettad [OPTIONS]

Examples:
  vettad                                   as a service: settings from /etc/vetta/vettad.toml
  vettad --state ~/vetta --listen unix:/tmp/vettad.sock
                                           as an ordinary user, read-only, nothing on any node
  vettad --check                           what can it reach, and if not why

Options:
  --config FILE         settings (/etc/vetta/vettad.toml)
  --state DIR           where everything is kept (/var/lib/vetta; for users ~/.local/state/vetta)
  --listen ADDRESS      unix:PATH or 127.0.0.1:PORT; may be repeated; port 0 takes a free one
  --port-file FILE      write the chosen port there
  --token-file FILE     token for TCP, made if it is not there (STATE/token)
  --cluster NAME        name of the cluster (asked from Slurm)
  --slurm-conf FILE     slurm.conf (SLURM_CONF)
  --slurm-bin-dir DIR   folder of squeue, scontrol, sacct and sdiag (PATH)
  --visibility WHO      open: everybody sees all jobs; own: users see their own (open)
  --keep SPAN           how long jobs are kept (90d)
  --keep-series SPAN    how long node metrics are kept (30d)
  --threads N           of the server (4)
  --check               say what can be reached and what not; exit code 5 if not all can
  --check-config        read the settings and end
  --dump-config         print the settings as a file and end
  --json                --check as JSON
  --version, -h, --help
)";
}

}  // namespace vetta::daemon
