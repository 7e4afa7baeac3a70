// SPDX-License-Identifier: Apache-2.0
// The reference (Markdown), the manual page (roff) and the completion scripts, all from the tree.
#include "cli/tree.h"
#include "core/text.h"

namespace vetta::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// With a full stop, if it does not end a sentence already.
std::string sentence(const std::string& about) {
  return about + (about.ends_with('?') ? "" : ".");
}

/// roff: backslashes, hyphens, and dots at the beginning of a line.
std::string roff(std::string_view text) {
  std::string out;
  for (const std::string_view line : split(text, "\n")) {
    if (!out.empty()) out += '\n';
    if (line.starts_with('.') || line.starts_with('\'')) out += "\\&";
    for (const char c : line) {
      if (c == '\\')
        out += "\\e";
      else if (c == '-')
        out += "\\-";
      else
        out += c;
    }
  }
  return out;
}

std::vector<std::string> words_at(const CommandText& command) {
  std::vector<std::string> words = command.children;
  for (const auto& option : command.options)
    words.insert(words.end(), option.words.begin(), option.words.end());
  return words;
}

std::string bash(const std::vector<CommandText>& commands) {
  std::string out =
      "# bash completion for vetta; made by `vetta completion bash`\n"
      "_vetta() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" path=vetta i words\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n";
  for (const CommandText& command : commands)
    if (command.path.size() > 1)
      out += "      '" + joined(command.path, " ") + "') path=\"$path ${COMP_WORDS[i]}\" ;;\n";
  out +=
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n";
  for (const CommandText& command : commands)
    out += "    '" + joined(command.path, " ") + "') words='" + joined(words_at(command), " ") +
           "' ;;\n";
  return out +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o default -F _vetta vetta\n";
}

std::string zsh(const std::vector<CommandText>& commands) {
  std::string out =
      "#compdef vetta\n"
      "# zsh completion for vetta; made by `vetta completion zsh`\n"
      "_vetta() {\n"
      "  local path=vetta i\n"
      "  local -a words_here\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$path ${words[i]}\" in\n";
  for (const CommandText& command : commands)
    if (command.path.size() > 1)
      out += "      '" + joined(command.path, " ") + "') path=\"$path ${words[i]}\" ;;\n";
  out +=
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n";
  for (const CommandText& command : commands) {
    out += "    '" + joined(command.path, " ") + "') words_here=(";
    out += joined(words_at(command), " ") + ") ;;\n";
  }
  return out +
         "  esac\n"
         "  compadd -- $words_here\n"
         "  _files\n"
         "}\n"
         "compdef _vetta vetta\n";
}

std::string fish(const std::vector<CommandText>& commands) {
  std::string out =
      "# fish completion for vetta; made by `vetta completion fish`\n"
      "function __vetta_at\n"
      "  set -l words (commandline -opc)\n"
      "  set -l plain\n"
      "  for word in $words\n"
      "    string match -q -- '-*' $word; or set -a plain $word\n"
      "  end\n"
      "  test \"$plain[1..(count $argv)]\" = \"$argv\"\n"
      "end\n";
  const auto about = [](std::string_view text) { return "'" + escaped(text, "'\\") + "'"; };
  for (const CommandText& command : commands) {
    const std::string here = "complete -c vetta -n '__vetta_at " + joined(command.path, " ") + "'";
    for (const std::string& child : command.children)
      out.append(here).append(" -f -a ").append(child).append("\n");
    for (const auto& option : command.options) {
      out += here;
      for (const std::string& word : option.words)
        out += word.starts_with("--") ? " -l " + word.substr(2) : " -s " + word.substr(1);
      out += std::string(option.takes_value ? " -r" : "") + " -d " + about(option.about) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string markdown(const std::vector<CommandText>& commands) {
  std::string out =
      "# The command line\n\n"
      "<!-- made by `vetta help --markdown`; do not edit -->\n\n"
      "The result goes to stdout, talk to stderr. `--json` prints exactly one JSON value. "
      "Exit codes are in [exit-codes.md](exit-codes.md).\n"
      "All commands ask `vettad`, but `probe`, `config`, `completion` and `help`, which work on "
      "this machine alone.\n";
  for (const CommandText& command : commands) {
    out += "\n## " + joined(command.path, " ") + "\n\n" + sentence(command.about) + "\n\n```\n" +
           command.usage + "\n```\n";
    if (!command.examples.empty()) out += "\nExamples:\n\n```\n" + command.examples + "\n```\n";
    if (!command.positionals.empty() || !command.options.empty()) out += "\n| | |\n|---|---|\n";
    for (const auto& option : command.positionals)
      out += "| `" + option.names + "` | " + option.about + " |\n";
    for (const auto& option : command.options)
      out += "| `" + escaped(option.names, "|") + "` | " + escaped(option.about, "|") + " |\n";
  }
  return out;
}

std::string man_page(const std::vector<CommandText>& commands) {
  std::string out = ".TH VETTA 1 \"\" \"Vetta\" \"User Commands\"\n.SH NAME\nvetta \\- " +
                    roff(commands.front().about) + "\n.SH SYNOPSIS\n.B vetta\nCOMMAND\n";
  out += ".SH COMMANDS\n";
  for (const CommandText& command : commands) {
    if (command.path.size() == 1) continue;
    out += ".SS " + roff(joined(command.path, " ")) + "\n" + roff(sentence(command.about)) +
           "\n.PP\n.B " + roff(command.usage) + "\n";
    if (!command.examples.empty()) out += ".PP\n.nf\n" + roff(command.examples) + "\n.fi\n";
    for (const auto& option : command.positionals)
      out += ".TP\n.I " + roff(option.names) + "\n" + roff(option.about) + "\n";
    for (const auto& option : command.options)
      out += ".TP\n.B " + roff(option.names) + "\n" + roff(option.about) + "\n";
  }
  return out +
         ".SH EXIT STATUS\n"
         "0 fine, 1 could not, 2 usage or bad file, 3 done and found something, 4 not allowed, "
         "5 unreachable, 124 timed out, 130 interrupted; probe exec gives its command's code, or "
         "125, 126, 127.\n"
         ".SH SEE ALSO\nsqueue(1), sinfo(1), sacct(1)\n";
}

Result<std::string> completion(const std::vector<CommandText>& commands, std::string_view shell) {
  if (shell == "bash") return bash(commands);
  if (shell == "zsh") return zsh(commands);
  if (shell == "fish") return fish(commands);
  return fail(Code::invalid, "there is no completion for '" + one_line(shell, 40) + "'",
              "it is made for bash, zsh and fish");
}

}  // namespace vetta::cli
